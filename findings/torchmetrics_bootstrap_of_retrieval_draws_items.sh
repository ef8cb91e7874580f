#!/usr/bin/env bash
# TorchMetrics 1.9.0: the bootstrap of a retrieval metric draws items, not queries: 0.63 for a search whose mAP is 1.0.
#
# One expects: `BootStrapper(RetrievalMAP())` tells how far the mAP depends on the queries that were drawn. A search
#     that ranks the right item first for all queries has the mean 1.0 and the deviation 0.
# What happens: the rows of `update` are resampled, and a row is a pair of a query and an item. A query with one right
#     item keeps it with a probability of 1 - 1/e = 0.63, and counts 0 without it, so that mean and deviation are about
#     0.63 and 0.02 with 400 queries. The value 1.0 of the data itself, `raw=True`, is far outside.
# Why it matters: mean and deviation look like a confidence interval and are one of another number. The fewer right items
#     a query has, the lower is the mean: two systems or data sets are compared by their numbers of positives.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet torchmetrics==1.9.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import torch
import torchmetrics
from torchmetrics.retrieval import RetrievalMAP

print("torchmetrics", torchmetrics.__version__)
torch.manual_seed(0)
QUERIES, ITEMS = 400, 10
indexes = torch.arange(QUERIES).repeat_interleave(ITEMS)
numbers = {}
for positives in (1, 3):
    right = torch.zeros(QUERIES, ITEMS, dtype=torch.int64)
    right[:, :positives] = 1
    scores = torch.arange(ITEMS, 0, -1) / ITEMS  # the right items come first
    metric = torchmetrics.BootStrapper(RetrievalMAP(), num_bootstraps=50, raw=True)
    metric.update(scores.repeat(QUERIES), right.flatten(), indexes=indexes)
    numbers[positives] = {name: round(float(value.mean()), 4) for name, value in metric.compute().items()}
    print(f"{positives} right items for a query, all ranked first:", {k: numbers[positives][k] for k in ("mean", "std")})
    metric = RetrievalMAP()
    metric.update(scores.repeat(QUERIES), right.flatten(), indexes=indexes)
    print("    mAP without resampling:", float(metric.compute()))
    assert metric.compute() == 1

assert 0.6 < numbers[1]["mean"] < 0.67 and 0.01 < numbers[1]["std"] < 0.04
assert 0.92 < numbers[3]["mean"] < 0.98 and 0.005 < numbers[3]["std"] < 0.02
print("as described")
PYTHON

#!/usr/bin/env bash
# TorchMetrics 1.9.0: in a `MetricCollection` two thresholds report one number if the first batch cannot tell them apart.
#
# One expects: a metric in a collection has the value that it has alone, whatever the order of batches.
# What happens: after the first batch, metrics whose states are equal form a group, of which only the first is updated
#     from then on, whatever their arguments are. Recall at the threshold 0.7 of genuine pairs that score 0.9 and then
#     0.6 is 0.5 alone, and 1.0 beside recall at the threshold 0.5. With the two batches exchanged it is 0.5.
# Why it matters: acceptance rates at several thresholds, and metrics that differ in `ignore_index`, are kept in one
#     collection. An easy or small first batch, as in the sanity check of a trainer, makes them one number, and nothing
#     warns. `compute_groups=False` gives the right numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet torchmetrics==1.9.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import torch
import torchmetrics
from torchmetrics.classification import BinaryRecall

print("torchmetrics", torchmetrics.__version__, "- recall at the thresholds 0.5 and 0.7")
easy = torch.tensor([0.9, 0.9, 0.1, 0.1]), torch.tensor([1, 1, 0, 0])
hard = torch.tensor([0.6, 0.6, 0.1, 0.1]), torch.tensor([1, 1, 0, 0])


def recalls(batches, **options):
    metrics = {"at_50": BinaryRecall(threshold=0.5), "at_70": BinaryRecall(threshold=0.7)}
    collection = torchmetrics.MetricCollection(metrics, **options)
    for scores, same in batches:
        collection.update(scores, same)
    return {name: float(value) for name, value in collection.compute().items()}


easy_first = recalls([easy, hard])
hard_first = recalls([hard, easy])
without_groups = recalls([easy, hard], compute_groups=False)
print("easy batch first:", easy_first)
print("hard batch first:", hard_first)
print("easy batch first, without groups:", without_groups)

assert easy_first == {"at_50": 1.0, "at_70": 1.0}
assert hard_first == without_groups == {"at_50": 1.0, "at_70": 0.5}
print("as described")
PYTHON

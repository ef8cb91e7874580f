#!/usr/bin/env bash
# TorchMetrics 1.9.0: `RetrievalMAP`, MRR, precision and recall take items with scores of 0 or less as not relevant.
#
# One expects: retrieval measures depend on the order of the scores alone, so that `1 - distance` and `-distance` have the
#     same numbers.
# What happens: with `-distance` MAP, MRR, precision and recall are 0, and hit rate, nDCG, R-precision, fall-out and AUROC
#     are what they were. With cosines below and above 0 the first four lose the relevant items below 0, also from the
#     number by which MAP divides: it is higher here than that of the same order above 0.
# Why it matters: cosines of embeddings and logits are negative for about half of the items. Recall at 5 is 0 beside a hit
#     rate at 5 of 0.75 of the same call, or nothing is conspicuous, and MAP is another number. `preds.sigmoid()` or a rank
#     in its place keeps the order.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet torchmetrics==1.9.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import torch
import torchmetrics
from torchmetrics import retrieval

print("torchmetrics", torchmetrics.__version__)
QUERIES, ITEMS = 20, 30
generator = torch.Generator().manual_seed(0)
distances = torch.rand(QUERIES, ITEMS, generator=generator)
relevant = torch.rand(QUERIES, ITEMS, generator=generator) < 0.2
relevant[:, 0] = True
queries = torch.arange(QUERIES)[:, None].expand(QUERIES, ITEMS)
measures = {
    "MAP": retrieval.RetrievalMAP,
    "MRR": retrieval.RetrievalMRR,
    "precision_5": lambda: retrieval.RetrievalPrecision(top_k=5),
    "recall_5": lambda: retrieval.RetrievalRecall(top_k=5),
    "hit_rate_5": lambda: retrieval.RetrievalHitRate(top_k=5),
    "nDCG": retrieval.RetrievalNormalizedDCG,
    "R_precision": retrieval.RetrievalRPrecision,
}
numbers = {}
for name, scores in {"1 - distance": 1 - distances, "-distance": -distances, "0.5 - distance": 0.5 - distances}.items():
    numbers[name] = {}
    for measure, make in measures.items():
        metric = make()
        metric.update(scores.flatten(), relevant.flatten(), indexes=queries.flatten())
        numbers[name][measure] = round(metric.compute().item(), 4)
    print(f"{name:>14}: {numbers[name]}")

above, below, around = numbers.values()
assert all(below[measure] == 0.0 < above[measure] for measure in ("MAP", "MRR", "precision_5", "recall_5"))
assert all(below[measure] == above[measure] > 0 for measure in ("hit_rate_5", "nDCG", "R_precision"))
assert around["MAP"] > above["MAP"] and around["hit_rate_5"] == above["hit_rate_5"]
print("as described")
PYTHON

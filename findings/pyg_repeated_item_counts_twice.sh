#!/usr/bin/env bash
# PyTorch Geometric 2.8.1: an item that is retrieved twice counts as two hits, so that recall is 2.0.
#
# One expects: recall, average precision and nDCG lie in [0, 1], and a repeated item is found once or is refused.
# What happens: `LinkPredRecall`, `LinkPredMAP` and `LinkPredNDCG` look up each predicted index by itself. One user with
#     one positive item, predicted at both of the first two places, has recall 2.0, average precision 2.0 and nDCG 1.63.
# Why it matters: approximate search may return an item twice, and pads short lists by repeating an item. A mean over
#     many users then is too high, and nothing shows it as long as the mean stays below 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet torch_geometric==2.8.1 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import torch
import torch_geometric
from torch_geometric.metrics import LinkPredMAP, LinkPredNDCG, LinkPredRecall

print("torch_geometric", torch_geometric.__version__)
edges = torch.tensor([[0], [3]])  # the user 0 has the item 3
numbers = {}
for items in ([3, 4], [3, 3]):
    for kind in (LinkPredRecall, LinkPredMAP, LinkPredNDCG):
        metric = kind(k=2)
        metric.update(torch.tensor([items]), edges)
        numbers[kind.__name__, *items] = round(float(metric.compute()), 4)
for (name, *items), number in numbers.items():
    print(f"predicted {items}: {name} {number}")

assert [numbers[name, 3, 4] for name in ("LinkPredRecall", "LinkPredMAP", "LinkPredNDCG")] == [1.0, 1.0, 1.0]
assert [numbers[name, 3, 3] for name in ("LinkPredRecall", "LinkPredMAP", "LinkPredNDCG")] == [2.0, 2.0, 1.6309]
print("as described")
PYTHON

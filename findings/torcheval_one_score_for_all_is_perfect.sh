#!/usr/bin/env bash
# TorchEval 0.0.7: a model that gives every item one score has a reciprocal rank and a hit rate of 1.0.
#
# One expects: a model that cannot tell items apart is as good as chance, 0.2 for a hit at 1 among five items, or at
#     worst the order of the items decides.
# What happens: `reciprocal_rank` and `hit_rate` count the items whose score is above that of the target, and equal
#     scores are not above it. All targets are first. `multiclass_accuracy` with `k=2` counts alike, and with `k=1` takes
#     the first of equal scores: top-2 accuracy is 1.0 where top-1 accuracy is 0.2.
# Why it matters: collapsed embeddings, scores that saturate at 1.0 in half precision, and binary codes tie often. The
#     worse the model, the better its number.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet torcheval==0.0.7 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import torch
from torcheval.metrics.functional import hit_rate, multiclass_accuracy, reciprocal_rank

print("torcheval", version("torcheval"))
target = torch.arange(5).repeat(200)
generator = torch.Generator().manual_seed(0)
models = {
    "one score for all": torch.zeros(1000, 5),
    "random scores": torch.rand(1000, 5, generator=generator),
    "random scores, saturated": torch.rand(1000, 5, generator=generator).gt(0.5).float(),
}
numbers = {}
for name, scores in models.items():
    numbers[name] = (
        float(hit_rate(scores, target, k=1).mean()),
        float(reciprocal_rank(scores, target).mean()),
        *(float(multiclass_accuracy(scores, target, num_classes=5, k=k)) for k in (1, 2)),
    )
    print("{}: hit rate at 1 {:.2f}, reciprocal rank {:.2f}, accuracy {:.2f}, top-2 {:.2f}".format(name, *numbers[name]))

assert torch.allclose(torch.tensor(numbers["one score for all"]), torch.tensor([1.0, 1.0, 0.2, 1.0]))
assert numbers["random scores"][0] < 0.25
assert numbers["random scores, saturated"][0] > 0.45
print("as described")
PYTHON

#!/usr/bin/env bash
# PyTorch 2.13: `torch.tensor` drops all numbers of a list of lists whose first list is empty.
#
# One expects: lists of unequal lengths are refused, as they are where the first list is not empty:
#     "expected sequence of length 1 at dim 1 (got 2)".
# What happens: the shape is read off the first list alone, so that [[], [1, 2, 3]] becomes an empty tensor of shape
#     [2, 0], without an error.
# Why it matters: boxes or scores of a batch come as one list for each image. If the first image has none, the objects
#     of all others are gone, and a check for an empty tensor takes the batch for one without objects.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import torch

print("torch", torch.__version__)
shapes = {}
for scores in ([[1.0], [2.0, 3.0]], [[], [2.0, 3.0]], [[], [1.0], [2.0, 3.0, 4.0]]):
    try:
        shapes[str(scores)] = list(torch.tensor(scores).shape)
    except ValueError as error:
        shapes[str(scores)] = f"ValueError: {error}"
    print(scores, "->", shapes[str(scores)])

first, *others = shapes.values()
assert first.startswith("ValueError")
assert others == [[2, 0], [3, 0]]
print("as described")
PYTHON

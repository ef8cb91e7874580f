#!/usr/bin/env bash
# safetensors 0.8.0: `load_file` returns tensors in the order of their names as text, and not in that of saving.
#
# One expects: a dictionary of one embedding per image comes back in the order in which it was saved, as from
#     `torch.save` and `numpy.savez`, so that its values can be stacked beside the list of labels.
# What happens: tensors of one type are written in the order of their names: "10" before "2". Of 200 embeddings with the
#     names "0" to "199" two are in their row, and Rank-1 of perfect embeddings falls from 1.0 to less than 0.05.
# Why it matters: the number of rows is right, and nothing is raised. A file of few images, or with names of equal length,
#     keeps its order, so that a first trial passes. `[tensors[name] for name in names]` is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet safetensors==0.8.0 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import safetensors
import torch
from safetensors.torch import load_file, save_file

print("safetensors", safetensors.__version__)
rows = torch.nn.functional.normalize(torch.randn(200, 32, generator=torch.Generator().manual_seed(0)))
by_image = {str(number): row for number, row in enumerate(rows)}
save_file(by_image, "rows.safetensors")
torch.save(by_image, "rows.pt")
np.savez("rows.npz", **{name: row.numpy() for name, row in by_image.items()})
loaded = {
    "torch.load": torch.load("rows.pt"),
    "numpy.load": {name: torch.from_numpy(row) for name, row in np.load("rows.npz").items()},
    "load_file": load_file("rows.safetensors"),
}
identities = torch.arange(200)
numbers = {}
for reader, tensors in loaded.items():
    gallery = torch.stack(list(tensors.values()))
    nearest = (rows @ gallery.T).argmax(dim=1)
    numbers[reader] = (identities[nearest] == identities).float().mean().item()
    print(f"{reader}: names {list(tensors)[:5]}, Rank-1 {numbers[reader]:.3f}")

assert numbers["torch.load"] == numbers["numpy.load"] == 1.0
assert numbers["load_file"] < 0.05
print("as described")
PYTHON

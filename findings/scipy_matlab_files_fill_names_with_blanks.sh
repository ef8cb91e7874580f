#!/usr/bin/env bash
# SciPy 1.17.1: names that `savemat` writes and `loadmat` reads have blanks behind them, up to the longest name.
#
# One expects: an array of names of images is the same after it was saved and loaded, as by `numpy.savez`.
# What happens: a MATLAB file holds a matrix of characters, whose rows are filled with blanks, and `loadmat` leaves the
#     blanks. Of 1,000 names "1.jpg" to "1000.jpg" one is equal afterwards. An array of objects becomes cells, and all of
#     its names are equal, but the array has two dimensions, and each name is an array in it.
# Why it matters: features of re-identification are often kept in .mat files. Labels that are looked up by name are found
#     for the longest names alone: a script that skips what it does not find evaluates one of 1,000 images.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" -W error - <<'PYTHON'
import numpy as np
import scipy
from scipy.io import loadmat, savemat

print("scipy", scipy.__version__)
names = np.array([f"{number}.jpg" for number in range(1, 1001)])
identities = {name: number % 50 for number, name in enumerate(names.tolist())}
savemat("features.mat", {"names": names, "cells": names.astype(object)})
np.savez("features.npz", names=names)


def num_found(loaded):
    """Return for how many of the names a look-up finds an identity."""
    return sum(name in identities for name in loaded.tolist())


contents = loadmat("features.mat")
found = num_found(contents["names"]), num_found(np.char.rstrip(contents["names"]))
cells = contents["cells"]
print("first name:", repr(contents["names"][0].item()), "of", repr(names[0].item()))
print(f"found: {found[0]} of 1000 from the .mat, {found[1]} without blanks, {num_found(np.load('features.npz')['names'])} from an .npz")
print(f"objects: shape {cells.shape}, the first is {cells[0, 0]!r}")

assert found == (1, 1000)
assert cells.shape == (1, 1000) and cells[0, 0].tolist() == ["1.jpg"]
print("as described")
PYTHON

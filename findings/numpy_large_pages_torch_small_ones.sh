#!/usr/bin/env bash
# NumPy 2.4.6, PyTorch 2.13.0: NumPy asks Linux for large pages for an array of 40 MB, and torch asks for small ones.
#
# One expects: `np.empty` and `torch.empty` of one size cost the same on a CPU, as both only reserve memory.
# What happens: NumPy advises Linux to use large pages (`madvise`) for arrays of 4 MiB or more, by default. PyTorch does
#     so only if the environment has THP_MEM_ALLOC_ENABLE=1. The advice is the flag "hg" of the memory in
#     /proc/self/smaps. Where Linux follows advice, which is the default of many distributions, the first write to
#     40 MB takes about ten thousand page faults with torch, and some hundreds with NumPy.
# Why it matters: A matrix of scores is written once and dropped. Its page faults were a quarter of the CPU time of a
#     ranking of 100 queries among 100,000 items of 64 dimensions, and a comparison of a tool in NumPy with one in torch
#     measures them, too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
cat > "$folder/pages.py" <<'PYTHON'
import resource

import numpy as np
import torch

SIZE = 10_000_000


def is_advised(address):
    """Whether the memory at an address has the flag of large pages."""
    is_inside = False
    for line in open("/proc/self/smaps", encoding="ascii"):
        first, *others = line.split()
        if not first.endswith(":"):
            start, end = (int(number, 16) for number in first.split("-"))
            is_inside = start <= address < end
        elif is_inside and first == "VmFlags:":
            return "hg" in others


def faults_of(write):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    write()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


array, tensor = np.empty(SIZE, np.float32), torch.empty(SIZE)
print("numpy", is_advised(array.ctypes.data + 2 * SIZE), faults_of(lambda: array.fill(1)), "page faults")
print("torch", is_advised(tensor.data_ptr() + 2 * SIZE), faults_of(lambda: tensor.fill_(1)), "page faults")
PYTHON
"$folder/env/bin/python" - "$folder/pages.py" <<'PYTHON'
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

print("numpy", np.__version__, "torch", torch.__version__)
print("large pages:", Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text().strip())
advised = {}
for setting in ("0", "1"):
    environment = {**os.environ, "THP_MEM_ALLOC_ENABLE": setting}
    run = subprocess.run([sys.executable, sys.argv[1]], env=environment, check=True, capture_output=True, text=True)
    print(f"THP_MEM_ALLOC_ENABLE={setting}", run.stdout, sep="\n", end="")
    advised[setting] = [line.split()[1] for line in run.stdout.splitlines()]

assert advised == {"0": ["True", "False"], "1": ["True", "True"]}
print("as described")
PYTHON

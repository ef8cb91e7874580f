#!/usr/bin/env bash
# PyTorch 2.13.0: `normalize` of a zero vector in half precision is NaN, and `topk` puts NaN before all numbers.
#
# One expects: `torch.nn.functional.normalize` has `eps=1e-12` against division by zero, so that a zero vector stays a
#     zero vector, as it does in float32 and in bfloat16.
# What happens: 1e-12 is 0 in float16. The zero vector becomes NaN, its cosine to every query is NaN, and `topk` and
#     `sort` in descending order take NaN as the largest. One blank image in a gallery is the nearest neighbor of all
#     queries: Rank-1 falls from 1.0 to 0.0. At the other end a vector whose norm is above 65,504 becomes zero.
# Why it matters: galleries are kept in float16 to save memory, and zero vectors come from padding, blank crops and rows
#     of a preallocated array that were never written. `normalize(rows.float()).half()` has none of both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet numpy==2.4.6
"$folder/env/bin/python" - <<'PYTHON'
import torch
from torch.nn.functional import normalize

print("torch", torch.__version__)
generator = torch.Generator().manual_seed(0)
gallery = torch.randn(100, 64, generator=generator)
query = gallery + 0.1 * torch.randn(100, 64, generator=generator)
gallery = torch.cat([gallery, torch.zeros(1, 64)])  # a blank image


def rank_1(normalized):
    scores = (normalize(query) @ normalized.float().T).half()
    return (scores.topk(1).indices[:, 0] == torch.arange(100)).float().mean().item()


numbers = {}
for kind in (torch.float32, torch.bfloat16, torch.float16):
    rows = normalize(gallery.to(kind))
    numbers[kind] = rank_1(rows)
    print(f"{kind}: zero vector {rows[-1, 0].item()}, Rank-1 {numbers[kind]:.2f}")
careful = rank_1(normalize(gallery).half())
large = normalize(torch.full((1, 2048), 2000.0, dtype=torch.float16))
print(f"normalized in float32, then float16: Rank-1 {careful:.2f}")
print("2,048 times 2000.0 in float16:", large[0, 0].item(), "where each is", 2048**-0.5)

assert numbers[torch.float32] == numbers[torch.bfloat16] == careful == 1.0
assert numbers[torch.float16] == 0.0
assert large.eq(0).all()
print("as described")
PYTHON

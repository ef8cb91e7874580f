"""Draws the problems of `hashing.npz`, and records what two code bases for hashing give for them.

    git clone https://github.com/swuxyj/DeepHash-pytorch && git -C DeepHash-pytorch checkout ab14068
    git clone https://github.com/jiangqy/ADSH-AAAI2018 && git -C ADSH-AAAI2018 checkout 2e95574
    NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR" python record_hashing.py \
        DeepHash-pytorch/utils/tools.py ADSH-AAAI2018/ADSH_pytorch/utils/calc_hr.py hashing.npz

Both sort by NumPy's `argsort`, which keeps the order of up to 16 equal scores, but not by these instructions. So
problems with codes have 16 gallery items, and those with more items have real numbers in the place of codes, which do
not tie. Of the first file, which imports what is not needed here, only the two functions are run. The second hands
`numpy.linspace` a float as the number of points, which NumPy has refused since 1.18: it is made an int.
"""

import ast
import sys
from pathlib import Path
from unittest import mock

import numpy as np

PROBLEMS, BITS, QUERIES = 30, 12, 4


def functions_of(path, names):
    """Some functions of a file, and nothing else that it does."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    scope = {"np": np, "tqdm": lambda values: values}
    exec(compile(tree, path, "exec"), scope)  # noqa: S102 - of the code bases that are named above
    return [scope[name] for name in names]


def drawn_problem(rng, number):
    """Codes, or real numbers, and labels of the queries and of the gallery."""
    num_gallery, num_labels = (16, 70) if number % 2 else (90, 8)
    sizes = QUERIES, num_gallery
    rows = [rng.normal(size=(size, BITS)) for size in sizes]
    if number % 2:
        rows = [np.sign(side) for side in rows]
    share = rng.choice([0.01, 0.1, 0.4])
    return *rows, *(rng.random((size, num_labels)) < share for size in sizes)


def main():
    """Record the numbers of both code bases for all problems."""
    deep_hash, adsh, written = sys.argv[1:]
    _, top_map = functions_of(deep_hash, ["CalcHammingDist", "CalcTopMap"])
    _, whole, cut = functions_of(adsh, ["calc_hammingDist", "calc_map", "calc_topMap"])
    linspace, rng, arrays = np.linspace, np.random.default_rng(0), {}
    for number in range(PROBLEMS):
        query, gallery, query_labels, gallery_labels = drawn_problem(rng, number)
        numbers = query_labels.astype(float), gallery_labels.astype(float)
        with mock.patch.object(np, "linspace", lambda start, stop, num: linspace(start, stop, int(num))):
            values = [
                top_map(gallery, query, numbers[1], numbers[0], 10),
                top_map(gallery, query, numbers[1], numbers[0], len(gallery)),
                cut(query, gallery, *numbers, 10),
                whole(query, gallery, *numbers),
            ]
        arrays |= {f"{number}/query": query, f"{number}/gallery": gallery, f"{number}/values": np.array(values)}
        arrays |= {f"{number}/query_labels": query_labels, f"{number}/gallery_labels": gallery_labels}
    np.savez_compressed(written, **arrays)


if __name__ == "__main__":
    main()

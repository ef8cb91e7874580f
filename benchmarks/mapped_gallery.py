"""Claims: a gallery on disk is never held, and ranks as fast as one in memory.

    python benchmarks/mapped_gallery.py [--size 2000000] [--threads 2] [--rounds 3]

200 queries against 2,000,000 gallery items of dimension 256 in a NumPy file, which is mapped: 2 GB in float32, 1 GB in
float16. Under each similarity, by `evaluate`, by `ReIDMetrics` fed by 100 blocks, by `nearest(10)`, and by the metric
on two processes of a gloo group, each with every other block. Every way runs in processes of its own. Memory that is
not the file's (RssAnon, so Linux only) is read each 5 ms, and exceeds what the process held with its queries by at most
300 MB, labels included. CPU seconds are at most 1.2 times those of the same array in memory (the median of rounds), in
float32 and float16, and numbers are the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import open_memmap
from torch import Tensor

from harness.claims import claim, median_ratio
from harness.memory import PeakOfAnonymous, resident
from harness.processes import run
from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate

LIMIT, CPU_LIMIT = 300, 1.2
NUM_QUERIES, DIMENSION, NUM_BLOCKS, NEAREST = 200, 256, 100, 10
LISTS = f"nearest({NEAREST})"
WRITTEN_AT_A_TIME = 20_000
SIMILARITIES = ("cosine", "euclidean", "dot")

Outcome = tuple[float, float, float]
"""a number that shows whether results are the same, MB, CPU seconds"""


def write_gallery(path: Path, dtype: str, size: int) -> None:
    """Normal numbers, which are rounded to `dtype`."""
    rows = open_memmap(path, "w+", dtype=dtype, shape=(size, DIMENSION))
    generator = torch.Generator().manual_seed(0)
    for first in range(0, size, WRITTEN_AT_A_TIME):
        part = rows[first : first + WRITTEN_AT_A_TIME]
        part[:] = torch.randn(part.shape, generator=generator).numpy()
    rows.flush()


def make_queries(dtype: torch.dtype, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, their identities, and those of the gallery: 20 items each."""
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(NUM_QUERIES, DIMENSION, generator=generator).to(dtype)
    return query, *(torch.randint(size // 20, (number,), generator=generator) for number in (NUM_QUERIES, size))


def cost(rank: int, size: int, path: Path, way: str, similarity: str, num_threads: int, *, is_mapped: bool) -> Outcome:
    """What one way costs one process."""
    torch.set_num_threads(num_threads)
    gallery = np.load(path, mmap_mode="r") if is_mapped else np.load(path)
    little = torch.randn(60, DIMENSION)
    evaluate(little[:20], little[20:], torch.arange(20) % 3, torch.arange(40) % 3, similarity=similarity)  # libraries
    query, query_identities, gallery_identities = make_queries(torch.from_numpy(gallery[:1].copy()).dtype, len(gallery))
    before, cpu = resident("RssAnon"), time.process_time()
    with PeakOfAnonymous() as peak:
        if way == "evaluate":
            value = evaluate(query, gallery, query_identities, gallery_identities, similarity=similarity)["map"]
        else:
            metrics = ReIDMetrics(similarity=similarity)
            if rank == 0:
                metrics.update(query, query_identities, is_query=True)
            step = -(-len(gallery) // NUM_BLOCKS)
            for first in range(rank * step, len(gallery), size * step):
                block = slice(first, first + step)
                metrics.update(gallery[block], gallery_identities[block], is_query=False)
            value = metrics.nearest(NEAREST).scores.double().sum() if way == LISTS else metrics.compute()["map"]
    return float(value), peak.most - before, time.process_time() - cpu


def in_memory(rank: int, size: int, *others: object) -> Outcome:
    """The same array in memory."""
    return cost(rank, size, *others, is_mapped=False)


def mapped(rank: int, size: int, *others: object) -> Outcome:
    """The file."""
    return cost(rank, size, *others, is_mapped=True)


def measure(path: Path, dtype: str, threads: int, rounds: int) -> list[bool]:
    """The claims for one file."""
    holds = []
    ways = [("evaluate", each, 1) for each in SIMILARITIES]
    ways += [(way, "cosine", 1) for way in ("metric", LISTS)] + [("metric", "euclidean", 2)]
    for way, similarity, size in ways:
        name = f"{dtype}, {way}, {similarity}" + ", 2 processes" * (size > 1)
        seconds, most, values = [], 0.0, set()
        for _ in range(rounds):
            of_memory, of_file = (run(size, each, path, way, similarity, threads) for each in (in_memory, mapped))
            values |= {value for value, *_ in (*of_memory, *of_file)}
            most = max(most, *(each for _, each, _ in of_file))
            seconds.append([sum(cpu for *_, cpu in outcomes) for outcomes in (of_file, of_memory)])
        assert len(values) == 1, values  # noqa: S101
        holds.append(claim(f"MB, {name}", most, LIMIT))
        of_files, of_arrays = zip(*seconds, strict=True)
        text = f"times the {statistics.median(of_arrays):.1f} CPU s of memory, {name}"
        holds.append(claim(text, median_ratio(of_files, of_arrays), CPU_LIMIT))
    return holds


def main() -> None:
    """Measure both dtypes; exit with 1 if a claim fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2_000_000, help="gallery items")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtypes", nargs="+", choices=("float32", "float16"), default=["float32", "float16"])
    given = parser.parse_args()
    holds = []
    for dtype in given.dtypes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "gallery.npy"
            write_gallery(path, dtype, given.size)
            holds += measure(path, dtype, given.threads, given.rounds)
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()

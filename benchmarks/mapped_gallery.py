"""Claims: a gallery on disk is never held, and ranks as fast as one in memory.

    python benchmarks/mapped_gallery.py [PART ...]     # of mapped, files, command, copied

mapped: 200 queries against 2,000,000 gallery items of dimension 256 in a NumPy file, which is mapped: 2 GB in float32,
1 GB in float16. By `evaluate`, by `nearest(10)` of `ReIDMetrics` fed by 100 blocks, and by its `compute` on two
processes of a gloo group, each with every other block. Every way runs in processes of its own, of one thread. Memory
that is not the file's (RssAnon, so Linux only) is read each 5 ms, over what the process held with its queries, labels
included. Numbers are the same as those of the array in memory.
files, command: 200 queries against 1,000,000 x 256 in eight files, 1 GB, by each entry point that takes files.
copied: `find_duplicates` of 2,016 queries and 1,000,000 x 512, and within 60,000 x 512, both mapped.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import open_memmap

from harness.claims import claim, compare, main
from harness.memory import PeakOfAnonymous, resident
from harness.processes import run
from reid_torchmetrics import ReIDMetrics, index_recall
from reid_torchmetrics.command import main as call_command
from reid_torchmetrics.data import read_samples
from reid_torchmetrics.functional.retrieval import evaluate
from reid_torchmetrics.tasks import find_duplicates

ROUNDS, NUM_QUERIES, NUM_ITEMS, DIMENSION, NUM_BLOCKS, NEAREST = 3, 200, 2_000_000, 256, 100, 10
COPIED = (("2,016 queries and 1,000,000 x 512", 2_016, 1_000_000), ("60,000 x 512 among themselves", 0, 60_000))
"""name, number of queries, 0 for pairs within the items, and number of items"""
NUM_IN_FILES, NUM_FILES = 1_000_000, 8
LISTS = f"nearest({NEAREST})"
WAYS = (
    ("float32", "evaluate", "cosine", 1),
    ("float32", "ReIDMetrics", "euclidean", 2),
    ("float16", LISTS, "euclidean", 1),
)
"""type, way, similarity and number of processes"""

Outcome = tuple[float, float, float]
"""a number that shows whether results are the same, MB, CPU seconds"""


def mapped() -> None:
    """Files of both types."""
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("float32", "float16"):
            path = Path(folder) / dtype
            write_gallery(path, dtype)
            for _, *way in (each for each in WAYS if each[0] == dtype):
                claim_mapped(path, *way)
            path.unlink()


def write_gallery(path: Path, dtype: str) -> None:
    """Normal numbers, which are rounded to `dtype`."""
    rows = open_memmap(path, "w+", dtype=dtype, shape=(NUM_ITEMS, DIMENSION))
    generator = torch.Generator().manual_seed(0)
    for part in np.split(rows, NUM_BLOCKS):
        part[:] = torch.randn(part.shape, generator=generator).numpy()
    rows.flush()


def claim_mapped(path: Path, way: str, similarity: str, size: int) -> None:
    """Memory of the file's, and time beside that of memory; the numbers are the same."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    most, values = 0.0, set()
    for _ in range(ROUNDS):
        for is_mapped, took in seconds.items():
            outcomes = run(size, cost_of_gallery, path, way, similarity, is_mapped)
            values |= {value for value, *_ in outcomes}
            most = max(most, *(peak for _, peak, _ in outcomes)) if is_mapped else most
            took.append(sum(cpu for *_, cpu in outcomes))
    assert len(values) == 1, values  # noqa: S101
    name = f"`{way}` under {similarity} of 2,000,000 x 256 in {path.name}" + ", in two processes" * (size > 1)
    claim(f"A gallery on disk is not held by {name}.", most, 300, "MB")
    compare(f"A gallery on disk costs as much as one in memory, by {name}.", seconds[True], seconds[False], 1.2)


def cost_of_gallery(rank: int, size: int, path: Path, way: str, similarity: str, is_mapped: bool) -> Outcome:
    """What one way costs one process."""
    gallery = np.load(path, mmap_mode="r") if is_mapped else np.load(path)
    little = torch.randn(60, DIMENSION)
    evaluate(little[:20], little[20:], torch.arange(20) % 3, torch.arange(40) % 3, similarity=similarity)  # libraries
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(NUM_QUERIES, DIMENSION, generator=generator).to(torch.from_numpy(gallery[:1].copy()).dtype)
    identities = [torch.randint(NUM_ITEMS // 20, (each,), generator=generator) for each in (NUM_QUERIES, NUM_ITEMS)]
    before, cpu = resident("RssAnon"), time.process_time()
    with PeakOfAnonymous() as peak:
        if way == "evaluate":
            value = evaluate(query, gallery, *identities, similarity=similarity)["map"]
        else:
            metrics = ReIDMetrics(similarity=similarity)
            if rank == 0:
                metrics.update(query, identities[0], is_query=True)
            step = NUM_ITEMS // NUM_BLOCKS
            for first in range(rank * step, NUM_ITEMS, size * step):
                block = slice(first, first + step)
                metrics.update(gallery[block], identities[1][block], is_query=False)
            value = metrics.nearest(NEAREST).scores.double().sum() if way == LISTS else metrics.compute()["map"]
    return float(value), peak.most - before, time.process_time() - cpu


def files() -> None:
    """Shards, by each function that takes files."""
    claim_files([way for way in FILE_WAYS if "command" not in way])


def command() -> None:
    """Shards, by the command."""
    claim_files([way for way in FILE_WAYS if "command" in way])


def claim_files(ways: Sequence[str]) -> None:
    """Memory of some ways to evaluate eight files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        sides = {"query": NUM_QUERIES, **{f"gallery-{shard}": NUM_IN_FILES // NUM_FILES for shard in range(NUM_FILES)}}
        for side, size in sides.items():
            feat = rng.standard_normal((size, DIMENSION), np.float32)
            np.savez(folder / f"{side}.npz", feat=feat, identities=rng.integers(0, 50_000, size))
        for way in ways:
            ((_, peak, seconds),) = run(1, cost_of_files, folder, way)
            detail = f"in {seconds:.1f} CPU seconds, one thread"
            claim(f"A gallery of eight files, 1,024 MB, is not held by {way}.", peak, 250, "MB", detail=detail)


def cost_of_files(_rank: int, _size: int, folder: Path, way: str) -> Outcome:
    """What an entry point costs that takes files."""
    little = torch.randn(60, DIMENSION)
    evaluate(little[:20], little[20:], torch.arange(20) % 3, torch.arange(40) % 3)  # libraries
    query, gallery = str(folder / "query.npz"), str(folder / "gallery-*.npz")
    before, cpu = resident("RssAnon"), time.process_time()
    with PeakOfAnonymous() as peak:
        FILE_WAYS[way](query, gallery)
    return 0, peak.most - before, time.process_time() - cpu


def evaluate_files(query: str, gallery: str) -> None:
    """`evaluate` of what `read_samples` returns."""
    evaluate(read_samples(query), read_samples(gallery))


def update_by_files(query: str, gallery: str) -> None:
    """A metric that gets file by file."""
    metrics = ReIDMetrics()
    for source, is_query in ((query, True), (gallery, False)):
        for file in read_samples(source):
            metrics.update(file.embeddings, is_query=is_query, **file.labels)
    metrics.compute()


def recall_of_files(query: str, gallery: str) -> None:
    """Recall of lists of the first items."""
    index_recall(np.tile(np.arange(NEAREST), (NUM_QUERIES, 1)), read_samples(query), read_samples(gallery))


def command_of_files(query: str, gallery: str, *options: str) -> None:
    """The command, whose output is dropped."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert call_command(["evaluate", query, gallery, *options]) == 0  # noqa: S101


FILE_WAYS: dict[str, Callable[[str, str], None]] = {
    "`evaluate` of `read_samples`": evaluate_files,
    "`ReIDMetrics.update`": update_by_files,
    "`index_recall`": recall_of_files,
    "the command": command_of_files,
    "the command with `--stream`": lambda query, gallery: command_of_files(query, gallery, "--stream"),
}


def copied() -> None:
    """Near duplicates of items in a file, of which every 1,000th is a copy of the one before."""
    for name, num_queries, num_items in COPIED:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "items"
            rows = open_memmap(path, "w+", dtype="float32", shape=(num_items, 512))
            generator = torch.Generator().manual_seed(0)
            for first in range(0, num_items, 1000):
                rows[first : first + 1000] = torch.randn(len(rows[first : first + 1000]), 512, generator=generator)
                rows[first + 1] = rows[first]
            rows.flush()
            del rows
            ((num_pairs, peak, seconds),) = run(1, cost_of_pairs, path, num_queries)
        assert num_pairs == num_items // 1000 or num_queries, num_pairs  # noqa: S101
        detail = f"in {seconds:.1f} CPU seconds, one thread"
        claim(f"`find_duplicates` of {name} needs little memory besides the data.", peak, 300, "MB", detail=detail)


def cost_of_pairs(_rank: int, _size: int, path: Path, num_queries: int) -> Outcome:
    """What all pairs of a file cost, of as many first rows as queries, or within it."""
    items = np.load(path, mmap_mode="r")
    sides = (np.array(items[:num_queries]), items) if num_queries else (items,)
    find_duplicates(torch.randn(60, 8), torch.randn(60, 8))  # libraries
    before, cpu = resident("RssAnon"), time.process_time()
    with PeakOfAnonymous() as peak:
        num_pairs = len(find_duplicates(*sides))
    return num_pairs, peak.most - before, time.process_time() - cpu


if __name__ == "__main__":
    main(mapped, files, command, copied)

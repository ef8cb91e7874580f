"""Claims: beside the embeddings evaluation needs some megabytes, and a gallery need not be held at all.

    python benchmarks/gallery_memory.py [PART ...]     # of held, streamed, mapped

held: MSMT17's size, 11,659 queries x 82,161 gallery items, of which a distance matrix would take 3.8 GB.
streamed: 10,000 queries and five million distractors x 128 that are drawn on the fly; `RankCounter` counts blocks of
50,000, and the time goes beside that of the bare products of the same blocks.
mapped: 200 queries x 2,000,000 gallery items of dimension 256 in a NumPy file, 2 GB in float32 and 1 GB in float16,
ranked by `evaluate`, by `ReIDMetrics` fed by 100 blocks, by `nearest(10)`, and by the metric on two processes of a gloo
group, each with every other block, one thread a process; beside it the same array in memory.

Every way runs in processes of its own. Peaks are VmHWM over what the process held before; where files are mapped,
memory that is not the file's (RssAnon) is read each 5 ms: Linux only.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import open_memmap
from torch import Tensor

from harness.claims import claim, compare, main
from harness.memory import PeakOfAnonymous, resident
from harness.problems import msmt17_size
from harness.processes import Cost, measured, run
from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import RankCounter, average_precision, evaluate, rank_positives

BATCH, NUM_THREADS = 64, 2
DIMENSION, BLOCK, STORED = 128, 50_000, 200_000
QUERIES, POSITIVES, DISTRACTORS, IDENTITIES = 10_000, 20_000, 5_000_000, 2_000
ROUNDS, NUM_QUERIES, NUM_ITEMS, WIDTH, NUM_BLOCKS, NEAREST = 3, 200, 2_000_000, 256, 100, 10
LISTS = f"nearest({NEAREST})"
MAPPED = (
    ("float32", "evaluate", "cosine", 1),
    ("float32", LISTS, "cosine", 1),
    ("float32", "ReIDMetrics", "euclidean", 2),
    ("float16", "evaluate", "euclidean", 1),
    ("float16", "ReIDMetrics", "cosine", 1),
)
"""type, way, similarity and number of processes"""

Outcome = tuple[float, float, float]
"""a number that shows whether results are the same, MB, CPU seconds"""


def held() -> None:
    """Two tensors, and a metric that was fed."""
    for name, way, dimension, limit in (
        ("`rank_positives` of two tensors", of_tensors, 256, 75),
        ("`ReIDMetrics` fed by batches of 64", of_batches, 256, 200),
        ("`ReIDMetrics` fed by batches of 64", of_batches, 2048, 350),
    ):
        (cost,) = run(1, way, dimension)
        text = f"{name} needs little memory beside MSMT17's embeddings of dimension {dimension}."
        claim(text, cost.peak, limit, "MB", detail=f"in {cost.wall:.1f} s with two threads")


def of_tensors(_rank: int, _size: int, dimension: int) -> Cost:
    """Two tensors of embeddings."""
    problem = msmt17_size(dimension)
    warm_up(*problem)
    return measured(lambda: average_precision(rank_positives(*problem)), trim=True)[1]


def of_batches(_rank: int, _size: int, dimension: int) -> Cost:
    """A metric that was fed by batches."""
    query, gallery, *labels = msmt17_size(dimension)
    warm_up(query, gallery, *labels)
    metrics = ReIDMetrics()
    for side, embeddings in enumerate((query, gallery)):
        parts = zip(*(values.split(BATCH) for values in (embeddings, labels[side], labels[2 + side])), strict=True)
        for part in parts:
            metrics.update(*(values.clone() for values in part), is_query=side == 0)
    del query, gallery, embeddings, parts, part
    return measured(metrics.compute)[1]


def warm_up(*problem: Tensor) -> None:
    """Run once on little, so that libraries are loaded and threads started before anything is measured."""
    torch.set_num_threads(NUM_THREADS)
    average_precision(rank_positives(*(values[:300] for values in problem)))


def streamed() -> None:
    """Distractors that nobody holds, and fewer of them that are held to compare."""
    ((peak, spent, bare, differing),) = run(1, counted)
    claim("A process that ranks 10,000 queries among 5,000,000 streamed distractors x 128 is small.", peak, 400, "MB")
    text = "`RankCounter` takes little longer than the bare products of 10,000 queries and 5,000,000 distractors x 128."
    compare(text, [spent], [bare], 2.5)
    claim("Streamed and stored ranks are the same, of 200,000 distractors.", differing, 0, "ranks")


def counted(_rank: int, _size: int) -> tuple[float, float, float, int]:
    """MB of the process, CPU seconds of counting and of the products, and how many ranks of fewer differ."""
    query, positives, *labels = sides()
    given, limit = (query, positives, *labels), {"max_bytes": 64 << 20}
    counter = RankCounter(*given, **limit)
    product, spent, bare = torch.empty(1008 * 1008), 0.0, 0.0
    for block, identities in distractors(DISTRACTORS):
        start = time.process_time()
        counter.update(block, identities)
        spent += time.process_time() - start
        start = time.process_time()
        for some in query.split(1008):
            for items in block.split(1008):
                torch.mm(some, items.T, out=product[: len(some) * len(items)].view(len(some), len(items)))
        bare += time.process_time() - start
    counter.ranks()
    peak = resident("VmHWM")
    counter, blocks = RankCounter(*given, **limit), list(distractors(STORED))
    for block in reversed(blocks):
        counter.update(*block)
    gallery, identities = (torch.cat(parts) for parts in zip(*[(positives, labels[1]), *blocks], strict=True))
    stored = rank_positives(query, gallery, labels[0], identities)
    return peak, spent, bare, int((counter.ranks().rank != stored.rank).sum())


def sides() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embeddings of queries and of positives, and their identities."""
    generator = torch.Generator().manual_seed(0)
    of_identity = torch.randn(IDENTITIES, DIMENSION, generator=generator)
    labels = torch.arange(QUERIES) % IDENTITIES, torch.arange(POSITIVES) % IDENTITIES
    query, positives = (of_identity[each] + torch.randn(len(each), DIMENSION, generator=generator) for each in labels)
    return query, positives, *labels


def distractors(size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks, the same ones in every call."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(0, size, BLOCK):
        yield torch.randn(BLOCK, DIMENSION, generator=generator), torch.full((BLOCK,), IDENTITIES)


def mapped() -> None:
    """Files of both types."""
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("float32", "float16"):
            path = Path(folder) / dtype
            write_gallery(path, dtype)
            for _, *way in (each for each in MAPPED if each[0] == dtype):
                claim_mapped(path, *way)
            path.unlink()


def write_gallery(path: Path, dtype: str) -> None:
    """Normal numbers, which are rounded to `dtype`."""
    rows = open_memmap(path, "w+", dtype=dtype, shape=(NUM_ITEMS, WIDTH))
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
    little = torch.randn(60, WIDTH)
    evaluate(little[:20], little[20:], torch.arange(20) % 3, torch.arange(40) % 3, similarity=similarity)  # libraries
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(NUM_QUERIES, WIDTH, generator=generator).to(torch.from_numpy(gallery[:1].copy()).dtype)
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


if __name__ == "__main__":
    main(held, streamed, mapped)

"""Claims: beside the embeddings evaluation needs some megabytes, and streamed distractors are never held.

    python benchmarks/gallery_memory.py [PART ...]     # of held, streamed

held: MSMT17's size, 11,659 queries x 82,161 gallery items, of which a distance matrix would take 3.8 GB.
streamed: 10,000 queries and a million distractors x 128 that are drawn on the fly; `RankCounter` counts blocks of
50,000, and the time goes beside that of the bare products of the same blocks.

Every way runs in a process of its own, whose peak is VmHWM, over what it held before where nothing else is said: Linux
only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from harness.claims import claim, compare, main
from harness.load import set_threads
from harness.memory import resident
from harness.problems import msmt17_size
from harness.processes import Cost, measured, run
from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import average_precision, rank_positives
from reid_torchmetrics.tasks import RankCounter

BATCH, NUM_THREADS = 64, 2
DIMENSION, BLOCK, STORED = 128, 50_000, 200_000
QUERIES, POSITIVES, DISTRACTORS, IDENTITIES = 10_000, 20_000, 1_000_000, 2_000


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
    set_threads(NUM_THREADS)
    average_precision(rank_positives(*(values[:300] for values in problem)))


def streamed() -> None:
    """Distractors that nobody holds, and fewer of them that are held to compare."""
    ((peak, spent, bare, differing),) = run(1, counted)
    claim("A process that ranks 10,000 queries among 1,000,000 streamed distractors x 128 is small.", peak, 400, "MB")
    text = "`RankCounter` takes little longer than the bare products of 10,000 queries and 1,000,000 distractors x 128."
    compare(text, [spent], [bare], 2.5)
    claim("Streamed and stored ranks are the same, of 200,000 distractors.", differing, 0, "ranks")


def counted(_rank: int, _size: int) -> tuple[float, float, float, int]:
    """MB of the process, CPU seconds of counting and of the products, and how many ranks of fewer differ."""
    query, positives, *labels = sides()
    given, limit = (query, positives, *labels), {"max_bytes": 64 << 20}
    counter = RankCounter(*given, **limit)
    product, counts, spent, bare = torch.empty(1008 * 1008), 0, 0.0, 0.0
    for key, (block, identities) in enumerate(distractors(DISTRACTORS)):
        start = time.process_time()
        counts += counter.count(block, identities, key=key)
        spent += time.process_time() - start
        start = time.process_time()
        for some in query.split(1008):
            for items in block.split(1008):
                torch.mm(some, items.T, out=product[: len(some) * len(items)].view(len(some), len(items)))
        bare += time.process_time() - start
    counter.ranks(counts)
    peak = resident("VmHWM")
    counter, blocks = RankCounter(*given, **limit), list(distractors(STORED))
    counts = sum(counter.count(*block, key=key) for key, block in reversed([*enumerate(blocks)]))
    gallery, identities = (torch.cat(parts) for parts in zip(*[(positives, labels[1]), *blocks], strict=True))
    stored = rank_positives(query, gallery, labels[0], identities)
    return peak, spent, bare, int((counter.ranks(counts).rank != stored.rank).sum())


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


if __name__ == "__main__":
    main(held, streamed)

"""Claims: a stream costs what `docs/scaling.md` says, whose formulas are read from there.

    python benchmarks/stream_cost.py [PART ...]     # of sizes; fit on request

A process of one thread is sent a `RankCounter`, and counts blocks of useless embeddings. `fit` prints the constants of
the model, and claims nothing.
"""

from __future__ import annotations

import pickle
import re
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from harness.claims import claim, main
from harness.processes import MIB, measured, run
from reid_torchmetrics.functional.retrieval import RankCounter

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
FORMULAS = dict(re.findall(r"^\| ([^|]+) \| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))
REPEATS = 3
POSITIVES, COPIES = 10, 5
"""of a query, and queries of an identity"""
FITTED = (  # queries, blocks, items of a block, dimension
    (2_000, 2, 20_000, 64),
    (2_000, 2, 20_000, 512),
    (2_000, 2, 60_000, 256),
    (10_000, 1, 20_000, 128),
    (10_000, 2, 5_000, 512),
    (1_000, 20, 2_000, 128),
    (5_000, 1, 40_000, 64),
    (5_000, 1, 50_000, 384),
)
CHECKED = ((3_000, 3, 100_000, 128), (10_000, 3, 30_000, 512), (20_000, 2, 40_000, 256))
COSTS = {
    "CPU seconds of a stream": 1,
    "bytes of memory of a stream": MIB,
    "bytes of a counter": MIB,
    "bytes of its counts": MIB,
}
"""rows of the model, and their units"""

Size = tuple[int, int, int, int]


def sizes() -> None:
    """Three sizes that one core can run."""
    costs = [counted(size) for size in CHECKED]
    for number, (name, unit) in enumerate(COSTS.items()):
        pairs = [(seen[number] / unit, formula(name, size) / unit) for seen, size in zip(costs, CHECKED, strict=True)]
        detail = ", ".join(f"{seen:.3g} for {said:.3g}" for seen, said in pairs)
        worst = max(max(seen / said, said / seen) for seen, said in pairs)
        text = f"At three sizes the model is within a fifth: {name}."
        claim(text, worst, 1.2, "times", detail=f"{detail} {'s' if unit == 1 else 'MB'}")


def fit() -> None:
    """Constants of a pair, and of a pair and dimension, by least squares of relative errors."""
    terms = [(Q * S * B, Q * S * B * D) for Q, S, B, D in FITTED]
    seconds = np.array([counted(size)[0] for size in FITTED])
    rows = np.array(terms) / seconds[:, None]
    scale = rows.max(0)
    found = np.linalg.lstsq(rows / scale, np.ones(len(rows)), rcond=None)[0] / scale
    errors = ", ".join(f"{error:.2f}" for error in rows @ found)
    print("CPU seconds: " + " ".join(f"{constant:.3g}" for constant in found) + f" (said over seen: {errors})")


def formula(name: str, size: Size) -> float:
    """What a row of the model says of one worker."""
    queries, blocks, items, dimension = size
    values = {"Q": queries, "S": blocks, "B": items, "D": dimension, "P": POSITIVES * queries}
    return eval(FORMULAS[name], {}, values)  # noqa: S307 - the page is ours


def counted(size: Size) -> list[float]:
    """What the model has rows for, in their order."""
    (costs,) = run(1, of_worker, size)
    return costs


def made(queries: int, dimension: int) -> RankCounter:
    """A counter of useless embeddings."""
    torch.manual_seed(0)
    labels = torch.arange(queries) // COPIES, torch.arange(queries * POSITIVES // COPIES) // POSITIVES
    query, positives = (torch.randn(len(each), dimension) for each in labels)
    return RankCounter(query, positives, *labels)


def of_worker(_rank: int, _size: int, size: Size) -> list[float]:
    """CPU seconds, and bytes."""
    queries, blocks, items, dimension = size
    identities, keys = torch.full((items,), queries), range(blocks)
    made(200, dimension).count(torch.randn(2_000, dimension), identities[:1].expand(2_000), key=0)  # warms up
    counter = made(queries, dimension)
    counts, cost = measured(
        lambda: sum(counter.count(torch.randn(items, dimension), identities, key=key) for key in keys), trim=True
    )
    block, seconds = torch.randn(items, dimension), []
    for _ in range(REPEATS * blocks):
        start = time.process_time()
        counter.count(block, identities, key=0)
        seconds.append(time.process_time() - start)
    sent, given = len(pickle.dumps(counter)), len(pickle.dumps(counts))
    return [blocks * statistics.median(seconds), cost.peak * MIB, sent, given]


if __name__ == "__main__":
    main(sizes, more=(fit,))

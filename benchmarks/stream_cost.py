"""Claims: a stream costs what `docs/scaling.md` says, whose formulas are read from there.

    python benchmarks/stream_cost.py [PART ...]     # of sizes; fit on request

A `RankCounter` counts blocks of useless embeddings in a process of one thread, in turns with products of 1,008 x 1,008
scores, whose operations per second are the F of the model. `fit` prints its constants, and claims nothing.
"""

from __future__ import annotations

import pickle
import re
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from harness.claims import claim, interleaved, main
from harness.processes import MIB, measured, run
from reid_torchmetrics.tasks import RankCounter

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
FORMULAS = dict(re.findall(r"^\| ([^|]+) \| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))
ROUNDS = 7
POSITIVES, COPIES = 10, 5
"""of a query, and queries of an identity"""
FITTED = (  # queries, blocks, items of a block, dimension
    (2_000, 2, 20_000, 64),
    (2_000, 2, 20_000, 512),
    (2_000, 2, 60_000, 256),
    (10_000, 1, 20_000, 128),
    (10_000, 2, 5_000, 512),
    (3_000, 1, 40_000, 128),
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
        both = zip(costs, CHECKED, strict=True)
        pairs = [(seen[number] / unit, formula(name, size, seen[-1]) / unit) for seen, size in both]
        detail = ", ".join(f"{seen:.3g} for {said:.3g}" for seen, said in pairs)
        worst = max(max(seen / said, said / seen) for seen, said in pairs)
        text = f"At three sizes the model is within a fifth: {name}."
        claim(text, worst, 1.2, "times", detail=f"{detail} {'s' if unit == 1 else 'MB'}")


def fit() -> None:
    """Print the products of a dimension that counting a score, and preparing a number, take as long as."""
    seen = [counted(size) for size in FITTED]
    costs = np.array(
        [seconds * speed / (2 * S * B) for (seconds, *_, speed), (_, S, B, _) in zip(seen, FITTED, strict=True)]
    )
    terms, products = np.array([(Q, D) for Q, *_, D in FITTED]), np.array([Q * D for Q, *_, D in FITTED])
    found = np.linalg.lstsq(terms / costs[:, None], 1 - products / costs, rcond=None)[0]
    errors = ", ".join(f"{error:.2f}" for error in (products + terms @ found) / costs)
    print(f"2*S*B * (Q*(D + {found[0]:.0f}) + {found[1]:.0f}*D) / F (said over seen: {errors})")


def formula(name: str, size: Size, speed: float) -> float:
    """What a row of the model says of one worker."""
    queries, blocks, items, dimension = size
    values = {"Q": queries, "S": blocks, "B": items, "D": dimension, "P": POSITIVES * queries, "F": speed}
    return eval(FORMULAS[name], {}, values)  # noqa: S307 - the page is ours


def counted(size: Size) -> list[float]:
    """What the model has rows for, in their order; behind them operations per second of a bare product."""
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
    block, vectors, product = torch.randn(items, dimension), torch.randn(1008, 512), torch.empty(1008, 1008)

    def multiply() -> None:
        for _ in range(8):
            torch.mm(vectors, vectors.T, out=product)

    ways = {"counted": lambda: counter.count(block, identities, key=0), "product": multiply}
    seconds = interleaved(ways, ROUNDS, time.process_time)
    speed = 8 * 2 * 512 * product.numel() / statistics.median(seconds["product"])
    ratio = statistics.median(a / b for a, b in zip(seconds["counted"], seconds["product"], strict=True))
    sent, given = len(pickle.dumps(counter)), len(pickle.dumps(counts))
    return [blocks * ratio * statistics.median(seconds["product"]), cost.peak * MIB, sent, given, speed]


if __name__ == "__main__":
    main(sizes, more=(fit,))

"""Claims: what groups, other labels and a small memory bound cost a ranking, at Market-1501's size, float32.

    python benchmarks/options_cost.py [--repeats 7]

Groups of an identity in a camera (tracks) take at most 1.2 times what the items take, groups of one item, which save
nothing, 1.5 times. Positions or clothes, of real identities and cameras, cost no tenth more. On one thread, in CPU
seconds, 1,008 queries with `max_bytes` of 32, 4 and 1 MiB take at most 1.15, 1.5 and 1.5 times what 256 MiB take. The
ways take turns in one process; numbers are the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial

import torch

from harness.claims import claim, interleaved, median_ratio
from harness.problems import NOISE, market1501
from reid_torchmetrics import evaluate
from reid_torchmetrics.functional.retrieval import rank_positives

GROUPS = {"tracks": 1.2, "single items": 1.5}
LABELS = {"clothes": 1.1, "positions": 1.1}
BOUNDS = {32: 1.15, 4: 1.5, 1: 1.5}
"""by MiB"""
QUERIES = 1008
SPREAD, EXTENT = 5.0, 5_000.0  # meters


def cost_of_groups(dimension: int, repeats: int) -> list[bool]:
    """Over ranking the items."""
    problem = market1501(dimension, NOISE["good"][dimension])
    groups = {"tracks": 10 * problem[3] + problem[5], "single items": torch.arange(len(problem[3]))}
    assert evaluate(*problem).means == evaluate(*problem, gallery_groups=groups["single items"]).means  # noqa: S101
    ways = {name: partial(evaluate, *problem, gallery_groups=each) for name, each in groups.items()}
    seconds = interleaved({"items": partial(evaluate, *problem), **ways}, repeats)
    return [
        claim(f"{name} over items, dimension {dimension}", median_ratio(seconds[name], seconds["items"]), limit)
        for name, limit in GROUPS.items()
    ]


def positions(identities: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Around the place of each identity in a square of 5 km; distractors lie beside it, not to be positives."""
    places = torch.rand((int(identities.max()) + 2, 2), generator=generator, dtype=torch.float64) * EXTENT
    around = SPREAD * torch.randn((len(identities), 2), generator=generator, dtype=torch.float64)
    elsewhere = torch.rand((len(identities), 2), generator=generator, dtype=torch.float64) * EXTENT
    elsewhere[:, 0] += 1.01 * EXTENT
    return torch.where((identities > 0)[:, None], places[identities] + around, elsewhere) + 4_477_000


def cost_of_labels(repeats: int) -> list[bool]:
    """Over identities and cameras alone; an identity has two clothes."""
    query, gallery, *labels = market1501(512, 1.0)
    both, generator = torch.cat(labels[:2]), torch.Generator().manual_seed(0)
    sides = len(query), len(gallery)
    place, wear = positions(both, generator), 2 * both + torch.randint(0, 2, both.shape, generator=generator)
    where = dict(zip(("query_positions", "gallery_positions"), place.split(sides), strict=True))
    clothes = dict(zip(("query_clothes", "gallery_clothes"), wear.split(sides), strict=True))
    ways = {
        "identities": partial(evaluate, query, gallery, *labels),
        "clothes": partial(evaluate, query, gallery, *labels, **clothes, clothes="drop_same"),
        "positions": partial(evaluate, query, gallery, **where, radius=25.0, same_camera="keep"),
    }
    seconds = interleaved(ways, repeats)
    return [
        claim(f"{name} over identities", median_ratio(seconds[name], seconds["identities"]), limit)
        for name, limit in LABELS.items()
    ]


def cost_of_bounds(dimension: int, repeats: int) -> list[bool]:
    """Over the default, on one thread; the ranks must be equal."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    query, gallery, *labels = market1501(dimension, NOISE["good"][dimension])
    labels[0], labels[2] = labels[0][:QUERIES], labels[2][:QUERIES]
    ways = {
        bound: partial(rank_positives, query[:QUERIES], gallery, *labels, max_bytes=bound << 20)
        for bound in (256, *BOUNDS)
    }
    expected = ways[256]().rank
    seconds = interleaved({str(bound): way for bound, way in ways.items()}, repeats, time.process_time)
    holds = [
        claim(f"{bound} MiB over 256, dimension {dimension}", median_ratio(seconds[str(bound)], seconds["256"]), limit)
        for bound, limit in BOUNDS.items()
    ]
    torch.set_num_threads(num_threads)
    return holds + [torch.equal(way().rank, expected) for way in ways.values()]


def main() -> None:
    """Measure every claim; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    holds = cost_of_labels(repeats)
    for dimension in (512, 2048):
        holds += cost_of_groups(dimension, repeats) + cost_of_bounds(dimension, repeats)
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()

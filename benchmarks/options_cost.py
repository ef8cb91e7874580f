"""Claims: what groups, other labels and a small memory bound cost a ranking, at Market-1501's size, float32.

    python benchmarks/options_cost.py [PART ...]     # of labels, groups, bounds

Groups are those of an identity in a camera (tracks), or of one item, which save nothing; positions and clothes are of
real identities and cameras. Bounds are measured on one thread, in CPU seconds, with 1,008 queries. The ways take turns
in one process; numbers are the same.
"""

from __future__ import annotations

import time
from functools import partial

import torch

from harness.claims import compare, interleaved, main
from harness.load import set_threads
from harness.problems import NOISE, market1501
from reid_torchmetrics import evaluate
from reid_torchmetrics.functional.retrieval import rank_positives

GROUPS = {"tracks": 1.2, "single items": 1.5}
LABELS = {"clothes": 1.1, "positions": 1.1}
BOUNDS = {32: 1.15, 4: 1.5, 1: 1.5}
"""by MiB"""
QUERIES, REPEATS = 1008, 5
DIMENSIONS = 512, 2048
SPREAD, EXTENT = 5.0, 5_000.0  # meters


def groups() -> None:
    """Over ranking the items."""
    for dimension in DIMENSIONS:
        problem = market1501(dimension, NOISE["good"][dimension])
        made = {"tracks": 10 * problem[3] + problem[5], "single items": torch.arange(len(problem[3]))}
        assert evaluate(*problem).means == evaluate(*problem, gallery_groups=made["single items"]).means  # noqa: S101
        ways = {name: partial(evaluate, *problem, gallery_groups=each) for name, each in made.items()}
        seconds = interleaved({"items": partial(evaluate, *problem), **ways}, REPEATS)
        for name, limit in GROUPS.items():
            text = f"Groups of {name} cost little more than the items of Market-1501, dimension {dimension}."
            compare(text, seconds[name], seconds["items"], limit)


def positions(identities: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Around the place of each identity in a square of 5 km; distractors lie beside it, not to be positives."""
    places = torch.rand((int(identities.max()) + 2, 2), generator=generator, dtype=torch.float64) * EXTENT
    around = SPREAD * torch.randn((len(identities), 2), generator=generator, dtype=torch.float64)
    elsewhere = torch.rand((len(identities), 2), generator=generator, dtype=torch.float64) * EXTENT
    elsewhere[:, 0] += 1.01 * EXTENT
    return torch.where((identities > 0)[:, None], places[identities] + around, elsewhere) + 4_477_000


def labels() -> None:
    """Over identities and cameras alone; an identity has two clothes."""
    query, gallery, *known = market1501(512, 1.0)
    both, generator = torch.cat(known[:2]), torch.Generator().manual_seed(0)
    sides = len(query), len(gallery)
    place, wear = positions(both, generator), 2 * both + torch.randint(0, 2, both.shape, generator=generator)
    where = dict(zip(("query_positions", "gallery_positions"), place.split(sides), strict=True))
    clothes = dict(zip(("query_clothes", "gallery_clothes"), wear.split(sides), strict=True))
    ways = {
        "identities": partial(evaluate, query, gallery, *known),
        "clothes": partial(evaluate, query, gallery, *known, **clothes, clothes="drop_same"),
        "positions": partial(evaluate, query, gallery, **where, radius=25.0, same_camera="keep"),
    }
    seconds = interleaved(ways, REPEATS)
    for name, limit in LABELS.items():
        text = f"A ranking by {name} costs what one by identities and cameras alone does: Market-1501, dimension 512."
        compare(text, seconds[name], seconds["identities"], limit)


def bounds() -> None:
    """Over the default; the ranks must be equal."""
    set_threads(1)
    for dimension in DIMENSIONS:
        query, gallery, *known = market1501(dimension, NOISE["good"][dimension])
        known[0], known[2] = known[0][:QUERIES], known[2][:QUERIES]
        ways = {
            str(bound): partial(rank_positives, query[:QUERIES], gallery, *known, max_bytes=bound << 20)
            for bound in (256, *BOUNDS)
        }
        expected = ways["256"]().rank
        assert all(torch.equal(way().rank, expected) for way in ways.values())  # noqa: S101
        seconds = interleaved(ways, REPEATS, time.process_time)
        for bound, limit in BOUNDS.items():
            text = f"`max_bytes` of {bound} MiB costs little over 256: 1,008 x 15,913 x {dimension}, with one thread."
            compare(text, seconds[str(bound)], seconds["256"], limit)


if __name__ == "__main__":
    main(labels, groups, bounds)

"""Which of the samples of all processes count, and what is wrong with those and with the others."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional.world import World, warn_once

from .repetitions import changed, check_dropped, lowest_of_each
from .samples import NUM_NUMBERS, NonFinite
from .shared_samples import HeldSamples


class CountedSamples(NamedTuple):
    """The samples of this process that count, and how many of each process do."""

    query: Int[Tensor, " query"]
    """positions, ascending"""
    gallery: Int[Tensor, " gallery"]
    num_queries: list[int]
    num_gallery: list[int]
    non_finite: NonFinite
    """of all processes"""


class _Numbers(NamedTuple):
    """What a process tells the others of its samples; `NonFinite.numbers` follow."""

    num_queries: int
    num_gallery: int
    num_dropped_queries: int
    """that a lower process has, too"""
    num_dropped_gallery: int
    num_changed: int


def count_samples(world: World, held: HeldSamples) -> CountedSamples:
    """Choose the samples that count: of those that share `index` and role, the first of the lowest process.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: samples that share them have other labels.
    """
    samples = held.samples
    of_roles = [lowest_of_each(world, samples, each.counted) for each in held.numbered]

    def look() -> tuple[None, list[int]]:
        (query, dropped_queries), (gallery, dropped_gallery) = of_roles
        sizes = [len(query), len(gallery), len(dropped_queries), len(dropped_gallery)]
        numbers = [*sizes, changed(samples, held.numbered), *NonFinite.numbers(samples, query, gallery)]
        return None, numbers if held.same is None else [*numbers, *held.same.run(world.process, held.signs[0])]

    _, table = world.guarded_all_gather(look)
    num = len(_Numbers._fields)
    numbers = [_Numbers._make(row[:num]) for row in table]
    for (counted, dropped), field in zip(of_roles, ("num_dropped_queries", "num_dropped_gallery"), strict=True):
        sizes = [getattr(each, field) for each in numbers]
        if any(sizes):
            check_dropped(world, samples, counted, dropped, sizes)
    num_changed = sum(each.num_changed for each in numbers)
    if num_changed:
        warn_once(world, "another embedding", _CHANGED.format(num_changed))
    if held.same is not None:
        held.same.warn(world, held.signs, [row[num + NUM_NUMBERS :] for row in table])
    return CountedSamples(
        query=of_roles[0][0],
        gallery=of_roles[1][0],
        num_queries=[each.num_queries for each in numbers],
        num_gallery=[each.num_gallery for each in numbers],
        non_finite=NonFinite.of_all([row[num:] for row in table], has_index=samples.index is not None),
    )


_CHANGED = (
    "{} samples came again on their process with another embedding, and do not count: of samples with the same `index`"
    " the first counts. Was `reset` forgotten after the last evaluation, or does `index` begin anew in each batch? It"
    " must be the sample's number in its data set."
)

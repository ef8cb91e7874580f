"""Repetitions: several samples with the same `index` and role, and one that counts.

Of several with one number the first counts, of several processes the first of the lowest process:

    process          0             1
    index         4  7  4       7  9
    identity      1  2  1       2  3
    counted       4  7             9      the second 4 and the 7 of process 1 are repetitions

A repetition has the labels of the sample that counts. Its embedding may differ by the rounding of another batch; an
embedding that differs by more is no repetition of a sampler.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import LABELS, deciding, packed, unpacked, width_of
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows

from .samples import Samples

_CLOSE = 0.1  # of the norm: half precision rounds by less, and a step of training or another image changes more


class Numbered(NamedTuple):
    """The samples of one role on one process."""

    counted: Int[Tensor, " counted"]
    """positions, ascending: the first sample of each `index`"""
    repeated: Int[Tensor, " repeated"]
    """positions of the others"""
    first: Int[Tensor, " repeated"]
    """for each of these, the position of the one that counts"""

    @classmethod
    def of(cls, samples: Samples, role: int) -> Numbered:
        """Look for repetitions among the samples of a role.

        Raises:
            ValueError: samples with the same `index` have other labels.
        """
        positions = (samples.roles & role > 0).nonzero()[:, 0]
        none = positions[:0]
        if samples.index is None or not len(positions):
            return cls(positions, none, none)
        # Sorted stably, the first sample of each number comes first.
        numbers, order = samples.index[positions].sort(stable=True)
        is_first = torch.ones_like(numbers, dtype=torch.bool)
        is_first[1:] = numbers[1:] != numbers[:-1]
        ordered = positions[order]
        counted = ordered[is_first]
        if len(counted) == len(positions):  # nearly always
            return cls(positions, none, none)
        repeated, first = ordered[~is_first], counted[is_first.cumsum(0) - 1][~is_first]
        _check_same(samples, _labels(samples, first), _labels(samples, repeated))
        return cls(counted.sort().values, repeated, first)


def changed(samples: Samples, roles: Sequence[Numbered]) -> int:
    """Number of repetitions with another embedding than the sample that counts."""
    if not any(len(each.repeated) for each in roles):  # nearly always
        return 0
    step = max(1, WALK_BYTES // (8 * samples.dimension))
    positions = []
    for each in roles:
        again, first = samples.rows(each.repeated), samples.rows(each.first)
        for part in segments.ranges(len(each.repeated), step):
            rows = first.read(part, torch.float64)
            distance = (again.read(part, torch.float64) - rows).norm(dim=1)
            positions.append(each.repeated[part][distance > _CLOSE * rows.norm(dim=1)])
    return len(torch.cat(positions).unique())  # leave-one-out samples have both roles


def lowest_of_each(
    world: World, samples: Samples, positions: Int[Tensor, " first"]
) -> tuple[Int[Tensor, " counted"], Int[Tensor, " dropped"]]:
    """Split positions of distinct `index`: first the samples that no lower process has, then the others."""
    if samples.index is None or world.size == 1:
        return positions, positions[:0]
    is_first = _first_of_each(world, samples.index[positions])
    return positions[is_first], positions[~is_first]


def _first_of_each(world: World, numbers: Int[Tensor, " samples"]) -> Bool[Tensor, " samples"]:
    """Mark the sample numbers that no lower process has; the numbers of one process are distinct.

    The numbers of one process at a time are sent, so that no process holds all of them.
    """

    def prepare() -> tuple[tuple[Tensor, Tensor], list[int]]:
        local = numbers.to(world.device)
        return (local, torch.ones_like(local, dtype=torch.bool)), [len(local)]

    def compare_and_receive(lower: Tensor, size: int) -> Tensor:
        """Unmark the numbers of a lower process, and make room for the numbers of the next."""
        is_first.logical_and_(~torch.isin(local, lower))
        return local.new_empty(size)

    (local, is_first), sizes = world.guarded_all_gather(prepare)
    # In round s process s sends its numbers; the processes above compare them at the beginning of the next round.
    lower = local[:0]
    for source in range(world.size - 1):  # the last has none above it
        received = world.guarded(functools.partial(compare_and_receive, lower, sizes[source][0]))
        world.broadcast(local if source == world.process else received, source)
        lower = received if source < world.process else local[:0]
    compare_and_receive(lower, 0)  # the numbers of the last round
    return is_first.to(numbers.device)


def check_dropped(world: World, samples: Samples, counted: Tensor, dropped: Tensor, sizes: Sequence[int]) -> None:
    """Raise unless the samples that a process drops have the labels of the samples that count on lower processes.

    Args:
        world: of all processes.
        samples: of this process.
        counted: positions of samples that count.
        dropped: positions of samples that a lower process has.
        sizes: number of dropped samples on every process.

    Raises:
        ValueError: some have other labels, on any process.
    """

    def compare() -> None:
        labels, others = _labels(samples, counted), listed.to(samples.device)
        labels = labels[labels[:, 0].argsort()]
        places = torch.searchsorted(labels[:, 0].contiguous(), others[:, 0].contiguous()).clamp(max=len(labels) - 1)
        if len(labels):
            is_pair = labels[places, 0] == others[:, 0]
            _check_same(samples, labels[places][is_pair], others[is_pair])

    columns = sum(map(width_of, samples.labels.values()))
    (listed,) = exchange_rows(world, sizes, SentRows(lambda: [_labels(samples, dropped)], (columns,)))
    world.guarded(compare)


def _labels(samples: Samples, positions: Int[Tensor, " chosen"]) -> Int[Tensor, "chosen labels"]:
    """The number of a sample, then the labels that decide relevance."""
    return packed({"index": samples.labels["index"]} | deciding(samples.labels), positions)


def _check_same(samples: Samples, first: Tensor, again: Tensor) -> None:
    rows = (first != again).any(1).nonzero()[:, 0]
    if len(rows):
        came = " and for ".join(_described(samples, labels[rows[:1], 1:]) for labels in (first, again))
        more = len(first[rows, 0].unique()) - 1
        raise ValueError(
            f"`index` must be the number of a sample in its data set, the same only for repetitions of the sample; got"
            f" {int(first[rows[0], 0])} for {came}{f', and {more} more such numbers' if more else ''}."
        )


def _described(samples: Samples, labels: Int[Tensor, "1 labels"]) -> str:
    values = unpacked(labels, deciding(samples.labels))
    return " at ".join(f"{LABELS[name].singular} {value[0].tolist()}" for name, value in values.items())

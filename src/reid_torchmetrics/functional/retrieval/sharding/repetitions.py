"""Samples that come again, with the same `index` and role: which of them count, and whether they are the same samples.

Of those that share a number the first counts, of those of several processes that of the lowest:

    process          0             1
    index         4  7  4       7  9
    identity      1  2  1       2  3
    counted       4  7             9      the second 4 and the 7 of process 1 are repetitions

A repetition has the labels of the sample that counts. Its embedding may differ by what rounds otherwise in another
batch; what differs by more is no repetition that a sampler makes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES
from reid_torchmetrics.functional.world import World, all_gather_rows

from .samples import Samples

_CLOSE = 0.1  # of the norm: half precision rounds by less, and a step of training or another image changes more


class Numbered(NamedTuple):
    """The samples of one role on one process."""

    counted: Int[Tensor, " counted"]
    """positions, ascending: of those that share `index`, the first"""
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
        # Sorted stably, the first of each number is the one that came first.
        numbers, order = samples.index[positions].sort(stable=True)
        is_first = torch.ones_like(numbers, dtype=torch.bool)
        is_first[1:] = numbers[1:] != numbers[:-1]
        ordered = positions[order]
        counted = ordered[is_first]
        if len(counted) == len(positions):  # nearly always
            return cls(positions, none, none)
        found = cls(counted.sort().values, ordered[~is_first], counted[is_first.cumsum(0) - 1][~is_first])
        _check_same(_labels(samples, found.first), _labels(samples, found.repeated))
        return found


def changed(samples: Samples, roles: Sequence[Numbered]) -> int:
    """How many samples that came again have another embedding than the sample that counts."""
    if not any(len(each.repeated) for each in roles):  # nearly always
        return 0
    step = max(1, WALK_BYTES // (8 * samples.dimension))
    found = [torch.empty(0, dtype=torch.int64, device=samples.device)]
    for each in roles:
        again, first = samples.rows(each.repeated), samples.rows(each.first)
        for part in segments.ranges(len(each.repeated), step):
            rows = first.read(part, torch.float64)
            distance = (again.read(part, torch.float64) - rows).norm(dim=1)
            found.append(each.repeated[part][distance > _CLOSE * rows.norm(dim=1)])
    return len(torch.cat(found).unique())  # leave-one-out samples have both roles


def lowest_of_each(
    world: World, samples: Samples, positions: Int[Tensor, " first"]
) -> tuple[Int[Tensor, " counted"], Int[Tensor, " dropped"]]:
    """Part positions, which share no `index`, in those that no lower process has, by `index`, and the others."""
    if samples.index is None or world.size == 1:
        return positions, positions[:0]
    is_first = _first_of_each(world, samples.index[positions])
    return positions[is_first], positions[~is_first]


def _first_of_each(world: World, numbers: Int[Tensor, " samples"]) -> Bool[Tensor, " samples"]:
    """Which of this process's sample numbers no lower process has; each process's own are distinct.

    The numbers of one process at a time are sent, so that no process holds those of all.
    """

    def prepare() -> tuple[tuple[Tensor, Tensor], list[int]]:
        own = numbers.to(world.device)
        return (own, torch.ones_like(own, dtype=torch.bool)), [len(own)]

    def compare_and_receive(lower: Tensor, size: int) -> Tensor:
        """Strike out what a lower process has, and make place for the numbers of the next."""
        is_first.logical_and_(~torch.isin(own, lower))
        return own.new_empty(size)

    (own, is_first), sizes = world.guarded_all_gather(prepare)
    # In round s process s sends its numbers; those above compare them at the beginning of the next round.
    lower = own[:0]
    for source in range(world.size - 1):  # the last has none above it
        part = world.guarded(functools.partial(compare_and_receive, lower, sizes[source][0]))
        world.broadcast(own if source == world.process else part, source)
        lower = part if source < world.process else own[:0]
    compare_and_receive(lower, 0)  # what the last round brought
    return is_first.to(numbers.device)


def check_dropped(
    world: World,
    samples: Samples,
    counted: Int[Tensor, " counted"],
    dropped: Int[Tensor, " dropped"],
    sizes: Sequence[int],
) -> None:
    """Raise unless samples that each process drops, as a lower one has their number, have the labels of those.

    Args:
        world: of all processes.
        samples: of this process.
        counted: positions of those that count.
        dropped: positions of those that do not, though they were the first on this process.
        sizes: number of these on every process.

    Raises:
        ValueError: some have other labels, on whatever process they are.
    """

    def prepare() -> Tensor:
        own = _labels(samples, dropped).to(world.device)
        listed = own.new_empty((sum(sizes), own.shape[1]))
        listed.split([*sizes])[world.process].copy_(own)
        return listed

    def compare() -> None:
        own, theirs = _labels(samples, counted), listed.to(samples.device)
        own = own[own[:, 0].argsort()]
        places = torch.searchsorted(own[:, 0].contiguous(), theirs[:, 0].contiguous()).clamp(max=len(own) - 1)
        if len(own):
            _check_same(own[places], theirs, own[places, 0] == theirs[:, 0])

    listed = world.guarded(prepare)
    all_gather_rows(world, listed, sizes)
    world.guarded(compare)


def _labels(samples: Samples, positions: Int[Tensor, " chosen"]) -> Int[Tensor, "chosen labels"]:
    """Number, identity and, where there is one, camera."""
    columns = [samples.index, samples.identities, samples.cameras]
    return torch.stack([column[positions] for column in columns if column is not None], dim=1)


def _check_same(first: Tensor, again: Tensor, is_pair: Tensor | None = None) -> None:
    differs = (first != again).any(1)
    differs = differs if is_pair is None else differs & is_pair
    rows = differs.nonzero()[:, 0]
    if len(rows):
        came = " and for ".join(_described(labels[rows[0]].tolist()) for labels in (first, again))
        more = len(first[rows, 0].unique()) - 1
        raise ValueError(
            f"`index` must be the number of a sample in its data set, the same only for repetitions of the sample; got"
            f" {int(first[rows[0], 0])} for {came}{f', and {more} more such numbers' if more else ''}."
        )


def _described(labels: Sequence[int]) -> str:
    _, identity, *camera = labels
    return f"identity {identity}" + (f" at camera {camera[0]}" if camera else "")

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

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.fingerprints import owners
from reid_torchmetrics.functional.retrieval.ranking import places_of_true
from reid_torchmetrics.functional.retrieval.relevance import LABELS, deciding, packed, unpacked
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES
from reid_torchmetrics.functional.world import World

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
        positions = places_of_true(samples.roles & role > 0)
        none = positions[:0]
        if samples.index is None or not len(positions):
            return cls(positions, none, none)
        counted, repeated, first = (positions[places] for places in _split(samples.index[positions]))
        if not len(repeated):  # nearly always
            return cls(positions, none, none)
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


def lowest_of_each(world: World, samples: Samples, roles: Sequence[Tensor]) -> list[Tensor]:
    """Keep of some positions, of distinct `index` for each role, the samples that no lower process has.

    A number has an owner, the process that it is hashed to: it is sent the labels of all samples of that number,
    compares them, and answers which of them is of the lowest process. So each process compares its share of the
    numbers, and there are as many collectives for any number of processes.

    Raises:
        DistributedMetricError: an error on some process, or samples with the same `index` have other labels.
    """
    if samples.index is None or world.size == 1:
        return [*roles]

    def prepare() -> tuple[Tensor, Tensor, Tensor, Tensor]:
        labels = torch.cat([_labels(samples, positions) for positions in roles]).to(world.device)
        owner_and_role = owners(world, labels[:, 0]) * len(roles) + _role_of([*map(len, roles)], labels.device)
        order = owner_and_role.argsort()
        sizes = owner_and_role.bincount(minlength=world.size * len(roles)).view(world.size, -1)
        return order, labels[order], sizes, torch.empty_like(sizes)

    def receive() -> tuple[list[int], list[int], Tensor]:
        """Make room for the labels that this process owns."""
        num_sent, num_owned = (each.sum(1).tolist() for each in (sizes, sizes_owned))
        return num_sent, num_owned, sent.new_empty((sum(num_owned), sent.shape[1]))

    def compare() -> tuple[Tensor, Tensor]:
        counts, answer = (torch.ones(len(rows), dtype=torch.uint8, device=rows.device) for rows in (owned, sent))
        role_of = _role_of(sizes_owned.flatten().tolist(), owned.device) % len(roles)
        for role in range(len(roles)):
            labels, places = owned[role_of == role], (role_of == role).nonzero()[:, 0]
            _, repeated, first = _split(labels[:, 0])  # of the processes in their order
            _check_same(samples, labels[first], labels[repeated])
            counts[places[repeated]] = 0
        return counts, answer

    order, sent, sizes, sizes_owned = world.guarded(prepare)
    world.all_to_all(sizes, sizes_owned, [1] * world.size, [1] * world.size)
    num_sent, num_owned, owned = world.guarded(receive)
    world.all_to_all(sent, owned, num_sent, num_owned)
    counts, answer = world.guarded(compare)
    world.all_to_all(counts, answer, num_owned, num_sent)
    is_counted = torch.empty_like(answer, dtype=torch.bool)
    is_counted[order] = answer > 0
    parts = is_counted.to(samples.device).split([*map(len, roles)])
    return [positions[part] for positions, part in zip(roles, parts, strict=True)]


def _role_of(sizes: Sequence[int], device: torch.device) -> Int[Tensor, " samples"]:
    return segments.numbers(torch.tensor(sizes, device=device))


def _split(numbers: Int[Tensor, " samples"]) -> tuple[Tensor, Tensor, Tensor]:
    """Places of the first of each number, of the others, and for each of these of its first."""
    # Sorted stably, the first sample of each number comes first.
    numbers, order = numbers.sort(stable=True)
    is_first = torch.ones_like(numbers, dtype=torch.bool)
    is_first[1:] = numbers[1:] != numbers[:-1]
    counted = order[is_first]
    if len(counted) == len(order):  # nearly always
        return counted, order[:0], order[:0]
    return counted, order[~is_first], counted[is_first.cumsum(0) - 1][~is_first]


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

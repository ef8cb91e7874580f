"""Repetitions: several samples with the same `index` and role, and one that counts.

Of several samples with one `index` the first counts; of several processes the lowest one:

    process          0             1
    index         4  7  4       7  9
    identity      1  2  1       2  3
    counted       4  7             9      the second 4 and the 7 of process 1 are repetitions

A repetition has the labels of the sample that counts.
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
from reid_torchmetrics.functional.retrieval.relevance import LABELS, pack_columns, relevance_labels, unpack_columns
from reid_torchmetrics.functional.world import World

from .samples import Samples


class Numbered(NamedTuple):
    """The samples of one role on one process."""

    counted: Int[Tensor, " counted"]
    """positions, ascending: the first sample of each `index`"""
    repeated: Int[Tensor, " repeated"]
    """positions of the repetitions"""
    first: Int[Tensor, " repeated"]
    """for each repetition, the position of the sample that counts"""

    @classmethod
    def of(cls, samples: Samples, role: int) -> Numbered:
        """Find the repetitions among the samples of a role.

        Raises:
            ValueError: samples with the same `index` have other labels.
        """
        positions = places_of_true(samples.roles & role > 0)
        none = positions[:0]
        if samples.index is None or not len(positions):
            return cls(positions, none, none)
        counted, repeated, first = _split(samples.index[positions])
        if not len(repeated):  # nearly always
            return cls(positions, none, none)
        counted, repeated, first = positions[counted], positions[repeated], positions[first]
        _check_same(samples, _numbers_and_labels(samples, first), _numbers_and_labels(samples, repeated))
        return cls(counted.sort().values, repeated, first)


def lowest_of_each(world: World, samples: Samples, roles: Sequence[Tensor]) -> list[Tensor]:
    """Keep the samples that no lower process has, among positions with distinct `index` for each role.

    Each `index` has an owner, the process that it is hashed to. The owner receives the labels of all samples with that
    number, compares them, and answers whether a sample is on the lowest process. So each process compares its share of
    the numbers, and the number of collectives does not depend on the number of processes.

    Args:
        world: the processes.
        samples: the samples of this process.
        roles: for each role, positions of samples with distinct `index`.

    Raises:
        DistributedMetricError: an error on some process, or samples with the same `index` have other labels.
    """
    if samples.index is None or world.size == 1:
        return list(roles)
    num_roles = len(roles)
    role_sizes = [len(positions) for positions in roles]

    def prepare() -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sort the labels by owner and role; count them, and allocate the counts that are received."""
        labels = torch.cat([_numbers_and_labels(samples, positions) for positions in roles]).to(world.device)
        role = segments.numbers(torch.tensor(role_sizes, device=labels.device))
        owner_and_role = owners(world, labels[:, 0]) * num_roles + role
        order = owner_and_role.argsort()
        sizes = owner_and_role.bincount(minlength=world.size * num_roles).view(world.size, -1)
        return order, labels[order], sizes, torch.empty_like(sizes)

    def allocate() -> tuple[list[int], list[int], Tensor]:
        """Allocate the labels that this process owns."""
        num_sent = sizes.sum(1).tolist()
        num_owned = owned_sizes.sum(1).tolist()
        return num_sent, num_owned, sent.new_empty((sum(num_owned), sent.shape[1]))

    def compare() -> tuple[Tensor, Tensor]:
        """Mark the owned samples that count, and allocate the answers of the owners."""
        counts = torch.ones(len(owned), dtype=torch.uint8, device=owned.device)
        answers = torch.ones(len(sent), dtype=torch.uint8, device=sent.device)
        run_sizes = torch.tensor(owned_sizes.flatten().tolist(), device=owned.device)
        role_of = segments.numbers(run_sizes) % num_roles
        for role in range(num_roles):
            is_role = role_of == role
            labels = owned[is_role]
            places = is_role.nonzero()[:, 0]
            _, repeated, first = _split(labels[:, 0])  # rows are in the order of the processes
            _check_same(samples, labels[first], labels[repeated])
            counts[places[repeated]] = 0
        return counts, answers

    order, sent, sizes, owned_sizes = world.guarded(prepare)
    one_each = [1] * world.size
    world.all_to_all(sizes, owned_sizes, one_each, one_each)
    num_sent, num_owned, owned = world.guarded(allocate)
    world.all_to_all(sent, owned, num_sent, num_owned)
    counts, answers = world.guarded(compare)
    world.all_to_all(counts, answers, num_owned, num_sent)

    # Answers are in the order of the owners; put them back into the order of the positions.
    is_counted = torch.empty_like(answers, dtype=torch.bool)
    is_counted[order] = answers > 0
    parts = is_counted.to(samples.device).split(role_sizes)
    return [positions[part] for positions, part in zip(roles, parts, strict=True)]


def _split(numbers: Int[Tensor, " samples"]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the places of the first sample of each number, of the repetitions, and of the first for each repetition.

    For the numbers 4, 7, 4 these are 0, 1; 2; and 0.
    """
    # After a stable sort, the first sample of each number comes first.
    numbers, order = numbers.sort(stable=True)
    is_first = torch.ones_like(numbers, dtype=torch.bool)
    is_first[1:] = numbers[1:] != numbers[:-1]
    counted = order[is_first]
    if len(counted) == len(order):  # nearly always
        return counted, order[:0], order[:0]
    first_of_sample = counted[is_first.cumsum(0) - 1]
    return counted, order[~is_first], first_of_sample[~is_first]


def _numbers_and_labels(samples: Samples, positions: Int[Tensor, " positions"]) -> Int[Tensor, "positions labels"]:
    """Return the `index` of each sample, then the labels that decide relevance, as columns."""
    return pack_columns({"index": samples.labels["index"]} | relevance_labels(samples.labels), positions)


def _check_same(samples: Samples, first: Tensor, repeated: Tensor) -> None:
    """Raise unless repetitions have the labels of the samples that count; both are rows of `_numbers_and_labels`."""
    rows = (first != repeated).any(1).nonzero()[:, 0]
    if len(rows):
        row = rows[:1]
        first_labels = _describe_labels(samples, first[row, 1:])
        repeated_labels = _describe_labels(samples, repeated[row, 1:])
        num_more = len(first[rows, 0].unique()) - 1
        more = f", and {num_more} more such numbers" if num_more else ""
        raise ValueError(
            f"`index` must be the number of a sample in its data set, the same only for repetitions of the sample; got"
            f" {int(first[rows[0], 0])} for {first_labels} and for {repeated_labels}{more}."
        )


def _describe_labels(samples: Samples, columns: Int[Tensor, "1 labels"]) -> str:
    """Return the text for the packed labels of one sample, such as "identity 3 at camera 1"."""
    labels = unpack_columns(columns, relevance_labels(samples.labels))
    return " at ".join(f"{LABELS[name].singular} {value[0].tolist()}" for name, value in labels.items())

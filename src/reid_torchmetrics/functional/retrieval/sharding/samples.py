"""Samples of one process, as the ranking takes them, and a search for embeddings that are NaN or infinite.

Several samples with the same `index` and role are repetitions. Of these the first counts; of several processes the
lowest one:

    process          0             1
    index         4  7  4       7  9
    identity      1  2  1       2  3
    counted       4  7             9      the second 4 and the 7 of process 1 are repetitions

A repetition has the labels of the sample that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import places_of_true
from reid_torchmetrics.functional.retrieval.relevance import (
    LABELS,
    MISSING,
    NO_GROUP,
    RELEVANCE_LABELS,
    LabelValues,
    Vocabulary,
    check_alike,
    pack_columns,
    relevance_labels,
    unpack_columns,
    width_of,
)
from reid_torchmetrics.functional.retrieval.scores import Rows, as_signs, union_of_marks
from reid_torchmetrics.functional.world import World, owners

QUERY, GALLERY = 1, 2  # roles of a sample; leave-one-out samples have both
GROUPED = 4  # added to the role of a sample that has a group
FIRST_MARK = 8
"""the lowest mark of `read_with_marks`, as it is added to the role of a sample"""
_NUM_NAMED = 5  # samples that a message names
NUM_NUMBERS = 4 + _NUM_NAMED
"""length of the list that `Samples.non_finite` returns"""


@dataclass(frozen=True)
class Samples:
    """Samples in the order of their batches: embeddings batch by batch, labels as one tensor each.

    Samples are ranked on the device of the labels.
    """

    embeddings: list[Tensor]
    roles: Tensor
    labels: LabelValues
    names: Vocabulary = field(default_factory=Vocabulary)
    """the names of the labels that consist of names"""
    marks: Tensor | None = None
    """marks of the embeddings, which tell whether these are codes, int8 [N]; None where no embedding is a code"""
    are_bits: bool = False
    """whether embeddings are codes of 0 and 1, which are ranked as -1 and 1"""

    @classmethod
    def joined(cls, states: Mapping[str, list[Tensor]], device: torch.device, *, has_marks: bool = False) -> Samples:
        """Join the batches of each field; labels that no batch has are left out.

        Raises:
            ValueError: batches of merged metrics that do not fit each other, or two names with one hash.
        """
        embeddings = list(states["embeddings"])
        for block in embeddings:
            _checks.same_dimension("embeddings", block.shape[1], "merged embeddings", embeddings[0].shape[1])
        total = sum(map(len, embeddings))
        if not total:  # no sample lacks a label
            roles = torch.empty(0, dtype=torch.int8, device=device)
            return cls(embeddings, roles, {name: LABELS[name].empty(device=device) for name in RELEVANCE_LABELS})

        roles = _joined("roles", states["roles"], total, device)
        labels: dict[str, Tensor] = {}
        for name, label in LABELS.items():
            if not any(map(len, states[name])):
                continue
            if name == "groups":
                is_grouped = roles & GROUPED > 0
                groups = _joined(name, states[name], int(is_grouped.sum()), device)
                all_groups = label.empty(length=total, device=device)
                labels[name] = all_groups.masked_scatter_(is_grouped, groups)
            else:
                labels[name] = _joined(name, states[name], total, device)

        names = Vocabulary()
        if states.get("label_names"):
            names = Vocabulary.from_tensor(torch.cat(states["label_names"]))
        for name, table in names.items():
            check_named(name, labels.get(name), table)
        marks = roles // FIRST_MARK if has_marks else None
        return cls(embeddings, roles & (QUERY | GALLERY), labels, names, marks)

    def exchanged(self) -> Samples:
        """Return the samples with the gallery as queries, and the queries as gallery."""
        queries = self.roles & QUERY
        gallery = (self.roles & GALLERY) // GALLERY
        return replace(self, roles=queries * GALLERY + gallery)  # QUERY is 1

    @cached_property
    def index(self) -> Tensor | None:
        """The number of each sample in its data set; None if it is not given."""
        return self.labels.get("index")

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.roles)

    @cached_property
    def device(self) -> torch.device:
        """Device of the labels."""
        return self.roles.device

    @property
    def dimension(self) -> int:
        """Dimension of the embeddings."""
        return self.blocks[0].shape[1]

    @cached_property
    def blocks(self) -> list[Tensor]:
        """The embeddings on the device of the labels, at least one block.

        On a GPU, where every batch costs a launch, they are one block, a copy of all.
        """
        if not self.embeddings:
            return [torch.empty((0, 1), device=self.device)]
        blocks = [block.to(self.device) for block in self.embeddings]
        if self.are_bits:
            blocks = [as_signs(block) for block in blocks]
        if self.device.type == "cpu" or len(blocks) == 1:
            return blocks
        return [torch.cat(blocks)]

    def marks_by_role(self) -> list[int]:
        """Return the marks that some query has, and those that some gallery item has."""
        if self.marks is None:
            return [0, 0]
        return [union_of_marks(self.marks[self.roles & role > 0]) for role in (QUERY, GALLERY)]

    def rows(self, positions: Tensor | slice) -> Rows:
        """Return the embeddings at some positions."""
        if isinstance(positions, Tensor):
            positions = self.run(positions)
        return self._rows.select(positions)

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self.blocks)

    def run(self, positions: Tensor) -> Tensor | slice:
        """Return consecutive positions as a slice, because rows of a slice are not copied; other positions unchanged.

        On a GPU only the positions of all samples become a slice, as a look at the values would wait for the device.
        """
        num_positions = len(positions)
        is_all = num_positions == len(self)
        if not num_positions or not (is_all or self.device.type == "cpu"):
            return positions
        first = 0
        if not is_all:
            first = int(positions[0])
            if int(positions[-1]) - first != num_positions - 1:
                return positions
        if num_positions > 1 and not bool((positions[1:] > positions[:-1]).all()):
            return positions
        return slice(first, first + num_positions)

    def in_order(self, positions: Tensor) -> Tensor:
        """Return positions in the order of the data set, by `index`; without it unchanged."""
        if self.index is None:
            return positions
        return positions[self.index[positions].argsort()]

    def non_finite(self, query: Tensor, gallery: Tensor) -> list[int]:
        """Count the embeddings that are NaN or infinite, among the samples that count; numbers for `why_undefined`.

        Args:
            query: positions of the queries that count.
            gallery: positions of the gallery items that count.

        Returns:
            The number of all samples, of bad ones, of queries and of gallery items among these, and the first few bad
            ones, padded with 0.
        """
        bad = self._rows.non_finite()
        if not len(bad):  # nearly always: look at nothing else
            return [len(self)] + [0] * (NUM_NUMBERS - 1)
        is_query = torch.isin(bad, query)
        is_gallery = torch.isin(bad, gallery)
        bad = bad[is_query | is_gallery]
        numbers = bad if self.index is None else self.index[bad]
        first = numbers[:_NUM_NAMED].tolist()
        padding = [0] * (_NUM_NAMED - len(first))
        return [len(self), len(bad), int(is_query.sum()), int(is_gallery.sum()), *first, *padding]

    def column_of(self, gallery: Tensor, query: Tensor) -> Tensor | None:
        """Return the place in `gallery` of each position in `query`, -1 if it is not there; None if all are -1."""
        if not bool((self.roles[query] & GALLERY).any()):
            return None
        # A table over all samples: one scatter, one gather.
        columns = torch.full_like(self.roles, -1, dtype=torch.int64)
        columns[gallery] = torch.arange(len(gallery), device=self.device)
        return columns[query]


def _joined(argument: str, batches: Sequence[Tensor], total: int, device: torch.device) -> Tensor:
    """Join the batches of one field; raise unless they fit each other and have `total` samples."""
    first, *further_batches = batches
    for batch in further_batches:
        if torch.bool in (batch.dtype, first.dtype):
            check_alike(argument, batch, "merged samples", first)
        _checks.same_width(argument, width_of(batch), width_of(first), "merged samples")
    joined = torch.cat([batch.to(device) for batch in batches])
    _checks.given_for_all(argument, len(joined), total)
    return joined


def check_named(argument: str, values: Tensor | None, table: Mapping[int, str]) -> None:
    """Raise if some samples have integers and others names; `table` holds the names by their numbers."""
    if values is None:
        return
    # Sorted numbers are found in a third of the time of a set.
    numbers = np.sort(values.cpu().numpy())
    named = np.sort(np.fromiter((*table, -1, MISSING, NO_GROUP), dtype=np.int64))
    place = np.searchsorted(named, numbers).clip(max=len(named) - 1)
    without_name = set(numbers[named[place] != numbers].tolist())
    if without_name:
        first = next((value for value in values.tolist() if value in without_name), None)
        raise ValueError(f"`{argument}` must be names for all samples, or integers for all; got {first} and names.")


def why_undefined(table: Sequence[Sequence[int]], *, has_index: bool) -> str | None:
    """Return the reason why there is no result, given `Samples.non_finite` of each process; None if all are finite.

    The lowest process with an embedding that is not finite names up to five of its samples.
    """
    total, num_bad, num_queries, num_gallery, *_ = map(sum, zip(*table, strict=True))
    if not num_bad:
        return None
    source = min(process for process, numbers in enumerate(table) if numbers[1])
    num_named = min(table[source][1], _NUM_NAMED)
    first = list(table[source][4 : 4 + num_named])
    if has_index:
        numbered_by = "`index`"
    elif len(table) == 1:
        numbered_by = "samples"
    else:
        numbered_by = f"samples of process {source}"
    return (
        f"{num_bad} of {total} embeddings are NaN or infinite ({num_queries} of queries, {num_gallery} of gallery"
        f" items; first at {numbered_by} {first}), so the result is NaN."
    )


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

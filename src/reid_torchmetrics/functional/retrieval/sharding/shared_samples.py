"""Samples that are sharded over processes: compare them, choose the samples that count, share queries with all.

Each process keeps the samples that it saw. Three processes, with sample 0 repeated by the sampler to make numbers even:

    process           0          1          2
    index         0 3 6 9    1 4 7 10   2 5 8 0
    role          q g g q    q g g g    g g q q
    counted       0 3 6 9    1 4 7 10   2 5 8        the query 0 counts on process 0, the lowest one that has it
    all queries, on every process, by `index`: 0 1 8 9
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.relevance import (
    EXTRA,
    LABELS,
    SIDES,
    LabelValues,
    Vocabulary,
    argument_of,
    fits_names,
    num_labels_of,
    pack_columns,
    select_samples,
    unpack_columns,
    width_of,
)
from reid_torchmetrics.functional.retrieval.scores import Rows, RowsInBlocks, are_bits, bytes_within, promoted
from reid_torchmetrics.functional.world import DTYPES, SentRows, World, differing, exchange_rows

from .samples import GALLERY, QUERY, Numbered, Samples, check_named, lowest_of_each, why_undefined

_NO_SAMPLES, _NAMES = "no samples", "names"  # words for a process, and for a label
_NUM_SIZES = 3  # numbers of the second message before `Samples.non_finite`


class _ShardStatus(NamedTuple):
    """Numbers of a shard, for comparison with the other processes."""

    num_samples: int
    dimension: int
    """0 for a process that never saw a batch"""
    dtype: int
    """position in `DTYPES`"""
    num_labels: int
    """number of labels that a sample may have; 0 where each has one identity"""
    are_names: int
    """a bit for each of `LABELS`, and then for each label that users name: whether it consists of names"""
    query_marks: int
    """marks of the queries, which tell whether embeddings are codes"""
    gallery_marks: int
    widths: Sequence[int]
    """number of columns of each of `LABELS`; 0 for a label that is not given"""

    @staticmethod
    def numbers(samples: Samples, extra: Sequence[str]) -> list[int]:
        """Return the numbers of a shard, as `read` takes them; `extra` are the labels that users name."""
        blocks = samples.embeddings
        dimension = blocks[0].shape[1] if blocks else 0
        dtype = DTYPES.index(promoted([block.dtype for block in blocks]))
        widths = []
        for name in LABELS:
            values = samples.labels.get(name)
            if values is None:
                widths.append(0)
            else:  # the width of a matrix of labels is compared on its own
                widths.append(1 if values.dtype == torch.bool else width_of(values))
        are_names = 0
        for place, name in enumerate((*LABELS, *extra)):
            if name in samples.names:
                are_names += 1 << place
        sizes = [len(samples), dimension, dtype, num_labels_of(samples.labels), are_names]
        return [*sizes, *samples.marks_by_role(), *widths]

    @classmethod
    def read(cls, row: Sequence[int]) -> _ShardStatus:
        """Build the status from `numbers`."""
        num_samples, dimension, dtype, num_labels, are_names, query_marks, gallery_marks, *widths = row
        return cls(num_samples, dimension, dtype, num_labels, are_names, query_marks, gallery_marks, widths)

    def describe_use(self, label: int) -> str:
        """Return the text for a message whether a label is given."""
        if not self.num_samples:
            return _NO_SAMPLES
        width = self.widths[label]
        if width > 1:
            return f"{width} columns"
        return "given" if width else "not given"

    def describe_kind(self, label: int) -> str:
        """Return the text for a message whether a label consists of names or of integers."""
        # All labels that users name are columns of one label.
        place = label if label < len(LABELS) else list(LABELS).index(EXTRA)
        if not self.num_samples or not self.widths[place]:
            return _NO_SAMPLES
        return _NAMES if self.are_names >> label & 1 else "integers"


@dataclass(frozen=True)
class Shard:
    """The samples of this process, the positions that count, and the facts that all processes agreed on."""

    samples: Samples
    """an empty shard has the dimension of the other shards, and an empty tensor for each of their labels"""
    dtype: torch.dtype
    query: Int[Tensor, " query"]
    """positions of the queries that count, ascending"""
    gallery: Int[Tensor, " gallery"]
    """positions of the gallery items that count, ascending"""
    num_queries: list[int]
    """number of queries on each process"""
    num_gallery: list[int]
    """number of gallery items on each process"""
    undefined: str | None
    """why there is no result: embeddings of some process that are not finite; None where all are"""
    max_bytes: int
    """the smallest bound on memory among the processes"""

    @property
    def sends_blocks(self) -> bool:
        """Return whether the queries of all processes together are too many for one process."""
        # The best member of a group is searched for all queries at once.
        query_bytes = sum(self.num_queries) * self.samples.dimension * self.dtype.itemsize
        return query_bytes > self.max_bytes and "groups" not in self.samples.labels


def examine_samples(
    world: World, samples: Samples, *, leave_one_out: bool, max_bytes: int | None = None, extra: Sequence[str] = ()
) -> Shard:
    """Compare the samples of all processes, and choose the samples that count.

    Among samples with one `index` and role the first counts, on the lowest process that has it. `extra` are the labels
    that users name, in the order of their columns; all processes pass the same.

    Raises:
        DistributedMetricError: an error on some process, or dimensions or labels differ between processes.
        ValueError: samples that are queries only, under `leave_one_out`, samples of one `index` with other labels, or
            codes of 0 and 1 beside other codes or numbers.
    """

    def examine() -> tuple[list[Numbered], list[int]]:
        num_queries_only = int((samples.roles == QUERY).sum()) if leave_one_out else 0
        if num_queries_only:
            raise ValueError(
                "`is_query` must be left out under a leave-one-out protocol, as every sample is a query and, for all"
                f" others, a gallery item; got {num_queries_only} samples that are queries only."
            )
        _check_extra_names(samples, extra)
        roles = [Numbered.of(samples, QUERY), Numbered.of(samples, GALLERY)]
        return roles, _ShardStatus.numbers(samples, extra)

    # First message: the labels of each process.
    roles, table = world.guarded_all_gather(examine)
    statuses = [_ShardStatus.read(row) for row in table]
    if world.size > 1:
        _check_agreement(statuses)
        _check_kinds(world, samples, statuses, extra)
    query_marks = reduce(or_, [status.query_marks for status in statuses])
    gallery_marks = reduce(or_, [status.gallery_marks for status in statuses])
    if query_marks | gallery_marks and are_bits(query_marks, gallery_marks):
        samples = replace(samples, are_bits=True)
    samples, dtype = _complete(samples, statuses)
    query, gallery = lowest_of_each(world, samples, [numbered.counted for numbered in roles])

    def count() -> tuple[None, list[int]]:
        sizes = [len(query), len(gallery), bytes_within(max_bytes, samples.device)]
        return None, [*sizes, *samples.non_finite(query, gallery)]

    # Second message: the numbers of samples that count, or are not finite, and bounds on memory.
    _, table = world.guarded_all_gather(count)
    num_queries, num_gallery, bounds, *_ = map(list, zip(*table, strict=True))
    return Shard(
        samples=samples,
        dtype=dtype,
        query=query,
        gallery=gallery,
        num_queries=num_queries,
        num_gallery=num_gallery,
        undefined=why_undefined([row[_NUM_SIZES:] for row in table], has_index=samples.index is not None),
        max_bytes=min(bounds),
    )


def _check_extra_names(samples: Samples, extra: Sequence[str]) -> None:
    """Raise if a label that users name is names for some samples and integers for others, as after a merge."""
    if EXTRA not in samples.labels or not len(samples):
        return
    for name, values in zip(extra, samples.labels[EXTRA].unbind(1), strict=True):
        if name in samples.names:
            check_named(argument_of(EXTRA, name), values, samples.names[name])


def _check_agreement(statuses: Sequence[_ShardStatus]) -> None:
    """Raise unless all processes have embeddings of one dimension and the same labels.

    A process without samples agrees with all others. Groups may lack where a process has no gallery item.
    """
    dimensions = {status.dimension for status in statuses if status.dimension}
    if len(dimensions) > 1:
        raise differing("embedding dimension", [status.dimension or _NO_SAMPLES for status in statuses])
    filled = [status for status in statuses if status.num_samples]
    for place, label in enumerate(LABELS.values()):
        widths = {status.widths[place] for status in filled}
        if label.sides == SIDES and len(widths) > 1:
            raise differing(f"use of `{label.name}`", [status.describe_use(place) for status in statuses])
    if len({status.num_labels for status in filled}) > 1:
        numbers = [status.num_labels or "one identity" for status in statuses]
        raise differing("number of labels in `identities`", numbers)


def _check_kinds(world: World, samples: Samples, statuses: Sequence[_ShardStatus], extra: Sequence[str]) -> None:
    """Raise if a label consists of names on some processes, and of integers on others."""
    kinds_by_label: dict[str, list[str]] = {}
    for place, name in enumerate([*LABELS, *extra]):
        kinds = [status.describe_kind(place) for status in statuses]
        if len(set(kinds) - {_NO_SAMPLES}) > 1:
            kinds_by_label[name] = kinds
    if not kinds_by_label:  # on all processes alike
        return

    def find_fitting() -> tuple[None, list[int]]:
        return None, [int(fits_names(_values_of(samples, name, extra))) for name in kinds_by_label]

    # A process whose labels are all -1 or missing fits names and integers.
    _, table = world.guarded_all_gather(find_fitting)
    for column, (name, kinds) in enumerate(kinds_by_label.items()):
        deciding = {kind for kind, row in zip(kinds, table, strict=True) if not row[column]}
        if len(deciding - {_NO_SAMPLES}) > 1:
            argument = argument_of(EXTRA, name) if name in extra else name
            raise differing(f"kind of `{argument}`", kinds)


def _values_of(samples: Samples, name: str, extra: Sequence[str]) -> Tensor | None:
    """Return the values of a label; None if the process has none."""
    if name not in extra:
        return samples.labels.get(name)
    columns = samples.labels.get(EXTRA)
    return None if columns is None else columns[:, extra.index(name)]


def _complete(samples: Samples, statuses: Sequence[_ShardStatus]) -> tuple[Samples, torch.dtype]:
    """Return the samples with all labels and tables of names that some process has, and the dtype of all embeddings.

    The labels that are added are empty, so that all processes take the same way. A process without samples may lack any
    label, a process with samples only groups. The labels that users name get no table, as no result shows them.
    """
    # A process that saw only empty batches knows the dimension as well.
    shaped = [status for status in statuses if status.dimension] or statuses
    dtype = promoted([DTYPES[status.dtype] for status in shaped])
    names = Vocabulary()
    for place, name in enumerate(LABELS):
        if any(status.are_names >> place & 1 for status in statuses):
            names[name] = samples.names.get(name, {})
    if names.keys() != samples.names.keys():
        samples = replace(samples, names=names)

    filled = [status for status in statuses if status.num_samples] or statuses
    length = len(samples)
    present = samples.labels if length else {}
    labels: dict[str, Tensor] = {}
    for place, label in enumerate(LABELS.values()):
        width = max(status.widths[place] for status in filled)
        if label.name in present:
            labels[label.name] = present[label.name]
        elif width:
            num_labels = filled[0].num_labels if label.name == "identities" else 0
            labels[label.name] = label.empty(width, length=length, device=samples.device, num_labels=num_labels)
    if length and len(labels) == len(present):
        return samples, dtype
    empty = torch.empty((0, shaped[0].dimension or 1), dtype=dtype, device=samples.device)
    return replace(samples, embeddings=samples.embeddings or [empty], labels=labels), dtype


def share_samples(
    world: World, shard: Shard, positions: Int[Tensor, " local"], sizes: Sequence[int], *, labels_only: bool = False
) -> Callable[[], Samples]:
    """Send the samples at some positions of each process to all processes, `sizes` samples of each.

    The function that is returned brings them to the device of the samples, in the order of the processes. It may fail,
    so it is called inside of guarded work.
    """
    samples = shard.samples

    def read_embeddings() -> Iterator[Tensor]:
        return samples.rows(positions).walk(shard.dtype)

    def read_labels() -> list[Tensor]:
        return [pack_columns({"roles": samples.roles.long(), **samples.labels}, positions)]

    num_columns = 1 + sum(map(width_of, samples.labels.values()))  # equal on all processes, as they agree on labels
    parts = [SentRows(read_labels, (num_columns,))]
    if not labels_only:
        parts.insert(0, SentRows(read_embeddings, (samples.dimension,), shard.dtype))
    *embeddings, columns = exchange_rows(world, sizes, *parts)

    def receive() -> Samples:
        roles, label_columns = columns.to(samples.device).split([1, num_columns - 1], dim=1)
        return Samples(
            embeddings=[block.to(samples.device) for block in embeddings],
            roles=roles[:, 0].to(samples.roles.dtype),
            labels=unpack_columns(label_columns, samples.labels),
            names=samples.names,
        )

    return receive


def gather_samples(world: World, shard: Shard) -> Samples:
    """Send the samples of each process that count to all processes."""

    def select() -> tuple[tuple[Shard, Tensor], list[int]]:
        roles = torch.zeros_like(shard.samples.roles)
        roles[shard.query] += QUERY
        roles[shard.gallery] += GALLERY
        positions = roles.nonzero()[:, 0]
        counted = replace(shard, samples=replace(shard.samples, roles=roles))
        return (counted, positions), [len(positions)]

    (counted, positions), table = world.guarded_all_gather(select)
    receive = share_samples(world, counted, positions, [size for (size,) in table])
    return receive()


class Queries(NamedTuple):
    """The queries of all processes, in the order of `index`, or of the processes where there is none."""

    embeddings: Rows | RowsInBlocks
    labels: LabelValues
    self_index: Int[Tensor, " queries"] | None
    """their positions in this process's gallery, -1 for queries of other processes; None if all are -1"""


def share_queries(world: World, shard: Shard, gallery: Int[Tensor, " gallery"]) -> Queries:
    """Send the queries of each process to all processes; for very many only the labels, and embeddings block by block.

    `gallery` holds the positions of `shard.gallery` in the order of the ranking.
    """
    samples, query = shard.samples, shard.query
    if world.size == 1:  # nothing is copied
        query = samples.in_order(query)
        return Queries(samples.rows(query), select_samples(samples.labels, query), samples.column_of(gallery, query))
    receive = share_samples(world, shard, query, shard.num_queries, labels_only=shard.sends_blocks)

    def put_in_order() -> Queries:
        received = receive()
        # Only this process has its own queries as gallery items, too, where each is left out of its own ranking.
        self_index = None
        columns = samples.column_of(gallery, query)
        if columns is not None:
            self_index = torch.full_like(received.roles, -1, dtype=torch.int64)
            first = sum(shard.num_queries[: world.process])
            self_index[first : first + len(query)] = columns

        # In the order of the data set results do not depend on how samples are sharded.
        order = None if received.index is None else received.index.argsort()
        place = slice(None) if order is None else order
        rows: Rows | RowsInBlocks
        if shard.sends_blocks:
            sizes = torch.tensor(shard.num_queries, device=query.device)
            process = torch.arange(world.size, device=sizes.device).repeat_interleave(sizes)[place]
            local = samples.rows(samples.in_order(query))
            rows = RowsInBlocks(world, local, process, dtype=shard.dtype, max_bytes=shard.max_bytes)
        else:
            rows = Rows(received.blocks, order)
        if self_index is not None:
            self_index = self_index[place]
        return Queries(rows, select_samples(received.labels, place), self_index)

    return world.guarded(put_in_order)

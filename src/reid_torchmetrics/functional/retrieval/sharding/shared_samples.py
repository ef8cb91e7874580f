"""Samples that are sharded over processes: compare them, choose the samples that count, share queries with all.

Each process keeps the samples that it saw. Three processes, with sample 0 repeated by the sampler to make numbers even:

    process           0          1          2
    index         0 3 6 9    1 4 7 10   2 5 8 0
    role          q g g q    q g g g    g g q q
    counted       0 3 6 9    1 4 7 10   2 5 8        the query 0 counts where it came first, on process 0
    queries of all, on every process, by `index`: 0 1 8 9
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.relevance import (
    EXTRA,
    LABELS,
    SIDES,
    LabelValues,
    argument_of,
    at,
    num_labels_of,
    packed,
    unpacked,
    width_of,
)
from reid_torchmetrics.functional.retrieval.scores import Rows, RowsInBlocks, bytes_within, promoted
from reid_torchmetrics.functional.world import DTYPES, SentRows, World, differing, exchange_rows

from .repetitions import NUM_SIGNS, HeldTwice, Numbered, SameSamples, changed, lowest_of_each
from .samples import GALLERY, NUM_NUMBERS, QUERY, Samples, check_named, why_undefined

_NUM_STATUS = 6  # numbers of a `_ShardStatus`
_BITS = 4  # of the number of columns of a label: those of all labels are one number, as messages are short
_NO_SAMPLES, _NAMES = "no samples", "names"  # words for a process, and for a label
_NUM_SIZES = 4  # numbers of `count_samples` in front of `Samples.non_finite`


class _ShardStatus(NamedTuple):
    """Numbers of a shard, for comparison with the other processes."""

    num_samples: int
    dimension: int
    """0 for a process that never saw a batch"""
    dtype: int
    widths: tuple[int, ...]
    """number of columns of each of `LABELS`; 0 for one that is not given"""
    num_labels: int
    """that a sample may have; 0 where each has one identity"""
    are_names: tuple[bool, ...]
    """whether each of `LABELS` came as names, and then each label that users name"""

    @staticmethod
    def numbers(samples: Samples, extra: Sequence[str]) -> list[int]:
        """The numbers of a shard, as `read` takes them; `extra` are the labels that users name."""
        dimension = samples.embeddings[0].shape[1] if samples.embeddings else 0
        dtype = DTYPES.index(promoted([block.dtype for block in samples.embeddings]))
        given = samples.labels
        widths = (_columns_of(given[name]) << _BITS * place for place, name in enumerate(LABELS) if name in given)
        named = sum(1 << place for place, name in enumerate((*LABELS, *extra)) if name in samples.names)
        return [len(samples), dimension, dtype, sum(widths), num_labels_of(given), named]

    @classmethod
    def read(cls, row: Sequence[int], num_extra: int) -> _ShardStatus:
        widths = (row[3] >> _BITS * place & (1 << _BITS) - 1 for place in range(len(LABELS)))
        are_names = (bool(row[5] >> place & 1) for place in range(len(LABELS) + num_extra))
        return cls(row[0], row[1], row[2], tuple(widths), row[4], tuple(are_names))

    def use(self, label: int) -> str:
        """Whether a label is given, in words."""
        width = self.widths[label]
        given = f"{width} columns" if width > 1 else "given"
        return _NO_SAMPLES if not self.num_samples else given if width else "not given"

    def kind(self, label: int) -> str:
        """Whether a label came as names, in words."""
        # A label that users name is given with all others of them.
        place = label if label < len(LABELS) else list(LABELS).index(EXTRA)
        if not self.num_samples or not self.widths[place]:
            return _NO_SAMPLES
        return _NAMES if self.are_names[label] else "integers"


def _columns_of(values: Tensor) -> int:
    """The columns of a label, but 1 for a matrix of labels, as its width has a number of its own."""
    return 1 if values.dtype == torch.bool else width_of(values)


@dataclass(frozen=True)
class Shard:
    """The samples of this process, the positions that count, and the facts that all processes agreed on."""

    samples: Samples
    """an empty shard has the dimension of the others, and empty `cameras` and `index` where they have some"""
    dtype: torch.dtype
    query: Int[Tensor, " query"]
    """positions, ascending"""
    gallery: Int[Tensor, " gallery"]
    num_queries: list[int]
    """on each process"""
    num_gallery: list[int]
    undefined: str | None
    """why there is no result: embeddings of some process that are not finite; None where all are"""
    max_bytes: int
    """the least of all processes"""
    num_changed: int = 0
    """samples of all processes that came again on their process with another embedding"""
    held_twice: HeldTwice = field(default_factory=HeldTwice)

    @property
    def sends_blocks(self) -> bool:
        """Whether the queries of all processes together are too many for each."""
        # The best member of a group is looked up for all queries.
        query_bytes = sum(self.num_queries) * self.samples.dimension * self.dtype.itemsize
        return query_bytes > self.max_bytes and "groups" not in self.samples.labels


def examine_samples(
    world: World, samples: Samples, *, leave_one_out: bool, max_bytes: int | None = None, extra: Sequence[str] = ()
) -> Shard:
    """Compare the samples of all processes, and choose the samples that count.

    Of samples with one `index` and role the first counts, on the lowest process that has it. `extra` are the labels
    that users name, in the order of their columns; all processes pass the same.

    Raises:
        DistributedMetricError: an error on some process, or dimension or what is given differ between processes.
        ValueError: samples that are queries only, under `leave_one_out`, or samples of one `index` with other labels.
    """

    def look() -> tuple[tuple[tuple[Numbered, Numbered], SameSamples | None], list[int]]:
        if leave_one_out:
            samples.check_leave_one_out()
        _check_extra_names(samples, extra)
        same = SameSamples.of(samples) if world.size > 1 and samples.index is None else None
        numbered = Numbered.of(samples, QUERY), Numbered.of(samples, GALLERY)
        signs = [0] * NUM_SIGNS if same is None else same.signs()
        return (numbered, same), [*_ShardStatus.numbers(samples, extra), *signs]

    # First message: what is given, and signs of samples that several processes hold.
    (numbered, same), table = world.guarded_all_gather(look)
    samples, dtype = _agree(samples, [_ShardStatus.read(row, len(extra)) for row in table], extra)
    signs = [row[_NUM_STATUS:] for row in table]
    same = same if samples.index is None else None  # an empty shard has learned now that others have an index
    query, gallery = lowest_of_each(world, samples, [each.counted for each in numbered])

    def count() -> tuple[None, list[int]]:
        sizes = [len(query), len(gallery), changed(samples, numbered), bytes_within(max_bytes, samples.device)]
        run = [] if same is None else same.run(world.process, signs[0])
        return None, [*sizes, *samples.non_finite(query, gallery), *run]

    # Second message: the numbers of samples that count, changed, or are not finite, and bounds on memory.
    _, table = world.guarded_all_gather(count)
    num_queries, num_gallery, num_changed, bounds = map(list, zip(*(row[:_NUM_SIZES] for row in table), strict=True))
    held_twice = HeldTwice()
    if same is not None:
        held_twice = same.judge(world, signs, [row[_NUM_SIZES + NUM_NUMBERS :] for row in table])
    undefined = why_undefined([row[_NUM_SIZES:] for row in table], has_index=samples.index is not None)
    return Shard(
        samples,
        dtype,
        query,
        gallery,
        num_queries,
        num_gallery,
        undefined,
        max_bytes=min(bounds),
        num_changed=sum(num_changed),
        held_twice=held_twice,
    )


def _check_extra_names(samples: Samples, extra: Sequence[str]) -> None:
    """Raise if a label that users name is names for some samples and integers for others, as after a merge."""
    if EXTRA not in samples.labels or not len(samples):
        return
    for name, values in zip(extra, samples.labels[EXTRA].unbind(1), strict=True):
        if name in samples.names:
            check_named(argument_of(EXTRA, name), values, samples.names[name])


def _agree(samples: Samples, states: Sequence[_ShardStatus], extra: Sequence[str]) -> tuple[Samples, torch.dtype]:
    """Compare the processes; return the samples, completed by what others have, and the dtype of all embeddings.

    A process without samples lacks everything, one with samples only groups.
    """
    # A process without samples agrees with every other; one that saw empty batches alone knows the dimension.
    shaped = [status for status in states if status.dimension] or states
    if len({status.dimension for status in shaped}) > 1:
        raise differing("embedding dimension", [status.dimension or "no samples" for status in states])
    filled = [status for status in states if status.num_samples] or states
    for place, name in enumerate(LABELS):
        # Groups are given with samples that are, on some process, in the gallery.
        if LABELS[name].sides == SIDES and len({status.widths[place] for status in filled}) > 1:
            raise differing(f"use of `{name}`", [status.use(place) for status in states])
    if len({status.num_labels for status in filled}) > 1:
        raise differing("number of labels in `identities`", [status.num_labels or "one identity" for status in states])
    samples = _agree_on_names(samples, filled, states, extra)
    dtype = promoted([DTYPES[status.dtype] for status in shaped])
    widths = map(max, zip(*(status.widths for status in filled), strict=True))
    given = {label: width for label, width in zip(LABELS.values(), widths, strict=True) if width}
    kept = samples.labels if len(samples) else {}
    if len(samples) and len(kept) == len(given):
        return samples, dtype
    # Empty labels stand for "given": all processes then take the same way.
    empty = torch.empty((0, shaped[0].dimension or 1), dtype=dtype, device=samples.device)
    shape: dict[str, Any] = {"length": len(samples), "device": samples.device}
    labels = {label.name: kept.get(label.name, label.empty(width, **shape)) for label, width in given.items()}
    if filled[0].num_labels and "identities" not in kept:
        labels["identities"] = LABELS["identities"].empty(num_labels=filled[0].num_labels, **shape)
    return replace(samples, embeddings=samples.embeddings or [empty], labels=labels), dtype


def _agree_on_names(
    samples: Samples, filled: Sequence[_ShardStatus], states: Sequence[_ShardStatus], extra: Sequence[str]
) -> Samples:
    """Compare the labels that are names; return the samples with a table of each, maybe an empty one.

    Labels that users name have no table then, as no result shows them.
    """
    names: dict[str, Mapping[int, str]] = {}
    arguments = [*LABELS, *(argument_of(EXTRA, name) for name in extra)]
    for place, name in enumerate(arguments):
        kinds = {status.kind(place) for status in filled} - {_NO_SAMPLES}
        if len(kinds) > 1:
            raise differing(f"kind of `{name}`", [status.kind(place) for status in states])
        if name in LABELS and kinds == {_NAMES}:
            names[name] = samples.names.get(name, {})
    return samples if names.keys() == samples.names.keys() else replace(samples, names=names)


def share_samples(
    world: World, shard: Shard, positions: Int[Tensor, " local"], sizes: Sequence[int], *, labels_only: bool = False
) -> Callable[[], Samples]:
    """Send the samples at some positions of each process to all processes, `sizes` samples of each.

    What is returned brings them to the device of the samples, in the order of the processes: work to be guarded.
    """
    samples = shard.samples

    def labels() -> list[Tensor]:
        return [packed({"roles": samples.roles.long(), **samples.labels}, positions)]

    width = 1 + sum(map(width_of, samples.labels.values()))  # the same labels are given on all processes
    sent = SentRows(lambda: samples.rows(positions).walk(shard.dtype), (samples.dimension,), shard.dtype)
    *embeddings, columns = exchange_rows(world, sizes, *([] if labels_only else [sent]), SentRows(labels, (width,)))

    def receive() -> Samples:
        roles, of_labels = columns.to(samples.device).split([1, width - 1], dim=1)
        blocks = [block.to(samples.device) for block in embeddings]
        labels_of_all = unpacked(of_labels, samples.labels)
        return Samples(blocks, roles[:, 0].to(samples.roles.dtype), labels_of_all, samples.names)

    return receive


def gather_samples(world: World, shard: Shard) -> Samples:
    """Send the samples of each process that count to all processes."""

    def choose() -> tuple[tuple[Shard, Tensor], list[int]]:
        roles = torch.zeros_like(shard.samples.roles)
        roles[shard.query] += QUERY
        roles[shard.gallery] += GALLERY
        chosen = roles.nonzero()[:, 0]
        return (replace(shard, samples=replace(shard.samples, roles=roles)), chosen), [len(chosen)]

    (shard, chosen), table = world.guarded_all_gather(choose)
    return share_samples(world, shard, chosen, [size for (size,) in table])()


class Queries(NamedTuple):
    """The queries of all processes, in the order of `index`, or of the processes where there is none."""

    embeddings: Rows | RowsInBlocks
    labels: LabelValues
    self_index: Int[Tensor, " queries"] | None
    """their positions in this process's gallery, -1 for queries of other processes; None if all are -1"""


def share_queries(world: World, shard: Shard, gallery: Int[Tensor, " gallery"]) -> Queries:
    """Send the queries of each process to all processes, of many only the labels: embeddings follow block by block.

    `gallery` has the positions of `shard.gallery` in an order.
    """
    samples, query = shard.samples, shard.query
    if world.size == 1:  # nothing is copied
        query = samples.in_order(query)
        return Queries(samples.rows(query), at(samples.labels, query), samples.column_of(gallery, query))
    receive = share_samples(world, shard, query, shard.num_queries, labels_only=shard.sends_blocks)

    def put_in_order() -> Queries:
        everyone = receive()
        # Only one process holds a query as a gallery item, too: its own, where it is left out.
        own, self_index = samples.column_of(gallery, query), None
        if own is not None:
            self_index = torch.full_like(everyone.roles, -1, dtype=torch.int64)
            first = sum(shard.num_queries[: world.process])
            self_index[first : first + len(query)] = own
        # In the order of the data set results do not depend on how samples are sharded.
        order = None if everyone.index is None else everyone.index.argsort()
        place = slice(None) if order is None else order
        rows: Rows | RowsInBlocks = Rows(everyone.blocks, order)
        if shard.sends_blocks:
            sizes = torch.tensor(shard.num_queries, device=query.device)
            process = torch.arange(world.size, device=sizes.device).repeat_interleave(sizes)[place]
            local = samples.rows(samples.in_order(query))
            rows = RowsInBlocks(world, local, process, dtype=shard.dtype, max_bytes=shard.max_bytes)
        return Queries(rows, at(everyone.labels, place), None if self_index is None else self_index[place])

    return world.guarded(put_in_order)

"""Groups of gallery items that lie on several processes: each is brought together on one.

Which process a group goes to is told from the group alone, so that nothing must be agreed on. Members that must leave
their process are sent by one process at a time, in pieces, and the others keep what belongs to them. So no process
holds more than its own groups and a piece.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.fingerprints import mixed
from reid_torchmetrics.functional.retrieval.relevance import NO_GROUP, LabelValues, at, packed, unpacked, width_of
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES, Rows
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows


class GalleryItems(NamedTuple):
    """The gallery items of a process, in the order of their places."""

    embeddings: Rows
    labels: LabelValues
    places: Int[Tensor, " items"] | None
    """in the whole gallery, where anything asks for them"""


def gather_groups(world: World, items: GalleryItems, dtype: torch.dtype) -> GalleryItems:
    """Bring each group together on one process; items of `dtype` without groups stay, without that label.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: some gallery items have groups and others have none.
    """

    def look() -> tuple[tuple[Tensor, Tensor], list[int]]:
        groups = items.labels["groups"]
        leaves = (groups != NO_GROUP) & (_owner(groups, world) != world.process)
        num_without = int((groups == NO_GROUP).sum())
        chosen = leaves.nonzero()[:, 0]
        return (chosen, (~leaves).nonzero()[:, 0]), [len(groups) - num_without, num_without, len(chosen)]

    (leaving, staying), table = world.guarded_all_gather(look)
    num_with, num_without, *_ = map(sum, zip(*table, strict=True))
    if num_with and num_without:
        raise ValueError(
            f"`groups` must be given for all gallery items or for none; got {num_with} with and {num_without} without."
        )
    if not num_with:
        labels = {name: values for name, values in items.labels.items() if name != "groups"}
        return items._replace(labels=labels)
    sizes = [size for *_, size in table]
    if not any(sizes):
        return items
    received = list(_received(world, items, leaving, sizes, dtype))
    return world.guarded(lambda: _joined(items, staying, received))


def _owner(groups: Int[Tensor, " items"], world: World) -> Int[Tensor, " items"]:
    """The process that a group goes to."""
    return mixed(groups, torch.zeros_like(groups)) % world.size


def _columns(items: GalleryItems) -> dict[str, Tensor]:
    return dict(items.labels) | ({} if items.places is None else {"places": items.places})


def _received(
    world: World, items: GalleryItems, leaving: Tensor, sizes: list[int], dtype: torch.dtype
) -> Iterator[tuple[Tensor, Tensor]]:
    """Embeddings and `_columns` of items that come to this process, in the order of the processes."""
    columns = _columns(items)
    dimension, width = items.embeddings.dimension, sum(map(width_of, columns.values()))
    step = max(1, WALK_BYTES // (dimension * dtype.itemsize))
    place_of_groups = sum(width_of(columns[name]) for name in [*columns][: [*columns].index("groups")])

    def rows(part: Tensor) -> Iterator[Tensor]:
        return items.embeddings.select(part).walk(dtype)

    def labels(part: Tensor) -> list[Tensor]:
        return [packed(columns, part)]

    def keep(embeddings: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        is_own = _owner(values[:, place_of_groups], world) == world.process
        return embeddings[is_own].to(items.embeddings.device), values[is_own].to(items.embeddings.device)

    for source, size in enumerate(sizes):
        for piece in segments.ranges(size, step):
            # The source sends a piece, and the others nothing.
            num_rows = [(piece.stop - piece.start) * (process == source) for process in range(world.size)]
            part = leaving[piece] if source == world.process else leaving[:0]
            sent = SentRows(functools.partial(rows, part), (dimension,), dtype)
            buffers = exchange_rows(world, num_rows, sent, SentRows(functools.partial(labels, part), (width,)))
            yield world.guarded(functools.partial(keep, *buffers))


def _joined(items: GalleryItems, staying: Tensor, received: list[tuple[Tensor, Tensor]]) -> GalleryItems:
    """The items of this process from now on, in the order of their places."""
    embeddings, columns = (torch.cat(parts) for parts in zip(*received, strict=True))
    like = _columns(items)
    labels = unpacked(torch.cat([packed(like, staying), columns]), like)
    places = labels.pop("places", None)
    order = torch.arange(len(staying) + len(embeddings), device=staying.device) if places is None else places.argsort()
    rows = items.embeddings.select(staying).beside(embeddings).select(order)
    return GalleryItems(rows, at(labels, order), None if places is None else places[order])

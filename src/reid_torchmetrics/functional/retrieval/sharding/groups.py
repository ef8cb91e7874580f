"""Groups of gallery items that lie on several processes: each is brought together on one.

Which process a group goes to is told from the group alone, so that nothing must be agreed on. Members that must leave
their process are sent by one process at a time, in pieces, and the others keep what belongs to them. So no process
holds more than its own groups and a piece.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.fingerprints import owners
from reid_torchmetrics.functional.retrieval.relevance import NO_GROUP, LabelValues, at, packed, unpacked, width_of
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES, Rows
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows


def gather_groups(
    world: World, embeddings: Rows, labels: LabelValues, dtype: torch.dtype
) -> tuple[Rows, dict[str, Tensor]]:
    """Bring each group of gallery items together on one process; items without groups stay, without that label.

    Args:
        world: of all processes.
        embeddings: of this process's items.
        labels: of these; "groups", and perhaps "places", by which the items are put in order.
        dtype: in which embeddings are sent.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: some items have groups and others have none.
    """
    labels = {"groups": labels["groups"], **labels}  # the first column of what is packed

    def look() -> tuple[Tensor, list[int]]:
        has_group = labels["groups"] != NO_GROUP
        leaves = has_group & (owners(world, labels["groups"]) != world.process)
        return leaves, [int(mask.sum()) for mask in (has_group, ~has_group, leaves)]

    def belonging(buffers: list[Tensor]) -> tuple[Tensor, ...]:
        """What belongs to this process of embeddings and labels that were sent."""
        is_own = owners(world, buffers[1][:, 0]) == world.process
        return tuple(buffer[is_own].to(leaves.device) for buffer in buffers)

    leaves, table = world.guarded_all_gather(look)
    num_with, num_without, num_leaving = map(sum, zip(*table, strict=True))
    if num_with and num_without:
        raise ValueError(
            f"`groups` must be given for all gallery items or for none; got {num_with} with and {num_without} without."
        )
    if not num_leaving:
        return embeddings, labels if num_with else {name: labels[name] for name in labels if name != "groups"}
    leaving, staying = (mask.nonzero()[:, 0] for mask in (leaves, ~leaves))
    width, step = sum(map(width_of, labels.values())), max(1, WALK_BYTES // (embeddings.dimension * dtype.itemsize))
    received: list[tuple[Tensor, ...]] = [
        (torch.empty((0, embeddings.dimension), dtype=dtype, device=leaves.device), packed(labels, leaving[:0]))
    ]
    for source, (*_, size) in enumerate(table):
        for piece in segments.ranges(size, step):
            # The source sends a piece, and the others nothing.
            sizes = [(piece.stop - piece.start) * (process == source) for process in range(world.size)]
            part = leaving[piece] if source == world.process else leaving[:0]
            rows = SentRows(functools.partial(embeddings.select(part).walk, dtype), (embeddings.dimension,), dtype)
            columns = SentRows(lambda part=part: [packed(labels, part)], (width,))  # type: ignore[misc]
            received.append(world.guarded(functools.partial(belonging, exchange_rows(world, sizes, rows, columns))))

    def join() -> tuple[Rows, dict[str, Tensor]]:
        blocks, columns = (torch.cat(parts) for parts in zip(*received, strict=True))
        joined = unpacked(torch.cat([packed(labels, staying), columns]), labels)
        none = torch.zeros_like(joined["groups"])  # of a stable sort, that changes nothing
        order = joined.get("places", none).argsort(stable=True)
        return embeddings.select(staying).followed_by(blocks).select(order), at(joined, order)

    return world.guarded(join)

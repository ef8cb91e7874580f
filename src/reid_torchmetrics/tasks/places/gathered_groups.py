"""Groups of gallery items that lie on several processes: the members of each group are gathered on one process.

A hash of the group says which process that is, so the processes need not agree on it. Members that must leave their
process are sent by one process at a time, in pieces, and each process keeps the members of its own groups. So no
process holds more than its own groups and a piece.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import (
    NO_GROUP,
    LabelValues,
    pack_columns,
    select_samples,
    unpack_columns,
    width_of,
)
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES, Rows
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows, owners


def gather_groups(
    world: World, embeddings: Rows, labels: LabelValues, dtype: torch.dtype
) -> tuple[Rows, dict[str, Tensor]]:
    """Gather the gallery items of each group on one process; items without groups stay, without that label.

    Args:
        world: the processes.
        embeddings: embeddings of this process's items.
        labels: labels of these items: "groups", and perhaps "places", which give the order of the items.
        dtype: dtype of the embeddings that are sent.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: some items have groups and others have none.
    """
    columns = {"groups": labels["groups"], **labels}  # groups are the first column when packed

    def find_leaving() -> tuple[Tensor, list[int]]:
        """Mark the items that leave this process; count the items with groups, without groups, and leaving."""
        has_group = columns["groups"] != NO_GROUP
        leaves = has_group & (owners(world, columns["groups"]) != world.process)
        return leaves, [int(has_group.sum()), int((~has_group).sum()), int(leaves.sum())]

    leaves, table = world.guarded_all_gather(find_leaving)
    num_with, num_without, num_leaving = map(sum, zip(*table, strict=True))
    if num_with and num_without:
        raise ValueError(
            f"`groups` must be given for all gallery items or for none; got {num_with} with and {num_without} without."
        )
    if not num_with:
        del columns["groups"]
        return embeddings, columns
    if not num_leaving:
        return embeddings, columns

    # The processes send one after another, each in pieces.
    leaving = leaves.nonzero()[:, 0]
    staying = (~leaves).nonzero()[:, 0]
    received_embeddings = [torch.empty((0, embeddings.dimension), dtype=dtype, device=leaves.device)]
    received_labels = [pack_columns(columns, leaving[:0])]
    piece_length = max(1, WALK_BYTES // (embeddings.dimension * dtype.itemsize))
    for source, (*_, num_sent) in enumerate(table):
        for piece in segments.ranges(num_sent, piece_length):
            sizes = [0] * world.size
            sizes[source] = piece.stop - piece.start
            items = leaving[piece] if source == world.process else leaving[:0]
            sent = SentRows(
                pieces=functools.partial(embeddings.select(items).walk, dtype),
                shape=(embeddings.dimension,),
                dtype=dtype,
            )
            member_embeddings, member_labels = _exchange_members(world, sizes, sent, columns, items)
            received_embeddings.append(member_embeddings)
            received_labels.append(member_labels)

    def join() -> tuple[Rows, dict[str, Tensor]]:
        packed = torch.cat([pack_columns(columns, staying), *received_labels])
        joined = unpack_columns(packed, columns)
        # Without places all keys are equal, and a stable sort changes nothing.
        places = joined.get("places", torch.zeros_like(joined["groups"]))
        order = places.argsort(stable=True)
        rows = embeddings.select(staying).followed_by(torch.cat(received_embeddings))
        return rows.select(order), select_samples(joined, order)

    return world.guarded(join)


def _exchange_members(
    world: World,
    sizes: Sequence[int],
    embeddings: SentRows,
    labels: LabelValues,
    items: Int[Tensor, " items"],
) -> tuple[Tensor, Int[Tensor, "members columns"]]:
    """Exchange `sizes` items of each process; return embeddings and packed labels of the members of own groups.

    `items` are the positions of the items that this process sends.
    """
    num_columns = sum(map(width_of, labels.values()))
    sent_labels = SentRows(lambda: [pack_columns(labels, items)], (num_columns,))
    all_embeddings, all_labels = exchange_rows(world, sizes, embeddings, sent_labels)

    def select_members() -> tuple[Tensor, Tensor]:
        is_member = owners(world, all_labels[:, 0]) == world.process
        return all_embeddings[is_member].to(items.device), all_labels[is_member].to(items.device)

    return world.guarded(select_members)

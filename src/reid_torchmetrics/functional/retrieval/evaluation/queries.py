"""Queries before they are ranked: images of one query pooled into one, and the places of queries in the gallery."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES, Rows

from .groups import Grouping
from .protocol import Protocol


@dataclass(frozen=True, eq=False)
class PooledQueries:
    """One query for each identity, or for each identity and camera, in the order of their first image."""

    embeddings: Float[Tensor, "pooled dim"]
    identities: Int[Tensor, " pooled"]
    cameras: Int[Tensor, " pooled"] | None
    members: Int[Tensor, " queries"]
    """int64; for each image of a query, the position of its pooled query"""


@torch.no_grad()
def pool_queries(
    query: Float[Tensor, "queries dim"] | _checks.Array,
    query_identities: Real[Tensor, " queries"] | _checks.Integers,
    query_cameras: Real[Tensor, " queries"] | _checks.Integers | None = None,
    *,
    normalize: bool = True,
) -> PooledQueries:
    """Return the mean embedding of the queries with one identity and camera: (1/n) sum_i x_i / |x_i|.

    This is the multi-query setting of Market-1501 with average pooling; layumi's evaluation takes the mean of
    normalized features, too. The mean itself is not normalized: "cosine" does that. Every identity is pooled, -1 like
    any other. Sums are taken in float64, and returned in the dtype of `query`. No queries give none.

    Source: Zheng et al., "Scalable Person Re-identification: A Benchmark", ICCV 2015.

    Args:
        query: embeddings of all images of all queries.
        query_identities: identities of the queries.
        query_cameras: cameras of the queries; None pools over all of an identity.
        normalize: whether every embedding is divided by its norm first, so that all weigh the same; a zero vector stays
            zero. False takes the mean of the embeddings as they are.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes or devices that do not fit, or embeddings that are not finite.
    """
    query = _checks.embeddings("query", query)
    _checks.finite("query", Rows([query]).non_finite())
    query_identities = _checks.whole_labels("query_identities", query_identities, len(query), query.device)
    if query_cameras is not None:
        query_cameras = _checks.whole_labels("query_cameras", query_cameras, len(query), query.device)
    # One query for each distinct row of labels.
    columns = [labels.long() for labels in (query_identities, query_cameras) if labels is not None]
    _, group = torch.stack(columns, dim=1).unique(dim=0, return_inverse=True)
    groups = Grouping.of(group)
    members = torch.empty_like(groups.members)
    members[groups.members] = segments.numbers(groups.sizes)
    return PooledQueries(
        embeddings=_mean(query, groups, normalize=normalize),
        identities=query_identities.long()[groups.first],
        cameras=None if query_cameras is None else query_cameras.long()[groups.first],
        members=members,
    )


def _mean(query: Tensor, groups: Grouping, *, normalize: bool) -> Float[Tensor, "pooled dim"]:
    """Return the mean of each group, a few coordinates at a time: in float64 all of them may not fit."""
    blocks = query.split(max(1, WALK_BYTES // (8 * query.shape[1])))
    norm = torch.cat([torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)[:, None] for rows in blocks])
    norm = torch.where((norm > 0) & normalize, norm, 1)[groups.members]  # a zero vector stays zero

    means = []
    for columns in query.split(max(1, WALK_BYTES // (8 * max(1, len(query)))), dim=1):
        sums = segments.reduce(columns[groups.members] / norm, "sum", groups.sizes)
        means.append((sums / groups.sizes[:, None]).to(query.dtype))
    return torch.cat(means, dim=1)


def check_own_places(protocol: Protocol, self_index: Tensor | None, num_queries: int) -> None:
    """Raise unless every query has a place in the gallery, if a protocol searches it among the others."""
    if not protocol.leave_one_out:
        return
    num_unknown = num_queries
    if self_index is not None:
        _checks.integer_labels("self_index", self_index, num_queries)
        num_unknown = int((self_index < 0).sum())
    if num_unknown:
        raise ValueError(
            f"`self_index` must hold every query's own place in the gallery, or `leave_one_out=False` be given, under"
            f" protocol {protocol.name!r}, which searches every query among the others; got {num_unknown} queries"
            " without."
        )

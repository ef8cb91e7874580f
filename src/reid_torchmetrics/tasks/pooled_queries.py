"""Images of one query, pooled into one before they are ranked."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.evaluation import POOLED_QUERIES, Labels
from reid_torchmetrics.functional.retrieval.relevance import num_labels_of
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES, Rows
from reid_torchmetrics.tasks.places import Grouping


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


def _pool_samples(query: Rows, labels: Labels, gallery: object) -> tuple[Rows, Labels]:
    """Return the mean query of each identity and camera, with its labels."""
    # Images that are pooled need one identity and camera each; they may differ in all other labels.
    identities = labels.query.get("identities")
    obstacles = []
    if identities is None:
        obstacles.append("no `query_identities`")
    if gallery is None:
        obstacles.append("no `gallery`")
    obstacles.extend(f"`query_{name}`" for name in labels.query if name not in ("identities", "cameras"))
    if num_labels_of(labels.query):
        obstacles.append("a matrix of labels as `query_identities`")
    if labels.self_index is not None:
        obstacles.append("`self_index`")
    if identities is None or obstacles:
        raise ValueError(
            "`multi_query` needs `query_identities` and a `gallery`, no labels but identities and cameras, and no"
            f" `self_index`; got {' and '.join(obstacles)}."
        )
    pooled = pool_queries(query.all(), identities, labels.query.get("cameras"))
    labels_of_pooled = {"identities": pooled.identities}
    if pooled.cameras is not None:
        labels_of_pooled["cameras"] = pooled.cameras
    return Rows([pooled.embeddings]), replace(labels, query=labels_of_pooled)


POOLED_QUERIES["mean"] = _pool_samples

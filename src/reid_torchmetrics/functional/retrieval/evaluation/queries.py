"""Queries before they are ranked: images of one query pooled into one, and queries that are in the gallery.

A query in the gallery finds itself as its first right answer, so that the numbers are too good.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import WALK_BYTES, Rows

from .groups import Grouping
from .protocol import Protocol

_MOST_QUERIES = 32  # that are looked for
_LEAST_QUERIES = 8  # that must have a copy: fewer may be copies in the data set itself
_NUM_ENTRIES = 8  # of an embedding whose values are counted
_MOST_COPIES = 8  # of a query
_CLOSE = 1e-2  # of the norm
IN_GALLERY = (
    "Most queries have a copy of themselves in the gallery, an item of their identity with the same embedding, and find"
    " it first. Pass `self_index`, each query's own position in the gallery or -1, which leaves it out; or, if the"
    " queries are the gallery, pass no `gallery`."
)
NOTHING_POOLED = (
    "`multi_query=True` pooled nothing: each query is the only one of its identity and camera, so the numbers are those"
    " of single queries. Pass all images of each query, with their identities and cameras."
)


@dataclass(frozen=True, eq=False)
class PooledQueries:
    """One query for each identity, or for each identity and camera, in the order of their first image."""

    embeddings: Float[Tensor, "pooled dim"]
    identities: Int[Tensor, " pooled"]
    cameras: Int[Tensor, " pooled"] | None
    members: Int[Tensor, " queries"]
    """int64; for every query given, the position of the pooled one that it went into"""


@torch.no_grad()
def pool_queries(
    query: Float[Tensor, "queries dim"] | _checks.Array,
    query_identities: Real[Tensor, " queries"] | _checks.Integers,
    query_cameras: Real[Tensor, " queries"] | _checks.Integers | None = None,
    *,
    normalize: bool = True,
) -> PooledQueries:
    """Mean embedding of the queries with one identity and camera: (1/n) sum_i x_i / |x_i|.

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
    columns = [labels.long() for labels in (query_identities, query_cameras) if labels is not None]
    # One query for each distinct row of labels.
    labels = torch.stack(columns, dim=1)
    groups = Grouping.of(labels.unique(dim=0, return_inverse=True)[1])
    pooled = torch.empty_like(groups.members)
    pooled[groups.members] = segments.numbers(groups.sizes)
    labels, embeddings = labels[groups.first], _mean(query, groups, normalize=normalize)
    return PooledQueries(embeddings, labels[:, 0], None if query_cameras is None else labels[:, 1], pooled)


def _mean(query: Tensor, groups: Grouping, *, normalize: bool) -> Float[Tensor, "pooled dim"]:
    """Mean of each group, a few coordinates at a time: in float64 all of them may not fit."""
    rows = query.split(max(1, WALK_BYTES // (8 * query.shape[1])))
    norm = torch.cat([torch.linalg.vector_norm(each, dim=1, dtype=torch.float64)[:, None] for each in rows])
    norm = torch.where((norm > 0) & normalize, norm, 1)[groups.members]  # a zero vector stays zero
    # Columns at a time, each summed over the members of its group.
    columns = query.split(max(1, WALK_BYTES // (8 * max(1, len(query)))), dim=1)
    sums = (segments.reduce(each[groups.members] / norm, "sum", groups.sizes) for each in columns)
    return torch.cat([(each / groups.sizes[:, None]).to(query.dtype) for each in sums], dim=1)


def find_copies(
    query: Float[Tensor, "queries dim"], gallery: Float[Tensor, "gallery dim"]
) -> tuple[Int[Tensor, " copies"], Int[Tensor, " copies"]]:
    """Some queries and gallery items that have the same embedding to the bit; none if few of the queries have a copy.

    Costs one entry of every gallery item.
    """
    # A few queries, evenly spread.
    step, middle = _step(query), query.shape[1] // 2
    asked = query[::step]
    # One entry of every item first: nearly always none is that of a query, and of a constant model all are.
    values, order = asked[:, middle].double().sort()
    column = gallery[:, middle].double().contiguous()
    place = torch.searchsorted(values, column).clamp_(max=len(values) - 1)
    items = (values[place] == column).nonzero()[:, 0] if len(values) >= _LEAST_QUERIES else place[:0]
    if not 0 < len(asked) <= 2 * len(items) <= 2 * _MOST_COPIES * len(asked):
        return order[:0], items[:0]
    # One-hot vectors, codes of bits and the like are equal by chance.
    if len(asked[:, :: max(1, asked.shape[1] // _NUM_ENTRIES)].unique()) < 2 * len(asked):
        return order[:0], items[:0]
    queries = order[place[items]] * step
    is_copy = (query[queries] == gallery[items]).all(1)
    return queries[is_copy], items[is_copy]


def _step(query: Float[Tensor, "queries dim"]) -> int:
    """The step from one query to the next that is looked for."""
    return -(-len(query) // _MOST_QUERIES) or 1


def count_as_right(query: Tensor, gallery: Tensor, copies: tuple[Tensor, Tensor], relevance: Relevance) -> bool:
    """Whether most queries have a copy that counts as a right answer, and others that are no copies.

    Where all items of an identity have one embedding, copies tell nothing.
    """
    right, has_others = set(), False
    for number, place in zip(*(side.tolist() for side in copies), strict=True):
        # Positives of the query, as positions in the whole gallery: its copy counts if it is one of them.
        tile = relevance.tile(slice(number, number + 1))
        positives = tile.columns[tile.positive]
        positives = positives if relevance.kept is None else relevance.kept[positives]
        right |= {number} if place in positives.tolist() else set()
        distance = (gallery[positives].double() - query[number]).norm(dim=1)
        has_others |= bool((distance > _CLOSE * query[number].double().norm()).any())
    return has_others and len(right) >= _LEAST_QUERIES and 2 * len(right) > len(query[:: _step(query)])


def check_own_places(protocol: Protocol, self_index: Tensor | None, num_queries: int) -> None:
    """Raise unless every query is in the gallery, and says where, if a protocol searches it among the others."""
    if not protocol.leave_one_out:
        return
    num_unknown = num_queries
    if self_index is not None:
        _checks.integer_labels("self_index", self_index, num_queries)
        num_unknown = int((self_index < 0).sum())
    if num_unknown:
        raise ValueError(
            f"`self_index` must hold every query's own place in the gallery under protocol {protocol.name!r}, which"
            f" searches every query among the others; got {num_unknown} queries without."
        )

"""Notice queries that are in the gallery, where each finds itself as its first right answer."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.relevance import Relevance

_MOST_QUERIES = 32  # that are looked for
_LEAST_QUERIES = 8  # that must be found: fewer may be copies in the data set itself
_NUM_ENTRIES = 8  # of an embedding whose values are counted
_MOST_COPIES = 8  # of a query
_CLOSE = 1e-2  # of the norm


def find_copies(
    query: Float[Tensor, "queries dim"], gallery: Float[Tensor, "gallery dim"]
) -> tuple[Int[Tensor, " copies"], Int[Tensor, " copies"]]:
    """Some queries and gallery items that have the same embedding to the bit; none if they are few of those asked for.

    Costs one entry of every gallery item.
    """
    step, middle = _step(query), query.shape[1] // 2
    asked = query[::step]
    # One entry of every item first: nearly always none is that of a query, and of a constant model all are.
    values, order = asked[:, middle].double().sort()
    column = gallery[:, middle].double().contiguous()
    place = torch.searchsorted(values, column).clamp_(max=len(values) - 1)
    found = (values[place] == column).nonzero()[:, 0] if len(values) >= _LEAST_QUERIES else place[:0]
    if not 0 < len(asked) <= 2 * len(found) <= 2 * _MOST_COPIES * len(asked) or _has_few_values(asked):
        return order[:0], found[:0]
    queries = order[place[found]] * step
    is_copy = (query[queries] == gallery[found]).all(1)
    return queries[is_copy], found[is_copy]


def _step(query: Float[Tensor, "queries dim"]) -> int:
    """Every how manyth query is looked for."""
    return -(-len(query) // _MOST_QUERIES) or 1


def _has_few_values(rows: Float[Tensor, "rows dim"]) -> bool:
    """Whether embeddings are one-hot vectors, codes of bits and the like, which are equal by chance."""
    return len(rows[:, :: max(1, rows.shape[1] // _NUM_ENTRIES)].unique()) < 2 * len(rows)


def count_as_right(
    query: Float[Tensor, "queries dim"],
    gallery: Float[Tensor, "gallery dim"],
    copies: tuple[Int[Tensor, " copies"], Int[Tensor, " copies"]],
    relevance: Relevance,
) -> bool:
    """Whether most queries have a copy that counts as a right answer, and others that are no copies.

    Where all items of an identity have one embedding, copies tell nothing.
    """
    right, has_others = set(), False
    for number, place in zip(*(side.tolist() for side in copies), strict=True):
        tile = relevance.tile(slice(number, number + 1))
        positives = tile.columns[tile.positive]
        positives = positives if relevance.kept is None else relevance.kept[positives]
        right |= {number} if place in positives.tolist() else set()
        distance = (gallery[positives].double() - query[number]).norm(dim=1)
        has_others |= bool((distance > _CLOSE * query[number].double().norm()).any())
    return has_others and len(right) >= _LEAST_QUERIES and 2 * len(right) > len(query[:: _step(query)])


IN_GALLERY = (
    "Most queries have a copy of themselves in the gallery, an item of their identity with the same embedding, and find"
    " it first. Pass `self_index`, each query's own position in the gallery or -1, which leaves it out; or, if the"
    " queries are the gallery, pass no `gallery`."
)

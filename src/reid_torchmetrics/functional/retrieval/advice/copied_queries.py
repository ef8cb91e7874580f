"""Queries that are in the gallery, and find themselves as their first right answer: the numbers are too good."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.relevance import Relevance

_MOST_QUERIES = 32  # that are looked for
LEAST_QUERIES = 8
"""queries that must have a copy: fewer may be copies in the data set itself"""
_NUM_ENTRIES = 8  # of an embedding whose values are counted
_MOST_COPIES = 8  # of a query
_CLOSE = 1e-2  # of the norm


def has_copied_queries(query: Tensor, gallery: Tensor, relevance: Relevance) -> bool:
    """Whether most queries have a copy in the gallery that counts as a right answer, and others that are no copies.

    Where all items of an identity have one embedding, copies tell nothing.
    """
    copied, places = find_copies(query, gallery)
    right: set[int] = set()
    has_others = False
    for number, place in zip(copied.tolist(), places.tolist(), strict=True):
        # Positives of the query, as positions in the whole gallery: its copy counts if it is one of them.
        tile = relevance.tile(slice(number, number + 1))
        positives = tile.columns[tile.positive]
        if relevance.kept is not None:
            positives = relevance.kept[positives]
        if place in positives.tolist():
            right.add(number)
        distance = (gallery[positives].double() - query[number]).norm(dim=1)
        has_others |= bool((distance > _CLOSE * query[number].double().norm()).any())
    return has_others and len(right) >= LEAST_QUERIES and 2 * len(right) > len(query[:: _step(query)])


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
    items = (values[place] == column).nonzero()[:, 0] if len(values) >= LEAST_QUERIES else place[:0]
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

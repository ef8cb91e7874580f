"""Queries that are also gallery items, and find their own copy first, so that the numbers are too good."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Rows

_MOST_QUERIES = 32  # queries in the sample
LEAST_QUERIES = 8
"""queries that must have a copy: fewer may be copies in the data set itself"""
_NUM_ENTRIES = 8  # entries of an embedding that are compared between queries
_MOST_COPIES = 8  # copies of a query
_CLOSE = 1e-2  # share of the norm


def has_copied_queries(query: Rows, gallery: Rows, relevance: Relevance) -> bool:
    """Return whether most queries have a copy in the gallery as a positive, and some positives are not copies.

    If all items of an identity have one embedding, copies show nothing.
    """
    copied, places = find_copies(query, gallery)
    queries_with_copy: set[int] = set()
    has_different = False
    for number, place in zip(copied.tolist(), places.tolist(), strict=True):
        # Positives of the query, as positions in the whole gallery: its copy counts if it is one of them.
        tile = relevance.tile(slice(number, number + 1))
        positives = tile.columns[tile.positive]
        if relevance.kept is not None:
            positives = relevance.kept[positives]
        if place in positives.tolist():
            queries_with_copy.add(number)
        own = query.at(copied.new_tensor([number])).double()
        distance = (gallery.at(positives).double() - own).norm(dim=1)
        has_different |= bool((distance > _CLOSE * own.norm()).any())
    num_copied = len(queries_with_copy)
    num_sampled = len(range(0, query.size, _step(query)))
    return has_different and num_copied >= LEAST_QUERIES and 2 * num_copied > num_sampled


def find_copies(query: Rows, gallery: Rows) -> tuple[Int[Tensor, " copies"], Int[Tensor, " copies"]]:
    """Find pairs of a query and a gallery item with the same bits; none if few queries in a sample have a copy.

    Nearly always only one entry of every gallery item is read.
    """
    step = _step(query)
    sample = query.at(torch.arange(0, query.size, step, device=query.device))
    if len(sample) < LEAST_QUERIES:
        none = torch.empty(0, dtype=torch.int64, device=query.device)
        return none, none

    # Compare one entry of every item: nearly always no item has that of a query; under a constant model all have it.
    middle = query.dimension // 2
    values, order = sample[:, middle].double().sort()
    column = gallery.column(middle)
    place = torch.searchsorted(values, column).clamp_(max=len(values) - 1)
    items = (values[place] == column).nonzero()[:, 0]
    if not len(sample) <= 2 * len(items) <= 2 * _MOST_COPIES * len(sample):
        return order[:0], items[:0]
    # One-hot vectors, codes of bits and similar embeddings are equal by chance.
    entries = sample[:, :: max(1, sample.shape[1] // _NUM_ENTRIES)]
    if len(entries.unique()) < 2 * len(sample):
        return order[:0], items[:0]
    queries = order[place[items]] * step
    is_copy = (query.at(queries) == gallery.at(items)).all(1)
    return queries[is_copy], items[is_copy]


def _step(query: Rows) -> int:
    """Return the step from one query of the sample to the next."""
    return -(-query.size // _MOST_QUERIES) or 1

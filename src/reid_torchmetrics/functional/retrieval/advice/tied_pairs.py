"""Counts of positives and negatives with equal scores: if there are many, their order decides the numbers.

Codes of few bits, rounded scores and collapsed embeddings have such ties. They are counted for a few queries; only if
there are many, the whole problem is ranked a second time.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores

MOST_TIED = 0.05
"""share of pairs of a positive and a negative that may tie without a warning"""
LEAST_PAIRS = 1000
"""fewer pairs in the sample show nothing"""
_MOST_QUERIES = 4
_QUERIES_PER_EXAMINED = 64  # one in so many queries is examined, so that this costs little compared with the ranking
_MOST_POSITIVES, _MOST_NEGATIVES = 64, 256  # examined items of one query
_MOST_ITEMS = 256
"""items that are compared first; if 5 % of all items have one score, two of these almost certainly tie"""


def count_tied_pairs(scores: Scores, relevance: Relevance) -> tuple[int, int]:
    """Count pairs of a positive and a negative with equal scores, and all such pairs, in a sample.

    The sample consists of a few queries, and of some positives and some negatives for each query. All are spread evenly
    over their kind. If a process holds a part of the gallery, it counts the pairs within that part.

    The scores of some items are compared first, whatever their labels. If no two of them are equal, which is nearly
    always so, labels are not read, and no pair counts as tied.
    """
    num_queries = relevance.num_queries
    if scores.sent is not None or num_queries == 0 or relevance.num_kept == 0:
        return 0, 0
    num_examined = min(_MOST_QUERIES, -(-num_queries // _QUERIES_PER_EXAMINED))
    if scores.at is None:  # a whole row has to be computed
        num_examined = min(num_examined, 1)
    rows = []
    for number in range(num_examined):
        query = number * num_queries // num_examined
        rows.append(slice(query, query + 1))
    items = _spread(torch.arange(relevance.num_kept, device=scores.device), _MOST_ITEMS)
    if not _may_tie(scores, rows, items):
        return 0, len(rows) * len(items)
    num_tied, num_pairs = 0, 0
    for row in rows:
        tile = relevance.tile(row)
        positives = _spread(tile.columns[tile.positive], _MOST_POSITIVES)
        negatives = _find_negatives(relevance, row, tile.columns[tile.listed])
        values = _scores_at(scores, row, torch.cat([positives, negatives]))
        positive_scores = values[: len(positives)]
        negative_scores = values[len(positives) :].sort().values
        # The negatives with the score of a positive are one run of the sorted scores.
        start = torch.searchsorted(negative_scores, positive_scores)
        stop = torch.searchsorted(negative_scores, positive_scores, right=True)
        num_tied += int((stop - start).sum())
        num_pairs += len(positives) * len(negatives)
    return num_tied, num_pairs


def _may_tie(scores: Scores, rows: list[slice], items: Int[Tensor, " items"]) -> bool:
    """Return whether two of the items have equal scores for one of the queries."""
    values = torch.stack([_scores_at(scores, row, items) for row in rows]).sort(dim=1).values
    return bool((values[:, 1:] == values[:, :-1]).any())


def _find_negatives(relevance: Relevance, row: slice, listed: Int[Tensor, " listed"]) -> Int[Tensor, " negatives"]:
    """Return some kept items that are negatives of one query; `listed` are the items listed for it."""
    columns = _spread(torch.arange(relevance.num_kept, device=listed.device), _MOST_NEGATIVES)
    columns = columns[~torch.isin(columns, listed)]
    dropped = relevance.dropped_at(row, columns[None])
    return columns if dropped is None else columns[~dropped[0]]


def _spread(columns: Int[Tensor, " columns"], most: int) -> Int[Tensor, " spread"]:
    """Return columns of an even spread, `most` of them or all."""
    if len(columns) <= most:
        return columns
    return columns[torch.arange(most, device=columns.device) * len(columns) // most]


def _scores_at(scores: Scores, row: slice, columns: Int[Tensor, " columns"]) -> Float[Tensor, " columns"]:
    """Return the scores of one query at some columns."""
    if scores.at is not None:
        return scores.at(row, columns[None])[0]
    values = torch.empty((1, scores.num_gallery), dtype=scores.dtype, device=scores.device)
    scores.fill(values, row, slice(0, scores.num_gallery))
    return values[0, columns]


def are_many(num_tied: int, num_pairs: int) -> bool:
    """Return whether enough pairs tie for a warning."""
    return num_pairs >= LEAST_PAIRS and num_tied > MOST_TIED * num_pairs

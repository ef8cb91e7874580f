"""Causes that lists of a vector index show beside the embeddings: the opposite order, and shifted positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation import IndexRecall, SearchedLists, search_lists

from .causes import Cause, Values, is_beyond_chance
from .lists import MOST_QUERIES, different_queries

_MOST_ENTRIES = 32
_SUSPECT = 0.5  # rank correlation; a higher one raises no suspicion
_OPPOSITE = -0.5
_DEVIATIONS = 6  # of the rank correlation, in its standard deviations under a random order
_GAIN = 0.2  # of recall


class IndexCase:
    """The recall of an index, its lists, and the exact scores of their items."""

    def __init__(self, results: tuple[IndexRecall, Float[Tensor, "queries longest"]], samples: SearchedLists) -> None:
        """Take recall and scores, and the lists."""
        self.recall, self.scores = results
        self.samples = samples

    @property
    def gallery(self) -> Any:
        """The gallery, if it can be read again."""
        gallery = self.samples.gallery
        return gallery if isinstance(gallery, Sequence) or hasattr(gallery, "shape") else None

    @cached_property
    def queries(self) -> Int[Tensor, " queries"]:
        """Some queries, see `different_queries`."""
        items = self.samples.items
        return different_queries(items, torch.ones(len(items), dtype=torch.bool, device=items.device))

    @cached_property
    def correlation(self) -> tuple[float, float]:
        """Kendall's rank correlation of listed order and exact scores, and its deviation under a random order."""
        scores = self.scores[self.queries, :_MOST_ENTRIES].cpu()
        is_item = self.samples.items[self.queries, :_MOST_ENTRIES].cpu() >= 0
        lengths = is_item.sum(1)
        scores, lengths = scores[lengths > 1], lengths[lengths > 1].double()
        is_pair = (is_item[:, :, None] & is_item[:, None])[is_item.sum(1) > 1].triu(diagonal=1)
        signs = (scores[:, :, None] - scores[:, None]).sign().where(is_pair, 0)
        each = signs.sum((1, 2)) / is_pair.sum((1, 2))
        variance = 2 * (2 * lengths + 5) / (9 * lengths * (lengths - 1))
        return float(each.mean()), float(variance.sum().sqrt() / len(each))


def _fit_badly(case: IndexCase) -> bool:
    return not case.correlation[0] >= _SUSPECT  # NaN for lists of one item


def _opposite_lists(case: IndexCase) -> Values | None:
    correlation, deviation = case.correlation
    if not correlation <= min(_OPPOSITE, -_DEVIATIONS * deviation):
        return None
    return {"correlation": f"{correlation:.2f}"}


def _recall_of_shifted(case: IndexCase, offset: int) -> float:
    """Return the recall of the sample with a number subtracted from all positions."""
    lists, num_gallery = case.samples, case.recall.num_gallery
    items = lists.items[case.queries]
    shifted = (items - offset).masked_fill(items < 0, -1)
    shifted = shifted.masked_fill((shifted < 0) | (shifted >= num_gallery), -1)
    return search_lists(replace(lists, items=shifted, query=lists.query[case.queries]))[0].mean


def _shifted_positions(case: IndexCase) -> Values | None:
    num_queries, num_gallery = len(case.queries), case.recall.num_gallery
    if case.gallery is None or not num_queries:
        return None
    recall = float(case.recall.per_query[case.queries].mean())
    gains = {offset: _recall_of_shifted(case, offset) - recall for offset in (1, -1)}
    # Lists of neighboring frames without the query itself are better in both directions.
    offset = max(gains, key=gains.__getitem__)
    by_luck = max(recall, min(1.0, case.recall.k / num_gallery))
    is_better = is_beyond_chance((recall + gains[offset]) * num_queries, num_queries, by_luck)
    if gains[offset] < max(_GAIN, 2 * gains[-offset]) or not is_better:
        return None
    return {
        "recall": f"{recall:.4f}",
        "better": f"{recall + gains[offset]:.4f}",
        "change": "subtracted from" if offset == 1 else "added to",
    }


_ROWS = [
    Cause[IndexCase](
        name="opposite_lists",
        checks="lists of an index that are worst first, or by another similarity",
        fires="Kendall's rank correlation of the lists with exact scores is at most {correlation}, and {deviations}"
        " standard deviations below 0.",
        message="Lists have their items in the opposite order of exact scores: the rank correlation is {correlation}."
        " They must be best first, and `similarity` must be that of the index, higher for closer items.",
        suspect=_fit_badly,
        find=_opposite_lists,
        thresholds={"correlation": _OPPOSITE, "deviations": _DEVIATIONS},
    ),
    Cause[IndexCase](
        name="shifted_positions",
        checks="positions of an index that count from 1",
        fires="The rank correlation of the lists with exact scores is below {suspect}, the gallery can be read again,"
        " and the recall of at most {most} queries rises by {gain} or more, and by more than luck explains, where 1 is"
        " subtracted from all positions, or added, and by less than half of it in the other direction.",
        message="The lists do not fit the embeddings: recall is {recall}, and {better} where 1 is {change} each"
        " position. Positions count from 0, in the order of `gallery`.",
        suspect=_fit_badly,
        find=_shifted_positions,
        thresholds={
            "suspect": _SUSPECT,
            "most": MOST_QUERIES,
            "gain": _GAIN,
        },
        explained_by=("opposite_lists",),
    ),
]

INDEX_CAUSES = {row.name: row for row in _ROWS}
"""rows by name, in the order in which they are tried"""

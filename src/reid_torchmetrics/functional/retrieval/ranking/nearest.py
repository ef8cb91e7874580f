"""The first candidates of every query: its ranked list, cut after k."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.ranking.top_k import stable_top_k
from reid_torchmetrics.functional.retrieval.relevance import Relevance, TileRelevance
from reid_torchmetrics.functional.retrieval.scores import Panel, Scores, Walk, check_match, cut_in_panels

_BYTES_BESIDE_SCORE = 16  # masks, and the number of ties so far
_BYTES_PER_LISTED = 128  # score, column and flag of a listed item, a few times over while lists are merged
_LARGEST_STEP = 8  # from one wanted query to the next; those between cost less than another pass over the gallery


@dataclass(frozen=True, eq=False)
class Nearest:
    """The first k candidates of every query, best first; a query with fewer is padded at the end."""

    positions: Int[Tensor, "queries k"]
    """int64; positions in the gallery, counting all its items; -1 at padding"""
    scores: Float[Tensor, "queries k"]
    """higher is closer; NaN at padding"""
    positive: Bool[Tensor, "queries k"]
    """whether the candidate is a positive, else it is a negative; False at padding"""


class _Lists(NamedTuple):
    """Some candidates of each query, then padding; equal scores have ascending columns."""

    scores: Float[Tensor, "queries listed"]
    """minus infinity at padding"""
    columns: Int[Tensor, "queries listed"]
    """positions in the kept gallery, -1 at padding"""
    positive: Bool[Tensor, "queries listed"]

    def take(self, items: Int[Tensor, "queries taken"]) -> _Lists:
        """Items by their numbers in the lists, -1 for padding."""
        padding, items = items < 0, items.clamp(min=0)
        scores, columns, positive = (part.gather(1, items) for part in self)
        return _Lists(scores.masked_fill(padding, -torch.inf), columns.masked_fill(padding, -1), positive & ~padding)


@torch.no_grad()
def nearest(
    scores: Scores, relevance: Relevance, k: int, queries: Integer[Tensor, " queries"] | None = None
) -> Nearest:
    """The k candidates of each query with the highest scores, equal scores in gallery order; junk is never listed.

    This is the ranking under the tie policy "stable", cut after k; it does not depend on `scores.max_bytes`. The scores
    are those that rank: for "euclidean" they are not distances and not comparable between queries.

    Args:
        scores: from `score_embeddings` or `given_scores`.
        relevance: the one that `scores` was made with.
        k: number of candidates to list; it may exceed the gallery.
        queries: positions of the queries wanted, in any order; None for all.

    Raises:
        TypeError: `k` is not an int, or `queries` not an integer tensor.
        ValueError: `k` is below 1, `queries` has a position that no query has, or the score of a candidate is NaN.
    """
    _checks.positive_int("k", k)
    check_match(scores, relevance)
    queries = torch.arange(scores.num_queries, device=scores.device) if queries is None else queries
    _checks.integer_labels("queries", queries, device=scores.device)
    _checks.in_range("queries", queries, 0, scores.num_queries)
    ascending, row_of_query = queries.long().unique(return_inverse=True)
    # Queries are listed in ascending order, each once, as lists of [wanted, k] that start as padding.
    lists = _padding(len(ascending), k, scores)
    for rows, lists_of_rows in _Tiles(scores, relevance, min(k, scores.num_gallery)).lists(ascending):
        for whole, part in zip(lists, lists_of_rows, strict=True):
            whole[rows, : part.shape[1]] = part
    lists = _Lists(*(part[row_of_query] for part in lists))  # back in the order that was asked for, with repetitions
    # From columns of the kept gallery to positions in the whole one.
    padding = lists.columns < 0
    positions = lists.columns
    if relevance.kept is not None and len(relevance.kept):
        positions = relevance.kept[positions.clamp(min=0)].masked_fill(padding, -1)
    return Nearest(positions, lists.scores.masked_fill(padding, torch.nan), lists.positive)


class _Tiles:
    """One problem, cut into ranges of queries and panels of the gallery that fit `scores.max_bytes`."""

    def __init__(self, scores: Scores, relevance: Relevance, k: int) -> None:
        self._scores = scores
        self._relevance = relevance
        self._k = k
        # Half of the memory is for what is listed, so panels are several times as wide as lists: merging costs little.
        per_row = _BYTES_PER_LISTED * (relevance.longest_run + k)
        self._num_rows, width = cut_in_panels(scores, _BYTES_BESIDE_SCORE, per_row)
        self._walk = Walk(scores, self._num_rows, width)

    def lists(self, wanted: Int[Tensor, " wanted"]) -> Iterator[tuple[slice, _Lists]]:
        """The lists of the queries `wanted`, whose positions ascend: a range of them at a time."""
        done = 0
        for rows in _ranges(wanted.tolist(), self._num_rows):
            # A range may hold a few queries that nobody asked for: scoring them costs less than cutting the tile.
            inside = wanted[(wanted >= rows.start) & (wanted < rows.stop)] - rows.start
            lists = self._list(rows)
            yield slice(done, done + len(inside)), _Lists(*(part[inside] for part in lists))
            done += len(inside)

    def _list(self, rows: slice) -> _Lists:
        """The first k candidates of the queries `rows`."""
        lists = _padding(rows.stop - rows.start, 0, self._scores)
        tile = self._relevance.tile(rows)
        for panel, scores in self._walk.panels_of(rows):
            # Columns of this panel are behind those listed, so that equal scores stay in gallery order.
            of_panel = self._list_panel(scores, rows, panel, tile)
            both = _Lists(*(torch.cat(parts, dim=1) for parts in zip(lists, of_panel, strict=True)))
            lists = both.take(stable_top_k(both.scores, min(self._k, both.scores.shape[1]), both.columns >= 0)[1])
        return lists

    def _list_panel(self, scores: Tensor, rows: slice, panel: Panel, tile: TileRelevance) -> _Lists:
        """The first k candidates in one panel, but for those that the panel before has, too."""
        positive, negative = self._relevance.pairs(rows, panel.columns, tile)
        candidate = negative.logical_or_(positive)
        candidate[:, : panel.num_seen] = False
        scores.masked_fill_(~candidate, -torch.inf)
        best, items = stable_top_k(scores, min(self._k, scores.shape[1]), candidate)
        _checks.no_nan(self._scores.argument, best[:, :1])  # NaN is the highest
        columns = torch.arange(panel.columns.start, panel.columns.stop, device=scores.device).expand(scores.shape)
        return _Lists(scores, columns, positive).take(items)


def _padding(num_queries: int, length: int, scores: Scores) -> _Lists:
    """Lists without any candidate."""
    columns = torch.full((num_queries, length), -1, dtype=torch.int64, device=scores.device)
    padding = torch.full(columns.shape, -torch.inf, dtype=scores.dtype, device=scores.device)
    return _Lists(padding, columns, columns >= 0)


def _ranges(wanted: Sequence[int], length: int) -> Iterator[slice]:
    """Cover ascending positions by ranges of at most `length`, with few others between them."""
    first = 0
    for number, (position, following) in enumerate(pairwise([*wanted, math.inf]), start=1):
        if following - position > _LARGEST_STEP or following - wanted[first] >= length:
            yield slice(wanted[first], position + 1)
            first = number

"""Exact search in blocks of a gallery, by scores that do not depend on the blocks.

Scores of single pairs are in float64, also by similarities that products of matrices round: those that are distances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval import scores as scoring
from reid_torchmetrics.functional.retrieval.evaluation import Files
from reid_torchmetrics.functional.retrieval.ranking import Walk, cut_in_panels, stable_top_k
from reid_torchmetrics.functional.world import ALONE
from reid_torchmetrics.tasks.walks import share_tiles

Gallery: TypeAlias = Shaped[Tensor, "gallery dim"] | _checks.Array | Files | Iterable[Any]
"""One array, files of `data.read_samples`, or blocks of items in the order of their positions"""
_COORDINATES = 1 << 17  # of the queries of pairs that are scored at a time, so that they stay in the cache
_BYTES_PER_SCORE = 40  # beside the score: a mark, two positions, and a score in float64


class PairSimilarity(NamedTuple):
    """A similarity that scores single pairs in another way than blocks."""

    score: Callable[[Tensor, Tensor], Tensor]
    """returns the score of each pair in float64, from the pair alone, given the rows of both sides"""
    floor: Callable[[Any, Tensor, slice, Tensor], Tensor]
    """returns, for each query, a bound below the scores in a block of all items with a score of pairs above `least`

    It is given the similarity, which has prepared the gallery; queries, which are not prepared; the columns of the
    items; and `least`.
    """


def _minus_distance(query: Tensor, gallery: Tensor) -> Tensor:
    return (query - gallery).square_().sum(1).sqrt_().neg_()


def _euclidean_floor(similarity: Any, query: Tensor, columns: slice, least: Tensor) -> Tensor:
    """Return (|q|^2 - distance^2) / 2 minus the rounding of the move, of the product and of both squares."""
    squared_norm: Tensor = similarity.query(query).double().square().sum(1)
    largest: Tensor = similarity.half_squared_norm[columns].max().double().mul(2).sqrt()
    # Four times a bound on the relative rounding of a product of rows, and of a few operations besides. It holds for
    # any order of the sums: with unit roundoff u, a product of D summands is wrong by at most D u / (1 - D u) times the
    # product of both norms (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1).
    relative_rounding = 2 * (query.shape[1] + 16) * torch.finfo(query.dtype).eps
    rounding = relative_rounding * (squared_norm.sqrt() + largest).square()
    return (squared_norm - least.square()) / 2 - rounding


def _minus_hamming_distance(query: Tensor, gallery: Tensor) -> Tensor:
    return (query != gallery).sum(1).double().neg_()


def _hamming_floor(_: Any, query: Tensor, columns: slice, least: Tensor) -> Tensor:  # noqa: ARG001 - as all floors
    """Return the product with which the distance is `least`."""
    return 2 * least + query.shape[1]


PAIR_SIMILARITIES = {
    "euclidean": PairSimilarity(_minus_distance, _euclidean_floor),
    "hamming": PairSimilarity(_minus_hamming_distance, _hamming_floor),
}
"""the similarities that have other scores of pairs than of blocks, by the names in `SIMILARITIES`"""


@dataclass(frozen=True)
class PairScores:
    """Scores of pairs, beside the scores of blocks."""

    scores: scoring.EmbeddingScores
    query: scoring.Rows
    gallery: scoring.Rows
    similarity: str | scoring.CustomSimilarity

    @property
    def _of_pairs(self) -> PairSimilarity | None:
        return PAIR_SIMILARITIES.get(str(self.similarity))

    def at(
        self, queries: Int[Tensor, " pairs"], items: Int[Tensor, " pairs"], values: Float[Tensor, " pairs"]
    ) -> Float[Tensor, " pairs"]:
        """Return the scores of pairs in float64, given their values in a block; distances are computed anew."""
        of_pairs = self._of_pairs
        if of_pairs is None:
            return values.double()
        out = torch.empty(len(queries), dtype=torch.float64, device=self.scores.device)
        for part in segments.ranges(len(queries), max(1, _COORDINATES // self.gallery.dimension)):
            whole = slice(0, part.stop - part.start)
            query = self.query.select(queries[part]).read(whole, torch.float64)
            gallery = self.gallery.select(items[part]).read(whole, torch.float64)
            out[part] = of_pairs.score(query, gallery)
        return out

    def floor(self, rows: slice, columns: slice, least: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """Return values that a block exceeds, for the queries `rows`, at items with a score of pairs above `least`."""
        of_pairs = self._of_pairs
        if of_pairs is None:
            return least
        return of_pairs.floor(self.scores.similarity, self.query.read(rows, self.scores.dtype), columns, least)


@dataclass(frozen=True)
class SearchedLists:
    """The lists of a vector index, and the embeddings that they are compared with."""

    items: Int[Tensor, "queries longest"]
    """the first k entries of each list, -1 for nothing and for repetitions"""
    query: Float[Tensor, "queries dim"]
    gallery: Gallery
    k: int
    similarity: str | scoring.CustomSimilarity
    self_index: Int[Tensor, " queries"] | None
    """position of each query in the gallery, which is left out; -1 for none"""
    allowed: Bool[Tensor, "queries gallery"] | Bool[Tensor, "1 gallery"] | None
    """mask of the items that each query is compared with, which may be mapped from a file"""
    packed: bool
    tolerance: float
    max_bytes: int
    marks: int
    """says which codes the queries have, see `read_block`"""

    def for_queries(self, queries: Int[Tensor, " some"], items: Int[Tensor, "some longest"]) -> SearchedLists:
        """Return other lists of some queries."""
        self_index = None if self.self_index is None else self.self_index[queries]
        allowed = self.allowed
        if allowed is not None and len(allowed) > 1:
            allowed = allowed[queries.to(allowed.device)]
        return replace(self, items=items, query=self.query[queries], self_index=self_index, allowed=allowed)

    def left_out(self, rows: slice, positions: slice, device: torch.device) -> Bool[Tensor, "queries columns"] | None:
        """Return a mask of the items at some positions that the queries `rows` leave out; None for none."""
        is_out = None
        if self.allowed is not None:
            mask = self.allowed if len(self.allowed) == 1 else self.allowed[rows]
            is_out = ~mask[:, positions].to(device).expand(rows.stop - rows.start, -1)
        if self.self_index is not None:
            places = torch.arange(positions.start, positions.stop, device=device)
            is_self = self.self_index[rows, None] == places
            is_out = is_self if is_out is None else is_out | is_self
        return is_out

    def check_candidates(self, num_gallery: int) -> None:
        """Raise unless the mask and the positions fit a gallery."""
        if self.allowed is not None and self.allowed.shape[1] != num_gallery:
            raise ValueError(f"`allowed` must hold {num_gallery} gallery items; got {self.allowed.shape[1]}.")
        if self.self_index is not None:
            _checks.in_range("self_index", self.self_index, -1, num_gallery)


class ExactSearch:
    """Exact search in blocks of a gallery, which also keeps the scores of the items in the lists of an index.

    Scores of a similarity by name are computed in float64, and depend on the query and the item alone: products do so
    in any block, and distances are computed by `PairScores` for the items in the lists, and for the items
    whose scores by products of matrices, which round, do not prove that they are not among the k nearest.
    """

    def __init__(self, lists: SearchedLists) -> None:
        query = lists.query
        self.num_gallery = 0
        self.num_candidates = torch.zeros(len(query), dtype=torch.int64, device=query.device)
        """number of candidates of each query in the blocks so far"""
        self.scores_of_items = torch.full(lists.items.shape, torch.nan, dtype=torch.float64, device=query.device)
        """the scores of the candidates in the lists, in the blocks so far; NaN for others"""
        self._lists = lists
        self._best = self.scores_of_items.new_full((len(query), lists.k), -torch.inf)
        self._query = scoring.Rows([query if callable(lists.similarity) else query.double()])

    def add(self, block: Float[Tensor, "items dim"]) -> None:
        """Search the next block of the gallery."""
        block_rows = scoring.Rows([block])
        workers.run(
            lambda: scoring.checked_rows(self._query, block_rows),
            self._query.device,
            inside=callable(self._lists.similarity),
        )
        if not len(block):
            return
        allowed = self._lists.allowed
        if allowed is not None and allowed.shape[1] < self.num_gallery + len(block):
            self._lists.check_candidates(self.num_gallery + len(block))
        scores = scoring.score_rows(
            ALONE, self._query, block_rows, similarity=self._lists.similarity, max_bytes=self._lists.max_bytes
        )
        size = cut_in_panels(scores, _BYTES_PER_SCORE, most_rows=scores.product_shape.rows)
        pairs = PairScores(scores, self._query, block_rows, self._lists.similarity)
        search_tile = partial(self._search_tile, pairs)
        for rows, best in share_tiles(scores, size, search_tile, "Index recall"):
            self._best[rows] = best
        self.num_gallery += len(block)

    def _search_tile(self, pairs: PairScores, walk: Walk, rows: slice) -> Float[Tensor, "queries k"]:
        """Return the best scores of some queries so far, falling; note the scores of the items in their lists."""
        best = self._best[rows]
        for panel, num_seen in walk.panels:
            values = walk.fill(rows, panel)[:, num_seen:]
            best = self._search_panel(pairs, values, rows, panel.start + num_seen, best)
        return best

    def _search_panel(
        self,
        pairs: PairScores,
        values: Float[Tensor, "queries columns"],
        rows: slice,
        first: int,
        best: Float[Tensor, "queries k"],
    ) -> Float[Tensor, "queries k"]:
        """Return the best scores of some queries so far, and in a panel with the items from `first` on."""

        def score(query: Int[Tensor, " pairs"], column: Int[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
            return pairs.at(query + rows.start, column + first, values[query, column])

        if callable(self._lists.similarity):  # other scores are finite
            _checks.no_nan(pairs.scores.argument, values)

        # Items that are no candidates have the score minus infinity.
        num_columns = values.shape[1]
        self.num_candidates[rows] += num_columns
        positions = slice(self.num_gallery + first, self.num_gallery + first + num_columns)
        left_out = self._lists.left_out(rows, positions, values.device)
        if left_out is not None:
            values.masked_fill_(left_out, -torch.inf)
            self.num_candidates[rows] -= left_out.sum(1)

        # Score the items in the lists.
        column = self._lists.items[rows] - positions.start
        is_here = (column >= 0) & (column < num_columns)
        if left_out is not None:
            is_here &= ~left_out.gather(1, column.clamp(0, num_columns - 1))
        query, place = is_here.nonzero(as_tuple=True)
        self.scores_of_items[rows][query, place] = score(query, column[query, place])

        # Score the items that may be among the k nearest.
        columns = slice(first, first + num_columns)
        may_be_nearest = values > pairs.floor(rows, columns, best[:, -1])[:, None]
        if int(may_be_nearest.sum()) > best.numel():
            # Those that seem the k nearest are scored first: they leave few other items.
            _, nearest = stable_top_k(values, min(best.shape[1], num_columns))
            query = torch.arange(len(values), device=values.device).repeat_interleave(nearest.shape[1])
            column = nearest.flatten()
            is_no_candidate = values[query, column] == -torch.inf
            best = _with_scores(best, query, score(query, column).masked_fill(is_no_candidate, -torch.inf))
            may_be_nearest = values > pairs.floor(rows, columns, best[:, -1])[:, None]
            may_be_nearest.scatter_(1, nearest, value=False)
        query, column = may_be_nearest.nonzero(as_tuple=True)
        return _with_scores(best, query, score(query, column))

    def check_end(self, num_names: int | None) -> None:
        """Raise unless all blocks together have the items of the lists."""
        if not self.num_gallery:
            raise ValueError("`gallery` must have at least one item; got none.")
        if num_names not in (None, self.num_gallery):
            got = f"{num_names} names for {self.num_gallery} items"
            raise ValueError(f"`gallery_names` must hold one name for each gallery item; got {got}.")
        _checks.in_range("retrieved", self._lists.items.flatten(), -1, self.num_gallery)
        self._lists.check_candidates(self.num_gallery)

    @property
    def num_nearest(self) -> Int[Tensor, " queries"]:
        """Number of nearest items: k, or that of the candidates of a query."""
        return self.num_candidates.clamp(max=self._best.shape[1])

    def least_scores(self, tolerance: float) -> Float[Tensor, " queries"]:
        """Return the score from which on a candidate counts as right, for each query."""
        last = self._best.gather(1, (self.num_nearest - 1).clamp(min=0)[:, None])[:, 0]
        largest = self._best.where(self._best.isfinite(), 0).abs().amax(1)
        return last - tolerance * largest


def _with_scores(
    best: Float[Tensor, "queries k"], query: Int[Tensor, " scores"], scores: Float[Tensor, " scores"]
) -> Float[Tensor, "queries k"]:
    """Return the k best scores of each query, falling, among earlier ones and those of further items.

    `query` has the row of each further score, and ascends.
    """
    num_scores = torch.bincount(query, minlength=len(best))
    first = num_scores.cumsum(0) - num_scores
    place = torch.arange(len(query), device=query.device) - first[query]
    padded = best.new_full((len(best), int(num_scores.amax())), -torch.inf)
    padded[query, place] = scores
    return torch.cat([best, padded], dim=1).topk(best.shape[1], dim=1).values

"""Scores of query-gallery pairs, any tile of them on demand: computed from embeddings, or given.

Scores of one process's part of a gallery are comparable with the scores of other parts.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.world import ALONE, DTYPES, World, all_reduce_values, differing

from .codes import read_embeddings
from .products import BlockShape, full_precision, shape_on
from .rows import WALK_BYTES, Rows, RowsInBlocks, Spares, checked_rows, promoted
from .similarity import SIMILARITIES, Custom, CustomSimilarity, Similarity, gallery_statistics, score_dtype
from .symmetric import SymmetricScores

DEFAULT_MAX_BYTES = 256 << 20
_SHARE_OF_FREE = 8
_PROBED = 16  # queries and gallery items that a user's function is tried on
_COMPARED = 4  # queries; the processes compare their scores with each other
_SAME = 0.05  # difference allowed, as a share of a score: other blocks are rounded otherwise
_BLOCK = 512  # rows and columns of a square that is copied at once: both of its sides stay in a cache


ScoresAt = Callable[[slice, Int[Tensor, "queries listed"]], Float[Tensor, "queries listed"]]


class Scores(ABC):
    """Scores for the counting engine: their size, dtype and device, and any tile of them.

    Classes of scores inherit what is common: scores of a plain table, all of which can be compared.
    """

    argument: str
    """the user's argument behind the scores, for error messages"""
    max_bytes: int
    """bound on the scores held at a time"""
    num_queries: int
    num_gallery: int
    dtype: torch.dtype
    device: torch.device
    keeps_thread: bool = False
    """whether the calling thread must compute them, by a function of the user"""
    num_tiles: int = 1
    """tiles of `max_bytes` within the bound of the user"""
    sent: RowsInBlocks | None = None
    """the queries, if they must be fetched before they are scored"""

    @abstractmethod
    def fill(self, out: Float[Tensor, "queries columns"], rows: slice, columns: slice) -> None:
        """Write the scores of the queries `rows` against the kept gallery items `columns` into `out`."""

    @property
    def product_shape(self) -> BlockShape:
        """Shapes of the products that scores of embeddings are made of, on their device."""
        return shape_on(self.device)

    @property
    def at(self) -> ScoresAt | None:
        """Scores of the queries `rows` at a few columns of each, with the bits of `fill`; None if only it has them."""
        return None

    def symmetric(self, own_column: Int[Tensor, " queries"]) -> SymmetricScores | None:
        """Scores among the items of one set, where each query is the gallery item at its own column, or has -1.

        None where a product of two items cannot serve both directions.
        """
        return None

    def all(self) -> Float[Tensor, "queries gallery"]:
        """All scores at once, of few queries and items."""
        out = torch.empty((self.num_queries, self.num_gallery), dtype=self.dtype, device=self.device)
        self.fill(out, slice(0, self.num_queries), slice(0, self.num_gallery))
        return out

    def to_comparable(self, out: Float[Tensor, "queries listed"], rows: slice) -> None:  # noqa: B027
        """Turn scores of the queries `rows`, in place, into scores that can be compared between queries.

        Under "euclidean" these are minus the distance.
        """

    def check_fit(self, relevance: Relevance) -> None:
        """Raise unless the scores fit the queries, the kept gallery items and the device of a relevance."""
        if (self.num_queries, self.num_gallery) != (relevance.num_queries, relevance.num_kept):
            raise ValueError(
                f"`scores` must be made for the same `relevance`; got {self.num_queries} x {self.num_gallery} scores"
                f" for {relevance.num_queries} queries and {relevance.num_kept} kept gallery items."
            )
        _checks.same_device("scores", self, "relevance", relevance)


class EmbeddingScores(Scores):
    """Scores of embeddings; scores and prepared gallery rows together stay within `max_bytes`."""

    argument = "similarity"

    def __init__(
        self,
        query: Rows | RowsInBlocks,
        gallery: Rows,
        *,
        similarity: str | CustomSimilarity,
        max_bytes: int,
        dtype: torch.dtype | None = None,
        sums: Float[Tensor, " sums"] | None = None,
    ) -> None:
        """Prepare a similarity: its name in `SIMILARITIES` or a function.

        For a part of a larger gallery, the `score_dtype` and `gallery_statistics` of the whole make scores comparable.
        """
        self.num_queries, self.num_gallery = query.size, gallery.size
        self.device = gallery.device
        self._query, self._gallery = query, gallery
        self.sent = query if isinstance(query, RowsInBlocks) else None
        workers.run(lambda: self._prepare(similarity, dtype, sums), self.device)
        self.keeps_thread = callable(similarity)
        self._bound = max_bytes
        row_bytes = gallery.dimension * self.dtype.itemsize
        # Gallery rows prepared at a time: whole blocks of a product, if a few fit.
        block = self.product_shape.columns
        blocks = max(block, WALK_BYTES // row_bytes // block * block)
        self._panel_rows = min(max(1, max_bytes // 4 // row_bytes), blocks)
        self._keeps_prepared = gallery.size * row_bytes <= max_bytes // 2
        # Rows prepared anew for every tile need large tiles; otherwise a quarter is as fast as more.
        is_ready = gallery.whole(self.dtype) is not None
        self._is_whole = is_ready and not self._similarity.copies_gallery  # used as it is, all at once
        self.max_bytes, self.num_tiles = max_bytes // 2, 1
        if self._keeps_prepared or self._is_whole:
            self.max_bytes, self.num_tiles = max_bytes // 4, 4 if self._is_whole else 2
        self._prepared: dict[tuple[int, int], Tensor] = {}
        shape = min(self._panel_rows, gallery.size), gallery.dimension
        self._rooms = Spares(functools.partial(torch.empty, shape, dtype=self.dtype, device=self.device))

    def _prepare(self, similarity: str | CustomSimilarity, dtype: torch.dtype | None, sums: Tensor | None) -> None:
        self.dtype = dtype or score_dtype(similarity, self._query.local, self._gallery)
        sums = gallery_statistics(similarity, self._gallery, self.dtype) if sums is None else sums
        self._similarity: Similarity = (
            Custom(similarity) if callable(similarity) else SIMILARITIES[similarity](self._gallery, self.dtype, sums)
        )

    def fill(self, out: Float[Tensor, "queries columns"], rows: slice, columns: slice) -> None:
        """Write the scores of the queries `rows` against the kept gallery items `columns` into `out`."""
        with full_precision(self.device, foreign=self.keeps_thread):
            query = self._similarity.query(self._query.read(rows, self.dtype))
            for panel in [columns] if self._is_whole else segments.equal_ranges(columns, self._panel_rows):
                self._fill(out[:, panel.start - columns.start : panel.stop - columns.start], query, panel)

    def _fill(self, out: Tensor, query: Tensor, panel: slice) -> None:
        """Write the scores of prepared queries against a panel, prepared anew or kept from before."""
        similarity, key = self._similarity, (panel.start, panel.stop)
        if not self._keeps_prepared:
            with self._rooms.one() as room:
                items = self._gallery.read(panel, self.dtype, room)
                similarity.score(query, similarity.gallery(items, room[: len(items)]), panel, out)
            return
        if key not in self._prepared:
            self._prepared[key] = similarity.gallery(self._gallery.read(panel, self.dtype))
        similarity.score(query, self._prepared[key], panel, out)

    @property
    def at(self) -> ScoresAt | None:
        """None by a function: a score may depend on the shape of the block."""
        return None if self.keeps_thread else self._at

    def _at(self, rows: slice, columns: Int[Tensor, "queries listed"]) -> Float[Tensor, "queries listed"]:
        """By products of some queries with all columns of theirs; neighbors by their first column share columns."""
        out = torch.empty(columns.shape, dtype=self.dtype, device=self.device)
        with full_precision(self.device, foreign=False):
            query = self._similarity.query(self._query.read(rows, self.dtype))
            for some in columns[:, :1].sum(1).argsort().split(self.product_shape.unit):
                items, place = columns[some].unique(return_inverse=True)
                out[some] = self._of_items(query[some], items).gather(1, place)
        return out

    def _of_items(self, query: Tensor, items: Int[Tensor, " items"]) -> Float[Tensor, "queries items"]:
        scores = torch.empty((len(query), len(items)), dtype=self.dtype, device=self.device)
        for part in segments.ranges(len(items), self._panel_rows):
            gallery = self._gallery.select(items[part]).read(slice(0, len(items[part])), self.dtype)
            self._similarity.score(query, self._similarity.gallery(gallery), items[part], scores[:, part])
        return scores

    def symmetric(self, own_column: Int[Tensor, " queries"]) -> SymmetricScores | None:
        """Scores among the items of one set, on the CPU; None without products, or where the queries lie elsewhere."""
        has_products = isinstance(self._query, Rows) and self._similarity.finishes_products
        if (
            not has_products
            or self.device.type != "cpu"
            or not self._query.local.are_rows_of(self._gallery, own_column)
        ):
            return None
        return SymmetricScores(self._gallery, self._similarity, self.dtype, max_bytes=self._bound)

    def to_comparable(self, out: Float[Tensor, "queries listed"], rows: slice) -> None:
        """As the similarity does."""
        self._similarity.to_comparable(self._query.read(rows, self.dtype), out)


class GivenScores(Scores):
    """Scores that the user computed, or minus distances; read tile by tile and never written to."""

    def __init__(
        self,
        scores: Float[Tensor, "queries gallery"],
        *,
        kept: Int[Tensor, " kept"] | None,
        max_bytes: int,
        argument: str = "scores",
        are_distances: bool = False,
    ) -> None:
        """Take the columns `kept` of `scores`, all of them if None."""
        self.max_bytes = max_bytes
        self.argument, self._are_distances = argument, are_distances
        self._scores = scores.detach()
        self._kept = kept
        self.num_queries = len(scores)
        self.num_gallery = scores.shape[1] if kept is None else len(kept)
        self.dtype = torch.promote_types(torch.float32, scores.dtype)
        self.device = scores.device

    def fill(self, out: Float[Tensor, "queries columns"], rows: slice, columns: slice) -> None:
        """Copy a tile into `out`."""
        if self._kept is None:
            tile = self._scores[rows, columns]
        elif _is_by_columns(self._scores):  # whole columns are selected where they lie
            tile = self._scores.T[:, rows][self._kept[columns]].T
        else:
            tile = self._scores[rows][:, self._kept[columns]]
        _copy_tile(tile, out)
        if self._are_distances:
            out.neg_()

    def at(self, rows: slice, columns: Int[Tensor, "queries listed"]) -> Float[Tensor, "queries listed"]:
        """Look them up."""
        scores = self._scores[rows].gather(1, columns if self._kept is None else self._kept[columns]).to(self.dtype)
        return -scores if self._are_distances else scores


def _is_by_columns(matrix: Tensor) -> bool:
    """Return whether each column of a matrix lies in one piece of memory, as in a transposed matrix."""
    return matrix.stride(0) < matrix.stride(1)


def _copy_tile(tile: Float[Tensor, "queries columns"], out: Float[Tensor, "queries columns"]) -> None:
    """Copy a tile, in square blocks where its columns lie together: rows would take a cache line for each number."""
    if tile.device.type != "cpu" or not _is_by_columns(tile):
        out.copy_(tile)
        return
    for rows in segments.ranges(tile.shape[0], _BLOCK):
        for columns in segments.ranges(tile.shape[1], _BLOCK):
            out[rows, columns].copy_(tile[rows, columns])


def bytes_within(max_bytes: int | None, device: torch.device) -> int:
    """A bound on what is held at a time; None: 256 MiB, or more on a GPU, an eighth of its free memory.

    Raises:
        TypeError: no int.
        ValueError: an int below 1.
    """
    _checks.cutoff("max_bytes", max_bytes)
    memory: Any = None if device.type == "cpu" else getattr(torch, device.type, None)
    if max_bytes is not None or not hasattr(memory, "mem_get_info"):
        return max_bytes or DEFAULT_MAX_BYTES
    try:
        free: int = memory.mem_get_info(device)[0]
    except RuntimeError:  # some GPUs of Intel do not tell
        return DEFAULT_MAX_BYTES
    if hasattr(memory, "memory_stats_as_nested_dict"):
        stats = memory.memory_stats_as_nested_dict(device)
        free += stats["reserved_bytes"]["all"]["current"] - stats["allocated_bytes"]["all"]["current"]
    return max(DEFAULT_MAX_BYTES, free // _SHARE_OF_FREE)


def score_embeddings(
    query: Shaped[Tensor, "queries dim"] | _checks.Array,
    gallery: Shaped[Tensor, "gallery dim"] | _checks.Array,
    relevance: Relevance,
    *,
    similarity: _names.SimilarityName | CustomSimilarity = "cosine",
    max_bytes: int | None = None,
) -> EmbeddingScores:
    """Scores of embeddings against the gallery items that `relevance` keeps, computed on demand.

    Args:
        query: embeddings of the queries, any floating dtype; scores are computed in it, at least in float32.
        gallery: embeddings of the whole gallery.
        relevance: the positives, negatives and junk of each query.
        similarity: "cosine", "euclidean", "dot", "hamming" for codes, or a function of a block of queries [q, D] and a
            block of gallery items [g, D] that returns scores [q, g], higher is closer, and writes to neither.
        max_bytes: bound on the scores and the prepared gallery rows held at a time; see `rank_positives`.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, or a function with
            scores that depend on the other items of a block.
    """
    _check_is_relevance(relevance)
    query, gallery = read_embeddings("query", query, similarity), read_embeddings("gallery", gallery, similarity)
    sides = workers.run(lambda: checked_rows(query, gallery), relevance.device)
    _checks.same_device("gallery", gallery, "relevance", relevance)
    _checks.length("query", len(query), relevance.num_queries)
    _checks.length("gallery", len(gallery), relevance.num_gallery)
    max_bytes = bytes_within(max_bytes, query.device)
    kept = sides[1].select(relevance.kept)
    return score_rows(ALONE, sides[0], kept, similarity=similarity, max_bytes=max_bytes)


def given_scores(
    scores: Float[Tensor, "queries gallery"] | _checks.Array, relevance: Relevance, *, max_bytes: int | None = None
) -> GivenScores:
    """Scores that the user computed, higher is closer; a distance matrix enters as `-distances`.

    Minus infinity and infinity are ordinary scores. `scores` is not written to; `max_bytes` bounds its copies.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes or devices that do not fit.
    """
    _check_is_relevance(relevance)
    scores = _checks.floating_matrix("scores", scores, "G")
    _checks.same_device("scores", scores, "relevance", relevance)
    _checks.length("scores", len(scores), relevance.num_queries)
    _checks.length("scores.T", scores.shape[1], relevance.num_gallery)
    return GivenScores(scores, kept=relevance.kept, max_bytes=bytes_within(max_bytes, scores.device))


def _check_is_relevance(relevance: object) -> None:
    """Raise unless `relevance` says who is relevant, as `find_relevance` does."""
    if not isinstance(relevance, Relevance):
        raise TypeError(f"`relevance` must be what `find_relevance` returns; got {type(relevance).__name__}.")


def check_function(
    world: World, query: Rows | RowsInBlocks, gallery: Rows, function: CustomSimilarity, max_bytes: int
) -> None:
    """Raise if scores depend on the rest of their block or on the process: a metric has both.

    A few queries are scored against the last gallery items, together and half of both at a time, and against each
    other on all processes.
    """
    if query.size < _COMPARED:
        return
    if isinstance(query, RowsInBlocks):
        query.fetch(slice(0, min(_PROBED, query.size)))

    def scores(rows: Rows, items: Rows) -> Tensor:
        source = EmbeddingScores(rows, items, similarity=function, max_bytes=max_bytes)
        return source.all().double().nan_to_num()

    def some(rows: Rows | RowsInBlocks, first: int, number: int) -> Rows:
        return Rows([rows.read(slice(first, first + number), rows.dtype)])

    def look() -> tuple[None, list[int]]:
        half = min(query.size, gallery.size, _PROBED) // 2
        last = gallery.size - 2 * half  # the first items may be the queries, and each query finds itself in any block
        together = scores(some(query, 0, 2 * half), some(gallery, last, 2 * half))
        halves = [scores(some(query, first, half), some(gallery, last + first, half)) for first in (0, half)]
        if half > 1 and _differ(torch.cat([together[:half, :half], together[half:, half:]]), torch.cat(halves)):
            raise ValueError(
                "`similarity` must give a query and a gallery item the same score in any block,"
                " because blocks depend on `max_bytes` and on the number of processes; got other scores in blocks of"
                f" {half} queries and gallery items than in one of {2 * half}."
            )
        compared = some(query, 0, _COMPARED)
        return None, scores(compared, compared).flatten().view(torch.int64).tolist() if world.size > 1 else []

    _, table = world.guarded_all_gather(look)
    of_all = torch.tensor(table, dtype=torch.int64, device="cpu").view(torch.float64)
    if any(_differ(of_all[0], other) for other in of_all[1:]):
        raise differing("`similarity`", [f"scores {row[:3].tolist()}, ..." for row in of_all])


def _differ(scores: Tensor, others: Tensor) -> bool:
    """Whether a quarter of the scores differ by more than rounding."""
    is_other = (scores - others).abs() > _SAME * torch.maximum(scores.abs(), others.abs())
    return bool(is_other.double().mean() > 0.25)  # noqa: PLR2004 - the quarter


def score_rows(
    world: World, query: Rows | RowsInBlocks, gallery: Rows, *, similarity: str | CustomSimilarity, max_bytes: int
) -> EmbeddingScores:
    """Scores of all queries against this process's part of the gallery, computed on demand.

    Dtype and statistics are of the whole gallery, so that a score does not depend on how it is sharded.

    Raises:
        DistributedMetricError: an error on some process, or a function that gives other scores on another process.
        ValueError: a function with scores that depend on the other items of a block.
    """
    if callable(similarity):
        check_function(world, query, gallery, similarity, max_bytes)
    scores = functools.partial(EmbeddingScores, query, gallery, similarity=similarity, max_bytes=max_bytes)
    if world.size == 1:
        return scores()
    _, codes = world.guarded_all_gather(lambda: (None, [DTYPES.index(score_dtype(similarity, query.local, gallery))]))
    dtype = promoted([DTYPES[code] for (code,) in codes])
    sums = all_reduce_values(world, lambda: gallery_statistics(similarity, gallery, dtype).to(world.device))
    return world.guarded(lambda: scores(dtype=dtype, sums=sums.to(gallery.device)))

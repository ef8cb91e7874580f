"""Scores of queries against gallery items, any tile of them on demand: from embeddings, or from a matrix of the user.

Scores in one process's part of a gallery are comparable with scores in other parts. Those of the option `rerank` depend
on more than the two embeddings, such as on their neighbors.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.world import ALONE, DTYPES, World, all_reduce_values, differing

from .codes import read_pair
from .products import BlockShape, full_precision, shape_on
from .rows import WALK_BYTES, Rows, RowsInBlocks, Spares, checked_rows, promoted
from .similarity import SIMILARITIES, Custom, CustomSimilarity, Similarity, gallery_statistics, score_dtype

DEFAULT_MAX_BYTES = 256 << 20
_SHARE_OF_FREE = 8  # an eighth of the free memory of a GPU
_PROBED = 16  # queries and gallery items that a user's function is tried on
_COMPARED = 4  # queries with scores that the processes compare
_TOLERANCE = 0.05  # allowed difference, relative to a score, because rounding depends on the block
_BLOCK = 512  # rows and columns of a square that is copied at once, so that both of its sides stay in a cache


ScoresAt = Callable[[slice, Int[Tensor, "queries listed"]], Float[Tensor, "queries listed"]]


class Scores(ABC):
    """The interface of scores for counting: their size, dtype and device, and any tile of them.

    The defaults are for scores that can be compared between queries, without products.
    """

    argument: str
    """name of the user's argument with the scores, for error messages"""
    max_bytes: int
    """bound on the memory for scores"""
    num_queries: int
    num_gallery: int
    dtype: torch.dtype
    device: torch.device
    keeps_thread: bool = False
    """True if the calling thread must compute them, because it calls a function of the user"""
    num_tiles: int = 1
    """number of tiles of `max_bytes` that fit the bound of the user"""
    sent: RowsInBlocks | None = None
    """the queries, if they must be fetched before they are scored"""

    @abstractmethod
    def fill(self, out: Float[Tensor, "queries columns"], rows: slice, columns: slice) -> None:
        """Write the scores of the queries `rows` against the kept gallery items `columns` into `out`."""

    @functools.cached_property
    def product_shape(self) -> BlockShape:
        """The shapes of the products for scores of embeddings, on their device."""
        return shape_on(self.device)

    @property
    def at(self) -> ScoresAt | None:
        """A function for scores of the queries `rows` at a few columns each, with the bits of `fill`; or None."""
        return None

    def all(self) -> Float[Tensor, "queries gallery"]:
        """Return all scores at once, for few queries and items."""
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

        Parts of a larger gallery need the `score_dtype` and the `gallery_statistics` (`sums`) of the whole gallery, so
        that scores of different parts can be compared.
        """
        self.num_queries = query.size
        self.num_gallery = gallery.size
        self.device = gallery.device
        self._query = query
        self._gallery = gallery
        self.sent = query if isinstance(query, RowsInBlocks) else None
        workers.run(lambda: self._prepare(similarity, dtype, sums), self.device)
        self.keeps_thread = callable(similarity)

        # Number of gallery rows that are prepared at a time: whole blocks of a product, if a few fit.
        row_bytes = gallery.dimension * self.dtype.itemsize
        block = self.product_shape.columns
        whole_blocks = max(block, WALK_BYTES // row_bytes // block * block)
        self._panel_rows = min(max(1, max_bytes // 4 // row_bytes), whole_blocks)

        # The memory for tiles. Rows that are prepared for every tile need large tiles; otherwise a quarter is as fast.
        self._bound = max_bytes
        self._keeps_prepared = gallery.size * row_bytes <= max_bytes // 2
        # Whether the whole gallery is scored at once.
        self._is_whole = gallery.need_no_copy(self.dtype) and not self.similarity.copies_gallery
        self.max_bytes = max_bytes // 2
        if self._keeps_prepared or self._is_whole:
            self.max_bytes = max_bytes // 4
            self.num_tiles = 4 if self._is_whole else 2

        self._prepared: dict[tuple[int, int], Tensor] = {}
        shape = (min(self._panel_rows, gallery.size), gallery.dimension)
        self._buffers = Spares(functools.partial(torch.empty, shape, dtype=self.dtype, device=self.device))

    def _prepare(self, similarity: str | CustomSimilarity, dtype: torch.dtype | None, sums: Tensor | None) -> None:
        self.dtype = dtype or score_dtype(similarity, self._query.local, self._gallery)
        if sums is None:
            sums = gallery_statistics(similarity, self._gallery, self.dtype)
        self.similarity: Similarity
        if callable(similarity):
            self.similarity = Custom(similarity)
        else:
            self.similarity = SIMILARITIES[similarity](self._gallery, self.dtype, sums)

    def fill(self, out: Float[Tensor, "queries columns"], rows: slice, columns: slice) -> None:
        """Write the scores of the queries `rows` against the kept gallery items `columns` into `out`."""
        with full_precision(self.device, foreign=self.keeps_thread):
            query = self.similarity.query(self._query.read(rows, self.dtype))
            panels = [columns] if self._is_whole else segments.equal_ranges(columns, self._panel_rows)
            for panel in panels:
                self._fill(out[:, panel.start - columns.start : panel.stop - columns.start], query, panel)

    def _fill(self, out: Tensor, query: Tensor, panel: slice) -> None:
        """Write the scores of prepared queries against a panel, which is prepared or was kept."""
        similarity = self.similarity
        if not self._keeps_prepared:
            with self._buffers.one() as buffer:
                items = self._gallery.read(panel, self.dtype, buffer)
                prepared = similarity.gallery(items, buffer[: len(items)])
                similarity.score(query, prepared, panel, out)
            return
        key = (panel.start, panel.stop)
        if key not in self._prepared:
            self._prepared[key] = similarity.gallery(self._gallery.read(panel, self.dtype))
        similarity.score(query, self._prepared[key], panel, out)

    @property
    def at(self) -> ScoresAt | None:
        """See `Scores.at`; None for a user's function, because a score may depend on the shape of the block."""
        return None if self.keeps_thread else self._at

    def _at(self, rows: slice, columns: Int[Tensor, "queries listed"]) -> Float[Tensor, "queries listed"]:
        """Return scores by products of some queries with all their columns; near columns share a product."""
        out = torch.empty(columns.shape, dtype=self.dtype, device=self.device)
        with full_precision(self.device, foreign=False):
            query = self.similarity.query(self._query.read(rows, self.dtype))
            by_first_column = columns[:, :1].sum(1).argsort()
            for queries in by_first_column.split(self.product_shape.unit):
                items, place = columns[queries].unique(return_inverse=True)
                out[queries] = self._score_items(query[queries], items).gather(1, place)
        return out

    def _score_items(self, query: Tensor, items: Int[Tensor, " items"]) -> Float[Tensor, "queries items"]:
        """Return the scores of prepared queries against some gallery items."""
        scores = torch.empty((len(query), len(items)), dtype=self.dtype, device=self.device)
        for part in segments.ranges(len(items), self._panel_rows):
            part_items = items[part]
            gallery = self._gallery.select(part_items).read(slice(0, len(part_items)), self.dtype)
            self.similarity.score(query, self.similarity.gallery(gallery), part_items, scores[:, part])
        return scores

    def to_comparable(self, out: Float[Tensor, "queries listed"], rows: slice) -> None:
        """Turn scores into similarities that can be compared between queries."""
        self.similarity.to_comparable(self._query.read(rows, self.dtype), out)


class MatrixScores(Scores):
    """Scores that the user computed, or minus distances; they are read tile by tile and never written to."""

    def __init__(
        self,
        scores: Float[Tensor, "queries gallery"],
        *,
        kept: Int[Tensor, " kept"] | None,
        max_bytes: int,
        argument: str = "scores",
        are_distances: bool = False,
    ) -> None:
        """Take the columns `kept` of `scores`; None for all."""
        self.argument = argument
        self.max_bytes = max_bytes
        self._are_distances = are_distances
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
        """Return the scores of the queries `rows` at a few columns each."""
        if self._kept is not None:
            columns = self._kept[columns]
        scores = self._scores[rows].gather(1, columns).to(self.dtype)
        return -scores if self._are_distances else scores


def _is_by_columns(matrix: Tensor) -> bool:
    """Return whether each column of a matrix lies in one piece of memory, as in a transposed matrix."""
    return matrix.stride(0) < matrix.stride(1)


def _copy_tile(tile: Float[Tensor, "queries columns"], out: Float[Tensor, "queries columns"]) -> None:
    """Copy a tile; if its columns are contiguous, by squares, because a row would take a cache line for each number."""
    if tile.device.type != "cpu" or not _is_by_columns(tile):
        out.copy_(tile)
        return
    for rows in segments.ranges(tile.shape[0], _BLOCK):
        for columns in segments.ranges(tile.shape[1], _BLOCK):
            out[rows, columns].copy_(tile[rows, columns])


def bytes_within(max_bytes: int | None, device: torch.device) -> int:
    """Return the bound on memory: `max_bytes`, or for None 256 MiB, or an eighth of a GPU's free memory if it is more.

    Raises:
        TypeError: `max_bytes` is not an int.
        ValueError: `max_bytes` is below 1.
    """
    _checks.cutoff("max_bytes", max_bytes)
    if max_bytes is not None:
        return max_bytes
    memory: Any = None if device.type == "cpu" else getattr(torch, device.type, None)
    if not hasattr(memory, "mem_get_info"):
        return DEFAULT_MAX_BYTES
    try:
        num_free: int = memory.mem_get_info(device)[0]
    except RuntimeError:  # some GPUs of Intel cannot report it
        return DEFAULT_MAX_BYTES
    if hasattr(memory, "memory_stats_as_nested_dict"):
        stats = memory.memory_stats_as_nested_dict(device)
        num_free += stats["reserved_bytes"]["all"]["current"] - stats["allocated_bytes"]["all"]["current"]
    return max(DEFAULT_MAX_BYTES, num_free // _SHARE_OF_FREE)


def score_embeddings(
    query: Shaped[Tensor, "queries dim"] | _checks.Array,
    gallery: Shaped[Tensor, "gallery dim"] | _checks.Array,
    relevance: Relevance,
    *,
    similarity: _names.SimilarityName | CustomSimilarity = "cosine",
    max_bytes: int | None = None,
) -> EmbeddingScores:
    """Score embeddings against the gallery items that `relevance` keeps; tiles of scores are computed on demand.

    Args:
        query: embeddings of the queries, any floating dtype; scores are computed in it, at least in float32.
        gallery: embeddings of the whole gallery.
        relevance: the positives, negatives and junk of each query.
        similarity: "cosine", "euclidean", "dot", "hamming" for codes, or a function of a block of queries [q, D] and a
            block of gallery items [g, D] that returns scores [q, g], higher is closer, and writes to neither.
        max_bytes: bound on the memory for scores and for prepared gallery rows; see `rank_positives`.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, or a function with
            scores that depend on the other items of a block.
    """
    _check_is_relevance(relevance)
    query_rows, gallery_rows = read_pair(query, gallery, similarity)
    return score_pair(query_rows, gallery_rows, relevance, similarity=similarity, max_bytes=max_bytes)


def score_pair(
    query: Rows,
    gallery: Rows,
    relevance: Relevance,
    *,
    similarity: _names.SimilarityName | CustomSimilarity,
    max_bytes: int | None,
) -> EmbeddingScores:
    """Score rows as `score_embeddings` does."""
    query, gallery = workers.run(lambda: checked_rows(query, gallery), relevance.device)
    _checks.same_device("gallery", gallery, "relevance", relevance)
    _checks.length("query", query.size, relevance.num_queries)
    _checks.length("gallery", gallery.size, relevance.num_gallery)
    return score_rows(
        ALONE,
        query,
        gallery.select(relevance.kept),
        similarity=similarity,
        max_bytes=bytes_within(max_bytes, query.device),
    )


def scores_from_matrix(
    scores: Float[Tensor, "queries gallery"] | _checks.Array, relevance: Relevance, *, max_bytes: int | None = None
) -> MatrixScores:
    """Wrap scores that the user computed, higher is closer; pass a distance matrix as `-distances`.

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
    return MatrixScores(scores, kept=relevance.kept, max_bytes=bytes_within(max_bytes, scores.device))


def _check_is_relevance(relevance: object) -> None:
    """Raise unless `relevance` is a result of `find_relevance`."""
    if not isinstance(relevance, Relevance):
        raise TypeError(f"`relevance` must be what `find_relevance` returns; got {type(relevance).__name__}.")


def check_function(
    world: World, query: Rows | RowsInBlocks, gallery: Rows, function: CustomSimilarity, max_bytes: int
) -> None:
    """Raise if scores by a user's function depend on their block or on the process, as scores of a metric must not.

    A few queries are scored against the last gallery items, in one block and in two halves, and against each other on
    all processes.
    """
    if query.size < _COMPARED:
        return
    if isinstance(query, RowsInBlocks):
        query.fetch(slice(0, min(_PROBED, query.size)))

    def score(rows: Rows, items: Rows) -> Tensor:
        scores = EmbeddingScores(rows, items, similarity=function, max_bytes=max_bytes)
        return scores.all().double().nan_to_num()

    def check_blocks() -> tuple[None, list[int]]:
        half = min(query.size, gallery.size, _PROBED) // 2
        last = gallery.size - 2 * half  # the first items may be the queries, and each query finds itself in any block
        together = score(_range_of(query, 0, 2 * half), _range_of(gallery, last, 2 * half))
        first_half = score(_range_of(query, 0, half), _range_of(gallery, last, half))
        second_half = score(_range_of(query, half, half), _range_of(gallery, last + half, half))
        same_pairs = torch.cat([together[:half, :half], together[half:, half:]])
        if half > 1 and _differ(same_pairs, torch.cat([first_half, second_half])):
            raise ValueError(
                "`similarity` must give a query and a gallery item the same score in any block,"
                " because blocks depend on `max_bytes` and on the number of processes; got other scores in blocks of"
                f" {half} queries and gallery items than in one of {2 * half}."
            )
        if world.size == 1:
            return None, []
        compared = _range_of(query, 0, _COMPARED)
        return None, score(compared, compared).flatten().view(torch.int64).tolist()

    _, table = world.guarded_all_gather(check_blocks)
    scores_of_processes = torch.tensor(table, dtype=torch.int64, device="cpu").view(torch.float64)
    for scores in scores_of_processes[1:]:
        if _differ(scores_of_processes[0], scores):
            raise differing("`similarity`", [f"scores {row[:3].tolist()}, ..." for row in scores_of_processes])


def _range_of(rows: Rows | RowsInBlocks, first: int, num_rows: int) -> Rows:
    return Rows([rows.read(slice(first, first + num_rows), rows.dtype)])


def _differ(scores: Tensor, expected: Tensor) -> bool:
    """Return whether more than a quarter of the scores differ by more than rounding."""
    is_different = (scores - expected).abs() > _TOLERANCE * torch.maximum(scores.abs(), expected.abs())
    return bool(is_different.double().mean() > 0.25)  # noqa: PLR2004 - the quarter


def score_rows(
    world: World,
    query: Rows | RowsInBlocks,
    gallery: Rows,
    *,
    similarity: str | CustomSimilarity,
    max_bytes: int,
) -> EmbeddingScores:
    """Score all queries against this process's part of the gallery; tiles of scores are computed on demand.

    Dtype and statistics are those of the whole gallery, so that a score does not depend on how it is sharded.

    Raises:
        DistributedMetricError: an error on some process, or a function that gives other scores on another process.
        ValueError: a function with scores that depend on the other items of a block.
    """
    if callable(similarity):
        check_function(world, query, gallery, similarity, max_bytes)
    make_scores = functools.partial(EmbeddingScores, query, gallery, similarity=similarity, max_bytes=max_bytes)
    if world.size == 1:
        return make_scores()
    _, codes = world.guarded_all_gather(lambda: (None, [DTYPES.index(score_dtype(similarity, query.local, gallery))]))
    dtype = promoted([DTYPES[code] for (code,) in codes])
    sums = all_reduce_values(world, lambda: gallery_statistics(similarity, gallery, dtype).to(world.device))
    return world.guarded(lambda: make_scores(dtype=dtype, sums=sums.to(gallery.device)))


@runtime_checkable
class Rerank(Protocol):
    """The options of a re-ranking, and the scores that it computes."""

    def check_similarity(self, similarity: object) -> None:
        """Raise unless the re-ranking can be used with a similarity."""

    def score(
        self, query: Tensor, gallery: Tensor, relevance: Relevance, *, similarity: Any, max_bytes: int | None
    ) -> Scores:
        """Return the scores of the queries with the gallery items that `relevance` keeps."""


RERANKINGS: Registry[type[Rerank]] = Registry("RERANKINGS", {})
"""the classes that `rerank` may have, by their names, which tasks add"""


def check_rerank(rerank: Rerank | None, similarity: object) -> None:
    """Raise unless `rerank` is None, or can be used with `similarity`."""
    if rerank is not None:
        _checks.instance("rerank", rerank, tuple(RERANKINGS.values()))
        rerank.check_similarity(similarity)

"""k-reciprocal re-ranking: distances that depend on the mutual neighbors of query and gallery item.

No matrix of items x items is ever in memory:

neighbors       the nearest items of each item, found tile by tile
encodings       a sparse row of weights for each item, over the items that are its mutual neighbors
distances       from the original distance and two encodings, one tile at a time, when a ranking needs it

Source: Zhong et al., "Re-ranking Person Re-identification with k-reciprocal Encoding", CVPR 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval import scores
from reid_torchmetrics.functional.retrieval.relevance import Relevance

from .neighbors import ItemSet, Neighbors, find_neighbors

_BYTES_PER_ENTRY = 64  # positions, keys, values and sums of one entry while it is worked on
_MOST_ENTRIES = 1 << 19  # with more at a time, memory is only touched for the first time
_MOST_AT_A_TIME = 4  # parts that several threads work on, which share the memory that may be taken
_PAIR_BYTES = 8 << 20  # embeddings of pairs that are read at a time
ORIGINAL_DISTANCES = {"euclidean": 0.5, "squared_euclidean": 1.0, "quartic_euclidean": 2.0}
"""the power of |p - q|^2 that each original distance is"""


@dataclass(frozen=True, kw_only=True)
class KReciprocal:
    """Options of k-reciprocal re-ranking, as in `rerank_k_reciprocal`.

    As `rerank` of an evaluation it starts from Euclidean distances, between unit vectors under "cosine".
    """

    k1: int = 20
    k2: int = 6
    weight: float = 0.3
    distance: _names.OriginalDistance = "squared_euclidean"
    normalize: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        _checks.positive_int("k1", self.k1)
        _checks.positive_int("k2", self.k2)
        _checks.fraction("weight", self.weight)
        _checks.one_of("distance", self.distance, ORIGINAL_DISTANCES)
        _checks.boolean("normalize", self.normalize)

    def check_similarity(self, similarity: object) -> None:
        """Raise unless the similarity is "cosine" or "euclidean"."""
        if similarity not in ("cosine", "euclidean"):
            got = repr(similarity) if isinstance(similarity, str) else type(similarity).__name__
            raise ValueError(f"`similarity` must be 'cosine' or 'euclidean' for k-reciprocal re-ranking; got {got}.")

    def score(
        self, query: Tensor, gallery: Tensor, relevance: Relevance, *, similarity: object, max_bytes: int | None
    ) -> RerankedScores:
        """Return the scores after re-ranking, from Euclidean distances; "cosine" scales embeddings to norm 1 first."""
        options = replace(self, normalize=self.normalize or similarity == "cosine")
        return options.rerank(query, gallery, kept=relevance.kept, self_index=relevance.self_index, max_bytes=max_bytes)

    @torch.no_grad()
    def rerank(
        self,
        query: Float[Tensor, "queries dim"] | _checks.Array,
        gallery: Float[Tensor, "gallery dim"] | _checks.Array,
        *,
        kept: Integer[Tensor, " kept"] | _checks.Integers | None = None,
        self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
        max_bytes: int | None = None,
    ) -> RerankedScores:
        """Return minus the final distances of queries and gallery items; see `rerank_k_reciprocal`."""
        query, gallery = scores.check_pair(query, gallery)
        if kept is not None:
            kept = _checks.integer_labels("kept", kept, device=gallery.device)
            _checks.in_range("kept", kept, 0, len(gallery))
        max_bytes = scores.bytes_within(max_bytes, query.device)
        items = ItemSet.unite(query, gallery, self_index)
        if kept is not None:
            items = items._replace(gallery_items=items.gallery_items[kept.long()])
        return workers.run(lambda: self._rerank_items(items, max_bytes), query.device)

    def _rerank_items(self, items: ItemSet, max_bytes: int) -> RerankedScores:
        dtype = scores.score_dtype("euclidean", items.rows)
        embeddings = items.rows.read(slice(0, items.rows.size), dtype)  # a copy
        if self.normalize:
            norm = torch.linalg.vector_norm(embeddings, dim=1, keepdim=True)
            embeddings.div_(norm.masked_fill_(norm == 0, 1))
        # The encoding needs the original distance to the nearest of each item only: [items, k].
        rows = scores.Rows([embeddings])
        original_scores = _euclidean_scores(embeddings, rows, rows, max_bytes)
        nearest = find_neighbors(original_scores, max(self.k1 + 1, self.k2), rows_are_items=True)
        distance = NormalizedDistance(embeddings, nearest, power=ORIGINAL_DISTANCES[self.distance])
        # V, sparse [items, items], then its local mean.
        encoding = encode(nearest.positions, self.k1, distance, max_bytes=max_bytes)
        encoding = average_over(nearest.positions[:, : self.k2], encoding, max_bytes=max_bytes)
        return RerankedScores(distance, encoding, items, weight=self.weight, max_bytes=max_bytes)


def rerank_k_reciprocal(
    query: Float[Tensor, "queries dim"] | _checks.Array,
    gallery: Float[Tensor, "gallery dim"] | _checks.Array,
    *,
    k1: int = 20,
    k2: int = 6,
    weight: float = 0.3,
    distance: _names.OriginalDistance = "squared_euclidean",
    normalize: bool = False,
    kept: Integer[Tensor, " kept"] | _checks.Integers | None = None,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    max_bytes: int | None = None,
) -> RerankedScores:
    """Return scores, computed on demand: minus the distance (1 - `weight`) d_J(p, q) + `weight` d(p, q).

    d_J(p, q) = 1 - sum_r min(V_pr, V_qr) / sum_r max(V_pr, V_qr) is the Jaccard distance of the encodings: V_pr is
    exp(-d(p, r)) for r among the k-reciprocal neighbors of p, zero elsewhere, divided by its sum over r, and then
    averaged over the `k2` nearest items of p. d(p, q) is the original distance, divided by the largest distance of p
    to any item; fast-reid adds it undivided.

    Items are the queries and the whole gallery, with its junk, as in the authors' code. An item is its own first
    neighbor; among equally distant ones the lower position goes first, queries before the gallery. If `k1` or `k2`
    exceeds the number of items, all are neighbors.

    Args:
        query: embeddings of the queries, any floating dtype; distances are computed in it, at least in float32.
        gallery: embeddings of the whole gallery.
        k1: number of neighbors, besides the item itself, that may be reciprocal ones.
        k2: number of nearest items, with the item itself, over which encodings are averaged; 1 leaves them unchanged.
        weight: weight of the original distance (the paper's lambda), from 0 to 1.
        distance: the original distance: "euclidean", |p - q|; "squared_euclidean", its square (Zhong et al., AGW,
            TransReID, torchreid's function of Euclidean distances); "quartic_euclidean", the fourth power, where
            squares are passed to a function that squares (torchreid's engine, cluster-contrast, layumi).
        normalize: scale embeddings to norm 1 first; the square of the distance is then 2 - 2 cos. A zero vector stays.
        kept: positions of the gallery items to score, None for all; the attribute `kept` of a `Relevance`.
        self_index: position of each query in the gallery, or -1; such a query and its gallery item are one item.
        max_bytes: bound on the memory for intermediate values, besides one copy of the embeddings and the encodings.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, or embeddings that are not finite.
    """
    options = KReciprocal(k1=k1, k2=k2, weight=weight, distance=distance, normalize=normalize)
    return options.rerank(query, gallery, kept=kept, self_index=self_index, max_bytes=max_bytes)


def _euclidean_scores(embeddings: Tensor, query: scores.Rows, gallery: scores.Rows, max_bytes: int) -> scores.Scores:
    """Return scores of some of the items relative to one origin for all items, so that they are comparable."""
    dtype = embeddings.dtype
    sums = scores.gallery_statistics("euclidean", scores.Rows([embeddings]), dtype)
    return scores.EmbeddingScores(query, gallery, similarity="euclidean", max_bytes=max_bytes, dtype=dtype, sums=sums)


class NormalizedDistance:
    """A power of |p - q|^2 / max_r |p - r|^2 for items p and q, over all items r; 0 where all items are equal."""

    def __init__(self, embeddings: Float[Tensor, "items dim"], nearest: Neighbors, *, power: float) -> None:
        """Find the largest distance of each item, from its score with itself, the highest, and its lowest score."""
        self.embeddings = embeddings
        self._with_itself = nearest.with_itself
        self._power = power
        largest = 2 * (nearest.with_itself - nearest.lowest)
        self._inverse = torch.where(largest > 0, 1 / largest, 0)

    def between(self, first: Int[Tensor, " pairs"], second: Int[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
        """Return the distance from each item of `first` to the item of `second` at the same index."""
        embeddings = self.embeddings
        step = max(1, _PAIR_BYTES // (embeddings.shape[1] * embeddings.element_size()))
        parts = []
        for p, q in zip(first.split(step), second.split(step), strict=True):
            parts.append((embeddings[p] - embeddings[q]).square_().sum(1))
        return torch.cat(parts).mul_(self._inverse[first]).pow_(self._power)

    def from_scores(self, out: Float[Tensor, "rows columns"], items: Int[Tensor, " rows"]) -> None:
        """Turn Euclidean scores of some `items`, p . q - |q|^2 / 2 up to a constant of p, into distances in place."""
        out.neg_().add_(self._with_itself[items, None]).clamp_(min=0)
        out.mul_(2 * self._inverse[items, None]).pow_(self._power)


def encode(
    neighbors: Int[Tensor, "items depth"], k: int, distance: NormalizedDistance, *, max_bytes: int
) -> SparseRows:
    """Compute the weights exp(-d(p, q)) for q in R*(p, k), divided by their sum, for each item p.

    `neighbors` are the nearest items of each item, itself first: at least k + 1 of them, or all items.
    """
    near = neighbors[:, : k + 1]
    half = neighbors[:, : round(k / 2) + 1]
    half = half.where(_is_mutual(half, slice(0, len(half))), len(half))

    def encode_part(items: slice) -> SparseRows:
        length, columns = reciprocal_sets(near, half, items)
        row = segments.numbers(length)
        weights = torch.exp(-distance.between(row + items.start, columns))
        total = torch.zeros(len(length), dtype=torch.float64, device=weights.device)
        total.index_add_(0, row, weights.double())
        return SparseRows(length, columns, (weights / total[row]).to(weights.dtype))

    num_considered = near.shape[1] * (half.shape[1] + 1)  # list entries for one set
    step = max(1, _entries_within(max_bytes) // max(1, num_considered))
    parts = segments.ranges(len(near), step) or [slice(0, 0)]
    return _concatenate(workers.share(encode_part, parts, most=_MOST_AT_A_TIME))


def reciprocal_sets(
    near: Int[Tensor, "items k"], half: Int[Tensor, "items fewer"], rows: slice
) -> tuple[Int[Tensor, " rows"], Int[Tensor, " entries"]]:
    """Return the sizes of the sets R*(p, k) of the items `rows`, and their members, ascending.

    N(p, k) is p itself and the `k` items nearest to it, R(p, k) = {q in N(p, k): p in N(q, k)}, and R*(p, k) is the
    union of R(p, k) with each R(q, k/2), q in R(p, k), that lies in R(p, k) by more than two thirds. Half of an odd k
    is rounded to the even one of its neighbors. `near` has N(p, k) and `half` R(p, k/2), filled up with the number of
    items.

    For instance R(p, k) is {p, q, r}. If R(q, k/2) is {p, q, r, s}, three of four are in R(p, k), and s joins. If it is
    {p, q, s}, two of three are not more than two thirds, and s does not join.
    """
    # R(p, k) in [rows, k + 1], and R(q, k/2) of each of its members in [rows, k + 1, k/2 + 1].
    row_near = near[rows]
    none = len(near)  # the number of items, which is no item, fills cells without a member
    mutual = row_near.where(_is_mutual(near, rows), none)
    half_sets = half[row_near].masked_fill((mutual == none)[:, :, None], none)
    # Look up each member of R(q, k/2) in R(p, k).
    is_member = half_sets < none
    ordered = mutual.sort(dim=1).values
    place = torch.searchsorted(ordered, half_sets.flatten(1)).clamp_(max=ordered.shape[1] - 1)
    is_shared = (ordered.gather(1, place).view_as(half_sets) == half_sets) & is_member
    # Where more than two thirds are shared, the remaining ones join, once each.
    joins = 3 * is_shared.sum(2, keepdim=True) > 2 * is_member.sum(2, keepdim=True)
    joining = half_sets.where(joins & ~is_shared, none)
    members = torch.cat([mutual, joining.flatten(1)], dim=1)
    row, column = (members < none).nonzero(as_tuple=True)
    keys = (row * none + members[row, column]).unique()
    return _split_keys(keys, len(row_near), none)


def _is_mutual(near: Int[Tensor, "items k"], rows: slice) -> Bool[Tensor, "rows k"]:
    """Return whether each item of `rows` is among the neighbors of its neighbors."""
    items = torch.arange(rows.start, rows.stop, device=near.device)[:, None, None]
    step = max(1, _MOST_ENTRIES // max(1, near.shape[1] ** 2))
    parts = []
    for part in items.split(step):
        neighbors_of_neighbors = near[near[part[:, 0, 0]]]
        parts.append((neighbors_of_neighbors == part).any(2))
    return torch.cat(parts)


class SparseRows(NamedTuple):
    """Rows that are zero almost everywhere: the entries of a row are one run with ascending columns."""

    length: Int[Tensor, " rows"]
    columns: Int[Tensor, " entries"]
    values: Float[Tensor, " entries"]

    def select(self, rows: Int[Tensor, " selected"]) -> SparseRows:
        """Return some rows, in any order, also repeatedly."""
        length = self.length[rows]
        _, entries = segments.runs(segments.starts(self.length)[rows], length)
        return SparseRows(length, self.columns[entries], self.values[entries])


def average_over(neighbors: Int[Tensor, "items k"], rows: SparseRows, *, max_bytes: int) -> SparseRows:
    """Compute the mean of the rows of each item's neighbors, itself first (local query expansion)."""
    num_items, k = neighbors.shape
    if k < 2:
        return rows

    def average(items: slice) -> SparseRows:
        # Stack the rows of all neighbors, and add up the entries of an item in one column.
        stacked = rows.select(neighbors[items].flatten())
        item = segments.numbers(stacked.length) // k
        keys, sum_index = (item * num_items + stacked.columns).unique(return_inverse=True)
        total = torch.zeros(len(keys), dtype=torch.float64, device=keys.device)
        total.index_add_(0, sum_index, stacked.values.double())
        length, columns = _split_keys(keys, items.stop - items.start, num_items)
        return SparseRows(length, columns, (total / k).to(rows.values.dtype))

    num_entries = rows.length[neighbors].sum(1)
    parts = segments.ranges_within(num_entries, _entries_within(max_bytes))
    return _concatenate(workers.share(average, list(parts), most=_MOST_AT_A_TIME))


def _split_keys(keys: Tensor, num_rows: int, num_columns: int) -> tuple[Int[Tensor, " rows"], Int[Tensor, " entries"]]:
    """Return the lengths of the rows, and the columns, for ascending keys row * num_columns + column."""
    length = (keys // num_columns).bincount(minlength=num_rows)
    return length, keys % num_columns


def _concatenate(parts: Sequence[SparseRows]) -> SparseRows:
    return SparseRows(*map(torch.cat, zip(*parts, strict=True)))


def _entries_within(max_bytes: int) -> int:
    return max(1, min(_MOST_ENTRIES, max_bytes // _MOST_AT_A_TIME // _BYTES_PER_ENTRY))


class RerankedScores(scores.Scores):
    """Minus the final distances of queries and kept gallery items; each tile is computed when it is needed.

    The encodings of a query and a gallery item sum to 1 each, so with s = sum_r min(V_pr, V_qr) the Jaccard distance is
    1 - s / (2 - s), and only columns where both have an entry count. The gallery's entries are sorted by column:

        gallery encodings             item 0: .6 in column 2, .4 in column 5;  item 1: 1 in column 5
        keys, 2 * column + item       4 (.6), 10 (.4), 11 (1)
        query's entry .7, column 5    its keys from 10 to 11 are the entries of the items 0 and 1
        s                             item 0: min(.7, .4) = .4;  item 1: min(.7, 1) = .7
    """

    argument = "rerank"

    def __init__(
        self, original: NormalizedDistance, encoding: SparseRows, items: ItemSet, *, weight: float, max_bytes: int
    ) -> None:
        """Prepare the distances between queries and gallery items from the encoding of all `items`."""
        embeddings = original.embeddings
        self.num_queries = len(items.query_items)
        self.num_gallery = len(items.gallery_items)
        self.dtype = embeddings.dtype
        self.device = embeddings.device
        self._original = original
        self._weight = weight
        self._query_items = items.query_items
        query = scores.Rows([embeddings], items.query_items)
        gallery = scores.Rows([embeddings], items.gallery_items)
        self._scores = _euclidean_scores(embeddings, query, gallery, max_bytes // 2)
        self.max_bytes = self._scores.max_bytes
        self._work_bytes = max_bytes // 8
        self._query_encoding = encoding.select(items.query_items)
        # The entries of the gallery, by column and then by gallery item.
        gallery_encoding = encoding.select(items.gallery_items)
        keys = gallery_encoding.columns * self.num_gallery + segments.numbers(gallery_encoding.length)
        self._keys, order = keys.sort()
        self._values = gallery_encoding.values[order]

    def fill(self, out: Float[Tensor, "queries columns"], rows: slice, columns: slice) -> None:
        """Write minus the distances of the queries `rows` to the kept gallery items `columns` into `out`."""
        self._scores.fill(out, rows, columns)
        self._original.from_scores(out, self._query_items[rows])
        out.mul_(-self._weight)
        queries = self._query_encoding.select(torch.arange(rows.start, rows.stop, device=self.device))
        width = columns.stop - columns.start
        # For each entry of the queries, find the run of gallery entries in its column that belong to `columns`.
        first_key = queries.columns * self.num_gallery
        start = torch.searchsorted(self._keys, first_key + columns.start)
        run_length = torch.searchsorted(self._keys, first_key + columns.stop) - start
        # The sum of a key in the run and this shift is a position in the dense [queries, columns].
        shift = segments.numbers(queries.length) * width - first_key - columns.start
        edges = segments.edges(queries.length)
        sizes = segments.edges(run_length)[edges].diff() + width

        def subtract_jaccard(part: slice) -> None:
            # Sum the lesser of two weights over the columns where both rows have an entry.
            entries = slice(int(edges[part.start]), int(edges[part.stop]))
            query_entry, gallery_entry = segments.runs(start[entries], run_length[entries])
            part_shift = shift[entries] - part.start * width
            position = self._keys[gallery_entry] + part_shift[query_entry]
            lesser = torch.minimum(self._values[gallery_entry], queries.values[entries][query_entry])
            shared = torch.zeros((part.stop - part.start, width), dtype=torch.float64, device=position.device)
            shared.view(-1).index_add_(0, position, lesser.double())
            # Rows sum to 1, so the sum of the greater weights is 2 minus that of the lesser ones.
            out[part] -= (1 - self._weight) * (1 - shared / (2 - shared))

        parts = segments.ranges_within(sizes, _entries_within(self._work_bytes))
        workers.share(subtract_jaccard, list(parts), most=_MOST_AT_A_TIME)

    def distances(self) -> Float[Tensor, "queries kept"]:
        """Return all final distances at once, for small problems."""
        return self.all().neg_()

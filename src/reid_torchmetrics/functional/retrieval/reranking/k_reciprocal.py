"""k-reciprocal re-ranking: distances that count the mutual neighbors of query and gallery item.

Nothing as large as items x items is ever held:

neighbors       the nearest items of every item, found tile by tile
encodings       of every item, a sparse row of weights: the items that it and its neighbors mutually count as near
distances       a tile at a time, when a ranking asks for it: from the original distance and two encodings

Source: Zhong et al., "Re-ranking Person Re-identification with k-reciprocal Encoding", CVPR 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval import scores

from .neighbors import ItemSet, Neighbors, find_neighbors

_BYTES_PER_ENTRY = 64  # positions, keys, values and sums of one entry while it is worked on
_MOST_ENTRIES = 1 << 19  # with more at a time, memory is only touched for the first time
_MOST_AT_A_TIME = 4  # parts that several threads work on, which share the memory that may be taken
_PAIR_BYTES = 8 << 20  # embeddings of pairs that are read at a time
ORIGINAL_DISTANCES = {"euclidean": 0.5, "squared_euclidean": 1.0, "quartic_euclidean": 2.0}
"""the power of |p - q|^2 that each original distance is"""


@dataclass(frozen=True, kw_only=True)
class KReciprocal:
    """Options of k-reciprocal re-ranking, as `rerank_k_reciprocal` has them."""

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
        """Minus the final distance of queries and gallery items; `rerank_k_reciprocal` says more."""
        query, gallery = scores.check_pair(query, gallery)
        if kept is not None:
            kept = _checks.integer_labels("kept", kept, device=gallery.device)
            _checks.in_range("kept", kept, 0, len(gallery))
        max_bytes = scores.bytes_within(max_bytes, query.device)
        items = ItemSet.of(query, gallery, self_index)
        scored = items if kept is None else items._replace(of_gallery=items.of_gallery[kept.long()])
        return workers.run(lambda: self._of_items(scored, max_bytes), query.device)

    def _of_items(self, items: ItemSet, max_bytes: int) -> RerankedScores:
        dtype = scores.score_dtype("euclidean", items.rows)
        embeddings = items.rows.read(slice(0, items.rows.size), dtype)  # a copy
        if self.normalize:
            norm = torch.linalg.vector_norm(embeddings, dim=1, keepdim=True)
            embeddings.div_(norm.masked_fill_(norm == 0, 1))
        # The nearest of every item, [items, k], are all that the encoding needs of the original distance.
        every = scores.Rows([embeddings])
        original_scores = _euclidean_scores(embeddings, every, every, max_bytes)
        nearest = find_neighbors(original_scores, max(self.k1 + 1, self.k2), of_items=True)
        original = NormalizedDistance(embeddings, nearest, power=ORIGINAL_DISTANCES[self.distance])
        # V, sparse [items, items], then its local mean.
        encoding = encode(nearest.positions, self.k1, original, max_bytes=max_bytes)
        encoding = average_over(nearest.positions[:, : self.k2], encoding, max_bytes=max_bytes)
        return RerankedScores(original, encoding, items, weight=self.weight, max_bytes=max_bytes)


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
    """Scores on demand; minus a score is the distance (1 - `weight`) d_J(p, q) + `weight` d(p, q).

    d_J(p, q) = 1 - sum_r min(V_pr, V_qr) / sum_r max(V_pr, V_qr) is the Jaccard distance of the encodings: V_pr is
    exp(-d(p, r)) for r among the k-reciprocal neighbors of p, zero elsewhere, divided by its sum over r, and then
    averaged over the `k2` nearest items of p. d(p, q) is the original distance, divided by the largest distance of p
    to any item; fast-reid adds it undivided.

    Items are the queries and the whole gallery, junk among it, as in the authors' code. An item is its own first
    neighbor; among equally distant ones the lower position goes first, queries before the gallery. Where `k1` or `k2`
    is beyond the number of items, all are neighbors.

    Args:
        query: embeddings of the queries, any floating dtype; distances are computed in it, at least in float32.
        gallery: embeddings of the whole gallery.
        k1: neighbors among which reciprocal ones are sought, besides the item itself.
        k2: nearest items, the item itself among them, over which encodings are averaged; 1 leaves them as they are.
        weight: of the original distance (the paper's lambda), from 0 to 1.
        distance: the original distance: "euclidean", |p - q|; "squared_euclidean", its square (Zhong et al., AGW,
            TransReID, torchreid's function of Euclidean distances); "quartic_euclidean", the fourth power, where
            squares are passed to a function that squares (torchreid's engine, cluster-contrast, layumi).
        normalize: scale embeddings to norm 1 first; the square of the distance is then 2 - 2 cos. A zero vector stays.
        kept: gallery positions that are to be scored, None for all: the attribute of a `Relevance` with that name.
        self_index: for every query its own position in the gallery, or -1; it is one item then, and not two.
        max_bytes: bound on what is held at a time, besides one copy of the embeddings and the sparse encodings.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, or embeddings that are not finite.
    """
    options = KReciprocal(k1=k1, k2=k2, weight=weight, distance=distance, normalize=normalize)
    return options.rerank(query, gallery, kept=kept, self_index=self_index, max_bytes=max_bytes)


def _euclidean_scores(embeddings: Tensor, query: scores.Rows, gallery: scores.Rows, max_bytes: int) -> scores.Scores:
    """Scores of some of the items, as seen from the one origin of all items: they are then comparable."""
    dtype = embeddings.dtype
    sums = scores.gallery_statistics("euclidean", scores.Rows([embeddings]), dtype)
    return scores.EmbeddingScores(query, gallery, similarity="euclidean", max_bytes=max_bytes, dtype=dtype, sums=sums)


class NormalizedDistance:
    """A power of |p - q|^2 / max_r |p - r|^2 of items p and q, over all items r; 0 where all items are equal."""

    def __init__(self, embeddings: Float[Tensor, "items dim"], nearest: Neighbors, *, power: float) -> None:
        """Take the largest distance of each item from its highest score, that with itself, and its lowest."""
        self.embeddings = embeddings
        self._with_itself = nearest.with_itself
        largest = 2 * (nearest.with_itself - nearest.lowest)
        self._inverse = torch.where(largest > 0, 1 / largest, 0)
        self._power = power

    def of_pairs(self, first: Int[Tensor, " pairs"], second: Int[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
        """Distances of the items `first` to the items `second`, one by one."""
        embeddings = self.embeddings
        step = max(1, _PAIR_BYTES // (embeddings.shape[1] * embeddings.element_size()))
        pairs = zip(first.split(step), second.split(step), strict=True)
        squared = torch.cat([(embeddings[p] - embeddings[q]).square_().sum(1) for p, q in pairs])
        return squared.mul_(self._inverse[first]).pow_(self._power)

    def from_scores(self, out: Float[Tensor, "rows columns"], items: Int[Tensor, " rows"]) -> None:
        """Turn Euclidean scores of some `items`, p . q - |q|^2 / 2 up to a constant of p, into distances in place."""
        out.neg_().add_(self._with_itself[items, None]).clamp_(min=0)
        out.mul_(2 * self._inverse[items, None]).pow_(self._power)


def encode(
    neighbors: Int[Tensor, "items depth"], k: int, distance: NormalizedDistance, *, max_bytes: int
) -> SparseRows:
    """The weights exp(-d(p, q)) of the q in R*(p, k), divided by their sum, for every item p.

    `neighbors` are the nearest items of every item, itself first: at least k + 1 of them, or all items.
    """
    near, half = neighbors[:, : k + 1], neighbors[:, : round(k / 2) + 1]
    half = half.where(_is_mutual(half, slice(0, len(half))), len(half))

    def encode_some(items: slice) -> SparseRows:
        length, columns = reciprocal_sets(near, half, items)
        row = segments.numbers(length)
        weights = torch.exp(-distance.of_pairs(row + items.start, columns))
        total = torch.zeros(len(length), dtype=torch.float64, device=weights.device)
        total.index_add_(0, row, weights.double())
        return SparseRows(length, columns, (weights / total[row]).to(weights.dtype))

    num_considered = near.shape[1] * (half.shape[1] + 1)  # places of lists, for one set
    step = max(1, _entries_within(max_bytes) // max(1, num_considered))
    some = segments.ranges(len(near), step) or [slice(0, 0)]
    return _joined(workers.share(encode_some, some, most=_MOST_AT_A_TIME))


def reciprocal_sets(
    near: Int[Tensor, "items k"], half: Int[Tensor, "items fewer"], rows: slice
) -> tuple[Int[Tensor, " rows"], Int[Tensor, " entries"]]:
    """Sizes of the sets R*(p, k) of the items `rows`, and their members, ascending.

    N(p, k) is p itself and the `k` items nearest to it, R(p, k) = {q in N(p, k): p in N(q, k)}, and R*(p, k) is the
    union of R(p, k) with every R(q, k/2), q in R(p, k), that lies in R(p, k) by more than two thirds. Half of an odd k
    is rounded to the even one of its neighbors. `near` has N(p, k) and `half` R(p, k/2), filled up with the number of
    items.
    """
    # R(p, k) in places [rows, k + 1], and R(q, k/2) of each of its members in [rows, k + 1, k/2 + 1].
    own, none = near[rows], len(near)  # `none`, which is no item, fills places without a member
    mutual = own.where(_is_mutual(near, rows), none)
    theirs = half[own].masked_fill((mutual == none)[:, :, None], none)
    # Which of theirs are in R(p, k) too, by looking each up there.
    is_theirs, ordered = theirs < none, mutual.sort(dim=1).values
    place = torch.searchsorted(ordered, theirs.flatten(1)).clamp_(max=ordered.shape[1] - 1)
    is_shared = (ordered.gather(1, place).view_as(theirs) == theirs) & is_theirs
    # More than two thirds: then the others of theirs join, once each.
    joins = 3 * is_shared.sum(2, keepdim=True) > 2 * is_theirs.sum(2, keepdim=True)
    members = torch.cat([mutual, theirs.where(joins & ~is_shared, none).flatten(1)], dim=1)
    row, column = (members < none).nonzero(as_tuple=True)
    return _split((row * none + members[row, column]).unique(), len(own), none)


def _is_mutual(near: Int[Tensor, "items k"], rows: slice) -> Bool[Tensor, "rows k"]:
    """Whether the neighbors of the items `rows` have them among theirs, too."""
    items = torch.arange(rows.start, rows.stop, device=near.device)[:, None, None]
    some = items.split(max(1, _MOST_ENTRIES // max(1, near.shape[1] ** 2)))
    return torch.cat([(near[near[item[:, 0, 0]]] == item).any(2) for item in some])


class SparseRows(NamedTuple):
    """Rows that are zero almost everywhere: the entries of a row are one run with ascending columns."""

    length: Int[Tensor, " rows"]
    columns: Int[Tensor, " entries"]
    values: Float[Tensor, " entries"]

    def select(self, rows: Int[Tensor, " selected"]) -> SparseRows:
        """Some rows, in any order, also repeatedly."""
        length = self.length[rows]
        _, entries = segments.runs(segments.starts(self.length)[rows], length)
        return SparseRows(length, self.columns[entries], self.values[entries])


def average_over(neighbors: Int[Tensor, "items k"], rows: SparseRows, *, max_bytes: int) -> SparseRows:
    """The mean of the rows of each item's neighbors, itself first (local query expansion)."""
    num_items, k = neighbors.shape
    if k < 2:
        return rows

    def average(items: slice) -> SparseRows:
        # The rows of all neighbors, one below the other; what an item's have in one column is added up.
        averaged = rows.select(neighbors[items].flatten())
        item = segments.numbers(averaged.length) // k
        keys, sum_of_entry = (item * num_items + averaged.columns).unique(return_inverse=True)
        total = torch.zeros(len(keys), dtype=torch.float64, device=keys.device)
        total.index_add_(0, sum_of_entry, averaged.values.double())
        length, columns = _split(keys, items.stop - items.start, num_items)
        return SparseRows(length, columns, (total / k).to(rows.values.dtype))

    some = segments.ranges_within(rows.length[neighbors].sum(1), _entries_within(max_bytes))
    return _joined(workers.share(average, [*some], most=_MOST_AT_A_TIME))


def _split(keys: Tensor, num_rows: int, num_columns: int) -> tuple[Int[Tensor, " rows"], Int[Tensor, " entries"]]:
    """Lengths of the rows, and columns, of ascending keys row * num_columns + column."""
    return (keys // num_columns).bincount(minlength=num_rows), keys % num_columns


def _joined(parts: Sequence[SparseRows]) -> SparseRows:
    return SparseRows(*map(torch.cat, zip(*parts, strict=True)))


def _entries_within(max_bytes: int) -> int:
    return max(1, min(_MOST_ENTRIES, max_bytes // _MOST_AT_A_TIME // _BYTES_PER_ENTRY))


class RerankedScores(scores.Scores):
    """Minus the final distances of queries and kept gallery items, any tile of them on demand."""

    argument = "rerank"

    def __init__(
        self, original: NormalizedDistance, encoding: SparseRows, items: ItemSet, *, weight: float, max_bytes: int
    ) -> None:
        """Take the distance and the encoding of `items`."""
        embeddings, self._of_query, of_gallery = original.embeddings, items.of_query, items.of_gallery
        self.num_queries, self.num_gallery = len(self._of_query), len(of_gallery)
        self.dtype, self.device = embeddings.dtype, embeddings.device
        query, gallery = (scores.Rows([embeddings], of_side) for of_side in (self._of_query, of_gallery))
        self._scores = _euclidean_scores(embeddings, query, gallery, max_bytes // 2)
        self.max_bytes, self._work_bytes = self._scores.max_bytes, max_bytes // 8
        self._original, self._weight = original, weight
        self._queries = encoding.select(self._of_query)
        # For every column of the encoding the gallery items that are not zero there, as ascending keys.
        encoded = encoding.select(of_gallery)
        keys = encoded.columns * self.num_gallery + segments.numbers(encoded.length)
        self._keys, order = keys.sort()
        self._values = encoded.values[order]

    def fill(self, out: Float[Tensor, "queries columns"], rows: slice, columns: slice) -> None:
        """Write minus the distances of the queries `rows` to the kept gallery items `columns` into `out`."""
        self._scores.fill(out, rows, columns)
        self._original.from_scores(out, self._of_query[rows])
        out.mul_(-self._weight)
        queries = self._queries.select(torch.arange(rows.start, rows.stop, device=self.device))
        # For each entry of the queries, the run of keys that share its column and belong to `columns`.
        width, column_key = columns.stop - columns.start, queries.columns * self.num_gallery
        start = torch.searchsorted(self._keys, column_key + columns.start)
        num_met = torch.searchsorted(self._keys, column_key + columns.stop) - start
        # The key of a run and this are a position in the dense [queries, columns].
        shift = segments.numbers(queries.length) * width - column_key - columns.start
        edges = segments.edges(queries.length)
        sizes = segments.edges(num_met)[edges].diff() + width

        def subtract(part: slice) -> None:
            # The sums over columns of the lesser of two weights, only where two rows meet in a column.
            entries = slice(int(edges[part.start]), int(edges[part.stop]))
            entry, met = segments.runs(start[entries], num_met[entries])
            position = self._keys[met] + (shift[entries] - part.start * width)[entry]
            lesser = torch.minimum(self._values[met], queries.values[entries][entry])
            shared = torch.zeros((part.stop - part.start, width), dtype=torch.float64, device=position.device)
            shared.view(-1).index_add_(0, position, lesser.double())
            # Rows sum to 1, so the sum of the greater weights is 2 less that of the lesser ones.
            out[part] -= (1 - self._weight) * (1 - shared / (2 - shared))

        parts = segments.ranges_within(sizes, _entries_within(self._work_bytes))
        workers.share(subtract, [*parts], most=_MOST_AT_A_TIME)

    def distances(self) -> Float[Tensor, "queries kept"]:
        """All final distances at once, for small problems."""
        return self.all().neg_()

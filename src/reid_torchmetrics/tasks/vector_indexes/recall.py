"""Recall of a vector index: the share of the exact nearest items that its lists hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Integer, Shaped
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional.displays import Display, Displayed, counted
from reid_torchmetrics.functional.model_tables import json_safe
from reid_torchmetrics.functional.retrieval import scores as scoring
from reid_torchmetrics.functional.retrieval.evaluation import Files, are_files
from reid_torchmetrics.functional.saved_results import SavedResults
from reid_torchmetrics.functional.world import results_made
from reid_torchmetrics.tasks.comparison import Interval, bootstrap_interval
from reid_torchmetrics.tasks.hashing import read_block
from reid_torchmetrics.tasks.lists import (
    IndexLists,
    ItemReader,
    ListQueries,
    Lists,
    as_ids,
    as_lists,
    mark_repeated,
    read_items,
    read_names,
    read_retrieved,
    without,
)

from .exact_search import ExactSearch, Gallery, SearchedLists

_ROUNDING = 1e-12  # of scores in float64
_ROUNDING_OF_FUNCTIONS = 1e-6  # of scores by a user's function, in float32


@dataclass(frozen=True, eq=False, repr=False)
class IndexRecall(Displayed, SavedResults):
    """Recall of a vector index at k for each query, with its mean."""

    per_query: Float[Tensor, " queries"]
    """float64; the share of each query, NaN for a query without candidates"""
    k: int
    """number of nearest items, and of entries of a list that count"""
    num_gallery: int
    similarity: str
    """its name, or the name of a function"""
    num_short: int
    """lists with fewer than k different items among their first k entries, though a query has as many candidates"""

    @classmethod
    def _from_fields(cls, saved: dict[str, Any]) -> IndexRecall:
        recall = cls(**saved)
        _checks.positive_int("k", recall.k)
        _checks.positive_int("num_gallery", recall.num_gallery)
        if not 0 <= recall.num_short <= len(recall.per_query):
            raise ValueError(f"`num_short` must lie in [0, {len(recall.per_query)}]; got {recall.num_short}.")
        is_share = (recall.per_query >= 0) & (recall.per_query <= 1)
        if not bool((is_share | recall.per_query.isnan()).all()):
            raise ValueError("`per_query` must hold shares from 0 to 1; got another value.")
        return recall

    @property
    def mean(self) -> float:
        """Mean over the queries with candidates; NaN without any."""
        return float(self.per_query[~self.per_query.isnan()].mean())

    def __float__(self) -> float:
        """Return the mean."""
        return self.mean

    def interval(
        self, *, generator: torch.Generator | None = None, level: float = 0.95, num_resamples: int = 1000
    ) -> Interval:
        """Return the bootstrap confidence interval of the mean, see `bootstrap_interval`."""
        return bootstrap_interval(self.per_query, generator=generator, level=level, num_resamples=num_resamples)

    def to_dict(self) -> dict[str, Any]:
        """Return the mean and the settings, JSON-safe; the mean is None where it is NaN."""
        return {
            "recall": json_safe(self.mean),
            "k": self.k,
            "num_queries": len(self.per_query),
            "num_gallery": self.num_gallery,
            "similarity": self.similarity,
            "num_short": self.num_short,
        }

    def __format__(self, form: str) -> str:
        """Return the text; `f"{recall:.2%}"` has the recall in percent."""
        recall = format(self.mean, form or ".4f")
        sizes = f"{counted(len(self.per_query), 'query')} in a gallery of {counted(self.num_gallery, 'item')}"
        text = f"IndexRecall: recall@{self.k} {recall} over {sizes}; similarity: {self.similarity}"
        if self.num_short:
            text += f"; lists with fewer than {counted(self.k, 'item')}: {self.num_short:,}"
        return text

    def _display(self) -> Display:
        return Display(format(self))


@torch.no_grad()
def index_recall(
    retrieved: Lists | IndexLists,
    query: Shaped[Tensor, "queries dim"] | _checks.Array | Files,
    gallery: Gallery,
    *,
    k: int = 10,
    similarity: _names.SimilarityName | scoring.CustomSimilarity = "cosine",
    packed: bool = False,
    tolerance: float | None = None,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    allowed: Bool[Tensor, " gallery"] | Bool[Tensor, "queries gallery"] | _checks.Array | Sequence[Any] | None = None,
    query_names: Sequence[Any] | None = None,
    gallery_names: Sequence[Any] | None = None,
    max_bytes: int | None = None,
) -> IndexRecall:
    """Return the recall of a vector index at k: the share of the exact k nearest items that its lists hold.

        recall@k = |{items among the first k of the list that score at least as the exact k-th item}| / k

    An item is judged by its score, not by its position. So a copy of the k-th item counts as right, whichever of both
    the index returned, and recall is never above 1. An item that a list repeats counts once. Where the gallery has
    fewer than k items, k is their number.

    Scores are computed in float64 from the query and the item alone, distances by subtraction, so that recall does not
    depend on the dtype of an index, on the blocks of a gallery or on `max_bytes`. The scores of a function are what it
    returns. It takes one pass over the gallery, in bounded memory: it may be memory-mapped, or come in blocks. Cameras
    and identities play no role here; `evaluate_lists` and `compare` show the cost of the index in the measures of a
    benchmark.

    Source: Aumueller, Bernhardsson and Faithfull, "ANN-Benchmarks: A Benchmarking Tool for Approximate Nearest Neighbor
    Algorithms", Information Systems, 2020, where recall is defined by the distance of the k-th neighbor.

    Args:
        retrieved: for every query its items, best first: a matrix of positions in the gallery, as `search` of faiss
            returns it, where -1 is nothing; lists; a mapping of the names of queries to lists; or what `index_lists`
            returns. Entries after the first k do not count.
        query: embeddings of the queries, or files of `data.read_samples`.
        gallery: embeddings of the gallery; or files of `data.read_samples`, or an iterable of blocks [items, dim] in
            the order of the positions, each of which is read once.
        k: number of nearest items.
        similarity: as in `evaluate`; it should be the one that the index approximates.
        packed: whether codes are bits packed into uint8, as in `evaluate`.
        tolerance: an item also counts if its score is lower than that of the k-th item by no more than this share of
            the largest absolute score among the k nearest items; 0 for none. None for the rounding of exact scores,
            1e-12, or 1e-6 for a function. With 1e-6 an index is not blamed for its rounding in float32, but among near
            duplicates wrong items count, too.
        self_index: for every query its own position in the gallery, or -1: it is neither searched nor counted in the
            list, as in `evaluate_lists`.
        allowed: which items a filter lets through, for all queries, or for each one; the array may be memory-mapped.
            Exact search is among these, so that the exact lists of a filtered search have recall 1; an item that is not
            allowed takes its place in the list, and is wrong. A query with fewer than k such items has their number as
            k, and one without any has NaN, and is left out of the mean.
        query_names: names of the queries, strings or ints, if `retrieved` is a mapping; a query without a list
            retrieved nothing.
        gallery_names: names of the gallery items, strings or ints, if lists hold names in the place of positions; a
            list, an array or a column.
        max_bytes: bound on the scores that are held at a time, as in `evaluate`.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, another number of lists, items or queries that do not
            exist, embeddings that are not finite, or scores that are NaN.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import index_recall
        >>> query, gallery = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.1], [1.0, 0.2], [0.0, 1.0]])
        >>> index_recall([[0, 2]], query, gallery, k=2)
        IndexRecall: recall@2 0.5000 over 1 query in a gallery of 3 items; similarity: cosine
    """
    _checks.positive_int("k", k)
    _checks.boolean("packed", packed)
    if tolerance is None:
        tolerance = _ROUNDING_OF_FUNCTIONS if callable(similarity) else _ROUNDING
    _checks.number("tolerance", tolerance)
    if not 0 <= tolerance < 1:
        raise ValueError(f"`tolerance` must lie in [0, 1); got {tolerance}.")
    scoring.check_similarity(similarity)
    marks = 0
    query_blocks = []
    for block in _blocks_of(query) if are_files(query) else [query]:
        codes, marks = read_block("query", block, similarity, packed=packed, earlier=marks)
        query_blocks.append(codes)
    query = torch.cat(query_blocks) if len(query_blocks) > 1 else query_blocks[0]
    items = _read_lists(as_lists(retrieved), query_names, gallery_names, len(query)).to(query.device)
    (self_index,) = _arrays.as_tensors(self_index, device=query.device)
    if self_index is not None:
        self_index = _checks.integer_labels("self_index", self_index, len(query)).long()
        (items,) = without((items == self_index[:, None]) & (items >= 0), items)
    (allowed,) = _arrays.as_tensors(allowed)  # stays where it is
    if allowed is not None:
        _checks.boolean_tensor("allowed", allowed)
        if allowed.ndim != 1 and (allowed.ndim != 2 or len(allowed) != len(query)):
            raise ValueError(f"`allowed` must have shape [N] or [{len(query)}, N]; got {list(allowed.shape)}.")
        allowed = allowed.view(-1, allowed.shape[-1])
    items = items[:, :k]
    items = items.masked_fill(mark_repeated(items), -1)
    max_bytes = scoring.bytes_within(max_bytes, query.device)
    lists = SearchedLists(
        items, query, gallery, k, similarity, self_index, allowed, packed, tolerance, max_bytes, marks
    )
    recall, scores = search_lists(lists, None if gallery_names is None else len(gallery_names))
    results_made((recall, scores), lists)
    return recall


def search_lists(
    lists: SearchedLists, num_names: int | None = None
) -> tuple[IndexRecall, Float[Tensor, "queries longest"]]:
    """Return the recall of lists, and the exact scores of the candidates in them, NaN for others and for nothing.

    `num_names` is the number of names of gallery items, if there are any.
    """
    search = ExactSearch(lists)
    marks = lists.marks
    for block in _blocks_of(lists.gallery):
        codes, marks = read_block(
            "gallery", block, lists.similarity, lists.query.device, packed=lists.packed, earlier=marks
        )
        search.add(codes)
    search.check_end(num_names)

    least = search.least_scores(lists.tolerance)
    is_right = search.scores_of_items >= least[:, None]  # NaN is not
    recall = IndexRecall(
        per_query=is_right.sum(1).double() / search.num_nearest,
        k=lists.k,
        num_gallery=search.num_gallery,
        similarity=scoring.similarity_name(lists.similarity),
        num_short=int(((lists.items >= 0).sum(1) < search.num_nearest).sum()),
    )
    return recall, search.scores_of_items


def _read_lists(
    retrieved: Lists,
    query_names: Sequence[Any] | None,
    gallery_names: Sequence[Any] | None,
    num_queries: int,
) -> Int[Tensor, "queries longest"]:
    """Return lists as positions in the gallery, -1 for nothing; positions are not compared with its size."""
    queries = ListQueries()
    if isinstance(retrieved, Mapping):
        if query_names is None:
            raise ValueError("`query_names` must be given where `retrieved` is a mapping of queries; got none.")
        keys = tuple(read_names("query_names", query_names))
        _check_names("query_names", keys, num_queries)
        retrieved = dict(zip(as_ids(list(retrieved)), retrieved.values(), strict=True))
        unknown = retrieved.keys() - set(keys)
        if unknown:
            raise ValueError(f"`retrieved` must hold queries of `query_names`; got {min(unknown, key=str)!r}.")
        queries = ListQueries(keys=keys)
        retrieved = [retrieved.get(name, ()) for name in keys]
    elif query_names is not None:
        raise ValueError("`query_names` must come with `retrieved` as a mapping of queries; got lists in order.")
    reader = ItemReader()
    if gallery_names is not None:
        names = read_names("gallery_names", gallery_names)
        _check_names("gallery_names", names)
        return read_items(retrieved, names, reader, queries, num_queries, len(names))
    items = read_retrieved(retrieved, reader, num_queries)
    names_in_lists = reader.all_names()
    if names_in_lists:
        rule = "must hold positions in the gallery, or names that `gallery_names` has"
        raise TypeError(f"`retrieved` {rule}; got {names_in_lists[0]!r} without `gallery_names`.")
    return items


def _check_names(argument: str, names: Collection[Any], number: int | None = None) -> None:
    """Raise unless there are as many names as rows, if their number is known, and each occurs once."""
    if number is not None and len(names) != number:
        raise ValueError(f"`{argument}` must hold one name for each of {number} rows; got {len(names)}.")
    earlier = set()
    for name in names:
        if name in earlier:
            raise ValueError(f"`{argument}` must hold each name once; got {name!r} twice.")
        earlier.add(name)


def _blocks_of(gallery: Any) -> Iterator[Any]:
    """Yield the embeddings of a gallery: of one array, of files, or block by block."""
    if are_files(gallery):
        for file in gallery:
            yield file.embeddings[:]
        return
    if isinstance(gallery, (list, tuple)):
        has_blocks = all(getattr(block, "ndim", 1) > 1 for block in gallery)
    else:
        has_blocks = isinstance(gallery, Iterable) and not hasattr(gallery, "shape")
    if has_blocks:
        yield from gallery
    else:
        yield gallery

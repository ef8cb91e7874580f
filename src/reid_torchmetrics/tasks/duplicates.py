"""Near duplicates: pairs with a score at or above a threshold, found in tiles.

A query with a near duplicate in the gallery, or in the training set, is a leak. Within one set each pair is scored
once. Groups are the connected components of the pairs. For example, pairs within one set and their groups:

    pairs     0-3   1-4   3-5
    groups    0 3 5 and 1 4
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from reid_torchmetrics import _checks, _extras, _names
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.displays import NUM_ROWS, Display, Displayed, counted, more_rows
from reid_torchmetrics.functional.retrieval import scores as scoring
from reid_torchmetrics.functional.retrieval.evaluation import LeftOutQueries
from reid_torchmetrics.functional.world import ALONE, SentRows, exchange_rows

from .walks import AllPairs, cells_of_true

_QUERY = 1 << 62
"""subtracted from numbers of queries, so that they differ from the numbers of all gallery items"""
_LIMITS = {"cosine": (-1.0, 1.0), "euclidean": (0.0, math.inf), "hamming": (0.0, math.inf)}
_ARE_DISTANCES = ("euclidean", "hamming")
_THRESHOLDS = {
    "cosine": "cosine {:g} or more",
    "dot": "dot product {:g} or more",
    "euclidean": "Euclidean distance {:g} or less",
    "hamming": "Hamming distance {:g} or less",
}
"""the rule for pairs, by similarity"""


@dataclass(frozen=True, eq=False, repr=False)
class Duplicates(Displayed, LeftOutQueries):
    """Pairs of near duplicates, sorted by query and then by gallery item."""

    query: Int[Tensor, " pairs"]
    """int64; numbers of queries from 0, or the earlier item of each pair within one set"""
    gallery: Int[Tensor, " pairs"]
    """int64; numbers of gallery items from 0, in a metric in the order of `index` if it was given"""
    score: Float[Tensor, " pairs"]
    """higher is closer; minus the distance under "euclidean" and "hamming" """
    within_one_set: bool
    """whether both items of a pair belong to one set"""
    similarity: str
    """its name, or the name of a function"""
    threshold: float
    """the smallest score of a pair; under "euclidean" and "hamming" the largest distance"""
    num_queries: int
    """with and without a near duplicate"""
    query_hash: int | None = None
    """hash of the queries' embeddings and of their order; None if it is not known"""

    def _display(self) -> Display:
        best = self.score.argsort(descending=True, stable=True)[:NUM_ROWS]
        rows = []
        title, values = self.column
        pairs = (self.query[best].tolist(), self.gallery[best].tolist(), values[best].tolist())
        for query, item, value in zip(*pairs, strict=True):
            rows.append((str(query), str(item), f"{value:.4f}"))
        columns = ["query", "gallery", title] if rows else []
        return Display(f"Duplicates: {self.summary}", columns, rows, more_rows(len(self), "pair"))

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.query)

    @property
    def column(self) -> tuple[str, Float[Tensor, " pairs"]]:
        """Title and values of a column of tables: "distance" under "euclidean" and "hamming", else "score"."""
        return ("distance", self.score.abs()) if self.similarity in _ARE_DISTANCES else ("score", self.score)

    @property
    def summary(self) -> str:
        """Sentence about the pairs, such as "3 pairs of cosine 0.95 or more: 2 of 100 queries have a near copy"."""
        other_rule = f"score {{:g}} or more under {self.similarity}"
        rule = _THRESHOLDS.get(self.similarity, other_rule).format(self.threshold)
        num_affected = len(self.affected_queries)
        samples = counted(self.num_queries, "item" if self.within_one_set else "query")
        have = "has" if num_affected == 1 else "have"
        pairs = counted(len(self), "pair")
        return f"{pairs} of {rule}: {num_affected:,} of {samples} {have} a near copy"

    @property
    def affected_queries(self) -> Int[Tensor, " affected"]:
        """Queries with a near duplicate, ascending, without repetitions.

        Within one set both items of a pair are affected, because each is a query that finds the other one.
        `RetrievalResults.means_without` leaves these queries out.
        """
        items = torch.cat([self.query, self.gallery]) if self.within_one_set else self.query
        affected: Tensor = items.unique()
        return affected

    def check_queries(self, argument: str, num_queries: int, query_hash: int | None) -> None:
        """Raise unless these are near duplicates of the evaluated queries: of their number, and of their hash if known.

        Raises:
            ValueError: they are of other samples.
        """
        samples = counted(self.num_queries, "sample")
        remedy = ""
        if self.num_queries == num_queries:
            if None in (self.query_hash, query_hash) or self.query_hash == query_hash:
                return
            samples += " with other embeddings or in another order"
            remedy = " If only the embeddings differ, pass `dataclasses.replace(duplicates, query_hash=None)`."
        if self.within_one_set:
            remedy += " Near duplicates within a gallery alone affect no query."
        rule = f"must be near duplicates of the {num_queries:,} queries of the results"
        raise ValueError(f"`{argument}` {rule}; got those of {samples}.{remedy}")

    def groups(self) -> list[tuple[Tensor, Tensor]]:
        """Return the queries and the gallery items of each group, ascending.

        A group is a connected component: its members are connected by pairs, perhaps through other members. Groups are
        in the order of their first query. Within one set the first tensor has all members and the second is empty.
        """
        members, group = self._groups
        sizes = group.bincount().tolist()
        members_by_group = members[group.argsort(stable=True)].split(sizes)
        groups = []
        for group_members in members_by_group:
            is_query = group_members < 0
            groups.append((group_members[is_query] + _QUERY, group_members[~is_query]))
        return groups

    def plot(self, query_images: Any, gallery_images: Any = None, *, k: int = 10) -> Any:
        """Draw up to `k` pairs with the highest scores: both pictures side by side, the value of `column` below.

        Args:
            query_images: pictures of the queries by their numbers from 0, as in `plot.draw_rank_lists`.
            gallery_images: pictures of the gallery items; None within one set, for those of the queries.
            k: the largest number of pairs.

        Returns:
            An image [H, W, 3].

        Raises:
            ModuleNotFoundError: Pillow is not installed.
            TypeError: `k` is not an int, or a picture is of another type.
            ValueError: `k` is below 1, there are no `gallery_images` for pairs of two sets, or a picture is missing.
        """
        return _extras.pictures().draw_duplicates(self, query_images, gallery_images, k=k)

    def to_frame(self) -> Any:
        """Return the pairs as a `pandas.DataFrame` with the columns query, gallery, the title of `column`, and group.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        _extras.require("A DataFrame", "pandas")
        import pandas as pd  # noqa: PLC0415 - an optional package

        members, group = self._groups
        group_of_query = group[torch.searchsorted(members, self.query - _QUERY)]
        title, values = self.column
        return pd.DataFrame(
            {
                "query": self.query.cpu().numpy(),
                "gallery": self.gallery.cpu().numpy(),
                title: values.cpu().numpy(),
                "group": group_of_query.cpu().numpy(),
            }
        )

    @functools.cached_property
    def _groups(self) -> tuple[Int[Tensor, " members"], Int[Tensor, " members"]]:
        """Members of all groups, ascending, and the group of each; queries and the items of one set are below 0."""
        gallery = self.gallery - _QUERY if self.within_one_set else self.gallery
        pairs = torch.stack([self.query - _QUERY, gallery])
        members, ends = pairs.unique(return_inverse=True)
        # `smallest` is the smallest member that each member is known to be connected with. Both members of a pair take
        # the smaller of theirs, until all pairs agree.
        smallest = torch.arange(len(members), device=members.device)
        while bool((smallest[ends[0]] != smallest[ends[1]]).any()):
            smaller = smallest[ends].amin(0).repeat(2)
            smallest = smallest.scatter_reduce(0, smallest[ends].view(-1), smaller, "amin")
            smallest = smallest[smallest]
        _, group = smallest.unique(return_inverse=True)
        return members, group


@torch.no_grad()
def find_duplicates(
    query: Shaped[Tensor, "queries dim"] | _checks.Array,
    gallery: Shaped[Tensor, "gallery dim"] | _checks.Array | None = None,
    *,
    threshold: float = 0.95,
    similarity: _names.SimilarityName | scoring.CustomSimilarity = "cosine",
    max_bytes: int | None = None,
) -> Duplicates:
    """Find all pairs of a query and a gallery item, or of two items in one set, that score at least a threshold.

    Besides the embeddings and the pairs, about `max_bytes` are held at a time. Rounding may score an exact copy
    slightly below 1.

    Args:
        query: embeddings of the queries, any floating dtype; scores are computed in it, at least in float32.
        gallery: embeddings of the gallery, or of the training set; None finds each pair within `query` once.
        threshold: the smallest score of a pair; under "euclidean" and "hamming" the largest distance.
        similarity: "cosine", "euclidean", "dot", "hamming" for codes, or a function of a block of queries [q, D] and a
            block of gallery items [g, D] that returns scores [q, g], higher is closer; within one set the earlier item
            is the query.
        max_bytes: bound on the scores and the prepared gallery rows held at a time; None for 256 MiB, or more on a GPU.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, or scores that are NaN.
    """
    check_threshold(threshold, similarity)
    query_rows, item_rows = scoring.read_pair(query, gallery, similarity)
    device = query_rows.device
    workers.run(lambda: scoring.checked_rows(query_rows, item_rows), device)
    max_bytes = scoring.bytes_within(max_bytes, device)
    scores = scoring.score_rows(ALONE, query_rows, item_rows, similarity=similarity, max_bytes=max_bytes)
    item_numbers = torch.arange(item_rows.size, device=device)
    within_one_set = gallery is None
    own = item_numbers if within_one_set else torch.full((query_rows.size,), -1, device=device)
    return find_pairs(
        AllPairs(scores, item_numbers, own, within_one_set, query_rows.fingerprint()), threshold, similarity
    )


def check_threshold(threshold: float, similarity: str | scoring.CustomSimilarity) -> None:
    """Raise unless some score of a similarity can have the threshold.

    Raises:
        TypeError: the threshold is no number.
        ValueError: no score can have the threshold, or an unknown similarity.
    """
    scoring.check_similarity(similarity)
    _checks.number("threshold", threshold)
    low, high = _LIMITS.get(str(similarity), (-math.inf, math.inf))
    if not low <= threshold <= high:
        raise ValueError(f"`threshold` must lie in [{low:g}, {high:g}] under {similarity!r}; got {threshold}.")


def find_pairs(
    pairs: AllPairs, threshold: float, similarity: _names.SimilarityName | scoring.CustomSimilarity
) -> Duplicates:
    """Find all pairs with a score of at least `threshold`, or with a distance of at most `threshold`.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: a score is NaN.
    """
    scores, world = pairs.scores, pairs.world
    least = -threshold if similarity in _ARE_DISTANCES else threshold
    least = max(least, torch.finfo(scores.dtype).min)

    def find_in_tile(values: Tensor, rows: slice, columns: slice) -> bytes:
        highest = values.amax()
        _checks.no_nan(scores.argument, highest)  # NaN is the maximum if there is one
        if highest < least:  # true for most tiles
            return b""
        row, column = cells_of_true(values >= least)
        score_bits = values[row, column].double().view(torch.int64)
        found_pairs = torch.stack([row + rows.start, pairs.items[columns][column], score_bits], 1)
        return found_pairs.cpu().numpy().tobytes()

    # Pairs are kept as bytes, because small tensors between the large ones of the tiles would fragment the memory.
    pairs_of_tiles = pairs.map_tiles(find_in_tile, "Duplicates")
    num_words = sum(map(len, pairs_of_tiles)) // 8
    _, table = world.guarded_all_gather(lambda: (None, [num_words]))
    sent = SentRows(lambda: [torch.from_numpy(np.frombuffer(bytearray().join(pairs_of_tiles), np.int64))])
    (words,) = exchange_rows(world, [row[0] for row in table], sent)
    query, item, score_bits = words.to(scores.device).view(-1, 3).T.contiguous()
    order = item.argsort()
    order = order[query[order].argsort(stable=True)]
    score = score_bits[order].view(torch.float64).to(scores.dtype)
    return Duplicates(
        query[order],
        item[order],
        score,
        pairs.within_one_set,
        similarity=scoring.similarity_name(similarity),
        threshold=threshold,
        num_queries=len(pairs.own),
        query_hash=pairs.query_hash,
    )

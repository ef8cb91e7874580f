"""Near duplicates: the pairs with a score at or above a threshold, by tiles.

A query with a near copy in the gallery, or in the training set, is a leak. Within one set each pair is multiplied once.
Groups are what pairs connect. Pairs of one set, and their groups:

    pairs     0-3   1-4   3-5
    groups    0 3 5 and 1 4
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks, _names, _progress
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.retrieval.ranking import are_above, cells_of_true
from reid_torchmetrics.functional.retrieval.scores import (
    CustomSimilarity,
    Panel,
    Scores,
    Walk,
    bytes_within,
    check_similarity,
    checked_rows,
    cut_in_panels,
    score_rows,
)
from reid_torchmetrics.functional.world import ALONE, World

_BYTES_PER_PAIR = 33  # masks, and the row, column and place of a pair that is found
_MOST_PAIRS = 1 << 22  # a tile: more would leave fewer panels that lie below the diagonal
_LIMITS = {"cosine": (-1.0, 1.0), "euclidean": (0.0, math.inf)}


class Pairs(NamedTuple):
    """Pairs by query, then by gallery item, with comparable scores."""

    query: Int[Tensor, " pairs"]
    gallery: Int[Tensor, " pairs"]
    score: Float[Tensor, " pairs"]


@dataclass(frozen=True, eq=False)
class Duplicates:
    """All pairs of near duplicates, by query, then by gallery item."""

    query: Int[Tensor, " pairs"]
    """int64; the query, counted from 0"""
    gallery: Int[Tensor, " pairs"]
    """int64; the gallery item, counted from 0, in results of a metric by `index` where it was given; within one set the
    later item of the pair"""
    score: Float[Tensor, " pairs"]
    """higher is closer: minus the distance under "euclidean\""""
    within: bool
    """whether both items are of one set"""

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.query)

    def groups(self) -> list[tuple[Tensor, Tensor]]:
        """Queries and gallery items of each group, ascending: what pairs connect, by way of others, too.

        Groups are in the order of their first query. Within one set the first tensor has all members, the second none.
        """
        members, group, _ = self._groups
        members = members[group.argsort(stable=True)]
        split = members.split(group.bincount().tolist())
        return [(each[each < self._num_queries], each[each >= self._num_queries] - self._num_queries) for each in split]

    def to_frame(self) -> Any:
        """The pairs as a `pandas.DataFrame`: query, gallery, score and the number of the group.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - an optional package

        columns = {"query": self.query, "gallery": self.gallery, "score": self.score, "group": self._groups[2]}
        return pd.DataFrame({name: values.cpu().numpy() for name, values in columns.items()})

    @cached_property
    def _num_queries(self) -> int:
        """What is added to gallery items where they are no queries; above all numbers within one set."""
        highest = max((int(side.max()) for side in (self.query, self.gallery) if len(self)), default=-1)
        return highest + 1

    @cached_property
    def _groups(self) -> tuple[Tensor, Tensor, Tensor]:
        """Members of all groups, the group of each, and the group of each pair."""
        others = self.gallery if self.within else self.gallery + self._num_queries
        members, ends = torch.cat([self.query, others]).unique(return_inverse=True)
        first, second = ends.view(2, -1)
        # The least member that each is known to be connected with; those of a pair learn from each other.
        least, before = torch.arange(len(members), device=members.device), None
        while before is None or not torch.equal(least, before):
            before, common = least, torch.minimum(least[first], least[second])
            for side in (first, second):
                least = least.scatter_reduce(0, before[side], common, "amin")
            least = least[least]
        group = least.unique(return_inverse=True)[1]
        return members, group, group[first]


@torch.no_grad()
def find_duplicates(
    query: Float[Tensor, "queries dim"] | _checks.Array,
    gallery: Float[Tensor, "gallery dim"] | _checks.Array | None = None,
    *,
    threshold: float = 0.95,
    similarity: _names.SimilarityName | CustomSimilarity = "cosine",
    max_bytes: int | None = None,
) -> Duplicates:
    """All pairs of a query and a gallery item, or of two items of one set, that score at least a threshold.

    Pairs are found tile by tile; besides the embeddings and the pairs, about `max_bytes` are held. Rounding may score
    an exact copy just below 1.

    Args:
        query: embeddings of the queries, any floating dtype; scores are computed in it, at least in float32.
        gallery: embeddings of the gallery, or of the training set; None finds the pairs within `query`, each once.
        threshold: the least score of a pair; under "euclidean" the largest distance.
        similarity: "cosine", "euclidean", "dot" or a function of a block of queries [q, D] and a block of gallery
            items [g, D] that returns scores [q, g], higher is closer; within one set the earlier item is the query.
        max_bytes: bound on the scores and the prepared gallery rows held at a time; None for 256 MiB, or more on a GPU.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, or scores that are NaN.
    """
    least = least_score(threshold, similarity)
    query = _checks.embeddings("query", query)
    items = query if gallery is None else _checks.embeddings("gallery", gallery)
    of_query, of_gallery = workers.run(lambda: checked_rows(query, items), query.device)
    sides = of_query, of_query if gallery is None else of_gallery
    scores = score_rows(ALONE, *sides, similarity=similarity, max_bytes=bytes_within(max_bytes, query.device))
    first = torch.arange(1, len(query) + 1, device=query.device) if gallery is None else None
    return Duplicates(*find_pairs(scores, least, first), within=gallery is None)


def least_score(threshold: float, similarity: str | CustomSimilarity) -> float:
    """The least score of a pair, minus the largest distance under "euclidean".

    Raises:
        TypeError: a threshold that is no number.
        ValueError: a threshold that no score has, or an unknown similarity.
    """
    check_similarity(similarity)
    _checks.number("threshold", threshold)
    low, high = _LIMITS.get(str(similarity), (-math.inf, math.inf))
    if not low <= threshold <= high:
        raise ValueError(f"`threshold` must lie in [{low:g}, {high:g}] under {similarity!r}; got {threshold}.")
    return -threshold if similarity == "euclidean" else threshold


def find_pairs(
    scores: Scores, least: float, first: Int[Tensor, " queries"] | None = None, world: World = ALONE
) -> Pairs:
    """All pairs with the `least` score or more; gallery items are columns of this process's part.

    Columns before `first` of each query, ascending, do not count.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: a score is NaN.
    """
    shape, none = scores.product_shape, torch.empty(0, dtype=torch.int64, device=scores.device)
    most = max(_MOST_PAIRS, shape.rows * shape.columns)
    num_rows, width = cut_in_panels(scores, _BYTES_PER_PAIR, most_rows=shape.rows, most_scores=most)
    _, table = world.guarded_all_gather(lambda: (None, [num_rows]))
    walk = world.guarded(lambda: Walk(scores, min(table)[0], width))
    found = [Pairs(none, none, none.to(scores.dtype))]

    def look(rows: slice) -> None:
        start = None if first is None else first[rows]
        of_panels = (_of_panel(walk, rows, panel, least, start) for panel in walk.panels)
        pairs = _joined([found[0], *filter(None, of_panels)])
        order = pairs.query.argsort(stable=True)
        found.append(Pairs(*(values[order] for values in pairs)))

    for rows in _progress.steps(walk.rows, "Duplicates"):
        if scores.sent is not None:
            scores.sent.fetch(rows, ahead=True)
        look_at = functools.partial(look, rows)
        world.guarded(functools.partial(workers.run, look_at, scores.device, inside=scores.keeps_thread))
    return world.guarded(lambda: _joined(found))


def _of_panel(walk: Walk, rows: slice, panel: Panel, least: float, first: Tensor | None) -> Pairs | None:
    """The pairs of some queries in a panel; None where no column of it counts, or no score is high enough."""
    columns, num_seen = panel
    if first is not None and columns.stop <= int(first[0]):
        return None
    values = walk.fill(rows, columns)
    walk.scores.to_comparable(values, rows)
    highest = values.amax()
    _checks.no_nan(walk.scores.argument, highest)  # NaN is above all
    if highest < least:  # nearly always
        return None
    is_pair = are_above(values, values.new_full((len(values), 1), least), or_level=True)
    is_pair[:, :num_seen] = False
    if first is not None:
        is_pair &= torch.arange(columns.start, columns.stop, device=values.device) >= first[:, None]
    row, column = cells_of_true(is_pair)
    return Pairs(row + rows.start, column + columns.start, values[row, column])


def _joined(parts: Sequence[Pairs]) -> Pairs:
    return Pairs(*map(torch.cat, zip(*parts, strict=True)))

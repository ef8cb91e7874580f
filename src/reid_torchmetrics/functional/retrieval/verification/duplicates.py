"""Near duplicates: the pairs with a score at or above a threshold, by tiles.

A query with a near copy in the gallery, or in the training set, is a leak. Within one set each pair is multiplied once.
Groups are what pairs connect. Pairs of one set, and their groups:

    pairs     0-3   1-4   3-5
    groups    0 3 5 and 1 4
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from reid_torchmetrics import _checks, _extras, _names
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.retrieval import scores as of_pairs
from reid_torchmetrics.functional.retrieval.ranking import cells_of_true
from reid_torchmetrics.functional.world import ALONE, SentRows, World, exchange_rows

Result = TypeVar("Result")

_QUERY = 1 << 62  # what makes the number of a query differ from all of gallery items
_BYTES_PER_PAIR = 33  # masks, and the row, column and place of a pair that is found
_MOST_PAIRS = 1 << 23  # a tile: more would leave fewer panels that lie below the diagonal
_LIMITS = {"cosine": (-1.0, 1.0), "euclidean": (0.0, math.inf), "hamming": (0.0, math.inf)}
_ARE_DISTANCES = ("euclidean", "hamming")


@dataclass(frozen=True, eq=False)
class Duplicates:
    """All pairs of near duplicates, by query, then by gallery item, int64.

    Both are counted from 0; gallery items of a metric go by `index` where it was given. `within` says that both are of
    one set, and `gallery` has the later one. A higher score is closer: under "euclidean" and "hamming" it is minus
    the distance.
    """

    query: Int[Tensor, " pairs"]
    gallery: Int[Tensor, " pairs"]
    score: Float[Tensor, " pairs"]
    within: bool

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.query)

    @property
    def affected_queries(self) -> Int[Tensor, " affected"]:
        """Queries with a near copy, ascending, each once.

        Within one set a pair is listed once, but each of its items is a query that finds the other one, so both are
        affected. `RetrievalResults.without` leaves them out.
        """
        items = torch.cat([self.query, self.gallery]) if self.within else self.query
        affected: Tensor = items.unique()
        return affected

    def groups(self) -> list[tuple[Tensor, Tensor]]:
        """Queries and gallery items of each group, ascending: what pairs connect, by way of others, too.

        Groups are in the order of their first query. Within one set the first tensor has all members, the second none.
        """
        members, group = self._groups
        of_groups = members[group.argsort(stable=True)].split(group.bincount().tolist())
        return [(each[each < 0] + _QUERY, each[each >= 0]) for each in of_groups]

    def plot(self, query_images: Any, gallery_images: Any = None, *, k: int = 10) -> Any:
        """Draw up to `k` pairs with the highest scores, both pictures side by side, the score below the second.

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
        """The pairs as a `pandas.DataFrame`: query, gallery, score and the number of the group.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - an optional package

        members, group = self._groups
        columns = {name: getattr(self, name).cpu().numpy() for name in ("query", "gallery", "score")}
        return pd.DataFrame(columns | {"group": group[torch.searchsorted(members, self.query - _QUERY)].cpu().numpy()})

    @functools.cached_property
    def _groups(self) -> tuple[Int[Tensor, " members"], Int[Tensor, " members"]]:
        """Members of all groups, ascending, and the group of each; queries and items of one set are below 0."""
        pairs = torch.stack([self.query - _QUERY, self.gallery - _QUERY * self.within])
        members, ends = pairs.unique(return_inverse=True)
        # The least member that each is known to be connected with; those of a pair learn from each other.
        least = torch.arange(len(members), device=members.device)
        while bool((least[ends[0]] != least[ends[1]]).any()):
            least = least.scatter_reduce(0, least[ends].view(-1), least[ends].amin(0).repeat(2), "amin")
            least = least[least]
        return members, least.unique(return_inverse=True)[1]


class AllPairs(NamedTuple):
    """The pairs of all queries and the items in this process's part of a gallery; within one set each pair once.

    `items` are the numbers of the columns' items in the whole gallery, `own` the column of each query itself, else -1;
    within one set, whose items ascend, it is the column of the last item up to the query.
    """

    scores: of_pairs.Scores
    items: Int[Tensor, " gallery"]
    own: Int[Tensor, " queries"]
    within: bool
    world: World = ALONE

    @torch.no_grad()
    def look(self, work: Callable[[Tensor, slice, slice], Result], what: str) -> list[Result]:
        """What `work` makes of the scores of each tile, of queries and columns; `what` names it where it is shown.

        The scores are comparable, minus infinity where a pair does not count, and overwritten by the next tile. Tiles
        in which no pair counts are not multiplied.

        Raises:
            DistributedMetricError: an error on some process.
        """
        most, beside = self.scores.product_shape.rows, _BYTES_PER_PAIR
        num_rows, width = of_pairs.cut_in_panels(self.scores, beside, most_rows=most, most_scores=_MOST_PAIRS)
        _, table = self.world.guarded_all_gather(lambda: (None, [num_rows]))
        size, look = (min(table)[0], width), functools.partial(self._look, work)
        tiles = of_pairs.share_tiles(self.scores, size, look, what, world=self.world)
        return [each for _, results in tiles for each in results]

    def _look(self, work: Callable[[Tensor, slice, slice], Result], walk: of_pairs.Walk, rows: slice) -> list[Result]:
        own, results = self.own[rows, None], []
        first, last = int(own[0]) + 1 if self.within else 0, int(own.max())
        for panel, num_seen in (each for each in walk.panels if each.columns.stop > first):
            values, columns = walk.fill(rows, panel)[:, num_seen:], slice(panel.start + num_seen, panel.stop)
            self.scores.to_comparable(values, rows)
            if last >= columns.start:
                column = torch.arange(columns.start, columns.stop, device=own.device)
                values.masked_fill_(column <= own if self.within else column == own, -torch.inf)
            results.append(work(values, rows, columns))
        return results


@torch.no_grad()
def find_duplicates(
    query: Shaped[Tensor, "queries dim"] | _checks.Array,
    gallery: Shaped[Tensor, "gallery dim"] | _checks.Array | None = None,
    *,
    threshold: float = 0.95,
    similarity: _names.SimilarityName | of_pairs.CustomSimilarity = "cosine",
    max_bytes: int | None = None,
) -> Duplicates:
    """All pairs of a query and a gallery item, or of two items of one set, that score at least a threshold.

    Pairs are found tile by tile; besides the embeddings and the pairs, about `max_bytes` are held. Rounding may score
    an exact copy just below 1.

    Args:
        query: embeddings of the queries, any floating dtype; scores are computed in it, at least in float32.
        gallery: embeddings of the gallery, or of the training set; None finds the pairs within `query`, each once.
        threshold: the least score of a pair; under "euclidean" and "hamming" the largest distance.
        similarity: "cosine", "euclidean", "dot", "hamming" for codes, or a function of a block of queries [q, D] and a
            block of gallery items [g, D] that returns scores [q, g], higher is closer; within one set the earlier item
            is the query.
        max_bytes: bound on the scores and the prepared gallery rows held at a time; None for 256 MiB, or more on a GPU.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, or scores that are NaN.
    """
    least = least_score(threshold, similarity)
    query = of_pairs.read_embeddings("query", query, similarity)
    items = query if gallery is None else of_pairs.read_embeddings("gallery", gallery, similarity)
    sides = workers.run(lambda: of_pairs.checked_rows(query, items), query.device)
    max_bytes = of_pairs.bytes_within(max_bytes, query.device)
    scores = of_pairs.score_rows(ALONE, *sides, similarity=similarity, max_bytes=max_bytes)
    number = torch.arange(max(len(query), len(items)), device=query.device)
    own = number[: len(query)] if gallery is None else torch.full_like(number[: len(query)], -1)
    return find_pairs(AllPairs(scores, number[: len(items)], own, gallery is None), least)


def least_score(threshold: float, similarity: str | of_pairs.CustomSimilarity) -> float:
    """The least score of a pair, minus the largest distance under "euclidean" and "hamming".

    Raises:
        TypeError: a threshold that is no number.
        ValueError: a threshold that no score has, or an unknown similarity.
    """
    of_pairs.check_similarity(similarity)
    _checks.number("threshold", threshold)
    low, high = _LIMITS.get(str(similarity), (-math.inf, math.inf))
    if not low <= threshold <= high:
        raise ValueError(f"`threshold` must lie in [{low:g}, {high:g}] under {similarity!r}; got {threshold}.")
    return -threshold if similarity in _ARE_DISTANCES else threshold


def find_pairs(pairs: AllPairs, least: float) -> Duplicates:
    """All pairs with the `least_score` or more.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: a score is NaN.
    """
    scores, world = pairs.scores, pairs.world
    least = max(least, torch.finfo(scores.dtype).min)

    def near(values: Tensor, rows: slice, columns: slice) -> bytes:
        highest = values.amax()
        _checks.no_nan(scores.argument, highest)  # NaN is above all
        if highest < least:  # most tiles
            return b""
        row, column = cells_of_true(values >= least)
        bits = values[row, column].double().view(torch.int64)
        return torch.stack([row + rows.start, pairs.items[columns][column], bits], 1).cpu().numpy().tobytes()

    # Small tensors would stay between the large ones of the tiles, and freed memory would not be used again.
    found = pairs.look(near, "Duplicates")
    _, table = world.guarded_all_gather(lambda: (None, [sum(map(len, found)) // 8]))
    sent = SentRows(lambda: [torch.from_numpy(np.frombuffer(bytearray().join(found), np.int64))])
    (words,) = exchange_rows(world, [size for (size,) in table], sent)
    query, item, bits = words.to(scores.device).view(-1, 3).T.contiguous()
    order = item.argsort()
    order = order[query[order].argsort(stable=True)]
    return Duplicates(query[order], item[order], bits[order].view(torch.float64).to(scores.dtype), pairs.within)

"""Rank the positives of every query, by counting.

The rank of a positive is one plus the number of candidates before it, and a candidate is before it if it scores higher.
So no gallery is sorted with its indices. The positives are known from the labels. A tile of scores is filled, the
scores of the positives are read, positives and junk are removed, and the negatives above each positive are counted.

If the gallery is sharded over processes, some tiles of queries are ranked at a time. Every process reads the scores of
the positives in its part of the gallery. All processes get the scores of all positives, by a sum of buffers in which
each process fills its slots. Every process counts the negatives of its part before each positive, and the counts are
summed. For example, a query on two processes, with the scores of its positives in brackets:

    process                 0                  1
    scores            [.9]  .8  .3       .85  [.5]  .6
    buffer             .9   0             0    .5        each process fills its slots
    summed             .9   .5            .9   .5        the positives of all processes, best first
    negatives before    0    1             0    2        in the process's part: .8; .85 and .6
    summed              0    3             0    3
    ranks               1    5             1    5        negatives before, and the place among the positives
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int, Integer, Real, Shaped
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names, _progress
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import (
    LABELS,
    QueryCounts,
    Relevance,
    TileRelevance,
    find_relevance,
    number_names,
)
from reid_torchmetrics.functional.retrieval.scores import (
    CustomSimilarity,
    Scores,
    read_pair,
    score_pair,
    scores_from_matrix,
)
from reid_torchmetrics.functional.world import World, all_gather_values

from .counting import Positives
from .positive_ranks import PositiveRanks, RankTable
from .tie_policies import TIE_POLICIES
from .tiles import GalleryPart, Tiles, best_first, cells_of_positives, size_of_tiles

_GATHERED = 1 << 22  # run lengths that are gathered at a time
_SLOTS = 1 << 20  # scores of positives that are exchanged at a time, with their counts
_MANY_QUERIES = 256  # a tile of as many queries is exchanged by itself
RANKINGS_AT_ONCE: Registry[Callable[[GalleryPart, Tensor, slice, RankTable], bool]] = Registry("RANKINGS_AT_ONCE", {})
"""faster ways to rank some queries by all their scores: "whole_scores", which a task adds, for whole numbers. Each
returns whether it has put the ranks into the table"""
_LABELS = ("query_identities", "gallery_identities", "query_cameras", "gallery_cameras")


@torch.no_grad()
def rank_positives(
    query: Shaped[Tensor, "queries dim"] | _checks.Array,
    gallery: Shaped[Tensor, "gallery dim"] | _checks.Array,
    query_identities: Shaped[Tensor, "queries ..."] | _checks.IntegersOrNames | _checks.SeveralLabels,
    gallery_identities: Shaped[Tensor, "gallery ..."] | _checks.IntegersOrNames | _checks.SeveralLabels,
    query_cameras: Real[Tensor, " queries"] | _checks.IntegersOrNames | None = None,
    gallery_cameras: Real[Tensor, " gallery"] | _checks.IntegersOrNames | None = None,
    *,
    similarity: _names.SimilarityName | CustomSimilarity = "cosine",
    same_camera: _names.CameraRule = "same_identity",
    junk_identities: Collection[int | str] = (-1,),
    ties: _names.TieName = "pessimistic",
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    max_bytes: int | None = None,
) -> PositiveRanks:
    """Rank every query's positives in the gallery by the similarity of embeddings.

    Args:
        query: embeddings of the queries, any floating dtype; scores are computed in it, at least in float32. Under
            "hamming" codes of 0 and 1, or of 1 and -1, of any dtype.
        gallery: embeddings of the gallery.
        query_identities: identities of the queries.
        gallery_identities: identities of the gallery.
        query_cameras: cameras of the queries; None together with `gallery_cameras` means that no camera rule applies.
        gallery_cameras: cameras of the gallery.
        similarity: "cosine", "euclidean", "dot", "hamming" for codes, or a function of a block of queries [q, D] and a
            block of gallery items [g, D] that returns scores [q, g], higher is closer, and writes to neither.
        same_camera: "same_identity" drops the gallery items with the query's identity and camera (Market-1501),
            "all" drops every item of the query's camera (open-reid's CUHK03), "keep" drops nothing.
        junk_identities: gallery items of these identities are dropped for every query.
        ties: the item that goes first among equal scores: "pessimistic" the negative, "optimistic" the positive,
            "stable" the first in the gallery; "grouped" gives all of them the last of their ranks (scikit-learn's
            average precision), and under "expected" measures are means over all orders of equal scores. Evaluators
            that sort leave this to their sorting routine.
        self_index: for every query its own position in the gallery, or -1: leave-one-out drops it by position.
        max_bytes: bound on the memory for scores and for prepared gallery rows; None for 256 MiB, or for an eighth of
            the free memory of a GPU. Ranks do not depend on it.

    Returns:
        Ranks among the query's candidates. A query without positives has no rank; with an empty gallery no query has.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, scores that are NaN.
    """
    query_rows, gallery_rows = read_pair(query, gallery, similarity)  # before the labels
    relevance = _find_relevance(
        (query_rows.size, gallery_rows.size),
        labels=(query_identities, gallery_identities, query_cameras, gallery_cameras),
        options={"same_camera": same_camera, "junk_identities": junk_identities, "self_index": self_index},
        device=query_rows.device,
    )
    scores = score_pair(query_rows, gallery_rows, relevance, similarity=similarity, max_bytes=max_bytes)
    return count_ranks(scores, relevance, ties=ties)


@torch.no_grad()
def rank_positives_from_scores(
    scores: Float[Tensor, "queries gallery"] | _checks.Array,
    query_identities: Shaped[Tensor, "queries ..."] | _checks.IntegersOrNames | _checks.SeveralLabels,
    gallery_identities: Shaped[Tensor, "gallery ..."] | _checks.IntegersOrNames | _checks.SeveralLabels,
    query_cameras: Real[Tensor, " queries"] | _checks.IntegersOrNames | None = None,
    gallery_cameras: Real[Tensor, " gallery"] | _checks.IntegersOrNames | None = None,
    *,
    same_camera: _names.CameraRule = "same_identity",
    junk_identities: Collection[int | str] = (-1,),
    ties: _names.TieName = "pessimistic",
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    max_bytes: int | None = None,
) -> PositiveRanks:
    """Rank every query's positives by a matrix of scores, higher is closer; pass a distance matrix as `-distances`.

    Minus infinity and infinity are ordinary scores. `scores` is not written to. The other arguments, the result
    and the errors are as in `rank_positives`.
    """
    scores = _checks.floating_matrix("scores", scores, "G")
    relevance = _find_relevance(
        scores.shape,
        labels=(query_identities, gallery_identities, query_cameras, gallery_cameras),
        options={"same_camera": same_camera, "junk_identities": junk_identities, "self_index": self_index},
        device=scores.device,
    )
    return count_ranks(scores_from_matrix(scores, relevance, max_bytes=max_bytes), relevance, ties=ties)


def _find_relevance(
    sizes: Sequence[int], labels: Sequence[Any], options: Mapping[str, Any], device: torch.device
) -> Relevance:
    """Check labels in the order of `_LABELS`, with options of `find_relevance`, and find the relevance."""
    numbered, vocabulary = number_names(dict(zip(_LABELS, labels, strict=True)), options)
    rules = vocabulary.rules_by_number(options)
    tensors = _arrays.as_tensors(*numbered.values(), device=device)
    checked: dict[str, Any] = dict(zip(_LABELS, tensors, strict=True))
    for name, size in zip(_LABELS[:2], sizes, strict=True):  # cameras may be left out
        checked[name] = LABELS["identities"].check(name, checked[name], size)
    return workers.run(lambda: find_relevance(**checked, **rules), checked["query_identities"].device)


@torch.no_grad()
def count_ranks(scores: Scores, relevance: Relevance, *, ties: str) -> PositiveRanks:
    """Rank the positives of all queries, tile by tile; at most `scores.max_bytes` of scores are held.

    Raises:
        ValueError: an unknown tie policy, scores for another relevance, or scores that are NaN.
    """
    _checks.one_of("ties", ties, TIE_POLICIES)
    scores.check_fit(relevance)
    part = GalleryPart(scores, relevance, TIE_POLICIES[ties])
    return workers.run(lambda: _rank_tiles(part), scores.device, inside=part.keeps_thread)


def _rank_tiles(part: GalleryPart) -> PositiveRanks:
    relevance = part.relevance
    has_grades = relevance.shared is not None
    tiles = Tiles(part)
    table = RankTable(part.ties, relevance.run_length, graded=has_grades, num_positives=relevance.num_listed)
    rank_at_once = RANKINGS_AT_ONCE.get("whole_scores")
    for rows in _progress.steps(tiles.rows, "Ranking", parts=tiles.num_fills):
        whole_rows = tiles.whole_rows(rows)
        if whole_rows is not None and rank_at_once is not None and rank_at_once(part, whole_rows, rows, table):
            continue
        tile = relevance.tile(rows)
        table.num_positives[rows] = tile.num_positives
        table.num_candidates[rows] = tile.num_candidates
        num_positives = int(tile.num_positives.sum())
        if num_positives:  # a tile without positives needs no score
            scores = tiles.read(rows, tile)
            positives = best_first(scores, tile.columns, tile.positive, ties=part.ties, grades=tile.grades)
            counts = tiles.count(rows, tile, positives)
            cells = cells_of_positives(tile.num_positives, counts.shape[2], num_positives)
            table.add(rows, positives, counts.flatten(1).index_select(1, cells), cells)
    return table.ranks()


def count_sharded_ranks(
    world: World, scores: Scores, relevance: Relevance, *, ties: str, places: Int[Tensor, " kept"] | None = None
) -> tuple[PositiveRanks, QueryCounts]:
    """Rank the positives of all queries among the parts of all processes; every process gets all ranks.

    Args:
        world: the processes; each has all queries and a part of the gallery.
        scores: scores of all queries against this process's part.
        relevance: relevance of this part.
        ties: the order of equal scores; see `rank_positives`.
        places: places of this part's kept items in the order of the whole gallery, ascending; only tie policies with
            `by_place` need them.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: scores that are NaN.
    """
    policy = TIE_POLICIES[ties]
    part = GalleryPart(scores, relevance, policy, places if policy.by_place else None)
    if world.size == 1:
        ranks = _rank_tiles(part)
        return ranks, relevance.counts(ranks.num_positives)
    counting = _Counting(world, part)
    for group, sizes in counting.groups:
        counting.rank(group, sizes)
    return counting.results()


class _Counting:
    """The slots, the buffers for a group of tiles, and the ranks so far.

    A query has one slot for each gallery item with its identity on any process, junk or positive, in the order of the
    processes.
    """

    def __init__(self, world: World, part: GalleryPart) -> None:
        """Agree with all processes on the slots and on the tiles."""
        self._world = world
        self._part = part
        self._device = part.scores.device
        self._graded = part.relevance.shared is not None  # the same on all processes
        self._counted: list[tuple[slice, Positives, Tensor, Tensor]] = []

        # For each query, the number of slots of lower processes, and of all processes.
        run_length = part.relevance.run_length
        self._num_before = torch.zeros_like(run_length)
        self._num_slots = torch.zeros_like(run_length)
        for rows in segments.ranges(len(run_length), max(1, _GATHERED // world.size)):
            lengths = all_gather_values(world, run_length[rows].int).to(run_length.device)
            self._num_before[rows] = lengths[: world.process].sum(0)
            self._num_slots[rows] = lengths.sum(0)
        longest = int(self._num_slots.max()) if len(self._num_slots) else 0

        # A tile has as many queries as fit on the process with the least memory.
        has_small_products = part.scores.at is not None
        _, table = world.guarded_all_gather(
            lambda: (None, [size_of_tiles(part, longest)[0], part.relevance.num_kept, has_small_products])
        )
        num_rows, num_kept, can_read_ahead = zip(*table, strict=True)
        # A few tiles of many queries are exchanged one by one, as reading ahead would cost more than messages.
        at_once = _SLOTS if all(can_read_ahead) and min(num_rows) < _MANY_QUERIES else 0
        world.guarded(lambda: self._reserve(min(num_rows), longest, sum(num_kept), at_once))

    def _reserve(self, num_rows: int, longest: int, num_gallery: int, at_once: int) -> None:
        """Reserve all buffers, so that a lack of memory shows here.

        A group has about `at_once` slots; 0 for groups of one tile.
        """
        part = self._part
        device = self._world.device
        self._num_counts = part.ties.num_counts
        self._tiles = Tiles(part, longest_run=longest, num_rows=num_rows)
        self._table = RankTable(part.ties, self._num_slots, graded=self._graded)

        # Cut the tiles into groups.
        num_slots = [int(self._num_slots[rows].sum()) for rows in self._tiles.rows]
        cuts = segments.ranges(len(num_slots), 1)
        self._sent = part.scores.sent
        if at_once:
            weights = torch.tensor(num_slots, dtype=torch.int64, device="cpu") + 1
            if self._sent is not None:  # no group has much more than a quarter of a block
                weights.clamp_(min=4 * at_once * min(num_rows, len(self._num_slots)) // self._sent.num_fitting)
            cuts = list(segments.ranges_within(weights, at_once))
        self.groups = [(self._tiles.rows[cut], num_slots[cut]) for cut in cuts]
        # Writing a progress bar may fail, so its steps are inside of collectives, which report errors to all processes.
        most_tiles = max((len(tiles) for tiles, _ in self.groups), default=1)
        self._progress = _progress.steps(self.groups, "Ranking", parts=most_tiles * self._tiles.num_fills)

        # Buffers that are summed over the processes, for the largest group; their first entry says whether one failed.
        most = 1 + max((sum(sizes) for _, sizes in self.groups), default=0)
        self._scores = torch.empty(most, dtype=part.scores.dtype, device=device)
        most_places = most if part.ties.by_place else 1
        self._places = torch.empty(most_places, dtype=torch.int64, device=device)
        most_grades = most if self._graded else 1
        self._grades = torch.empty(most_grades, dtype=torch.int64, device=device)
        count_dtype = torch.int32 if num_gallery < torch.iinfo(torch.int32).max else torch.int64
        self._counts = torch.empty(1 + self._num_counts * (most - 1), dtype=count_dtype, device=device)
        self._totals = torch.empty(1 + 2 * len(self._num_slots), dtype=torch.int64, device=device)

    def rank(self, group: Sequence[slice], sizes: Sequence[int]) -> None:
        """Rank the positives of the queries of some tiles, with their numbers of slots."""
        world = self._world
        num_slots = sum(sizes)
        no_slots = [0] * len(sizes)
        if self._sent is not None:
            self._sent.fetch(slice(group[0].start, group[-1].stop), ahead=True)

        # The scores of all positives: every process fills its slots, and the other processes add zeros.
        scores = world.all_reduce_sum(self._scores[: num_slots + 1], lambda out: self._read(group, out.split(sizes)))

        def share(buffer: Tensor, values_of: Callable[[TileRelevance], Any]) -> Sequence[Tensor]:
            """Return values of all items that are listed for the queries, as their scores."""

            def write(out: Tensor) -> None:
                for rows, tile, slots in zip(group, self._relevance_of_group, out.split(sizes), strict=True):
                    self._write(rows, tile.listed, values_of(tile), slots)

            summed: Sequence[Tensor] = world.all_reduce_sum(buffer[: num_slots + 1], write).split(sizes)
            return summed

        part_places: Any = self._part.places  # not None where places break ties
        places = self._places[:0].split(no_slots)
        if self._part.ties.by_place:
            places = share(self._places, lambda tile: part_places[tile.columns])
        grades = self._grades[:0].split(no_slots)
        if self._graded:
            grades = share(self._grades, lambda tile: tile.grades)

        # The negatives before them: every process counts the negatives of its part.
        if num_slots:
            tiles = list(zip(group, scores.split(sizes), places, grades, strict=True))
            counts = self._counts[: self._num_counts * num_slots + 1]
            world.all_reduce_sum(counts, lambda out: self._count(tiles, out))

    def results(self) -> tuple[PositiveRanks, QueryCounts]:
        """Return the ranks, once all tiles are done."""
        num_queries = len(self._num_slots)
        relevance = self._part.relevance
        table = self._table

        def fill(out: Tensor) -> None:
            self._store()
            next(self._progress, None)  # ends the bar
            out[:num_queries] = table.num_candidates
            out[num_queries:] = relevance.num_others

        totals = self._world.all_reduce_sum(self._totals, fill).to(self._device)
        table.num_candidates = totals[:num_queries].clone()
        return table.ranks(), relevance.counts(table.num_positives, totals[num_queries:])

    def _read(self, group: Sequence[slice], out: Sequence[Tensor]) -> None:
        """Write the scores of local positives, and NaN for local junk, to the slots of this process."""
        self._store()
        next(self._progress, None)
        self._relevance_of_group = [self._part.relevance.tile(rows) for rows in group]
        for rows, tile, slots in zip(group, self._relevance_of_group, out, strict=True):
            self._table.num_candidates[rows] = tile.num_candidates
            scores = self._tiles.read(rows, tile, ahead=len(group) > 1)
            self._write(rows, tile.listed, scores.masked_fill(~tile.positive, torch.nan), slots)

    def _write(self, rows: slice, listed: Tensor, values: Tensor, out: Tensor) -> None:
        """Write the values of listed items to the slots of this process, and zeros to all other slots."""
        first = segments.starts(self._num_slots[rows]) + self._num_before[rows]
        slots = first[:, None] + torch.arange(values.shape[1], device=values.device)
        out.zero_()
        out[slots[listed].to(out.device)] = values[listed].to(out.device)

    def _count(self, group: Sequence[tuple[slice, Tensor, Tensor, Tensor]], out: Tensor) -> None:
        """Count this part's negatives before the positives of all parts; a tile has at most as many counts as slots.

        The counts are stored once they are summed, before the next message, so that an error needs no further message.
        """
        num_counts = self._num_counts
        counts_of_tiles = out.zero_().split([num_counts * len(scores) for _, scores, *_ in group])
        for (rows, scores, places, grades), tile, tile_counts in zip(
            group, self._relevance_of_group, counts_of_tiles, strict=True
        ):
            is_slot, padded = self._pad_slots(rows, scores)
            positive = ~padded.isnan()
            num_positives = positive.sum(1)
            self._table.num_positives[rows] = num_positives
            cells = cells_of_positives(num_positives, padded.shape[1])
            if not len(cells):
                continue
            columns, whole_places, padded_grades = self._pad_companions(is_slot, places, grades)
            positives = best_first(
                padded, columns, positive, ties=self._part.ties, grades=padded_grades, whole_places=whole_places
            )
            counts = tile_counts[: num_counts * len(cells)].view(num_counts, -1)
            counts.copy_(self._tiles.count(rows, tile, positives).flatten(1)[:, cells])
            self._counted.append((rows, positives, counts, cells))

    def _pad_slots(self, rows: slice, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return a mask of the slots in padded rows, and the scores there; junk and padding are NaN."""
        num_slots = self._num_slots[rows]
        is_slot = torch.arange(int(num_slots.max()), device=self._device) < num_slots[:, None]
        padded = torch.full(is_slot.shape, torch.nan, dtype=scores.dtype, device=self._device)
        padded[is_slot] = scores.to(self._device)
        return is_slot, padded

    def _pad_companions(
        self, is_slot: Tensor, places: Tensor, grades: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return columns in this part, places in the whole gallery, and grades in padded rows, if ranks need them."""
        # A positive of another part stands between two columns of this part, or at an end.
        part_places = self._part.places
        columns = torch.zeros_like(is_slot, dtype=torch.int64)
        if part_places is not None:
            columns[is_slot] = torch.searchsorted(part_places, places.to(self._device))
        if not self._graded:
            return columns, None, None
        padded_grades = torch.zeros_like(columns)
        padded_grades[is_slot] = grades.to(self._device)
        if part_places is None:
            return columns, None, padded_grades
        whole_places = columns.clone()
        whole_places[is_slot] = places.to(self._device)
        return columns, whole_places, padded_grades

    def _store(self) -> None:
        """Add the summed counts to the table of ranks."""
        for rows, positives, counts, cells in self._counted:
            self._table.add(rows, positives, counts.to(self._device, torch.int64), cells)
        self._counted.clear()

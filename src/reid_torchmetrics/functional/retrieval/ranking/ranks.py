"""Rank the positives of every query, by counting.

The rank of a positive is one plus the candidates before it, and a candidate is before it if it scores higher: no
gallery is sorted with its indices. The positives are known from the labels: a tile of scores is filled, the scores of
the positives are read, positives and junk are taken out, and the negatives above each positive are counted.

Where the gallery is sharded over processes, some tiles of queries are ranked at a time. Every process reads the scores
of the positives in its own part of the gallery. All get the scores of all positives, by a sum into a buffer with slots
for each process. Every process counts the negatives of its part before each positive, and the counts are summed. One
query on two processes, the scores of its own identity in brackets:

    process                 0                  1
    scores            [.9]  .8  .3       .85  [.5]  .6
    buffer             .9   0             0    .5        each fills its own slots
    summed             .9   .5            .9   .5        the positives of all, best first
    negatives before    0    1             0    2        each in its own part: .8; .85 and .6
    summed              0    3             0    3
    ranks               1    5             1    5        negatives before, and the place among the positives
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int, Integer, Real, Shaped
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names, _progress
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import (
    LABELS,
    QueryCounts,
    Relevance,
    find_relevance,
    number_names,
    rules_by_number,
)
from reid_torchmetrics.functional.retrieval.scores import (
    CustomSimilarity,
    Scores,
    given_scores,
    read_embeddings,
    score_embeddings,
)
from reid_torchmetrics.functional.world import World, all_gather_values

from .counting import Positives
from .positive_ranks import Judgments, PositiveRanks, TiedGroups, unchecked_ranks
from .sorted_rows import SortedPositives, are_of_codes, sort_rows_of_codes
from .symmetric import count_symmetric
from .tie_policies import TIE_POLICIES, TiePolicy, best_first
from .tiles import GalleryPart, Tiles, cells_of_positives, size_of_tiles

_GATHERED = 1 << 22  # run lengths that are gathered at a time
_SLOTS = 1 << 20  # scores of positives that are exchanged at a time, with their counts
_MANY_QUERIES = 256  # a tile of so many is exchanged by itself
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
        ties: what goes first among equal scores: "pessimistic" the negative, "optimistic" the positive, "stable" the
            item that comes first in the gallery; "grouped" gives all of them the last of their ranks (scikit-learn's
            average precision), and under "expected" measures are means over all orders of equal scores. Evaluators
            that sort leave this to their sorting routine.
        self_index: for every query its own position in the gallery, or -1: leave-one-out drops it by position.
        max_bytes: bound on the scores, and on the prepared gallery rows, that are held at a time; None for 256 MiB, or
            more on a GPU: an eighth of its free memory. Ranks do not depend on it.

    Returns:
        Ranks among the query's candidates. A query without positives has none; an empty gallery gives no ranks.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, scores that are NaN.
    """
    query = read_embeddings("query", query, similarity)  # before the labels, which are compared with its length
    gallery = read_embeddings("gallery", gallery, similarity)
    labels = query_identities, gallery_identities, query_cameras, gallery_cameras
    options = {"same_camera": same_camera, "junk_identities": junk_identities, "self_index": self_index}
    relevance = _find_relevance((len(query), len(gallery)), labels, options, query.device)
    scores = score_embeddings(query, gallery, relevance, similarity=similarity, max_bytes=max_bytes)
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
    """Rank every query's positives by given scores, higher is closer; a distance matrix enters as `-distances`.

    Minus infinity and infinity are ordinary scores. `scores` is not written to. The other arguments, the result
    and the errors are as in `rank_positives`.
    """
    scores = _checks.floating_matrix("scores", scores, "G")
    labels = query_identities, gallery_identities, query_cameras, gallery_cameras
    options = {"same_camera": same_camera, "junk_identities": junk_identities, "self_index": self_index}
    relevance = _find_relevance(scores.shape, labels, options, scores.device)
    return count_ranks(given_scores(scores, relevance, max_bytes=max_bytes), relevance, ties=ties)


def _find_relevance(sizes: Sequence[int], labels: Sequence[Any], options: Any, device: torch.device) -> Relevance:
    named, tables = number_names(dict(zip(_LABELS, labels, strict=True)), options)
    options = rules_by_number(options, tables)
    given: dict[str, Any] = dict(zip(_LABELS, _arrays.as_tensors(*named.values(), device=device), strict=True))
    for name, size in zip(_LABELS[:2], sizes, strict=True):  # cameras may be left out
        given[name] = LABELS["identities"].check(name, given[name], size)
    return workers.run(lambda: find_relevance(**given, **options), given["query_identities"].device)


@torch.no_grad()
def count_ranks(scores: Scores, relevance: Relevance, *, ties: str) -> PositiveRanks:
    """Rank the positives of all queries, tile by tile; at most `scores.max_bytes` of scores are held.

    Raises:
        ValueError: an unknown tie policy, scores that were made for another relevance, or that are NaN.
    """
    _checks.one_of("ties", ties, TIE_POLICIES)
    scores.check_fit(relevance)
    part = GalleryPart(scores, relevance, TIE_POLICIES[ties])
    return workers.run(lambda: _rank_tiles(part), scores.device, inside=part.keeps_thread)


def _rank_tiles(part: GalleryPart) -> PositiveRanks:
    relevance = part.relevance
    tiles = count_symmetric(part) or Tiles(part)
    table = RankTable(
        part.ties, relevance.run_length, graded=relevance.shared is not None, num_positives=relevance.num_listed
    )
    for rows in _progress.steps(tiles.rows, "Ranking"):
        if isinstance(tiles, Tiles) and relevance.shared is not None and _rank_by_sorting(part, tiles, rows, table):
            continue
        tile = part.relevance.tile(rows)
        table.num_positives[rows], table.num_candidates[rows] = tile.num_positives, tile.num_candidates
        # A tile in which no query has a positive needs no score.
        num_positives = int(tile.num_positives.sum())
        if num_positives:
            scores = tiles.read(rows, tile)
            positives = best_first(scores, tile.columns, tile.positive, ties=part.ties, grades=tile.grades)
            counts = tiles.count(rows, tile, positives)
            cells = cells_of_positives(tile.num_positives, counts.shape[2], num_positives)
            table.add(rows, positives, counts.flatten(1).index_select(1, cells), cells)
    return table.ranks()


def _rank_by_sorting(part: GalleryPart, tiles: Tiles, rows: slice, table: RankTable) -> bool:
    """Rank the positives of samples with several labels, often very many; False unless scores are small integers."""
    scores = tiles.whole_rows(rows)
    if scores is None or not are_of_codes(scores):
        return False
    grades, junk = part.relevance.graded_rows(rows)
    ranked = sort_rows_of_codes(scores, grades, junk, part.ties)
    if ranked is None:
        return False
    num_junk = 0 if junk is None else junk.sum(1)
    table.num_positives[rows], table.num_candidates[rows] = ranked.num_positives, scores.shape[1] - num_junk
    table.append(rows, ranked)
    return True


class RankTable:
    """The ranks of all positives, filled tile by tile in the order of the queries."""

    def __init__(
        self,
        ties: TiePolicy,
        num_listed: Int[Tensor, " queries"],
        *,
        graded: bool = False,
        num_positives: int | None = None,
    ) -> None:
        """Reserve ranks for all gallery items listed for a query; junk leaves some of them empty.

        Positives are `graded` where samples have several labels. `num_positives` is the sum of `num_listed`, unless it
        has to be read.
        """
        most_positives = int(num_listed.sum()) if num_positives is None else num_positives
        # Filled in place: with thousands of positives per query, ranks are larger than embeddings.
        self._rank = torch.empty(most_positives, dtype=torch.int64, device=num_listed.device)
        num_grades = len(self._rank) if graded else 0
        self._grades = torch.empty(num_grades, dtype=torch.float32, device=num_listed.device)
        self._filled, self._ties, self._graded = 0, ties, graded
        self.num_positives, self.num_candidates = torch.zeros_like(num_listed), torch.zeros_like(num_listed)
        self._num_groups = torch.zeros_like(num_listed)
        none = torch.empty((2, 0), dtype=torch.int64, device=num_listed.device)
        self._groups = [none]

    def add(self, rows: slice, positives: Positives, counts: Int[Tensor, "counts positives"], cells: Tensor) -> None:
        """Append the positives of a tile, in these `cells_of_positives`, from the counts of negatives before them."""
        first, self._filled = self._filled, self._filled + len(cells)
        # The rank is the negatives before, and the place j = 1, 2, ... among the positives of the query.
        row = segments.numbers(self.num_positives[rows], len(cells))
        place = cells.sub(row, alpha=positives.scores.shape[1])
        torch.add(place, counts[0], out=self._rank[first : self._filled]).add_(1)
        if positives.grades is not None:
            self._grades[first : self._filled] = positives.grades.view(-1)[cells]
        if self._ties.groups:
            # A group begins at the first positive of a row, and where the score is another one than before.
            begins = place == 0
            scores = positives.scores.view(-1)[cells]
            begins[1:] |= scores[1:] != scores[:-1]
            starts = begins.nonzero()[:, 0]
            ends = torch.cat([starts[1:], starts.new_tensor([len(cells)])]) if len(starts) else starts
            self._num_groups[rows] = row[starts].bincount(minlength=rows.stop - rows.start)
            self._groups.append(torch.stack([ends - starts, counts[0][starts] - counts[1][starts]]))

    def append(self, rows: slice, ranked: SortedPositives) -> None:
        """Append the positives of a tile that were ranked by sorting."""
        first, self._filled = self._filled, self._filled + len(ranked.rank)
        self._rank[first : self._filled] = ranked.rank
        self._grades[first : self._filled] = ranked.grade
        if ranked.groups is not None:
            self._num_groups[rows] = ranked.groups.num_groups
            self._groups.append(torch.stack([ranked.groups.num_positives, ranked.groups.num_negatives]))

    def ranks(self) -> PositiveRanks:
        """The ranks of all tiles."""
        rank = self._rank[: self._filled]
        tied = None
        if self._ties.groups:
            tied = TiedGroups(self._ties.name, self._num_groups, *torch.cat(self._groups, dim=1))
        judged = Judgments(self._grades[: self._filled]) if self._graded else None
        return unchecked_ranks(rank, self.num_positives, self.num_candidates, tied, judged)


def count_sharded_ranks(
    world: World, scores: Scores, relevance: Relevance, *, ties: str, places: Int[Tensor, " kept"] | None = None
) -> tuple[PositiveRanks, QueryCounts]:
    """Rank the positives of all queries among the parts of all processes; every process gets all ranks.

    Args:
        world: the processes; each has all queries and a part of the gallery.
        scores: of all queries against this process's part.
        relevance: of this part.
        ties: the order of equal scores; see `rank_positives`.
        places: of the kept items of this part in the order of the whole gallery, ascending; used by tie policies
            `by_place` alone.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: scores that are NaN.
    """
    if world.size == 1:
        ranks = count_ranks(scores, relevance, ties=ties)
        return ranks, relevance.counts(ranks.num_positives)
    policy = TIE_POLICIES[ties]
    counting = _Counting(world, GalleryPart(scores, relevance, policy, places if policy.by_place else None))
    for group, sizes in counting.groups:
        counting.rank(group, sizes)
    return counting.results()


class _Counting:
    """The state of counting: slots, buffers for a group of tiles, and the ranks so far.

    A query has one slot for each gallery item with its identity on any process, junk or positive, in the order of the
    processes.
    """

    def __init__(self, world: World, part: GalleryPart) -> None:
        """Agree on the slots, and on tiles of the same queries on all processes."""
        self._world, self._part, self._device = world, part, part.scores.device
        self._graded = part.relevance.shared is not None  # on all processes or on none
        self._counted: list[tuple[slice, Positives, Tensor, Tensor]] = []
        run_length = part.relevance.run_length
        self._before, self._total = torch.zeros_like(run_length), torch.zeros_like(run_length)  # of lower ones, of all
        for some in segments.ranges(len(run_length), max(1, _GATHERED // world.size)):
            lengths = all_gather_values(world, run_length[some].int).to(run_length.device)
            self._before[some], self._total[some] = lengths[: world.process].sum(0), lengths.sum(0)
        longest = int(self._total.max()) if len(self._total) else 0
        # A tile has as many queries as fit on the process with the least memory to spend.
        facts = part.relevance.num_kept, part.scores.at is not None
        _, table = world.guarded_all_gather(lambda: (None, [size_of_tiles(part, longest)[0], *facts]))
        each_rows, each_kept, is_ahead = zip(*table, strict=True)
        # With tiles of many queries there are few of them, and reading the positives ahead would cost more than
        # messages.
        at_once = _SLOTS if all(is_ahead) and min(each_rows) < _MANY_QUERIES else 0
        world.guarded(lambda: self._reserve(min(each_rows), longest, sum(each_kept), at_once))

    def _reserve(self, num_rows: int, longest: int, num_gallery: int, at_once: int) -> None:
        """Reserve all buffers, so that memory runs out here if it does; a group has one tile, or `at_once` slots."""
        part, device = self._part, self._world.device
        self._tiles = Tiles(part, longest_run=longest, num_rows=num_rows)
        num_slots = [int(self._total[rows].sum()) for rows in self._tiles.rows]
        weights, self._sent = torch.tensor(num_slots, dtype=torch.int64, device="cpu") + 1, part.scores.sent
        if self._sent is not None:  # no group has much more than a quarter of a block
            weights.clamp_(min=4 * at_once * min(num_rows, len(self._total)) // self._sent.num_fitting)
        cuts = segments.ranges_within(weights, at_once) if at_once else segments.ranges(len(num_slots), 1)
        self.groups = [(self._tiles.rows[cut], num_slots[cut]) for cut in cuts]
        # A bar may fail to be written, so its steps are taken inside of collectives.
        self._progress = _progress.steps(self.groups, "Ranking")
        # Buffers that are summed over the processes, for the largest group; their first entry says whether one failed.
        most = 1 + max((sum(sizes) for _, sizes in self.groups), default=0)
        self._scores = torch.empty(most, dtype=part.scores.dtype, device=device)
        self._places = torch.empty(most if part.ties.by_place else 1, dtype=torch.int64, device=device)
        self._grades = torch.empty(most if self._graded else 1, dtype=torch.int64, device=device)
        count_dtype = torch.int32 if num_gallery < torch.iinfo(torch.int32).max else torch.int64
        self._counts = torch.empty(1 + part.ties.num_counts * (most - 1), dtype=count_dtype, device=device)
        self._table = RankTable(part.ties, self._total, graded=self._graded)
        self._totals = torch.empty(1 + 2 * len(self._total), dtype=torch.int64, device=device)

    def rank(self, group: Sequence[slice], sizes: Sequence[int]) -> None:
        """Rank the positives of the queries of some tiles, with their numbers of slots."""
        world, num_counts = self._world, self._part.ties.num_counts
        if self._sent is not None:
            self._sent.fetch(slice(group[0].start, group[-1].stop), ahead=True)
        # The scores of all positives: every process fills its own slots, the others add zeros.
        scores = world.all_reduce_sum(self._scores[: sum(sizes) + 1], lambda out: self._read(group, out.split(sizes)))
        places = self._places[:0]
        if self._part.ties.by_place:
            slots = self._places[: sum(sizes) + 1]
            places = world.all_reduce_sum(slots, lambda out: self._read_places(group, out.split(sizes)))
        grades = self._grades[:0]
        if self._graded:
            slots = self._grades[: sum(sizes) + 1]
            grades = world.all_reduce_sum(slots, lambda out: self._read_grades(group, out.split(sizes)))
        # The negatives before them: every process counts the negatives of its part.
        nothing = [0] * len(sizes)
        places_of_tiles = places.split(sizes if len(places) else nothing)
        grades_of_tiles = grades.split(sizes if len(grades) else nothing)
        tiles = list(zip(group, scores.split(sizes), places_of_tiles, grades_of_tiles, strict=True))
        if sum(sizes):
            world.all_reduce_sum(self._counts[: num_counts * sum(sizes) + 1], lambda out: self._count(tiles, out))

    def results(self) -> tuple[PositiveRanks, QueryCounts]:
        """The ranks, once all tiles are done."""
        num_queries, relevance, table = len(self._total), self._part.relevance, self._table

        def fill(out: Tensor) -> None:
            self._store()
            next(self._progress, None)  # ends the bar
            out[:num_queries] = table.num_candidates
            out[num_queries:] = relevance.num_others

        totals = self._world.all_reduce_sum(self._totals, fill).to(self._device)
        table.num_candidates = totals[:num_queries].clone()
        return table.ranks(), relevance.counts(table.num_positives, totals[num_queries:])

    def _read(self, group: Sequence[slice], out: Sequence[Tensor]) -> None:
        """Put the scores of local positives, and NaN for local junk, into the slots of this process."""
        self._store()
        next(self._progress, None)
        self._of_tiles = [self._part.relevance.tile(rows) for rows in group]
        for rows, tile, part in zip(group, self._of_tiles, out, strict=True):
            self._table.num_candidates[rows] = tile.num_candidates
            scores = self._tiles.read(rows, tile, ahead=len(group) > 1)
            self._put(rows, tile.listed, scores.masked_fill(~tile.positive, torch.nan), part)

    def _read_places(self, group: Sequence[slice], out: Sequence[Tensor]) -> None:
        assert self._part.places is not None  # noqa: S101 - for the type checker
        for rows, tile, part in zip(group, self._of_tiles, out, strict=True):
            self._put(rows, tile.listed, self._part.places[tile.columns], part)

    def _read_grades(self, group: Sequence[slice], out: Sequence[Tensor]) -> None:
        for rows, tile, part in zip(group, self._of_tiles, out, strict=True):
            assert tile.grades is not None  # noqa: S101 - for the type checker
            self._put(rows, tile.listed, tile.grades, part)

    def _put(self, rows: slice, listed: Tensor, values: Tensor, out: Tensor) -> None:
        first = segments.starts(self._total[rows]) + self._before[rows]
        slots = first[:, None] + torch.arange(values.shape[1], device=values.device)
        out.zero_()
        out[slots[listed].to(out.device)] = values[listed].to(out.device)

    def _count(self, group: Sequence[tuple[slice, Tensor, Tensor, Tensor]], out: Tensor) -> None:
        """Count this part's negatives before the positives of all parts; a tile has as many counts as slots, or fewer.

        Once they are added up they are stored, before the next message: an error then needs no message of its own.
        """
        num_counts, steps = self._part.ties.num_counts, _progress.steps(group, "Ranking")
        parts = out.zero_().split([num_counts * len(scores) for _, scores, *_ in group])
        for (rows, scores, places, graded), tile, part in zip(steps, self._of_tiles, parts, strict=True):
            # Slots laid end to end become rows [queries, padded]; junk and padding are NaN.
            is_slot = torch.arange(int(self._total[rows].max()), device=self._device) < self._total[rows, None]
            padded = torch.full(is_slot.shape, torch.nan, dtype=scores.dtype, device=self._device)
            padded[is_slot] = scores.to(self._device)
            positive = ~padded.isnan()
            self._table.num_positives[rows] = num_positives = positive.sum(1)
            cells = cells_of_positives(num_positives, padded.shape[1])
            if not len(cells):
                continue
            # In a part of the gallery a positive of another part stands between two columns, or at an end.
            columns = torch.zeros_like(padded, dtype=torch.int64)
            grades, whole_places = None, None
            if self._part.places is not None:
                columns[is_slot] = torch.searchsorted(self._part.places, places.to(self._device))
            if self._graded:
                grades, whole_places = torch.zeros_like(columns), columns.clone()
                grades[is_slot] = graded.to(self._device)
                if self._part.places is not None:
                    whole_places[is_slot] = places.to(self._device)
            positives = best_first(
                padded, columns, positive, ties=self._part.ties, grades=grades, whole_places=whole_places
            )
            counts = part[: num_counts * len(cells)].view(num_counts, -1)
            counts.copy_(self._tiles.count(rows, tile, positives).flatten(1)[:, cells])
            self._counted.append((rows, positives, counts, cells))

    def _store(self) -> None:
        """Add what was counted and added up to the table of ranks."""
        for rows, positives, counts, cells in self._counted:
            self._table.add(rows, positives, counts.to(self._device, torch.int64), cells)
        self._counted.clear()

"""The one road: from samples, or from a retrieval problem, to the ranks of positives, in any world.

samples          each process keeps the samples that it saw             sharding/
problem          all queries against this process's gallery             problem.py
relevance        who is positive, negative or junk for each query       relevance/
scores           of all queries against this process's gallery          scores/, reranking/
ranks, counts    of the positives among their candidates                ranking/, sharding/
drawn            expectations where the protocol draws galleries        draws/

The gallery does not move: the queries go to every process, and counts are added up. All processes end with the same
ranks as one process with all samples. `evaluate` begins with a problem, a metric with samples. Rank lists, and measures
between pairs of cameras, take the same road; the latter once for every camera of the gallery.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval import sharding
from reid_torchmetrics.functional.retrieval.advice import (
    RetrievalEvidence,
    advise_on_retrieval,
    are_many,
    count_tied_pairs,
    seems_backwards,
)
from reid_torchmetrics.functional.retrieval.draws import expect_draws
from reid_torchmetrics.functional.retrieval.measures import DrawnResults, average_precision, mean_over_queries, measure
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, PositiveRanks, count_sharded_ranks
from reid_torchmetrics.functional.retrieval.relevance import (
    LabelTables,
    QueryCounts,
    Relevance,
    at,
    deciding,
    names_in_rules,
    num_labels_of,
    one_number_each,
    rules_by_number,
)
from reid_torchmetrics.functional.retrieval.scores import Rows, Scores
from reid_torchmetrics.functional.retrieval.sharding import Queries, Samples
from reid_torchmetrics.functional.retrieval.verification import AllPairs
from reid_torchmetrics.functional.world import ALONE, SentRows, World, exchange_rows

from .problem import Embeddings, Labels, RetrievalProblem
from .protocol import Protocol
from .query_statistics import mean_by
from .rank_lists import RankLists, find_rank_lists
from .ranking_options import SEVERAL_LABELS, RankingOptions


@dataclass(frozen=True)
class Ranking:
    """Ranks of the positives of all queries, and how many queries could be evaluated."""

    ranks: PositiveRanks
    counts: QueryCounts
    query_index: Int[Tensor, " queries"]
    """numbers of the queries in the data set, else their positions"""
    query_identities: Int[Tensor, " queries"] | None = None
    query_cameras: Int[Tensor, " queries"] | None = None
    drawn: DrawnResults | None = None
    """expectations over drawn galleries, where the protocol draws them"""
    labels: tuple[str, ...] = ()
    """names of the labels that were given"""
    undefined: str | None = None
    """why there is nothing to average, if so"""
    names: LabelTables = field(default_factory=dict)
    """the names of labels, as in `Labels`"""
    may_be_unknown: bool = False
    """as in `Relevance`"""
    tied_pairs: tuple[int, int] = (0, 0)
    """pairs of a positive and a negative with equal scores, and all such pairs, in a sample; of all processes"""
    evidence: RetrievalEvidence = field(default_factory=RetrievalEvidence)
    """for advice: entry points give it when their numbers are computed"""

    def with_evidence(self, **changes: Any) -> RetrievalEvidence:
        """The evidence with what the ranking itself shows, and with `changes`."""
        return replace(
            self.evidence,
            identities=self.query_identities,
            is_valid=self.ranks.num_positives > 0,
            names=self.names,
            has_negative=self.may_be_unknown,
            **changes,
        )


def rank_problem(problem: RetrievalProblem, options: RankingOptions, world: World = ALONE) -> Ranking:
    """Rank the positives of all queries; each process passes its own shard of the gallery.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: options that do not fit the problem, scores that are NaN.
    """
    # The stages above, one by one; places break ties by position across the parts of the gallery.
    scores, relevance = problem.prepare(options.protocol, options.ties, world)
    places = problem.kept_places(relevance)
    ranks, counts = count_sharded_ranks(world, scores, relevance, ties=options.ties, places=places)
    drawn, protocol = None, options.protocol
    if protocol.draw is not None:  # the process that needs expectations has the whole gallery
        chosen: dict[str, Any] = {name: getattr(options, name) for name in ("ties", "max_rank")}
        chosen |= {"with_precision": protocol.draws_precision, "queries_in_draw": protocol.queries_in_draw}
        drawn = expect_draws(scores, relevance, protocol.draw, **chosen)
    tied_pairs = (0, 0)
    if options.counts_ties and not options.needs_all_samples:
        tied_pairs = _count_ties(scores, relevance, world)
    labels = relevance.query_identities, relevance.query_cameras
    return Ranking(
        ranks,
        counts,
        problem.numbers_of_queries,
        *labels,
        drawn,
        problem.given,
        names=problem.labels.names,
        may_be_unknown=relevance.may_be_unknown,
        tied_pairs=tied_pairs,
    )


def _count_ties(scores: Scores, relevance: Relevance, world: World) -> tuple[int, int]:
    """Count tied pairs of a sample in all processes."""
    _, table = world.guarded_all_gather(lambda: (None, count_tied_pairs(scores, relevance)))
    return sum(row[0] for row in table), sum(row[1] for row in table)


def examine_ranking(
    ranking: Ranking, problem: RetrievalProblem, options: RankingOptions, world: World = ALONE, *, to: World = ALONE
) -> RetrievalEvidence:
    """Gather the evidence that needs a second ranking: in the opposite order, and with positives first.

    A second ranking is made where right answers come last, or where many pairs tie, unless the user has heard of it.

    Args:
        ranking: of the problem.
        problem: of this process.
        options: of the ranking.
        world: the processes that ranked together; a process that has all samples ranks them alone.
        to: the processes that are given advice. All of them must call, and the first one decides for all, as rounding
            could differ on another machine.
    """
    opposite, matrix = problem.source.opposite(), problem.source.matrix_name
    about_order = "distances_as_similarity" if matrix is None else "distances_as_scores"

    def look() -> tuple[None, list[int]]:
        is_told = to.warning_log.has(about_order)
        is_odd = opposite is not None and not is_told and seems_backwards(ranking.ranks, ranking.query_identities)
        return None, [int(is_odd), int(to.warning_log.has("tied_pairs"))]

    table = [[0, 0]]
    may_tie = are_many(*ranking.tied_pairs)  # all processes have the same numbers
    if opposite is not None or may_tie:
        _, table = to.guarded_all_gather(look)
    is_odd, knows_ties = table[0]
    evidence = replace(ranking.evidence, matrix=matrix, positions=problem.positions_within(options.protocol))
    plain = replace(options, counts_ties=False)
    if is_odd and opposite is not None:
        opposite_ranks = rank_problem(replace(problem, source=opposite), plain, world).ranks
        evidence = replace(evidence, opposite_ranks=opposite_ranks)
    if may_tie and not knows_ties:
        optimistic = rank_problem(problem, replace(plain, ties="optimistic"), world)
        worst, best = (float(mean_over_queries(average_precision(each.ranks))) for each in (ranking, optimistic))
        evidence = replace(evidence, tied_pairs=ranking.tied_pairs, bounds=(worst, best))
    return evidence


@torch.no_grad()
def rank_samples(samples: Samples, options: RankingOptions, world: World = ALONE, *, max_bytes: int | None) -> Ranking:
    """Rank the samples of all processes; each process passes its own.

    Where nothing can be ranked, no query has a positive, and `Ranking.undefined` says why.

    Raises:
        DistributedMetricError: an error on some process, or samples that differ between processes.
        ValueError: scores that are NaN, samples that are queries only where each is searched among the others.
    """
    # A ranking in which no query has a positive is an answer as well: training begins with it.
    needs_order = TIE_POLICIES[options.ties].by_place is not None or options.needs_all_samples
    shared = _share(samples, options, world, max_bytes=max_bytes, in_order=needs_order)
    problem = shared.problem
    if isinstance(problem, Ranking):
        return replace(problem, evidence=shared.evidence)
    ranking = replace(rank_problem(problem, options, shared.together), evidence=shared.evidence)
    if ranking.counts.valid:
        evidence = examine_ranking(ranking, problem, options, shared.together, to=world)
        return replace(ranking, evidence=evidence)
    return replace(ranking, undefined=no_query_reason(ranking.counts, shared.num_gallery, options))


@torch.no_grad()
def list_samples(
    samples: Samples, options: RankingOptions, world: World, *, k: int, queries: Tensor | None, max_bytes: int | None
) -> RankLists:
    """The first k candidates of all queries of all processes, or of chosen ones; see `find_rank_lists`.

    Raises:
        DistributedMetricError: as `rank_samples`.
        TypeError: as `find_rank_lists`.
        ValueError: as both, and embeddings that are not finite.
    """
    # Lists show places, so the order of the gallery matters under every tie policy.
    problem, together, evidence = _share_defined(samples, options, world, max_bytes=max_bytes)
    queries = None if queries is None else queries.to(problem.source.device)
    lists = find_rank_lists(problem, options.protocol, k, queries, ties=options.ties, world=together)
    advise_on_retrieval(evidence, world)
    return replace(lists, label_names=sharding.gather_names(world, problem.labels.names) or None)


@torch.no_grad()
def pair_samples(samples: Samples, options: RankingOptions, world: World, *, max_bytes: int | None) -> AllPairs:
    """All pairs of the samples of all processes; within one set if each sample is a query and an item.

    Raises:
        DistributedMetricError: as `rank_samples`.
        ValueError: embeddings that are not finite.
    """
    are_both = samples.roles == sharding.QUERY | sharding.GALLERY
    _, table = world.guarded_all_gather(lambda: (None, [int(are_both.all())]))
    problem, together, evidence = _share_defined(samples, options, world, max_bytes=max_bytes)
    advise_on_retrieval(evidence, world)
    scores, places, numbers = problem.source.scores_of(None, together), problem.places, problem.numbers_of_queries
    assert places is not None  # noqa: S101 - problems of samples in order have them
    if min(table)[0]:
        own = torch.searchsorted(places, numbers, right=True) - 1
        return AllPairs(scores, torch.searchsorted(numbers, places), own, within=True, world=together)
    own = torch.full_like(numbers, -1) if problem.labels.self_index is None else problem.labels.self_index
    return AllPairs(scores, places, own, within=False, world=together)


@torch.no_grad()
def find_camera_pairs(
    samples: Samples, names: Mapping[str, RankingOptions], protocol: Protocol, world: World, *, max_bytes: int | None
) -> dict[str, CameraPairs]:
    """Means of some numbers for each query camera against each gallery camera alone, by the options that rank them.

    Raises:
        DistributedMetricError: as `rank_samples`.
        ValueError: as `rank_samples` and `mean_by_camera_pair`, and embeddings that are not finite.
    """
    options, *_ = names.values()
    problem, together, evidence = _share_defined(samples, options, world, max_bytes=max_bytes)
    means = mean_by_camera_pair(problem, names, protocol, world=together)
    advise_on_retrieval(evidence, world)
    return means


class _SharedProblem(NamedTuple):
    """What all processes rank together, as this process sees it."""

    problem: RetrievalProblem | Ranking
    """all queries against this process's part of the gallery, or where nothing can be ranked a ranking that says why"""
    together: World
    """the processes that go on together"""
    num_gallery: int
    """gallery items of all"""
    evidence: RetrievalEvidence


def _share(
    samples: Samples, options: RankingOptions, world: World, *, max_bytes: int | None, in_order: bool
) -> _SharedProblem:
    """Send the queries of all processes to all; `in_order` says whether places in the gallery are asked for."""
    samples = samples.exchanged() if options.exchanged else samples
    # What all hold together: one dimension and dtype, the same labels.
    protocol = options.protocol
    shard = sharding.examine_samples(
        world,
        samples,
        leave_one_out=protocol.leave_one_out,
        max_bytes=max_bytes,
        extra=names_in_rules({"must_agree": protocol.must_agree, "must_differ": protocol.must_differ}),
    )
    evidence = RetrievalEvidence(num_changed=shard.num_changed, **shard.held_twice._asdict())
    if world.size > 1 and options.needs_all_samples and shard.undefined is None:
        # Every process gets all samples, and goes on by itself.
        together = sharding.gather_samples(world, shard)
        alone = _share(together, replace(options, exchanged=False), ALONE, max_bytes=max_bytes, in_order=in_order)
        return alone._replace(evidence=evidence)
    # All queries against this process's part of the gallery.
    samples = shard.samples
    gallery = samples.in_order(shard.gallery) if in_order else shard.gallery
    queries = sharding.share_queries(world, shard, gallery)
    num_gallery = sum(shard.num_gallery)
    if shard.undefined is not None:
        unranked = replace(_unranked(queries, shard.undefined), names=samples.names)
        return _SharedProblem(unranked, world, num_gallery, evidence)

    lists, none = None, samples.roles[:0].long()  # numbers where there is no sample
    if options.lists is not None:
        numbers = queries.labels.get("index", none), samples.labels.get("index", none)[gallery]
        lists = options.lists.at(*numbers, world)
    first = sum(shard.num_gallery[: world.process]) if in_order else None

    def build(items: Rows, labels: dict[str, Tensor]) -> RetrievalProblem:
        places, of_queries = labels.pop("places", None), deciding(queries.labels, "query")
        problem = RetrievalProblem(
            Embeddings(queries.embeddings, items, options.similarity, options.rerank, max_bytes),
            Labels(of_queries, labels, self_index=queries.self_index, ground_truth=lists, names=samples.names),
            places,
            queries.labels.get("index"),
        )
        return problem.grouped(options.protocol, prefix="")

    if "groups" not in samples.labels:  # on all processes or on none
        problem = world.guarded(lambda: build(*_find_items(samples, gallery, first)))
    else:
        here = world.guarded(lambda: _find_items(samples, gallery, first))
        items = sharding.gather_groups(world, *here, shard.dtype)
        problem = world.guarded(lambda: build(*items))
    return _SharedProblem(problem, world, num_gallery, evidence)


def _find_items(samples: Samples, gallery: Tensor, first: int | None) -> tuple[Rows, dict[str, Tensor]]:
    """The gallery items of this process and their labels, with places if the `first` one's is given.

    Places in the whole gallery are their `index`, else their positions, process by process.
    """
    place = samples.run(gallery)
    labels = at(deciding(samples.labels), place)
    if first is not None:
        positions = torch.arange(first, first + len(gallery), device=gallery.device)
        labels["places"] = positions if samples.index is None else samples.index[gallery]
    return samples.rows(place), labels


def _share_defined(
    samples: Samples, options: RankingOptions, world: World, *, max_bytes: int | None
) -> tuple[RetrievalProblem, World, RetrievalEvidence]:
    """The problem with places in the gallery, the processes that go on together, and evidence for advice.

    Raises:
        ValueError: nothing can be ranked.
    """
    shared = _share(samples, options, world, max_bytes=max_bytes, in_order=True)
    problem = shared.problem
    if isinstance(problem, Ranking):
        why = f"`embeddings` must be finite; got some that are not. {problem.undefined}"
        raise ValueError(why)  # noqa: TRY004 - of the embeddings
    evidence = replace(shared.evidence, positions=problem.positions_within(options.protocol))
    return problem, shared.together, evidence


def _unranked(queries: Queries, why: str) -> Ranking:
    """A ranking without any positive, so that every measure is NaN."""
    # The queries are known even where their embeddings are not finite, and none of them is ranked.
    num_queries, labels = queries.embeddings.size, queries.labels
    nothing = torch.zeros(num_queries, dtype=torch.int64, device=queries.embeddings.device)
    index = labels.get("index", torch.arange(num_queries, device=nothing.device))
    counts = QueryCounts(num_queries, valid=0, junk=0, not_in_gallery=0, same_camera_only=0, not_ranked=num_queries)
    ranks = PositiveRanks(nothing[:0], nothing, nothing)
    known, given = one_number_each(labels), tuple(deciding(labels))
    given += (SEVERAL_LABELS,) * (num_labels_of(labels) > 0)
    return Ranking(ranks, counts, index, known.get("identities"), known.get("cameras"), labels=given, undefined=why)


def no_query_reason(counts: QueryCounts, num_gallery: int, options: RankingOptions | None = None) -> str:
    """Why no query has a positive; `options` say what makes one."""
    radius = None if options is None else options.protocol.radius
    kin = "of their identity" if radius is None else f"within {radius:g} of their position"
    # By whether there are queries, and whether there is a gallery.
    why = {
        (False, False): "none has a positive, as no sample was given",
        (True, False): "none has a positive; pass `is_query=False` for the gallery",
        (False, True): "none has a positive; pass `is_query=True` for the queries",
        (True, True): f"{counts.not_in_gallery} have no other item {kin} in the gallery that is searched,"
        f" {counts.same_camera_only} lost every positive to rules of cameras, sequences, clothes or other labels,"
        f" {counts.junk} are junk",
    }[counts.total > 0, num_gallery > 0]
    asked = f"{counts.total} queries against {num_gallery} gallery items"
    value = "NaN, or what `empty_target_action` counts" if counts.total else "NaN"
    return f"No query can be evaluated, so the result is {value}: of {asked}, {why}."


NO_SAMPLE = no_query_reason(QueryCounts(0, valid=0, junk=0, not_in_gallery=0, same_camera_only=0), num_gallery=0)


@dataclass(frozen=True, eq=False)
class CameraPairs:
    """Means of a measure over the valid queries of each query camera, against each gallery camera alone."""

    query_cameras: Int[Tensor, " query_cameras"]
    gallery_cameras: Int[Tensor, " gallery_cameras"]
    mean: Float[Tensor, "query_cameras gallery_cameras"]
    """NaN where no query has a positive in the gallery camera"""
    num_valid: Int[Tensor, "query_cameras gallery_cameras"]
    camera_names: Mapping[int, str] | None = None
    """the names of the cameras by their numbers, where the evaluation was given names"""

    @property
    def mean_without_diagonal(self) -> Float[Tensor, ""]:
        """Mean over the query cameras of the mean over the other gallery cameras; NaN of none.

        It is OpenGait's number for CASIA-B, whose views are the cameras. A pair without a valid query does not count.
        """
        same = self.query_cameras[:, None] == self.gallery_cameras
        return self.mean.masked_fill(same, torch.nan).nanmean(1).nanmean()


def mean_by_camera_pair(
    problem: RetrievalProblem, names: Mapping[str, RankingOptions], protocol: Protocol, *, world: World = ALONE
) -> dict[str, CameraPairs]:
    """Evaluate every gallery camera by itself, for the numbers `names` and the options that each is ranked under.

    Every pair of query and gallery item is scored once for each of these options; re-ranking is done anew for each
    camera.

    Source: Zheng et al., "Scalable Person Re-identification: A Benchmark", ICCV 2015, figure 9.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: no cameras, a protocol that draws galleries, or what cannot be measured.
    """
    query_cameras, gallery_cameras = (side.get("cameras") for side in (problem.labels.query, problem.labels.gallery))
    if query_cameras is None or gallery_cameras is None:
        raise ValueError("`by_camera_pair` must come with cameras; got no `gallery_cameras`.")
    if protocol.draw is not None:
        raise ValueError(f"`by_camera_pair` must come with a protocol that draws no gallery; got {protocol.draw!r}.")
    # Every process ranks the same cameras in the same order, also cameras that its part of the gallery lacks: those of
    # each process are sent to all, and one that several have is kept once.
    cameras = gallery_cameras.long().unique()
    _, table = world.guarded_all_gather(lambda: (None, [len(cameras)]))
    (sent,) = exchange_rows(world, [size for (size,) in table], SentRows(lambda: [cameras]))
    cameras = sent.to(cameras.device).unique()
    searched = rules_by_number(protocol.relevance_options, problem.labels.names)["search_cameras"]
    if searched is not None:
        cameras = cameras[torch.isin(cameras, torch.tensor(searched, device=cameras.device))]
    rows = query_cameras.long().unique()
    none = rows.new_zeros((len(rows), len(cameras)))
    tables = {name: CameraPairs(rows, cameras, none.double(), none.clone()) for name in names}
    # One column of each table for each gallery camera, which is searched alone.
    for column, camera in enumerate(cameras.tolist()):
        # Numbers that are ranked under the same options share a ranking.
        ranks: dict[RankingOptions, PositiveRanks] = {}
        for options in dict.fromkeys(names.values()):
            of_camera = replace(options.protocol, search_cameras=(camera,))
            alone = replace(options, protocol=of_camera, counts_ties=False)
            ranks[options] = rank_problem(problem, alone, world).ranks
        for name, options in names.items():
            means = mean_by(measure(name, ranks[options], protocol), query_cameras.long())
            tables[name].mean[:, column], tables[name].num_valid[:, column] = means.mean, means.num_valid
    return tables

"""From samples, or from a retrieval problem, to the ranks of positives, for any number of processes.

samples          each process keeps the samples of its updates          sharding/
problem          all queries against this process's gallery             problem.py
relevance        the positives, negatives and junk of each query        relevance/
scores           of all queries against this process's gallery          scores/, reranking/
ranks, counts    of the positives among their candidates                ranking/, sharding/
drawn            expectations where the protocol draws galleries        draws/

The gallery does not move: the queries are sent to every process, and counts are added up. All processes end with the
same ranks as one process with all samples. `evaluate` begins with a problem, a metric with samples. Rank lists, and
measures between pairs of cameras, take the same steps; the latter once for every camera of the gallery.
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
    names_in_rules,
    one_number_each,
    relevance_labels,
    rules_by_number,
    select_samples,
)
from reid_torchmetrics.functional.retrieval.scores import Rows, Scores
from reid_torchmetrics.functional.retrieval.sharding import Queries, Samples
from reid_torchmetrics.functional.retrieval.verification import AllPairs
from reid_torchmetrics.functional.world import ALONE, SentRows, World, exchange_rows

from .ground_truth import GroundTruth
from .problem import Embeddings, Labels, RetrievalProblem
from .protocol import Protocol
from .query_statistics import mean_by
from .rank_lists import RankLists, find_rank_lists
from .ranking_options import RankingOptions, names_of_labels


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
    """names of the labels that the evaluation was given"""
    undefined: str | None = None
    """the reason why there is nothing to average; None if there is something"""
    names: LabelTables = field(default_factory=dict)
    """names of label values by their numbers, as in `Labels`"""
    may_be_unknown: bool = False
    """as in `Relevance`"""
    tied_pairs: tuple[int, int] = (0, 0)
    """pairs of a positive and a negative with equal scores, and all such pairs, in a sample; of all processes"""
    evidence: RetrievalEvidence = field(default_factory=RetrievalEvidence)
    """evidence for advice, which entry points give when their numbers are computed"""

    def with_evidence(self, **changes: Any) -> RetrievalEvidence:
        """Return the evidence, completed by that of the ranking itself and by `changes`."""
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
    scores, relevance = problem.prepare(options.protocol, options.ties, world)
    places = problem.kept_places(relevance)  # they break ties across the parts of the gallery
    ranks, counts = count_sharded_ranks(world, scores, relevance, ties=options.ties, places=places)

    protocol = options.protocol
    drawn = None
    if protocol.draw is not None:  # a process that needs expectations has the whole gallery
        drawn = expect_draws(
            scores,
            relevance,
            protocol.draw,
            ties=options.ties,
            max_rank=options.max_rank,
            with_precision=protocol.draws_precision,
            queries_in_draw=protocol.queries_in_draw,
        )

    tied_pairs = (0, 0)
    if options.counts_ties and not options.needs_all_samples:
        tied_pairs = _count_ties(scores, relevance, world)
    return Ranking(
        ranks,
        counts,
        query_index=problem.query_numbers,
        query_identities=relevance.query_identities,
        query_cameras=relevance.query_cameras,
        drawn=drawn,
        labels=problem.provided_labels,
        names=problem.labels.names,
        may_be_unknown=relevance.may_be_unknown,
        tied_pairs=tied_pairs,
    )


def _count_ties(scores: Scores, relevance: Relevance, world: World) -> tuple[int, int]:
    """Count the tied pairs, and all pairs, in the samples of all processes."""
    _, table = world.guarded_all_gather(lambda: (None, count_tied_pairs(scores, relevance)))
    return sum(num_tied for num_tied, _ in table), sum(num_pairs for _, num_pairs in table)


def examine_ranking(
    ranking: Ranking, problem: RetrievalProblem, options: RankingOptions, world: World = ALONE, *, to: World = ALONE
) -> RetrievalEvidence:
    """Gather the evidence that needs a second ranking: in the opposite order, and with positives first.

    A second ranking is made where right answers come last, or where many pairs tie, unless the user was warned of it.

    Args:
        ranking: of the problem.
        problem: of this process.
        options: of the ranking.
        world: the processes that ranked together; a process that has all samples ranks them alone.
        to: the processes that are given advice. All of them must call, and the first one decides for all, as rounding
            could differ on another machine.
    """
    opposite = problem.source.opposite()
    matrix = problem.source.matrix_name
    topic_of_order = "distances_as_similarity" if matrix is None else "distances_as_scores"
    may_tie = are_many(*ranking.tied_pairs)  # all processes have the same numbers

    def check_order() -> tuple[None, list[int]]:
        is_backwards = False
        if opposite is not None and not to.warning_log.has(topic_of_order):
            is_backwards = seems_backwards(ranking.ranks, ranking.query_identities)
        return None, [int(is_backwards), int(to.warning_log.has("tied_pairs"))]

    table = [[0, 0]]
    if opposite is not None or may_tie:
        _, table = to.guarded_all_gather(check_order)
    is_backwards, was_warned_of_ties = table[0]

    evidence = replace(ranking.evidence, matrix=matrix, positions=problem.positions_within(options.protocol))
    plain_options = replace(options, counts_ties=False)
    if is_backwards and opposite is not None:
        opposite_ranking = rank_problem(replace(problem, source=opposite), plain_options, world)
        evidence = replace(evidence, opposite_ranks=opposite_ranking.ranks)
    if may_tie and not was_warned_of_ties:
        optimistic = rank_problem(problem, replace(plain_options, ties="optimistic"), world)
        bounds = (_mean_average_precision(ranking), _mean_average_precision(optimistic))
        evidence = replace(evidence, tied_pairs=ranking.tied_pairs, bounds=bounds)
    return evidence


def _mean_average_precision(ranking: Ranking) -> float:
    return float(mean_over_queries(average_precision(ranking.ranks)))


@torch.no_grad()
def rank_samples(samples: Samples, options: RankingOptions, world: World = ALONE, *, max_bytes: int | None) -> Ranking:
    """Rank the samples of all processes; each process passes its own.

    Where nothing can be ranked, no query has a positive, and `Ranking.undefined` is the reason.

    Raises:
        DistributedMetricError: an error on some process, or samples that differ between processes.
        ValueError: scores that are NaN, samples that are queries only where each is searched among the others.
    """
    needs_order = TIE_POLICIES[options.ties].by_place is not None or options.needs_all_samples
    shared = _share(samples, options, world, max_bytes=max_bytes, in_order=needs_order)
    problem = shared.problem
    # A ranking in which no query has a positive is a result as well: training begins with it.
    if isinstance(problem, Ranking):
        return replace(problem, evidence=shared.evidence)
    ranking = replace(rank_problem(problem, options, shared.together), evidence=shared.evidence)
    if not ranking.counts.valid:
        return replace(ranking, undefined=no_query_reason(ranking.counts, shared.num_gallery, options))
    evidence = examine_ranking(ranking, problem, options, shared.together, to=world)
    return replace(ranking, evidence=evidence)


@torch.no_grad()
def list_samples(
    samples: Samples, options: RankingOptions, world: World, *, k: int, queries: Tensor | None, max_bytes: int | None
) -> RankLists:
    """Return the first k candidates of the queries of all processes, or of some of them; see `find_rank_lists`.

    Raises:
        DistributedMetricError: as `rank_samples`.
        TypeError: as `find_rank_lists`.
        ValueError: as both, and embeddings that are not finite.
    """
    # Lists show places, so the order of the gallery matters under every tie policy.
    problem, together, evidence = _share_defined(samples, options, world, max_bytes=max_bytes)
    if queries is not None:
        queries = queries.to(problem.source.device)
    lists = find_rank_lists(problem, options.protocol, k, queries, ties=options.ties, world=together)
    advise_on_retrieval(evidence, world)
    return replace(lists, label_names=sharding.gather_names(world, problem.labels.names) or None)


@torch.no_grad()
def pair_samples(samples: Samples, options: RankingOptions, world: World, *, max_bytes: int | None) -> AllPairs:
    """Return all pairs of the samples of all processes; within one set if each sample is a query and an item.

    Raises:
        DistributedMetricError: as `rank_samples`.
        ValueError: embeddings that are not finite.
    """
    are_both = samples.roles == sharding.QUERY | sharding.GALLERY
    _, table = world.guarded_all_gather(lambda: (None, [int(are_both.all())]))
    is_one_set = all(is_one_set_here for (is_one_set_here,) in table)
    problem, together, evidence = _share_defined(samples, options, world, max_bytes=max_bytes)
    advise_on_retrieval(evidence, world)

    scores = problem.source.scores_of(None, together)
    places = problem.places
    assert places is not None  # noqa: S101 - problems of samples in order have them
    numbers = problem.query_numbers
    if is_one_set:
        own_positions = torch.searchsorted(places, numbers, right=True) - 1
        query_positions = torch.searchsorted(numbers, places)
        return AllPairs(scores, query_positions, own_positions, within=True, world=together)
    own_places = problem.labels.self_index
    if own_places is None:
        own_places = torch.full_like(numbers, -1)
    return AllPairs(scores, places, own_places, within=False, world=together)


@torch.no_grad()
def find_camera_pairs(
    samples: Samples, names: Mapping[str, RankingOptions], protocol: Protocol, world: World, *, max_bytes: int | None
) -> dict[str, CameraPairs]:
    """Return the means of some numbers for each query camera against each gallery camera alone.

    Args:
        samples: of this process.
        names: the options that rank each number, by its name.
        protocol: of the numbers.
        world: all processes.
        max_bytes: bound on the scores that are held at a time.

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
    """The part of this process in a problem that all processes rank together."""

    problem: RetrievalProblem | Ranking
    """all queries against this process's part of the gallery; a ranking without positives if nothing can be ranked"""
    together: World
    """the processes that go on together"""
    num_gallery: int
    """gallery items of all processes"""
    evidence: RetrievalEvidence


def _share(
    samples: Samples, options: RankingOptions, world: World, *, max_bytes: int | None, in_order: bool
) -> _SharedProblem:
    """Send the queries of all processes to every process; `in_order` adds places in the gallery."""
    if options.exchanged:
        samples = samples.exchanged()
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
        # Every process receives all samples, and goes on by itself.
        all_samples = sharding.gather_samples(world, shard)
        options = replace(options, exchanged=False)
        alone = _share(all_samples, options, ALONE, max_bytes=max_bytes, in_order=in_order)
        return alone._replace(evidence=evidence)

    samples = shard.samples
    gallery = samples.in_order(shard.gallery) if in_order else shard.gallery
    queries = sharding.share_queries(world, shard, gallery)
    num_gallery = sum(shard.num_gallery)
    if shard.undefined is not None:
        unranked = _unranked(queries, shard.undefined, samples.names)
        return _SharedProblem(unranked, world, num_gallery, evidence)

    lists = None
    if options.lists is not None:
        no_numbers = samples.roles[:0].long()  # a process without samples has no index
        query_numbers = queries.labels.get("index", no_numbers)
        gallery_numbers = samples.labels.get("index", no_numbers)[gallery]
        lists = options.lists.at(query_numbers, gallery_numbers, world)
    first_position = sum(shard.num_gallery[: world.process]) if in_order else None

    def find_items() -> tuple[Rows, dict[str, Tensor]]:
        return _find_items(samples, gallery, first_position)

    def build(items: Rows, labels: dict[str, Tensor]) -> RetrievalProblem:
        embeddings = Embeddings(queries.embeddings, items, options.similarity, options.rerank, max_bytes)
        return _build_problem(embeddings, queries, labels, lists, samples.names).grouped(protocol, prefix="")

    if "groups" not in samples.labels:  # on all processes or on none
        problem = world.guarded(lambda: build(*find_items()))
    else:
        items, labels = world.guarded(find_items)
        items, labels = sharding.gather_groups(world, items, labels, shard.dtype)
        problem = world.guarded(lambda: build(items, labels))
    return _SharedProblem(problem, world, num_gallery, evidence)


def _build_problem(
    embeddings: Embeddings,
    queries: Queries,
    gallery_labels: dict[str, Tensor],
    lists: GroundTruth | None,
    names: LabelTables,
) -> RetrievalProblem:
    """Return the problem of all queries against this process's part of the gallery."""
    places = gallery_labels.pop("places", None)
    labels = Labels(
        query=relevance_labels(queries.labels, "query"),
        gallery=gallery_labels,
        self_index=queries.self_index,
        ground_truth=lists,
        names=names,
    )
    return RetrievalProblem(embeddings, labels, places=places, query_index=queries.labels.get("index"))


def _find_items(samples: Samples, gallery: Tensor, first_position: int | None) -> tuple[Rows, dict[str, Tensor]]:
    """Return the gallery items of this process and their labels, with places if there is a `first_position`.

    Args:
        samples: of this process.
        gallery: positions of the gallery items in the samples.
        first_position: the position of the first item in the gallery of all processes, one after the other. The place
            of an item is its `index`, else its position.
    """
    rows = samples.run(gallery)
    labels = select_samples(relevance_labels(samples.labels), rows)
    if first_position is not None:
        if samples.index is None:
            stop = first_position + len(gallery)
            labels["places"] = torch.arange(first_position, stop, device=gallery.device)
        else:
            labels["places"] = samples.index[gallery]
    return samples.rows(rows), labels


def _share_defined(
    samples: Samples, options: RankingOptions, world: World, *, max_bytes: int | None
) -> tuple[RetrievalProblem, World, RetrievalEvidence]:
    """Return the problem with places in the gallery, the processes that go on together, and evidence for advice.

    Raises:
        ValueError: nothing can be ranked.
    """
    shared = _share(samples, options, world, max_bytes=max_bytes, in_order=True)
    problem = shared.problem
    if isinstance(problem, Ranking):
        reason = f"`embeddings` must be finite; got some that are not. {problem.undefined}"
        raise ValueError(reason)  # noqa: TRY004 - of the embeddings
    evidence = replace(shared.evidence, positions=problem.positions_within(options.protocol))
    return problem, shared.together, evidence


def _unranked(queries: Queries, reason: str, names: LabelTables) -> Ranking:
    """Return a ranking without any positive, so that every measure is NaN.

    The queries are known even where their embeddings are not finite, and none of them is ranked.
    """
    num_queries = queries.embeddings.size
    zeros = torch.zeros(num_queries, dtype=torch.int64, device=queries.embeddings.device)
    positions = torch.arange(num_queries, device=zeros.device)
    labels = one_number_each(queries.labels)
    counts = QueryCounts(num_queries, valid=0, junk=0, not_in_gallery=0, same_camera_only=0, not_ranked=num_queries)
    return Ranking(
        PositiveRanks(zeros[:0], zeros, zeros),
        counts,
        query_index=queries.labels.get("index", positions),
        query_identities=labels.get("identities"),
        query_cameras=labels.get("cameras"),
        labels=names_of_labels(relevance_labels(queries.labels)),
        undefined=reason,
        names=names,
    )


def no_query_reason(counts: QueryCounts, num_gallery: int, options: RankingOptions | None = None) -> str:
    """Return the reason why no query has a positive; `options` tell whether a radius decides it."""
    value = "NaN, or what `empty_target_action` counts"
    if not counts.total:
        value = "NaN"
        if not num_gallery:
            reason = "none has a positive, as no sample was given"
        else:
            reason = "none has a positive; pass `is_query=True` for the queries"
    elif not num_gallery:
        reason = "none has a positive; pass `is_query=False` for the gallery"
    else:
        radius = None if options is None else options.protocol.radius
        kin = "of their identity" if radius is None else f"within {radius:g} of their position"
        reason = (
            f"{counts.not_in_gallery} have no other item {kin} in the gallery that is searched,"
            f" {counts.same_camera_only} lost every positive to rules of cameras, sequences, clothes or other labels,"
            f" {counts.junk} are junk"
        )
    sizes = f"{counts.total} queries against {num_gallery} gallery items"
    return f"No query can be evaluated, so the result is {value}: of {sizes}, {reason}."


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
    """the names of the cameras by their numbers; None if the evaluation was given integers"""

    @property
    def mean_without_diagonal(self) -> Float[Tensor, ""]:
        """Mean over the query cameras of the mean over the other gallery cameras; NaN without a valid query.

        It is OpenGait's number for CASIA-B, whose views are the cameras. A pair without a valid query does not count.
        """
        is_same = self.query_cameras[:, None] == self.gallery_cameras
        return self.mean.masked_fill(is_same, torch.nan).nanmean(1).nanmean()


def mean_by_camera_pair(
    problem: RetrievalProblem, names: Mapping[str, RankingOptions], protocol: Protocol, *, world: World = ALONE
) -> dict[str, CameraPairs]:
    """Evaluate every gallery camera by itself, for some numbers and the options that rank each of them.

    Every pair of query and gallery item is scored once for each of these options; re-ranking is done anew for each
    camera.

    Source: Zheng et al., "Scalable Person Re-identification: A Benchmark", ICCV 2015, figure 9.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: no cameras, a protocol that draws galleries, or what cannot be measured.
    """
    query_cameras = problem.labels.query.get("cameras")
    gallery_cameras = problem.labels.gallery.get("cameras")
    if query_cameras is None or gallery_cameras is None:
        raise ValueError("`by_camera_pair` must come with cameras; got no `gallery_cameras`.")
    if protocol.draw is not None:
        raise ValueError(f"`by_camera_pair` must come with a protocol that draws no gallery; got {protocol.draw!r}.")

    cameras = _gather_cameras(gallery_cameras, world)
    searched = rules_by_number(protocol.relevance_options, problem.labels.names)["search_cameras"]
    if searched is not None:
        cameras = cameras[torch.isin(cameras, torch.tensor(searched, device=cameras.device))]
    rows = query_cameras.long().unique()
    zeros = rows.new_zeros((len(rows), len(cameras)))
    tables = {name: CameraPairs(rows, cameras, mean=zeros.double(), num_valid=zeros.clone()) for name in names}

    # One column of each table for each gallery camera, which is searched alone.
    for column, camera in enumerate(cameras.tolist()):
        # Numbers that are ranked under the same options share a ranking.
        ranks: dict[RankingOptions, PositiveRanks] = {}
        for options in dict.fromkeys(names.values()):
            protocol_for_camera = replace(options.protocol, search_cameras=(camera,))
            options_for_camera = replace(options, protocol=protocol_for_camera, counts_ties=False)
            ranks[options] = rank_problem(problem, options_for_camera, world).ranks
        for name, options in names.items():
            means = mean_by(measure(name, ranks[options], protocol), query_cameras.long())
            tables[name].mean[:, column] = means.mean
            tables[name].num_valid[:, column] = means.num_valid
    return tables


def _gather_cameras(gallery_cameras: Tensor, world: World) -> Int[Tensor, " gallery_cameras"]:
    """Return the distinct gallery cameras of all processes, ascending.

    All processes rank the same cameras in the same order, even cameras that their part of the gallery lacks.
    """
    cameras = gallery_cameras.long().unique()
    _, table = world.guarded_all_gather(lambda: (None, [len(cameras)]))
    num_cameras = [size for (size,) in table]
    (gathered,) = exchange_rows(world, num_cameras, SentRows(lambda: [cameras]))
    return gathered.to(cameras.device).unique()

"""Rank samples or a retrieval problem, for any number of processes: from samples to ranks of positives and results.

samples          each process keeps the samples of its updates          sharding/
problem          all queries against this process's gallery             problem.py
relevance        the positives, negatives and junk of each query        relevance/
scores           of all queries against this process's gallery          scores/
ranks, counts    of the positives among their candidates                ranking/, sharding/
drawn            expectations where the protocol draws galleries        EXPECTATIONS
results          the reported numbers of every query                    results.py

The gallery does not move: the queries are sent to every process, and counts are added up. All processes end with the
same ranks as one process with all samples. Rank lists take the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.retrieval import measures, sharding
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, PositiveRanks, count_sharded_ranks
from reid_torchmetrics.functional.retrieval.relevance import (
    QueryCounts,
    one_number_each,
    relevance_labels,
    select_samples,
)
from reid_torchmetrics.functional.retrieval.scores import Rows
from reid_torchmetrics.functional.retrieval.sharding import Samples
from reid_torchmetrics.functional.world import ALONE, World, results_made, samples_shared

from .problem import GROUPED_GALLERIES, Embeddings, Labels, RetrievalProblem
from .protocol import Protocol, RankingOptions, Setup
from .rank_lists import RankLists, find_rank_lists
from .ranked import RankedSamples, Ranking, Updates
from .results import RetrievalResults

EXPECTATIONS: Registry[Callable[..., measures.DrawnResults]] = Registry("EXPECTATIONS", {})
"""expectations besides ranks, which tasks add: functions of scores, relevance, and options of a protocol"""


def rank_problem(problem: RetrievalProblem, options: RankingOptions, world: World = ALONE) -> Ranking:
    """Rank the positives of all queries; each process passes its own shard of the gallery.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: options that do not fit the problem, scores that are NaN.
    """
    # On the pool all operations use one thread: beside busy processes torch's threads wait for each other at each one.
    work = partial(_rank_problem, problem, options, world)
    return workers.run(work, problem.source.device, inside=world.size > 1 or problem.keeps_thread)


def _rank_problem(problem: RetrievalProblem, options: RankingOptions, world: World) -> Ranking:
    scores, relevance = problem.prepare(options.protocol, options.ties, world)
    places = problem.kept_places(relevance)  # they break ties across the parts of the gallery
    ranks, counts = count_sharded_ranks(world, scores, relevance, ties=options.ties, places=places)

    protocol = options.protocol
    drawn = None
    if protocol.gallery_draw is not None:  # a process that needs expectations has the whole gallery
        drawn = EXPECTATIONS["drawn_galleries"](
            scores,
            relevance,
            protocol.gallery_draw,
            ties=options.ties,
            max_rank=options.max_rank,
            with_precision=protocol.gallery_draw_for_map,
            queries_in_draw=protocol.queries_in_draw,
        )

    return Ranking(
        ranks,
        counts,
        query_index=problem.query_numbers,
        query_identities=relevance.query_identities,
        query_cameras=relevance.query_cameras,
        query_hash=problem.source.query_hash,
        drawn=drawn,
        labels=problem.provided_labels,
        names=problem.labels.names,
    )


@torch.no_grad()
def rank_samples(
    samples: Samples, options: RankingOptions, world: World = ALONE, *, max_bytes: int | None
) -> tuple[Ranking, RankedSamples]:
    """Rank the samples of all processes; each process passes its own. The second value has facts about the samples.

    The facts have the problem where it is that of `problem_of_process`, on one process, so that nobody makes it again.
    Where embeddings are not finite, no query has a positive, and `Ranking.undefined` is the reason.

    Raises:
        DistributedMetricError: an error on some process, or samples that differ between processes.
        ValueError: scores that are NaN, samples that are queries only where each is searched among the others.
    """
    needs_order = TIE_POLICIES[options.ties].by_place is not None or options.needs_all_samples
    shared = share_samples(samples, options, world, max_bytes=max_bytes, in_order=needs_order)
    if shared.undefined is not None:
        return _unranked(shared.problem, shared.undefined), shared.facts
    facts, problem = shared.facts, shared.problem
    if world.size == 1 and max_bytes is None and samples.index is None and all(problem.source.shape):
        facts = replace(facts, find_problem=lambda: problem)
    return rank_problem(problem, options, shared.together), facts


@torch.no_grad()
def problem_of_process(samples: Samples, options: RankingOptions, facts: RankedSamples) -> RetrievalProblem | None:
    """Return the problem of this process's queries and gallery items; None if it lacks either, or cannot rank them.

    `facts` are those about the samples of all processes, which decide whether embeddings are codes.
    """
    if samples.marks is not None or facts.are_bits:  # nearly never; other samples know their norms already
        samples = replace(samples, marks=None, are_bits=facts.are_bits)
    has_both_roles = all(bool((samples.roles & role > 0).any()) for role in (sharding.QUERY, sharding.GALLERY))
    if not has_both_roles:
        return None
    try:
        shared = share_samples(samples, options, ALONE, max_bytes=None)
    except ValueError:  # the samples of all processes keep a rule that those of one alone break
        return None
    return shared.problem if shared.undefined is None else None


@torch.no_grad()
def list_samples(
    samples: Samples,
    options: RankingOptions,
    world: World,
    *,
    k: int,
    queries: Tensor | None,
    max_bytes: int | None,
    updates: Updates | None = None,
) -> RankLists:
    """Return the first k candidates of the queries of all processes, or of some of them; see `find_rank_lists`.

    `updates` are those of the metric; None if nobody is to look at the samples.

    Raises:
        DistributedMetricError: as `rank_samples`.
        TypeError: as `find_rank_lists`.
        ValueError: as both, and embeddings that are not finite.
    """
    problem, together = share_defined(samples, options, world, max_bytes=max_bytes, updates=updates)
    if queries is not None:
        queries = queries.to(problem.source.device)
    lists = find_rank_lists(problem, options.protocol, k, queries, ties=options.ties, world=together)
    return replace(lists, label_names=problem.labels.names.gather(world) or None)


def share_defined(
    samples: Samples,
    options: RankingOptions,
    world: World,
    *,
    max_bytes: int | None,
    updates: Updates | None = None,
) -> tuple[RetrievalProblem, World]:
    """Return the problem with places in the gallery, and the processes that go on together.

    With `updates`, likely mistakes are looked for.

    Raises:
        ValueError: nothing can be ranked.
    """
    problem, together, facts, undefined = share_samples(samples, options, world, max_bytes=max_bytes)
    if undefined is not None:
        raise ValueError(f"`embeddings` must be finite; got some that are not. {undefined}")
    if updates is not None:
        results_made(None, replace(facts, labels=problem.labels, updates=updates), world)
    return problem, together


class SharedProblem(NamedTuple):
    """The part of this process in a problem that all processes rank together."""

    problem: RetrievalProblem
    """all queries against this process's part of the gallery"""
    together: World
    """the processes that go on together"""
    facts: RankedSamples
    """about the samples of all processes"""
    undefined: str | None
    """the reason why nothing can be ranked: embeddings that are not finite; None if all are"""


def share_samples(
    samples: Samples, options: RankingOptions, world: World, *, max_bytes: int | None, in_order: bool = True
) -> SharedProblem:
    """Send the queries of all processes to every process; `in_order` adds places in the gallery."""
    if options.exchanged:
        samples = samples.exchanged()
    protocol = options.protocol
    examine = partial(
        sharding.examine_samples,
        leave_one_out=protocol.leave_one_out,
        max_bytes=max_bytes,
        extra=protocol.own_labels,
    )
    shard = examine(world, samples)
    facts = RankedSamples(
        protocol,
        options=options,
        num_gallery=sum(shard.num_gallery),
        has_lists=options.lists is not None,
        keeps_thread=callable(options.similarity) or samples.device.type != "cpu",
        has_updates=True,
        are_bits=shard.samples.are_bits,
        compared=samples_shared(shard, world),
    )
    if world.size > 1 and options.needs_all_samples and shard.undefined is None:
        # Every process receives all samples, and goes on by itself.
        all_samples = sharding.gather_samples(world, shard)
        world = ALONE
        shard = examine(world, all_samples)

    samples = shard.samples
    gallery = samples.in_order(shard.gallery) if in_order else shard.gallery
    queries = sharding.share_queries(world, shard, gallery)
    lists = None
    if options.lists is not None and shard.undefined is None:
        no_numbers = samples.roles[:0].long()  # a process without samples has no index
        query_numbers = queries.labels.get("index", no_numbers)
        gallery_numbers = samples.labels.get("index", no_numbers)[gallery]
        lists, listed_items = options.lists.at(query_numbers, gallery_numbers, world)
        facts = replace(facts, listed_items=listed_items)
    first_position = sum(shard.num_gallery[: world.process]) if in_order else None
    find_items = partial(_find_items, samples, gallery, first_position)
    gathered = None
    if "groups" in samples.labels:  # on all processes or on none
        gathered = GROUPED_GALLERIES["best_member"].gather(world, *world.guarded(find_items), shard.dtype)

    def build() -> RetrievalProblem:
        items, labels = gathered or find_items()
        places = labels.pop("places", None)
        problem = RetrievalProblem(
            Embeddings(queries.embeddings, items, options.similarity, options.rerank, max_bytes),
            Labels(
                query=relevance_labels(queries.labels, "query"),
                gallery=labels,
                self_index=queries.self_index,
                ground_truth=lists,
                names=samples.names,
            ),
            places=places,
            query_index=queries.labels.get("index"),
        )
        return problem.grouped(protocol, prefix="")

    return SharedProblem(world.guarded(build), world, facts, shard.undefined)


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


def _unranked(problem: RetrievalProblem, reason: str) -> Ranking:
    """Return a ranking without any positive, so that every measure is NaN.

    The queries are known even where their embeddings are not finite, and none of them is ranked.
    """
    query_index = problem.query_numbers
    zeros = torch.zeros_like(query_index)
    num_queries = len(zeros)
    labels = one_number_each(problem.labels.query)
    counts = QueryCounts(num_queries, valid=0, junk=0, not_in_gallery=0, same_camera_only=0, not_ranked=num_queries)
    return Ranking(
        PositiveRanks(zeros[:0], zeros, zeros),
        counts,
        query_index=query_index,
        query_identities=labels.get("identities"),
        query_cameras=labels.get("cameras"),
        labels=problem.provided_labels,
        undefined=reason,
        names=problem.labels.names,
    )


def summarize(
    ranking: Ranking,
    protocol: Protocol,
    setup: Setup,
    *,
    max_rank: int,
    cmc_ranking: Ranking | None = None,
    problem: object = None,
) -> RetrievalResults:
    """Evaluate every query, and the numbers that `protocol` reports; the CMC may have a ranking of its own.

    Everything but the ranks, which may be large, is copied: rankings may be shared. The results hold `problem`, the
    evaluated samples.
    """
    ranks = ranking.ranks
    cmc_ranking = cmc_ranking or ranking
    # The values are no views of the rankings. AP and INP are always there, reported or not: breakdowns and lists of
    # hard queries use them.
    values: dict[str, Tensor] = {}
    for name in dict.fromkeys((*protocol.reports, "map", "minp")):
        measure, k = measures.parse_report(name)
        ranked = cmc_ranking if measure.is_cmc else ranking
        if ranked.drawn is None or not protocol.draws(measure):
            values_of_measure = measure.compute(ranked.ranks, protocol, k)
        else:
            values_of_measure = measures.measure_drawn(name, ranked.drawn)
        values[name] = values_of_measure.clone()
    cmc, weight, drawn = _average_curves(ranking, cmc_ranking, protocol, max_rank=max_rank)
    has_ranks_for_cmc = drawn is None and protocol.cmc_same_camera is not None
    return RetrievalResults(
        per_query={name: values[name] for name in protocol.reports},
        average_precision=values["map"].clone(),
        inverse_negative_penalty=values["minp"].clone(),
        first_rank=measures.first_rank(ranks),
        cmc=cmc,
        num_positives=ranks.num_positives.clone(),
        num_candidates=ranks.num_candidates.clone(),
        query_index=ranking.query_index.clone(),
        counts=ranking.counts,
        ranks=ranks,
        protocol=protocol,
        setup=setup,
        weight=_copy(weight),
        query_identities=_copy(ranking.query_identities),
        query_cameras=_copy(ranking.query_cameras),
        query_hash=ranking.query_hash,
        problem=problem,
        label_names=ranking.names or None,
        ranks_for_cmc=cmc_ranking.ranks if has_ranks_for_cmc else None,
        drawn=drawn,
    )


def _copy(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.clone()


def _average_curves(
    ranking: Ranking, cmc_ranking: Ranking, protocol: Protocol, *, max_rank: int
) -> tuple[Float[Tensor, " max_rank"], Float[Tensor, " queries"] | None, measures.DrawnResults | None]:
    """Return the mean CMC curve, the weight of each query in it, and expectations over drawn galleries.

    The expectations of the CMC are under its own camera rule, up to the last reported rank: metrics share longer ones.
    """
    action = ranking.counts.counting(protocol.empty_target_action)
    drawn = cmc_ranking.drawn
    if drawn is None:
        cmc = measures.cmc_curve(cmc_ranking.ranks, max_rank, mode=protocol.mode, empty_target_action=action)
        return cmc, None, None
    reported = map(measures.parse_report, protocol.reports)
    length = max([max_rank, *(k for measure, k in reported if measure.is_cmc)])
    drawn = replace(drawn, cmc=drawn.cmc[:, :length].contiguous())
    if ranking.drawn is not None:
        drawn = replace(
            drawn,
            average_precision=ranking.drawn.average_precision,
            inverse_negative_penalty=ranking.drawn.inverse_negative_penalty,
        )
    weight = drawn.weight if protocol.queries_in_draw else None
    cmc = measures.mean_over_queries(drawn.cmc[:, :max_rank], empty_target_action=action, weight=weight)
    return cmc, weight, drawn

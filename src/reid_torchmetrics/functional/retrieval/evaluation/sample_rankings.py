"""Rank the samples of all processes.

samples          each process keeps the samples of its updates          sharding/
problem          all queries against this process's gallery             problem.py
ranking          ranks of the positives among their candidates          ranking.py

The gallery does not move: the queries are sent to every process, and counts are added up. All processes end with the
same ranks as one process with all samples. Rank lists, and measures between pairs of cameras, take the same steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.made import results_made
from reid_torchmetrics.functional.retrieval import sharding
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import (
    QueryCounts,
    Vocabulary,
    names_in_rules,
    one_number_each,
    relevance_labels,
    select_samples,
)
from reid_torchmetrics.functional.retrieval.scores import Rows
from reid_torchmetrics.functional.retrieval.sharding import Queries, Samples
from reid_torchmetrics.functional.world import ALONE, World

from .ground_truth import GroundTruth
from .nearest_items import find_rank_lists
from .problem import Embeddings, Labels, RetrievalProblem
from .protocol import Protocol
from .rank_lists import RankLists
from .ranked import CameraPairs, Ranking
from .ranked_samples import RankedSamples, UpdateFacts
from .ranking import mean_by_camera_pair, rank_problem
from .ranking_options import RankingOptions, names_of_labels


@torch.no_grad()
def rank_samples(
    samples: Samples, options: RankingOptions, world: World = ALONE, *, max_bytes: int | None
) -> tuple[Ranking, RankedSamples]:
    """Rank the samples of all processes; each process passes its own. The second value has facts about the samples.

    Where embeddings are not finite, no query has a positive, and `Ranking.undefined` is the reason.

    Raises:
        DistributedMetricError: an error on some process, or samples that differ between processes.
        ValueError: scores that are NaN, samples that are queries only where each is searched among the others.
    """
    needs_order = TIE_POLICIES[options.ties].by_place is not None or options.needs_all_samples
    shared = _share(samples, options, world, max_bytes=max_bytes, in_order=needs_order)
    problem = shared.problem
    ranking = problem if isinstance(problem, Ranking) else rank_problem(problem, options, shared.together)
    return ranking, shared.facts


@torch.no_grad()
def problem_of_process(
    samples: Samples, options: RankingOptions, facts: RankedSamples, *, max_bytes: int | None = None
) -> RetrievalProblem | None:
    """Return the problem of this process's queries and gallery items; None if it lacks either, or cannot rank them.

    `facts` are those about the samples of all processes, which decide whether embeddings are codes.
    """
    samples = replace(samples, marks=None, are_bits=facts.are_bits)
    has_both_roles = all(bool((samples.roles & role > 0).any()) for role in (sharding.QUERY, sharding.GALLERY))
    if not has_both_roles:
        return None
    try:
        problem = _share(samples, options, ALONE, max_bytes=max_bytes, in_order=True).problem
    except ValueError:  # the samples of all processes keep a rule that those of one alone break
        return None
    return None if isinstance(problem, Ranking) else problem


@torch.no_grad()
def list_samples(
    samples: Samples,
    options: RankingOptions,
    world: World,
    *,
    k: int,
    queries: Tensor | None,
    max_bytes: int | None,
    updates: UpdateFacts | None = None,
) -> RankLists:
    """Return the first k candidates of the queries of all processes, or of some of them; see `find_rank_lists`.

    `updates` are facts that only `update` sees; None if nobody is to look at the samples.

    Raises:
        DistributedMetricError: as `rank_samples`.
        TypeError: as `find_rank_lists`.
        ValueError: as both, and embeddings that are not finite.
    """
    # Lists show places, so the order of the gallery matters under every tie policy.
    problem, together, facts = share_defined(samples, options, world, max_bytes=max_bytes)
    if queries is not None:
        queries = queries.to(problem.source.device)
    lists = find_rank_lists(problem, options.protocol, k, queries, ties=options.ties, world=together)
    if updates is not None:
        results_made(None, replace(facts, updates=updates), world)
    return replace(lists, label_names=problem.labels.names.gather(world) or None)


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
    problem, together, _ = share_defined(samples, options, world, max_bytes=max_bytes)
    return mean_by_camera_pair(problem, names, protocol, world=together)


class _SharedProblem(NamedTuple):
    """The part of this process in a problem that all processes rank together."""

    problem: RetrievalProblem | Ranking
    """all queries against this process's part of the gallery; a ranking without positives if nothing can be ranked"""
    together: World
    """the processes that go on together"""
    facts: RankedSamples
    """about the samples of all processes"""


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
    facts = RankedSamples(
        protocol,
        options=options,
        num_gallery=sum(shard.num_gallery),
        has_lists=options.lists is not None,
        keeps_thread=callable(options.similarity) or samples.device.type != "cpu",
        has_updates=True,
        are_bits=shard.samples.are_bits,
        num_changed=shard.num_changed,
        **shard.held_twice._asdict(),
    )
    if world.size > 1 and options.needs_all_samples and shard.undefined is None:
        # Every process receives all samples, and goes on by itself.
        all_samples = sharding.gather_samples(world, shard)
        options = replace(options, exchanged=False)
        alone = _share(all_samples, options, ALONE, max_bytes=max_bytes, in_order=in_order)
        return alone._replace(facts=facts)

    samples = shard.samples
    gallery = samples.in_order(shard.gallery) if in_order else shard.gallery
    queries = sharding.share_queries(world, shard, gallery)
    if shard.undefined is not None:
        unranked = _unranked(queries, shard.undefined, samples.names)
        return _SharedProblem(unranked, world, facts)

    lists = None
    if options.lists is not None:
        no_numbers = samples.roles[:0].long()  # a process without samples has no index
        query_numbers = queries.labels.get("index", no_numbers)
        gallery_numbers = samples.labels.get("index", no_numbers)[gallery]
        lists, listed_items = options.lists.at(query_numbers, gallery_numbers, world)
        facts = replace(facts, listed_items=listed_items)
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
    return _SharedProblem(problem, world, facts)


def _build_problem(
    embeddings: Embeddings,
    queries: Queries,
    gallery_labels: dict[str, Tensor],
    lists: GroundTruth | None,
    names: Vocabulary,
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
    rows = queries.embeddings
    return RetrievalProblem(
        embeddings,
        labels,
        places=places,
        query_index=queries.labels.get("index"),
        query_hash=rows.fingerprint() if isinstance(rows, Rows) else None,
    )


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


def share_defined(
    samples: Samples, options: RankingOptions, world: World, *, max_bytes: int | None
) -> tuple[RetrievalProblem, World, RankedSamples]:
    """Return the problem with places in the gallery, the processes that go on together, and facts.

    Raises:
        ValueError: nothing can be ranked.
    """
    shared = _share(samples, options, world, max_bytes=max_bytes, in_order=True)
    problem = shared.problem
    if isinstance(problem, Ranking):
        reason = f"`embeddings` must be finite; got some that are not. {problem.undefined}"
        raise ValueError(reason)  # noqa: TRY004 - of the embeddings
    facts = replace(shared.facts, positions=problem.labels.positions_within(options.protocol))
    return problem, shared.together, facts


def _unranked(queries: Queries, reason: str, names: Vocabulary) -> Ranking:
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

"""Rank a retrieval problem, for any number of processes: from the scores and relevance to the ranks of positives.

relevance        the positives, negatives and junk of each query        relevance/
scores           of all queries against this process's gallery          scores/
ranks, counts    of the positives among their candidates                ranking/, sharding/
drawn            expectations where the protocol draws galleries        EXPECTATIONS

Measures between pairs of cameras take the same steps, once for every camera of the gallery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.retrieval.measures import DrawnResults, measure
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks, count_sharded_ranks
from reid_torchmetrics.functional.world import ALONE, SentRows, World, exchange_rows

from .problem import RetrievalProblem
from .protocol import Protocol
from .query_statistics import mean_by
from .ranked import CameraPairs, Ranking
from .ranking_options import RankingOptions

EXPECTATIONS: Registry[Callable[..., DrawnResults]] = Registry("EXPECTATIONS", {})
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
    if protocol.gallery_draw is not None:
        raise ValueError(
            f"`by_camera_pair` must come with a protocol that draws no gallery; got {protocol.gallery_draw!r}."
        )

    cameras = _gather_cameras(gallery_cameras, world)
    searched = problem.labels.names.rules_by_number(protocol.relevance_options)["search_cameras"]
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
            options_for_camera = replace(options, protocol=protocol_for_camera)
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
    all_cameras: Tensor = gathered.to(cameras.device).unique()
    return all_cameras

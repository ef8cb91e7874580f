"""The one road: from a retrieval problem, in any world, to the ranks of its positives.

relevance        who is positive, negative or junk for each query       relevance/
scores           of all queries against this process's gallery          scores/, reranking/
ranks, counts    of the positives among their candidates                ranking/, sharding/
drawn            expectations where the protocol draws galleries        draws/

Measures between pairs of cameras take it once for every camera of the gallery.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.draws import DrawnResults, expect_draws
from reid_torchmetrics.functional.retrieval.measures import measure
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks, count_sharded_ranks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts, Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores
from reid_torchmetrics.functional.world import ALONE, World, all_gather_rows

from .problem import RetrievalProblem
from .protocol import Protocol
from .query_statistics import mean_by
from .ranking_options import RankingOptions


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
    undefined: str | None = None
    """why there is nothing to average, if so"""


def rank_problem(problem: RetrievalProblem, options: RankingOptions, world: World = ALONE) -> Ranking:
    """Rank the positives of all queries; each process passes its own shard of the gallery.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: options that do not fit the problem, scores that are NaN.
    """
    scores, relevance = problem.prepare(options.protocol, world)
    ranks, counts = count_sharded_ranks(
        world, scores, relevance, ties=options.ties, places=problem.kept_places(relevance)
    )
    return Ranking(
        ranks,
        counts,
        problem.numbers_of_queries,
        relevance.query_identities,
        relevance.query_cameras,
        _expected(scores, relevance, options),
    )


def _expected(scores: Scores, relevance: Relevance, options: RankingOptions) -> DrawnResults | None:
    """Expectations over drawn galleries; a process that needs them has the whole gallery."""
    protocol = options.protocol
    if protocol.draw is None:
        return None
    return expect_draws(
        scores,
        relevance,
        protocol.draw,
        ties=options.ties,
        max_rank=options.max_rank,
        with_precision=protocol.draws_precision,
        queries_in_draw=protocol.queries_in_draw,
    )


@dataclass(frozen=True, eq=False)
class CameraPairs:
    """Means of a measure over the valid queries of each query camera, against each gallery camera alone."""

    query_cameras: Int[Tensor, " query_cameras"]
    gallery_cameras: Int[Tensor, " gallery_cameras"]
    mean: Float[Tensor, "query_cameras gallery_cameras"]
    """NaN where no query has a positive in the gallery camera"""
    num_valid: Int[Tensor, "query_cameras gallery_cameras"]

    @classmethod
    def empty(cls, query_cameras: Int[Tensor, " query_cameras"], gallery_cameras: Tensor) -> CameraPairs:
        """A table to fill in."""
        num_valid = query_cameras.new_zeros((len(query_cameras), len(gallery_cameras)))
        return cls(query_cameras, gallery_cameras, num_valid.double(), num_valid)


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
    query_cameras, gallery_cameras = problem.labels.query_cameras, problem.labels.gallery_cameras
    if query_cameras is None or gallery_cameras is None:
        raise ValueError("`by_camera_pair` must come with cameras; got no `gallery_cameras`.")
    if protocol.draw is not None:
        raise ValueError(f"`by_camera_pair` must come with a protocol that draws no gallery; got {protocol.draw!r}.")
    cameras = _cameras_of_all(world, gallery_cameras.long())
    if protocol.search_cameras is not None:
        cameras = cameras[torch.isin(cameras, torch.tensor(protocol.search_cameras, device=cameras.device))]
    rows = query_cameras.long().unique()
    tables = {name: CameraPairs.empty(rows, cameras) for name in names}
    # One column of each table for each gallery camera, which is searched alone.
    for column, camera in enumerate(cameras.tolist()):
        ranks: dict[RankingOptions, PositiveRanks] = {}
        for name, options in names.items():
            if options not in ranks:
                searched = replace(options, protocol=replace(options.protocol, search_cameras=(camera,)))
                ranks[options] = rank_problem(problem, searched, world).ranks
            means = mean_by(measure(name, ranks[options], protocol), query_cameras.long())
            tables[name].mean[:, column], tables[name].num_valid[:, column] = means.mean, means.num_valid
    return tables


def _cameras_of_all(world: World, cameras: Int[Tensor, " gallery"]) -> Int[Tensor, " distinct"]:
    """The cameras of the galleries of all processes."""

    def look() -> tuple[Tensor, list[int]]:
        distinct: Tensor = cameras.unique()
        return distinct, [len(distinct)]

    distinct, table = world.guarded_all_gather(look)
    sizes = [size for (size,) in table]
    first = sum(sizes[: world.process])

    def prepare() -> Tensor:
        rows = torch.zeros(sum(sizes), dtype=torch.int64, device=world.device)
        rows[first : first + len(distinct)] = distinct
        return rows

    rows = world.guarded(prepare)
    all_gather_rows(world, rows, sizes)
    cameras_of_all: Tensor = rows.to(cameras.device).unique()
    return cameras_of_all

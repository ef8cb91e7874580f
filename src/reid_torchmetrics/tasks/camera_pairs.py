"""Measures between pairs of cameras: the gallery of each camera is searched by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from reid_torchmetrics.functional.retrieval.evaluation import (
    RETRIEVAL_METHODS,
    CameraPairs,
    EvaluatedProblem,
    Protocol,
    RankingOptions,
    RetrievalProblem,
    mean_by,
    rank_problem,
    share_defined,
)
from reid_torchmetrics.functional.retrieval.measures import measure, parse_report
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.sharding import Samples
from reid_torchmetrics.functional.world import ALONE, SentRows, World, exchange_rows


def _of_evaluated(evaluated: EvaluatedProblem, name: str) -> CameraPairs:
    """Return the means of a reported number between pairs of cameras, for results of `evaluate`."""
    row, _ = parse_report(name)
    names = {name: evaluated.options(is_cmc=row.is_cmc)}
    return mean_by_camera_pair(evaluated.problem, names, evaluated.protocol)[name]


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
    problem, together = share_defined(samples, options, world, max_bytes=max_bytes)
    return mean_by_camera_pair(problem, names, protocol, world=together)


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

    # All processes rank the same cameras in the same order, even cameras that their part of the gallery lacks.
    own_cameras = gallery_cameras.long().unique()
    _, table = world.guarded_all_gather(lambda: (None, [len(own_cameras)]))
    sizes = [size for (size,) in table]
    (gathered,) = exchange_rows(world, sizes, SentRows(lambda: [own_cameras]))
    cameras = gathered.to(own_cameras.device).unique()
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


RETRIEVAL_METHODS["by_camera_pair"] = _of_evaluated

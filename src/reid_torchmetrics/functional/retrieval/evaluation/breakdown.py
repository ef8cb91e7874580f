"""Means per label: what a measure is for each camera, or for each identity.

Measures between pairs of cameras: the queries of one against the gallery of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.measures import measure
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.world import ALONE, SentRows, World, exchange_rows

from .problem import RetrievalProblem
from .protocol import Protocol
from .ranking import rank_problem
from .ranking_options import RankingOptions


@dataclass(frozen=True, eq=False)
class Breakdown:
    """The mean of one value per query over the queries of each group, which share all their labels."""

    labels: Int[Tensor, "groups labels"]
    """int64; distinct, in ascending order"""
    mean: Float[Tensor, " groups"]
    """float64; NaN for a group in which no query has a value"""
    num_valid: Int[Tensor, " groups"]
    """queries that have a value"""
    num_queries: Int[Tensor, " groups"]


def mean_by(
    values: Float[Tensor, " queries"], label: Integer[Tensor, " queries"], *labels: Integer[Tensor, " queries"]
) -> Breakdown:
    """Mean of one value per query over the queries that share a label, or several; NaN stands for no value.

    Queries without a value are left out, as `mean_over_queries` does by default. That function gives the macro average
    of the groups from `mean`. Without queries there are no groups.

    Args:
        values: what a measure gives for every query.
        label: label of every query, its camera say.
        labels: further labels; queries of one group share them all.

    Raises:
        TypeError: a label tensor is not an integer tensor.
        ValueError: labels that are not as long as `values`, or on another device.
    """
    _checks.integer_labels("label", label, len(values), values.device)
    for number, further in enumerate(labels):
        _checks.integer_labels(f"labels[{number}]", further, len(values), values.device)
    rows = torch.stack([column.long() for column in (label, *labels)], dim=1)
    distinct, group = rows.unique(dim=0, return_inverse=True)
    num_groups = len(distinct)
    valid = ~values.isnan()
    num_valid = group[valid].bincount(minlength=num_groups)
    mean = sums_of_groups(values[valid], group[valid], num_groups) / num_valid  # 0 / 0 is NaN
    return Breakdown(distinct, mean, num_valid, group.bincount(minlength=num_groups))


def sums_of_groups(
    values: Float[Tensor, "items ..."], group: Int[Tensor, " items"], num_groups: int
) -> Float[Tensor, "groups ..."]:
    """Sum of `values` over the items of each group, in float64 and in their order: the same on every run."""
    order = group.argsort(stable=True)
    sizes = group.bincount(minlength=num_groups)
    return segments.reduce(values[order].double(), "sum", sizes)


@dataclass(frozen=True, eq=False)
class CameraPairs:
    """Means of a measure over the valid queries of each query camera, against each gallery camera alone."""

    query_cameras: Int[Tensor, " query_cameras"]
    gallery_cameras: Int[Tensor, " gallery_cameras"]
    mean: Float[Tensor, "query_cameras gallery_cameras"]
    """NaN where no query has a positive in the gallery camera"""
    num_valid: Int[Tensor, "query_cameras gallery_cameras"]


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
    # One column of each table for each gallery camera, which is searched alone.
    columns: dict[str, list[Breakdown]] = {name: [] for name in names}
    for camera in cameras.tolist():
        ranks: dict[RankingOptions, PositiveRanks] = {}
        for name, options in names.items():
            if options not in ranks:
                searched = replace(options, protocol=replace(options.protocol, search_cameras=(camera,)))
                ranks[options] = rank_problem(problem, searched, world).ranks
            columns[name].append(mean_by(measure(name, ranks[options], protocol), query_cameras.long()))
    rows = query_cameras.long().unique()
    return {name: _table(rows, cameras, columns[name]) for name in names}


def _table(rows: Tensor, cameras: Tensor, columns: Sequence[Breakdown]) -> CameraPairs:
    none = torch.empty((len(rows), 0), device=cameras.device)
    return CameraPairs(
        rows,
        cameras,
        torch.cat([none.double(), *(column.mean[:, None] for column in columns)], dim=1),
        torch.cat([none.long(), *(column.num_valid[:, None] for column in columns)], dim=1),
    )


def _cameras_of_all(world: World, cameras: Int[Tensor, " gallery"]) -> Int[Tensor, " distinct"]:
    """The cameras of the galleries of all processes."""

    def look() -> tuple[Tensor, list[int]]:
        distinct: Tensor = cameras.unique()
        return distinct, [len(distinct)]

    local, table = world.guarded_all_gather(look)
    (rows,) = exchange_rows(world, [size for (size,) in table], SentRows(lambda: [local]))
    distinct: Tensor = rows.to(cameras.device).unique()
    return distinct

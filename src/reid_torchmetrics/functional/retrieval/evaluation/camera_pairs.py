"""Measures between pairs of cameras: the queries of one against the gallery of another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation.breakdown import mean_by
from reid_torchmetrics.functional.retrieval.evaluation.problem import RetrievalProblem
from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.measures import measure, parse_report
from reid_torchmetrics.functional.retrieval.ranking import count_ranks


@dataclass(frozen=True, eq=False)
class CameraPairs:
    """Means of a measure over the valid queries of each query camera, against each gallery camera alone."""

    query_cameras: Int[Tensor, " query_cameras"]
    gallery_cameras: Int[Tensor, " gallery_cameras"]
    mean: Float[Tensor, "query_cameras gallery_cameras"]
    """NaN where no query has a positive in the gallery camera"""
    num_valid: Int[Tensor, "query_cameras gallery_cameras"]


def mean_by_camera_pair(problem: RetrievalProblem, protocol: Protocol, name: str, *, ties: str) -> CameraPairs:
    """Evaluate every gallery camera by itself, under the CMC's camera rule where the measure is the CMC.

    Every pair of query and gallery item is scored once; re-ranking is done anew for each camera.

    Source: Zheng et al., "Scalable Person Re-identification: A Benchmark", ICCV 2015, figure 9.

    Raises:
        ValueError: no cameras, a protocol that draws galleries, or what cannot be measured.
    """
    query_cameras, gallery_cameras = problem.labels.query_cameras, problem.labels.gallery_cameras
    if query_cameras is None or gallery_cameras is None:
        raise ValueError("`by_camera_pair` must come with cameras; got no `gallery_cameras`.")
    if protocol.draw is not None:
        raise ValueError(f"`by_camera_pair` must come with a protocol that draws no gallery; got {protocol.draw!r}.")
    protocol = protocol.for_cmc if parse_report(name)[0].is_cmc else protocol
    cameras = gallery_cameras.long().unique()
    if protocol.search_cameras is not None:
        cameras = cameras[torch.isin(cameras, torch.tensor(protocol.search_cameras, device=cameras.device))]
    # One column of the table for each gallery camera, which is searched alone.
    columns = []
    for camera in cameras.tolist():
        searched = replace(protocol, search_cameras=(camera,))
        ranks = count_ranks(*problem.prepare(searched), ties=ties)
        columns.append(mean_by(measure(name, ranks, searched), query_cameras.long()))
    rows = query_cameras.long().unique()
    none = torch.empty((len(rows), 0), device=cameras.device)
    return CameraPairs(
        rows,
        cameras,
        torch.cat([none.double(), *(column.mean[:, None] for column in columns)], dim=1),
        torch.cat([none.long(), *(column.num_valid[:, None] for column in columns)], dim=1),
    )

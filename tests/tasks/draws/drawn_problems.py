"""Small problems over drawn galleries, and what all possible draws give."""

import math
from typing import get_args

import torch
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics import _names
from reid_torchmetrics.functional.retrieval.evaluation import GalleryDraw
from reid_torchmetrics.functional.retrieval.measures import DrawnResults
from reid_torchmetrics.functional.retrieval.relevance.from_labels import find_relevance
from reid_torchmetrics.functional.retrieval.scores.scores import scores_from_matrix
from reid_torchmetrics.tasks.draws.drawn_galleries import expect_draws
from tests.closeness import assert_close
from tests.reference import draws as reference
from tests.strategies import Problem

MAX_RANK = 4
TINY = 64  # bytes: one query and one positive at a time
PLANS = st.builds(GalleryDraw, st.sampled_from([1, 2, None]), st.sampled_from(get_args(_names.DrawnPer)))


def prepare(problem: Problem, *, max_bytes: int = 10**6, **rules):
    options = {name: value for name, value in problem.options.items() if name != "ties"}
    relevance = find_relevance(*problem.labels, **(options | rules))
    return scores_from_matrix(problem.scores, relevance, max_bytes=max_bytes), relevance


def expect(problem: Problem, draw: GalleryDraw, **options) -> DrawnResults:
    bound = {name: options.pop(name) for name in ("max_bytes", "camera_map") if name in options}
    return expect_draws(*prepare(problem, **bound), draw, **({"ties": problem.ties, "max_rank": MAX_RANK} | options))


def strata_of(problem: Problem, draw: GalleryDraw) -> list[object]:
    identities = problem.gallery_identities.tolist()
    if draw.per == "identity":
        return identities
    return list(zip(identities, problem.gallery_cameras.tolist(), strict=True))


def enumerated(problem: Problem, draw: GalleryDraw, camera_map=None) -> list[reference.Expected | None]:
    cameras = [
        None if labels is None else labels.tolist() for labels in (problem.query_cameras, problem.gallery_cameras)
    ]
    if camera_map:
        cameras = [[camera_map.get(camera, camera) for camera in side] for side in cameras]
    found = []
    for q, scores in enumerate(problem.scores.tolist()):
        items = reference.find_items(
            scores,
            (int(problem.query_identities[q]), cameras[0] and cameras[0][q]),
            problem.gallery_identities.tolist(),
            cameras[1],
            same_camera=problem.same_camera,
            junk_identities=problem.junk_identities,
            self_position=-1 if problem.self_index is None else int(problem.self_index[q]),
        )
        strata = strata_of(problem, draw)
        found.append(reference.expected_draw(items, strata, shots=draw.shots, ties=problem.ties, max_rank=MAX_RANK))
    return found


def table(results: DrawnResults) -> Tensor:
    return torch.cat(
        [results.cmc, results.average_precision[:, None], results.inverse_negative_penalty[:, None]], dim=1
    )


def as_table(values: list[reference.Expected | None]) -> Tensor:
    rows = [
        [math.nan] * (MAX_RANK + 2) if value is None else [*map(float, value.cmc), *map(float, value[1:])]
        for value in values
    ]
    return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), MAX_RANK + 2)


def assert_same(found: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    assert_close(found, expected, atol=tolerance, equal_nan=True)


def with_cameras(problem: Problem, draw: GalleryDraw) -> GalleryDraw:
    """Draw per identity where the problem has no cameras."""
    return draw if problem.gallery_cameras is not None else GalleryDraw(draw.shots)


def line(scores: list[float], identities: list[int], *, query_identity: int = 1, **options):
    relevance = find_relevance(torch.tensor([query_identity]), torch.tensor(identities))
    return expect_draws(scores_from_matrix(torch.tensor([scores]).double(), relevance), relevance, **options)


def large(*, noise: float, per_identity: int = 4, identities: int = 300) -> tuple[Tensor, Tensor]:
    labels = torch.arange(identities).repeat_interleave(per_identity)
    scores = (labels[:40, None] == labels).double() + noise * torch.randn(40, len(labels), dtype=torch.float64)
    return scores, labels

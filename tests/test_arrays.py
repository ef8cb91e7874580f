"""Arrays of NumPy and lists of numbers give the bits that tensors give, wherever a tensor is taken."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection

from reid_torchmetrics import DetectionMAP, DetectionMetrics, KReciprocal, QueryExpansion, ReIDCMC, ReIDMeanAP, ReIDMetrics, VocMAP
from reid_torchmetrics._arrays import as_tensors
from reid_torchmetrics.functional import detection, retrieval

GENERATOR = torch.Generator().manual_seed(7)
X = torch.randn((24, 5), generator=GENERATOR)
IDS, CAMERAS = torch.arange(24) % 4, torch.arange(24) % 3
INDEX, IS_QUERY = torch.arange(24), torch.arange(24) < 8
SIDES = {
    "query_identities": IDS[:8],
    "gallery_identities": IDS[8:],
    "query_cameras": CAMERAS[:8],
    "gallery_cameras": CAMERAS[8:],
}
EMBEDDINGS = {"query": X[:8], "gallery": X[8:]}
VALUES = torch.tensor([0.5, 0.25, 1.0, 0.75])
RELEVANCE = retrieval.find_relevance(**SIDES)
BOXES = torch.tensor([[1.0, 2.0, 9.0, 12.0], [20.0, 20.0, 30.0, 28.0]])
OTHERS = BOXES + torch.tensor([0.5, 0.25, -1.0, 0.0])
SIZED = torch.cat([BOXES[:, :2], BOXES[:, 2:] - BOXES[:, :2]], 1)
MASKS = (torch.arange(2 * 6 * 8).view(2, 6, 8) % 5 < 2).to(torch.uint8)
POINTS = torch.arange(2 * 17 * 3).view(2, 17, 3).float()
ROTATED = torch.tensor([[5.0, 6.0, 8.0, 4.0, 0.5], [20.0, 20.0, 6.0, 6.0, 0.25]])
SCORES, LABELS = torch.tensor([0.75, 0.5]), torch.tensor([0, 1])


def metric_of(kind: Callable[[], Any]) -> Callable[..., Any]:
    """A function that gives all arguments to `update`, and computes."""

    def evaluate(*args: Any, **kwargs: Any) -> Any:
        metric = kind()
        metric.update(*args, **kwargs)
        return metric.compute()

    return evaluate


def nearest_of_metric(queries: Any) -> Any:
    metric = ReIDMeanAP()
    metric.update(X, IDS, CAMERAS, is_query=IS_QUERY)
    return metric.nearest(3, queries), metric.results(nearest=3).nearest(2, queries)


def packed(scores: Any, boxes: Any, labels: Any, images: Any, is_crowd: Any, areas: Any, classes: Any) -> Any:
    detections = detection.Detections(boxes=boxes, scores=scores, labels=labels, images=images)
    ground_truths = detection.GroundTruths(boxes=boxes, labels=labels, images=images, is_crowd=is_crowd, areas=areas)
    found = detection.coco_evaluate(detections, ground_truths, classes=classes)
    return found.to_dict(), detection.voc_evaluate(detections, ground_truths, is_difficult=is_crowd).to_dict()


SAMPLES = {"embeddings": X, "identities": IDS, "cameras": CAMERAS, "is_query": IS_QUERY, "index": INDEX}
PACKED = {
    **{"scores": SCORES, "boxes": SIZED, "labels": LABELS, "images": LABELS},
    **{"is_crowd": LABELS == 1, "areas": VALUES[:2], "classes": LABELS[:1]},
}
DOORS: dict[str, tuple[Callable[..., Any], dict[str, Tensor]]] = {
    "ReIDMeanAP": (metric_of(ReIDMeanAP), SAMPLES),
    "ReIDMetrics": (metric_of(ReIDMetrics), SAMPLES),
    "MetricCollection": (metric_of(lambda: MetricCollection([ReIDMeanAP(), ReIDCMC()])), SAMPLES),
    "forward": (lambda **batch: ReIDMeanAP()(**batch), SAMPLES),
    "nearest": (nearest_of_metric, {"queries": torch.tensor([5, 0])}),
    "evaluate": (retrieval.evaluate, EMBEDDINGS | SIDES),
    "sequences": (
        retrieval.evaluate,
        EMBEDDINGS | SIDES | {"query_sequences": CAMERAS[:8] % 2, "gallery_sequences": IDS[8:] % 2},
    ),
    "multi_query": (lambda **given: retrieval.evaluate(**given, multi_query=True), EMBEDDINGS | SIDES),
    "leave_one_out": (
        lambda query, ids: retrieval.evaluate(query, query_identities=ids, protocol="cub200").nearest(2, [1, 0]),
        {"query": X, "ids": IDS},
    ),
    "rerank": (lambda **given: retrieval.evaluate(**given, rerank=KReciprocal(k1=4, k2=2)), EMBEDDINGS | SIDES),
    "evaluate_scores": (retrieval.evaluate_scores, {"scores": X[:8] @ X[8:].T} | SIDES),
    "self_index": (
        lambda scores, ids, self_index: retrieval.evaluate_scores(
            scores, ids, ids, self_index=self_index, protocol="cub200"
        ),
        {"scores": X @ X.T, "ids": IDS, "self_index": INDEX},
    ),
    "search_cameras": (lambda **given: retrieval.evaluate(**given, search_cameras=(0, 2)), EMBEDDINGS | SIDES),
    "rank_positives": (retrieval.rank_positives, EMBEDDINGS | SIDES),
    "rank_positives_from_scores": (retrieval.rank_positives_from_scores, {"scores": X[:8] @ X[8:].T} | SIDES),
    "find_relevance": (retrieval.find_relevance, SIDES),
    "find_listed_relevance": (
        lambda some, more, self_index: retrieval.find_listed_relevance(
            [some, more[:0]], [more, some], num_gallery=24, self_index=self_index
        ),
        {"some": INDEX[:3], "more": INDEX[5:9], "self_index": torch.tensor([1, -1])},
    ),
    "score_embeddings": (
        lambda query, gallery: retrieval.score_embeddings(query, gallery, RELEVANCE).all(),
        EMBEDDINGS,
    ),
    "given_scores": (
        lambda scores: retrieval.verify(retrieval.given_scores(scores, RELEVANCE), RELEVANCE),
        {"scores": X[:8] @ X[8:].T},
    ),
    "pool_queries": (
        retrieval.pool_queries,
        {"query": X, "query_identities": IDS, "query_cameras": CAMERAS},
    ),
    "expand_queries": (lambda query, gallery: retrieval.expand_queries(query, gallery, k=3), EMBEDDINGS),
    "QueryExpansion": (
        lambda query, gallery, own: QueryExpansion(k=2, expanded="together").expand(query, gallery, self_index=own),
        EMBEDDINGS | {"own": torch.arange(8) - 1},
    ),
    "rerank_k_reciprocal": (
        lambda query, gallery, kept, own: vars(
            retrieval.rerank_k_reciprocal(query, gallery, k1=4, k2=2, kept=kept, self_index=own)
        )["_encoding"],
        EMBEDDINGS | {"kept": INDEX[:9], "own": torch.arange(8) - 1},
    ),
    "mean_by": (lambda one, other: retrieval.mean_by(VALUES, one, other), {"one": IDS[:4], "other": CAMERAS[:4]}),
    "mean_over_queries": (lambda weight: retrieval.mean_over_queries(VALUES, weight=weight), {"weight": VALUES}),
    "mean_over_identities": (lambda ids: retrieval.mean_over_identities(VALUES, ids), {"ids": CAMERAS[:4]}),
    "bootstrap_interval": (
        lambda identities, weight: retrieval.bootstrap_interval(
            VALUES.double(), identities=identities, weight=weight, generator=torch.Generator().manual_seed(1)
        ),
        {"identities": CAMERAS[:4], "weight": VALUES},
    ),
    "global_average_precision": (
        retrieval.global_average_precision,
        {"confidence": VALUES, "correct": VALUES > 0.5, "has_target": VALUES > 0.25},
    ),
    "PositiveRanks": (
        retrieval.PositiveRanks,
        {"rank": INDEX[1:4], "num_positives": torch.tensor([3, 0]), "num_candidates": torch.tensor([5, 4])},
    ),
    "Detections": (packed, PACKED),
    "pairwise_iou": (
        lambda boxes, others: detection.pairwise_iou(boxes, others, box_format="xyxy"),
        {"boxes": BOXES, "others": OTHERS},
    ),
    "mask_iou": (detection.mask_iou, {"masks": MASKS, "others": MASKS.flip(0), "is_crowd": LABELS == 1}),
    "rotated_iou": (detection.rotated_iou, {"boxes": ROTATED, "others": ROTATED.flip(0), "is_crowd": LABELS == 1}),
    "object_keypoint_similarity": (
        detection.object_keypoint_similarity,
        {"keypoints": POINTS + 1, "true_keypoints": POINTS, "areas": VALUES[:2] * 1000, "boxes": SIZED},
    ),
    "non_maximum_suppression": (
        lambda **given: detection.non_maximum_suppression(**given, iou_threshold=0.1),
        {"boxes": BOXES, "scores": SCORES, "labels": LABELS, "images": LABELS},
    ),
    "yolo_average_precision": (
        detection.yolo_average_precision,
        {"is_true_positive": (LABELS == 0)[:, None], "scores": SCORES, "labels": LABELS, "target_labels": LABELS},
    ),
}


def in_form(form: str, values: Tensor) -> Any:
    return values.numpy().copy() if form == "array" else values.tolist()


def parts(value: Any) -> Any:
    """A result as nested lists of plain numbers."""
    if isinstance(value, Tensor):
        return [str(value.dtype), value.tolist()]
    if is_dataclass(value):
        return {each.name: parts(getattr(value, each.name)) for each in fields(value) if each.name != "problem"}
    if isinstance(value, Mapping):
        return {name: parts(each) for name, each in value.items()}
    return [*map(parts, value)] if isinstance(value, (tuple, list)) else repr(value)


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize("form", ["array", "list"])
@pytest.mark.parametrize("door", DOORS)
def test_arrays_and_lists_give_what_tensors_give(door: str, form: str) -> None:
    function, given = DOORS[door]
    wanted = parts(function(**given))
    assert parts(function(**{name: in_form(form, values) for name, values in given.items()})) == wanted


@pytest.mark.parametrize("door", [door for door in DOORS if door not in ("find_listed_relevance", "Detections")])
def test_the_signatures_take_arrays(door: str) -> None:
    function, given = DOORS[door]
    function(**{name: in_form("array", values) for name, values in given.items()})

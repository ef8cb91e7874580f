"""Calls of public functions and metrics with small arguments, which tests give in other forms and places."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MetricCollection

import reid_torchmetrics
from reid_torchmetrics import (
    EmbeddingMetric,
    EmbeddingQuality,
    KReciprocal,
    QueryExpansion,
    ReIDCMC,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
    tasks,
)
from reid_torchmetrics.functional import detection, retrieval
from reid_torchmetrics.functional.retrieval.relevance import find_listed_relevance

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


def scores_of(reranked: Any) -> Tensor:
    shape = (reranked.num_queries, reranked.num_gallery)
    out = torch.empty(shape, dtype=reranked.dtype, device=reranked.device)
    reranked.fill(out, slice(0, len(out)), slice(0, out.shape[1]))
    return out


def verified(scores: Any, **labels: Any) -> Any:
    relevance = retrieval.find_relevance(**labels)
    return tasks.verify(retrieval.scores_from_matrix(scores, relevance), relevance)


def streamed(query: Any, positives: Any, block: Any, *identities: Any) -> Any:
    """A gallery whose last items, of other identities, come in a block."""
    counter = tasks.RankCounter(query, positives, *identities[:2])
    return tasks.evaluate_stream(counter, counter.count(block, identities[2], key=0)).means


def packed(scores: Any, is_crowd: Any, areas: Any, classes: Any, **columns: Any) -> Any:
    detections = detection.Detections(scores=scores, **columns)
    ground_truths = detection.GroundTruths(is_crowd=is_crowd, areas=areas, **columns)
    both = detections, ground_truths
    found = detection.evaluate_boxes(*both, classes=classes)
    return found.to_dict(), detection.evaluate_boxes(*both, evaluator="voc", is_difficult=is_crowd).to_dict()


SAMPLES = {"embeddings": X, "identities": IDS, "cameras": CAMERAS, "is_query": IS_QUERY, "index": INDEX}
PACKED = {
    "scores": SCORES,
    "boxes": SIZED,
    "labels": LABELS,
    "images": LABELS,
    "is_crowd": LABELS == 1,
    "areas": VALUES[:2],
    "classes": LABELS[:1],
}
METRICS = {
    name: functools.partial(kind, "map") if kind is ReIDMeasure else kind
    for name, kind in ((name, getattr(reid_torchmetrics, name)) for name in dir(reid_torchmetrics))
    if inspect.isclass(kind) and issubclass(kind, (EmbeddingMetric, ReIDMetrics)) and kind is not EmbeddingMetric
}
DOORS: dict[str, tuple[Callable[..., Any], dict[str, Tensor]]] = {
    **{name: (metric_of(kind), SAMPLES) for name, kind in METRICS.items()},
    "EmbeddingQuality": (metric_of(EmbeddingQuality), {"embeddings": X, "identities": IDS}),
    "MetricCollection": (metric_of(lambda: MetricCollection([ReIDMeanAP(), ReIDCMC()])), SAMPLES),
    "forward": (ReIDMeanAP(), SAMPLES),
    "nearest": (nearest_of_metric, {"queries": torch.tensor([5, 0])}),
    "evaluate": (retrieval.evaluate, EMBEDDINGS | SIDES),
    "sequences": (
        retrieval.evaluate,
        EMBEDDINGS | SIDES | {"query_sequences": CAMERAS[:8] % 2, "gallery_sequences": IDS[8:] % 2},
    ),
    "multi_query": (
        lambda **given: retrieval.evaluate(**given, multi_query=True),
        EMBEDDINGS | SIDES | {"query_identities": IDS[:8] // 2, "query_cameras": CAMERAS[:8] // 8},
    ),
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
        lambda some, more, self_index: find_listed_relevance(
            [some, more[:0]], [more, some], num_gallery=24, self_index=self_index
        ),
        {"some": INDEX[:3], "more": INDEX[5:9], "self_index": torch.tensor([1, -1])},
    ),
    "score_embeddings": (
        lambda query, gallery, **labels: retrieval.score_embeddings(
            query, gallery, retrieval.find_relevance(**labels)
        ).all(),
        EMBEDDINGS | SIDES,
    ),
    "scores_from_matrix": (verified, {"scores": X[:8] @ X[8:].T} | SIDES),
    "verify_pairs": (tasks.verify_pairs, {"scores": VALUES, "same": VALUES > 0.5}),
    "find_duplicates": (lambda query, gallery: tasks.find_duplicates(query, gallery, threshold=0.3), EMBEDDINGS),
    "index_recall": (
        lambda retrieved, query, gallery: tasks.index_recall(retrieved, query, gallery, k=2),
        EMBEDDINGS | {"retrieved": torch.arange(16).view(8, 2)},
    ),
    "evaluate_lists": (
        lambda retrieved, first: tasks.evaluate_lists(retrieved, [first, first]).means,
        {"retrieved": torch.tensor([[1, 2], [3, 4]]), "first": torch.tensor([2, 1])},
    ),
    "ground truth": (
        lambda scores, easy: retrieval.evaluate_scores(
            scores, ground_truth=[{"easy": easy, "hard": [3]}], protocol="roxford5k_medium"
        ),
        {"scores": (X[:1] @ X[8:].T), "easy": torch.tensor([2, 1])},
    ),
    "from_hits": (
        lambda hits: retrieval.average_precision(retrieval.PositiveRanks.from_hits(hits)),
        {"hits": torch.tensor([[False, True], [True, True]])},
    ),
    "RankCounter": (
        lambda **given: streamed(*given.values()),
        {
            "query": X[:8],
            "positives": X[8:16],
            "block": X[16:],
            "identities": IDS[:8],
            "of_positives": IDS[8:16],
            "of_block": IDS[16:] + 100,
        },
    ),
    "expand_queries": (lambda query, gallery: retrieval.expand_queries(query, gallery, k=3), EMBEDDINGS),
    "QueryExpansion": (
        lambda query, gallery, own: QueryExpansion(k=2, expanded="together").expand(query, gallery, self_index=own),
        EMBEDDINGS | {"own": torch.arange(8) - 1},
    ),
    "rerank_k_reciprocal": (
        lambda query, gallery, kept, own: scores_of(
            retrieval.rerank_k_reciprocal(query, gallery, k1=4, k2=2, kept=kept, self_index=own)
        ),
        EMBEDDINGS | {"kept": INDEX[:9], "own": torch.arange(8) - 1},
    ),
    "mean_by": (
        lambda values, one, other: retrieval.mean_by(values, one, other).mean,
        {"values": VALUES, "one": IDS[:4], "other": CAMERAS[:4]},
    ),
    "mean_over_queries": (retrieval.mean_over_queries, {"values": VALUES, "weight": VALUES}),
    "mean_over_identities": (retrieval.mean_over_identities, {"values": VALUES, "identities": CAMERAS[:4]}),
    "median_over_queries": (retrieval.median_over_queries, {"values": VALUES, "weight": VALUES}),
    "knn_accuracy": (
        tasks.knn_accuracy,
        {"labels": IDS[:6].view(3, 2), "scores": X[:3, :2].float(), "query_labels": IDS[:3]},
    ),
    "bootstrap_interval": (
        lambda **given: retrieval.bootstrap_interval(**given, generator=torch.Generator().manual_seed(1)),
        {"values": VALUES.double(), "identities": CAMERAS[:4], "weight": VALUES},
    ),
    "global_average_precision": (
        tasks.global_average_precision,
        {"confidence": VALUES, "correct": VALUES > 0.5, "has_target": VALUES > 0.25},
    ),
    "PositiveRanks": (
        retrieval.PositiveRanks,
        {"rank": INDEX[1:4], "num_positives": torch.tensor([3, 0]), "num_candidates": torch.tensor([5, 4])},
    ),
    "Detections": (packed, PACKED),
    "pairwise_iou": (
        lambda boxes1, boxes2: detection.pairwise_iou(boxes1, boxes2, box_format="xyxy"),
        {"boxes1": BOXES, "boxes2": OTHERS},
    ),
    "mask_iou": (detection.mask_iou, {"masks1": MASKS, "masks2": MASKS.flip(0), "is_crowd": LABELS == 1}),
    "rotated_iou": (tasks.rotated_iou, {"boxes1": ROTATED, "boxes2": ROTATED.flip(0), "is_crowd": LABELS == 1}),
    "object_keypoint_similarity": (
        detection.object_keypoint_similarity,
        {"keypoints": POINTS + 1, "true_keypoints": POINTS, "areas": VALUES[:2] * 1000, "boxes": SIZED},
    ),
    "non_maximum_suppression": (
        lambda **given: tasks.non_maximum_suppression(**given, iou_threshold=0.1),
        {"boxes": BOXES, "scores": SCORES, "labels": LABELS, "images": LABELS},
    ),
    "yolo_average_precision": (
        tasks.yolo_average_precision,
        {"is_true_positive": (LABELS == 0)[:, None], "scores": SCORES, "labels": LABELS, "target_labels": LABELS},
    ),
}
"""for each name a function, and its arguments"""

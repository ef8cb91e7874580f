"""Right and wrong uses of the metrics, which type checkers read and nobody executes.

A wrong use says so in a comment. Under `mypy --strict`, and in pyright by the line below, a comment where nothing is
found is an error, too.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportUnknownMemberType=false, reportMissingTypeStubs=false

from typing import Any

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import (
    DetectionMAP,
    DetectionMetrics,
    EmbeddingMetric,
    EmbeddingQuality,
    GalleryDraw,
    KReciprocal,
    LvisMAP,
    Protocol,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
    ReIDMINP,
    VocMAP,
    YoloMAP,
)
from reid_torchmetrics.functional.retrieval import PositiveRanks


def products(query: Tensor, gallery: Tensor) -> Tensor:
    return query @ gallery.mT


class WorstRank(EmbeddingMetric):
    """A measure of a user's own, with an option."""

    def __init__(self, scale: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.scale = scale

    def summarize(self, ranks: PositiveRanks) -> Tensor:
        return ranks.rank.double().max() * self.scale


def right(embeddings: Tensor, labels: Tensor, images: list[dict[str, Tensor]], protocol: Protocol) -> dict[str, Any]:
    ReIDMetrics((1, 5), protocol="sysu_mm01_all_single", similarity="euclidean", prefix="val/", rule="rectangle")
    ReIDMetrics(range(1, 11), protocol=protocol, ties="stable", reports=["map"], leave_one_out=True)
    ReIDMetrics(np.arange(1, 4), same_camera="keep", junk_identities={-1, 0}, search_cameras=None, compute_on_cpu=True)
    ReIDMeanAP(rule="trapezoid", k=5, normalizer=None, similarity=products, rerank=KReciprocal(k1=3))
    ReIDCMC(5, mode="all_shots", camera_map={3: 2}, gallery_draw=GalleryDraw(), sync_on_compute=False)
    ReIDCMCCurve(max_rank=20, max_bytes=1 << 20)
    ReIDMeasure("mrr", empty_target_action="neg")
    ReIDMINP(dist_sync_on_step=True)
    WorstRank(2.0, ties="optimistic")
    EmbeddingQuality(("rankme", "uniformity"), sync_on_compute=False).update(embeddings, labels)
    metrics = ReIDMetrics()
    metrics.update(embeddings, labels, labels, is_query=True, index=labels)
    metrics.update(embeddings, labels, is_query=labels > 0)
    metrics.update(embeddings, positions=embeddings, clothes=labels, sequences=[1, 2])
    metrics.update(embeddings, labels, labels={"side": ["left", "right"], "batch": labels})
    ReIDMetrics(radius=25.0, clothes="drop_same")
    ReIDMetrics(must_agree=("side",), must_differ=["batch"], same_camera="only")
    numbers: dict[str, Any] = metrics.forward(embeddings, labels)
    ReIDMINP().update(embeddings, labels, is_query=None)
    DetectionMAP("xywh", ("bbox", "segm"), np.linspace(0.5, 0.95, 10), average="micro", invalid="drop")
    DetectionMetrics(("map", "f1_50"), classes={3: "dog"}, box_format="cxcywh", iou_type="rotated", rule="voc07")
    DetectionMetrics().update(images, images)
    LvisMAP("xywh", "segm", fixed=True, frequencies={1: "r"}, metric="map_rare")
    VocMAP(iou_type="rotated", rule="voc07", metric="map")
    YoloMAP(matching="yolov4", rule="yolo", confidence=0.1)
    return numbers


def wrong(embeddings: Tensor, labels: Tensor, images: list[dict[str, Tensor]]) -> None:
    ReIDMetrics(rank=(1,))  # type: ignore[call-arg]
    ReIDMetrics(similarity="cosin")  # type: ignore[arg-type]
    ReIDMetrics(ranks=5)  # type: ignore[arg-type]
    ReIDMetrics(protocol="market")  # type: ignore[arg-type]
    ReIDMetrics(same_camera="kep")  # type: ignore[arg-type]
    ReIDMetrics(rule="voc")  # type: ignore[arg-type]
    ReIDMeanAP(tie="stable")  # type: ignore[call-arg]
    ReIDCMC(mode="allshots")  # type: ignore[arg-type]
    ReIDMINP(empty_target_action="zero")  # type: ignore[arg-type]
    DetectionMAP("xyxyxy")  # type: ignore[arg-type]
    DetectionMAP(compute_on_gpu=True)  # type: ignore[call-arg]
    DetectionMetrics(iou_type="box")  # type: ignore[arg-type]
    DetectionMetrics(metric="map")  # type: ignore[call-arg]
    LvisMAP(iou_type="keypoints")  # type: ignore[arg-type]
    VocMAP(rule="coco")  # type: ignore[arg-type]
    VocMAP(iou_type="segm")  # type: ignore[arg-type]
    YoloMAP(matching="yolo")  # type: ignore[arg-type]
    ReIDMetrics().update(embeddings, labels, is_querry=True)  # type: ignore[call-arg]
    ReIDMetrics().update(embeddings, labels, labels, True)  # type: ignore[call-arg]
    ReIDMINP().update(embeddings, labels, cams=labels)  # type: ignore[call-arg]
    ReIDMetrics(clothes="drop")  # type: ignore[arg-type]
    DetectionMetrics().update(images)  # type: ignore[call-arg]


def readme() -> None:
    torch.manual_seed(0)
    identities = torch.arange(300).repeat(4)  # 300 people and 4 cameras
    cameras = torch.arange(4).repeat_interleave(300)
    embeddings = torch.randn(300, 64)[identities] + 1.2 * torch.randn(1200, 64)
    metrics = ReIDMetrics(protocol="market1501", ranks=(1, 5))
    metrics.update(embeddings, identities, cameras, is_query=cameras == 0)
    print({name: round(float(value), 3) for name, value in metrics.compute().items()})  # noqa: T201 - as in the README
    boxes, labels = torch.tensor([[10.0, 10, 50, 50], [60, 60, 90, 90]]), torch.tensor([1, 1])
    detections = {"boxes": boxes[:1], "scores": torch.tensor([0.9]), "labels": labels[:1]}
    metric = DetectionMAP()  # in place of MeanAveragePrecision
    metric.update([detections], [{"boxes": boxes, "labels": labels}])
    print(round(float(metric.compute()["map"]), 4))  # noqa: T201 - as in the README


def values_of_detections() -> float:
    number: float = DetectionMAP(metric="map").compute().item()
    for metric in (DetectionMAP(), LvisMAP(), VocMAP(), YoloMAP()):
        number += float(metric.compute()["map"])
    return number

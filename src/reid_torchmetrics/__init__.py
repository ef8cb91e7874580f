"""Evaluation of re-identification, image retrieval and detection next to TorchMetrics and Lightning."""

from reid_torchmetrics.data import UnpaddedDistributedSampler
from reid_torchmetrics.functional.retrieval.draws import GalleryDraw
from reid_torchmetrics.functional.retrieval.evaluation import Protocol, compare
from reid_torchmetrics.functional.retrieval.reranking import KReciprocal, QueryExpansion
from reid_torchmetrics.functional.world import DistributedMetricError
from reid_torchmetrics.metrics.detection import DetectionMAP, DetectionMetrics, VocMAP, YoloMAP
from reid_torchmetrics.metrics.reid import (
    EmbeddingMetric,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
    ReIDMINP,
)
from reid_torchmetrics.report import write_report

__version__ = "0.1.0"

CMC = ReIDCMC
MeanAP = ReIDMeanAP
MINP = ReIDMINP

__all__ = [
    "CMC",
    "MINP",
    "DetectionMAP",
    "DetectionMetrics",
    "DistributedMetricError",
    "EmbeddingMetric",
    "GalleryDraw",
    "KReciprocal",
    "MeanAP",
    "Protocol",
    "QueryExpansion",
    "ReIDCMC",
    "ReIDCMCCurve",
    "ReIDMINP",
    "ReIDMeanAP",
    "ReIDMeasure",
    "ReIDMetrics",
    "UnpaddedDistributedSampler",
    "VocMAP",
    "YoloMAP",
    "compare",
    "write_report",
]

"""Evaluation of re-identification, image retrieval and detection next to TorchMetrics and Lightning."""

from .data import UnpaddedDistributedSampler
from .functional.retrieval.draws import GalleryDraw
from .functional.retrieval.evaluation import Protocol, compare
from .functional.retrieval.reranking import KReciprocal, QueryExpansion
from .functional.world import DistributedMetricError
from .metrics.detection import DetectionMAP, DetectionMetrics, VocMAP, YoloMAP
from .metrics.reid import EmbeddingMetric, ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMeasure, ReIDMetrics, ReIDMINP
from .report import write_report

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

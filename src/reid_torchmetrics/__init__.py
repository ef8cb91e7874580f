"""Evaluation of re-identification, image retrieval and detection next to TorchMetrics and Lightning."""

from ._progress import progress
from ._version import __version__ as __version__
from .data import UnpaddedDistributedSampler
from .functional.retrieval.draws import GalleryDraw
from .functional.retrieval.evaluation import Protocol, compare, evaluate, evaluate_scores
from .functional.retrieval.reranking import KReciprocal, QueryExpansion
from .functional.world import DistributedMetricError
from .metrics.detection import DetectionMAP, DetectionMetrics, VocMAP, YoloMAP
from .metrics.reid import (
    EmbeddingMetric,
    PairVerification,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
    ReIDMINP,
    ReIDOpenSet,
)
from .report import write_report

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
    "PairVerification",
    "Protocol",
    "QueryExpansion",
    "ReIDCMC",
    "ReIDCMCCurve",
    "ReIDMINP",
    "ReIDMeanAP",
    "ReIDMeasure",
    "ReIDMetrics",
    "ReIDOpenSet",
    "UnpaddedDistributedSampler",
    "VocMAP",
    "YoloMAP",
    "compare",
    "evaluate",
    "evaluate_scores",
    "progress",
    "write_report",
]

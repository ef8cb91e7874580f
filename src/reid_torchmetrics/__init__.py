"""Evaluation of re-identification and image retrieval next to TorchMetrics and Lightning."""

from reid_torchmetrics.data import UnpaddedDistributedSampler
from reid_torchmetrics.metrics._distributed import DistributedMetricError
from reid_torchmetrics.metrics._embedding_metric import EmbeddingMetric
from reid_torchmetrics.metrics.reid import ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMetrics, ReIDMINP

__version__ = "0.1.0"

CMC = ReIDCMC
MeanAP = ReIDMeanAP
MINP = ReIDMINP

__all__ = [
    "CMC",
    "MINP",
    "DistributedMetricError",
    "EmbeddingMetric",
    "MeanAP",
    "ReIDCMC",
    "ReIDCMCCurve",
    "ReIDMINP",
    "ReIDMeanAP",
    "ReIDMetrics",
    "UnpaddedDistributedSampler",
]

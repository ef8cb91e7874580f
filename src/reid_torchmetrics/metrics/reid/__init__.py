"""Re-identification and retrieval metrics."""

from reid_torchmetrics.metrics.reid.collection import ReIDMetrics
from reid_torchmetrics.metrics.reid.embedding_metric import EmbeddingMetric
from reid_torchmetrics.metrics.reid.reid import ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMeasure, ReIDMINP

"""Re-identification and retrieval metrics."""

from .embedding_metric import EmbeddingMetric
from .reid import ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMeasure, ReIDMetrics, ReIDMINP

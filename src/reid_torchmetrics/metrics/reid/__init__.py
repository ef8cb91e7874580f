"""Re-identification and retrieval metrics."""

from .collection import ReIDMetrics
from .embedding_metric import EmbeddingMetric
from .reid import ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMeasure, ReIDMINP

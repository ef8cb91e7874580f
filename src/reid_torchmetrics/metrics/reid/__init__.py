"""Re-identification and retrieval metrics."""
# mypy: implicit-reexport

from .embedding_metric import METRIC_METHODS, EmbeddingMetric, ReIDOptions, explicit_signature
from .ranking import check_not_written, record_update
from .reid import ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMeasure, ReIDMetrics, ReIDMINP

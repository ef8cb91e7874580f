"""Re-identification and retrieval metrics."""
# mypy: implicit-reexport

from .embedding_metric import METRIC_METHODS, EmbeddingMetric
from .held_samples import check_not_written, record_update
from .options import ReIDOptions, explicit_signature
from .reid import ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMeasure, ReIDMetrics, ReIDMINP

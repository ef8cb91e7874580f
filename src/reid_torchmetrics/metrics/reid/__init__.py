"""Re-identification and retrieval metrics."""
# mypy: implicit-reexport

from .embedding_metric import EmbeddingMetric
from .embedding_quality import EmbeddingQuality
from .given_pairs import PAIR_METRICS, PairVerification
from .open_set import ReIDOpenSet
from .reid import ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMeasure, ReIDMetrics, ReIDMINP

"""Re-identification and retrieval metrics."""
# mypy: implicit-reexport

from .embedding_metric import EmbeddingMetric
from .given_pairs import PAIR_METRICS, PairVerification
from .held_samples import check_not_written, record_update
from .open_set import ReIDOpenSet
from .reid import ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMeasure, ReIDMetrics, ReIDMINP

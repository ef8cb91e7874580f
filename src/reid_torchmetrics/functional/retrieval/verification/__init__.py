"""Measures over all pairs together."""

from reid_torchmetrics.functional.retrieval.verification.recognition import global_average_precision
from reid_torchmetrics.functional.retrieval.verification.score_histogram import ScoreHistogram, score_histogram
from reid_torchmetrics.functional.retrieval.verification.verify import Verification, fnmr_at_fmr, verify

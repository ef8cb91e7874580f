"""Measures over all pairs together."""

from .recognition import global_average_precision
from .verify import ScoreHistogram, Verification, fnmr_at_fmr, score_histogram, verify

"""Measures over all pairs together."""

from .given_pairs import accuracy_over_folds, verify_pairs
from .recognition import global_average_precision
from .scored_pairs import ScoreHistogram, score_histogram
from .verify import Verification, fnmr_at_fmr, verify

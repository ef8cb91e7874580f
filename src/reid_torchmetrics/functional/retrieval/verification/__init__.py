"""Measures over all pairs together."""
# mypy: implicit-reexport

from .duplicates import AllPairs, Duplicates, find_duplicates, find_pairs, least_score
from .scored_pairs import ScoreHistogram, score_histogram
from .verify import Verification, accuracy_over_folds, fnmr_at_fmr, global_average_precision, verify, verify_pairs

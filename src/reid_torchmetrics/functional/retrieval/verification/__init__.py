"""Measures over all pairs together."""
# mypy: implicit-reexport

from .duplicates import AllPairs, Duplicates, find_duplicates, find_pairs, least_score
from .given_pairs import accuracy_over_folds, global_average_precision, verify_pairs
from .scored_pairs import ScoreHistogram, score_histogram
from .verify import Verification, fnmr_at_fmr, verify

"""Verification: whether two items have the same identity, by the scores of all pairs together."""
# mypy: implicit-reexport

from .all_pairs import Verification, fnmr_at_fmr, verify
from .given_pairs import (
    LARGEST_DISTANCE,
    ComparedPairs,
    FoldAccuracies,
    accuracy_over_folds,
    count_given_pairs,
    find_accuracies,
    global_average_precision,
    verify_pairs,
)
from .scored_pairs import ScoreHistogram, score_histogram

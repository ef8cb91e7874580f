"""Errors of a detector: confused classes, the cost of each kind of error, and errors of localization."""
# mypy: implicit-reexport

from .confusion import CONFUSION_RULES, ConfusionMatrix, confusion_matrix
from .error_breakdown import ERROR_KINDS, ErrorBreakdown, error_breakdown, why_no_breakdown
from .localization_error import LRP_VALUES, LocalizationErrors, localization_errors
from .object_pairs import LEAST_OVERLAP, ObjectPairs, pair_objects

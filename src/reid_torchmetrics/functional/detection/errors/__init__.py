"""Errors of a detector across classes: confused classes, and the cost of each kind of error."""
# mypy: implicit-reexport

from .confusion import CONFUSION_RULES, ConfusionMatrix, confusion_matrix
from .error_breakdown import ERROR_KINDS, ErrorBreakdown, error_breakdown
from .object_pairs import LEAST_OVERLAP, ObjectPairs, merge_object_pairs, pair_objects

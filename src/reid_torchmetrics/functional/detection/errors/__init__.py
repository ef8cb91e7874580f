"""Errors of a detector across classes: which classes it confuses, and what each kind of error costs."""

from .confusion import CONFUSION_RULES, ConfusionMatrix, confusion_matrix
from .error_breakdown import ERROR_KINDS, ErrorBreakdown, error_breakdown
from .object_pairs import LEAST_OVERLAP, ObjectPairs, merge_object_pairs, pair_objects

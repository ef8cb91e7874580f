"""Errors of a detector across classes: which classes it confuses, and what each kind of error costs."""

from reid_torchmetrics.functional.detection.errors.confusion import CONFUSION_RULES, ConfusionMatrix, confusion_matrix
from reid_torchmetrics.functional.detection.errors.error_breakdown import (
    ERROR_KINDS,
    ErrorBreakdown,
    error_breakdown,
)
from reid_torchmetrics.functional.detection.errors.object_pairs import (
    LEAST_OVERLAP,
    ObjectPairs,
    merge_object_pairs,
    pair_objects,
)

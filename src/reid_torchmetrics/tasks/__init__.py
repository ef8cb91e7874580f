"""Further evaluations, built on `functional` and `metrics`, which know nothing of them; `tasks.metrics` has metrics."""

from .detection_errors import ERROR_KINDS, ConfusionMatrix, ErrorBreakdown, LocalizationErrors
from .identification import Identification

__all__ = ["ERROR_KINDS", "ConfusionMatrix", "ErrorBreakdown", "Identification", "LocalizationErrors"]

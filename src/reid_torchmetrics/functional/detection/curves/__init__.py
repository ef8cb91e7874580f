"""From matches to curves of precision and recall, average precision and operating points."""
# mypy: implicit-reexport

from .average_precision import AP_RULES, Rule, average_precision, recalls_on, trapezoids
from .detection_curves import DetectionCurve, RankedDetections, compute_ap, curves_from_flags, ranked_detections
from .image_errors import ImageErrors, image_errors
from .operating_points import (
    ConfidenceCurve,
    OperatingPoints,
    PrecisionRecallCurve,
    at_confidence,
    best_confidence,
    best_f1,
    confidence_curve,
    precision_recall_curve,
)
from .precision_recall import Curves, curves_from_matches, precision_at_recall

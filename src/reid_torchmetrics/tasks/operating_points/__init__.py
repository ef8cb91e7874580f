"""A detector that is used at a confidence: precision, recall and F1, errors in images, and the curves of detections."""
# mypy: implicit-reexport

from .detection_curves import (
    DetectionCurve,
    ImageErrors,
    MatchedDetections,
    RankedDetections,
    compute_ap,
    curves_from_flags,
    image_errors,
    list_matches,
    ranked_detections,
)
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

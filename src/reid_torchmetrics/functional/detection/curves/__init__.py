"""From matches to curves of precision and recall, average precision and operating points."""

from reid_torchmetrics.functional.detection.curves.average_precision import (
    AP_RULES,
    Rule,
    area_under,
    average_precision,
    recalls_on,
    trapezoids,
)
from reid_torchmetrics.functional.detection.curves.compute_ap import compute_ap
from reid_torchmetrics.functional.detection.curves.confidence_curve import (
    ConfidenceCurve,
    best_confidence,
    confidence_curve,
)
from reid_torchmetrics.functional.detection.curves.image_errors import ImageErrors, image_errors
from reid_torchmetrics.functional.detection.curves.operating_points import (
    OperatingPoints,
    PrecisionRecallCurve,
    at_confidence,
    best_f1,
    precision_recall_curve,
)
from reid_torchmetrics.functional.detection.curves.precision_recall import (
    Curves,
    curves_from_matches,
    precision_at_recall,
)
from reid_torchmetrics.functional.detection.curves.ranked_detections import (
    DetectionCurve,
    RankedDetections,
    ranked_detections,
)
from reid_torchmetrics.functional.detection.curves.true_positive_flags import TruePositiveFlags, curves_from_flags

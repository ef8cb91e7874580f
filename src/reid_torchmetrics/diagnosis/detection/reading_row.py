"""The row of shapes that are read in another way than they are meant."""

from __future__ import annotations

from dataclasses import replace

from reid_torchmetrics.diagnosis.causes import Cause, Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES
from reid_torchmetrics.functional.detection.inputs import KeypointType, RotatedType

from .case import DetectionCase
from .point_samples import sample_shown
from .points import ShapeKind
from .reading_search import MOST_FOUND, find_reading
from .sampled_objects import FOUND, MOST_IMAGES
from .shape_kinds import BoxKind, KeypointKind, RotatedKind

FEW = 0.5
"""fraction of all ground truths that are found"""
STRICT = 0.75
"""overlap for rotated boxes that are found at 0.5: those of other angles overlap, too"""


def few_are_found(case: DetectionCase) -> bool:
    """Return whether there are enough ground truths to tell, and few of them are found."""
    return _overlap(case) is not None


def _overlap(case: DetectionCase) -> float | None:
    """Return the overlap at which few ground truths are found; None if there is none."""
    num_found, num_ground_truths = case.recall
    if num_ground_truths < LEAST_BOXES:
        return None
    if num_found < FEW * num_ground_truths:
        return FOUND
    if case.iou_type == "rotated" and STRICT in case.grid.iou_thresholds:
        is_found = case.matches.true_positive[0, case.grid.iou_thresholds.index(STRICT)]
        return STRICT if int(is_found.sum()) < FEW * num_ground_truths else None
    return None


def find_other_reading(case: DetectionCase) -> Values | None:
    """Return the values of the message if another reading of the shapes finds most ground truths."""
    if case.iou_type in ("", "bbox"):
        return None
    sample = sample_shown(case.shown, _kind_of(case), case.box_format)
    reading = None if sample is None else find_reading(replace(sample, at_least=_overlap(case) or FOUND))
    return None if reading is None else reading._asdict()


def _kind_of(case: DetectionCase) -> ShapeKind:
    if case.iou_type == "rotated":
        return RotatedKind(RotatedType())
    if case.iou_type == "keypoints":
        return KeypointKind(KeypointType(tuple(case.images.sigmas)))
    return BoxKind(case.box_format, has_formats=case.iou_type == "bbox")


OTHER_READING = Cause(
    name="other_reading",
    checks="shapes in another format, with exchanged axes, in resized or cropped images, or keypoints in another order",
    fires="Fewer than {few} of the ground truths are found, of rotated boxes at an overlap of {strict}, and labels are not the reason. In a sample of at most"
    " {images} images, another reading finds more than {most} of the ground truths: at least twice as many as before,"
    " and at least twice as many as detections from other images find. Readings are another format of boxes; the other"
    " direction of angles, degrees, exchanged sides or a corner in place of the center of rotated boxes; another order"
    " of keypoints; and for all shapes, for masks by the boxes around them, y before x, another scale and offset, and"
    " images that were resized.",
    message="Only {num_before} of {num_ground_truths} checked ground truths are found at an overlap of {overlap}, regardless"
    " of labels. With `{argument}` read as {name}, {num_found} of {num_ground_truths} ground truths are found."
    " {remedy}",
    suspect=few_are_found,
    find=find_other_reading,
    thresholds={"few": FEW, "images": MOST_IMAGES, "most": MOST_FOUND, "strict": STRICT},
)

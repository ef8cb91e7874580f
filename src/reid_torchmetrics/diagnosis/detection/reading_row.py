"""The row of shapes that are read in another way than they are meant."""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Cause, Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES
from reid_torchmetrics.functional.detection.inputs import KeypointType, RotatedType

from .case import DetectionCase
from .point_samples import sample_shown
from .points import ShapeKind
from .reading_search import MOST_FOUND, find_reading
from .sampled_objects import MOST_IMAGES
from .shape_kinds import BoxKind, KeypointKind, RotatedKind

FEW = 0.5
"""fraction of all ground truths that are found"""


def few_are_found(case: DetectionCase) -> bool:
    """Return whether there are enough ground truths to tell, and few of them are found."""
    recall = case.recall
    return recall.num_ground_truths >= LEAST_BOXES and recall.num_found < FEW * recall.num_ground_truths


def find_other_reading(case: DetectionCase) -> Values | None:
    """Return the values of the message if another reading of the shapes finds most ground truths."""
    if case.iou_type in ("", "bbox"):
        return None
    sample = sample_shown(case.shown, _kind_of(case), case.box_format)
    reading = None if sample is None else find_reading(sample)
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
    fires="Fewer than {few} of the ground truths are found, and labels are not the reason. In a sample of at most"
    " {images} images, another reading finds more than {most} of the ground truths: at least twice as many as before,"
    " and at least twice as many as detections from other images find. Readings are another format of boxes; the other"
    " direction of angles, degrees, exchanged sides or a corner in place of the center of rotated boxes; another order"
    " of keypoints; and for all shapes, for masks by the boxes around them, y before x, another scale and offset, and"
    " images that were resized.",
    message="Only {num_before} of {num_ground_truths} checked ground truths are found at an overlap of 0.5, regardless"
    " of labels. With `{argument}` read as {name}, {num_found} of {num_ground_truths} ground truths are found."
    " {remedy}",
    suspect=few_are_found,
    find=find_other_reading,
    thresholds={"few": FEW, "images": MOST_IMAGES, "most": MOST_FOUND},
    explained_by=("keypoints_in_shares", "angles_in_degrees", "mixed_units", "labels"),
)

"""The input of finished matches, for a look at the results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reid_torchmetrics.functional.detection.inputs import COCO_SIGMAS, CocoGrid, Detections, GroundTruths

from .given_images import GivenImages, ShownImages
from .sharded_images import ShardedImages


class EvaluatedImages(NamedTuple):
    """The images of a metric, or of a function that takes dicts."""

    sharded: ShardedImages
    """the images of this process"""
    given: GivenImages
    """the record of the input of this process"""
    value_names: Collection[str] | None = None
    """names of the requested numbers; None for all numbers"""


@dataclass(frozen=True)
class EvaluatedObjects:
    """Packed objects."""

    detections: Detections
    ground_truths: GroundTruths
    grid: CocoGrid
    """the grid of thresholds that they were matched on"""
    iou_type: str | None = None
    """"bbox", "segm", "keypoints" or "rotated"; None for "bbox" if the shapes are boxes"""
    shown: Callable[[], ShownImages] | None = None
    """returns the first images; None for the packed boxes"""
    label_names: Sequence[object] | None = None
    """the users' label for each label number; None if both are equal"""
    sigmas: Sequence[float] = COCO_SIGMAS
    """sigmas of keypoints"""
    num_ignored: int = 0
    """number of ground truths that count although `ignore` marks them"""

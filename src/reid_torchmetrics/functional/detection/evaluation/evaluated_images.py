"""The input of finished matches, for a look at the results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from reid_torchmetrics.functional.detection.inputs import COCO_SIGMAS, CocoGrid, Detections, GroundTruths

from .sharded_images import ShardedImages


class ShownColumns(NamedTuple):
    """The objects of some images, in `preds` or in `target`."""

    counts: Tensor
    """numbers of objects, [images]"""
    columns: Mapping[str, Tensor]
    """values of the objects by the users' keys, image by image; numbers of pixels in the place of `masks`"""


class ShownImages(NamedTuple):
    """Some images, as they were given.

    `boxes` are those around other shapes, if they were not given. `iscrowd` and `area` are there if some image had
    them, with zeros where another one lacked them.
    """

    preds: ShownColumns
    target: ShownColumns
    sizes: Sequence[Any]
    """height and width of each image as they were given; None if they were not"""
    extremes: Sequence[Tensor] = ()
    """the lowest and the highest value in all masks of an image, [2], if masks are numbers"""


class EvaluatedImages(NamedTuple):
    """The images of a metric, or of a function that takes dicts."""

    sharded: ShardedImages
    """the images of this process"""
    given: Mapping[str, Any]
    """notes of the diagnosis about the input of this process, see `images_given`"""
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

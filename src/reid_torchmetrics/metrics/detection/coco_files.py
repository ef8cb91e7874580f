"""The methods of a metric that write and read COCO's files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from reid_torchmetrics import _extras, _names
from reid_torchmetrics.functional.detection.batches import KEPT_STATES
from reid_torchmetrics.functional.detection.evaluation import ShardedImages
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from reid_torchmetrics.functional.detection.inputs import ShapeType


class CocoFiles(ABC):
    """A mixin for metrics that write images with boxes to COCO's files, and read them."""

    iou_type: tuple[Any, ...]
    _row = "coco"
    """name of the evaluator; files have LVIS' lists if the evaluator is federated"""
    _keeps_shapes = False
    """whether masks and other shapes are kept for `tm_to_coco`"""
    _shape_types: Mapping[str, ShapeType] = MappingProxyType({})
    """types of the shapes other than boxes, by `iou_type`"""

    @abstractmethod
    def _sharded(self) -> ShardedImages:
        """Return the images that this process holds."""

    def tm_to_coco(self, name: str = "tm_map_input") -> None:
        """Write the images that this process holds to `{name}_preds.json` and `{name}_target.json`, in COCO's format.

        The id of an image is its `image_id`, and repetitions are written once; without `image_id` it is the number of
        the image in the order of updates. If `image_id` is a name, the id is the position of the name in ascending
        order, because most readers need integers, and the name is written as `file_name`. Detected boxes that are not
        finite are written as NaN and Infinity, which Python and therefore pycocotools read.

        With `keep_shapes` rows have `segmentation`, compressed run lengths, `keypoints`, or `rotated_box`, center,
        width, height and angle in radians, or corners. The servers of COCO and LVIS take the first of these files.
        Results with masks alone have no `bbox`, because COCO's API would take their areas from it. `detection_area` is
        not written.

        Raises:
            ValueError: the metric was given masks or other shapes, which it does not keep.
        """
        if self._shape_types and not self._keeps_shapes:
            raise ValueError(
                f"`tm_to_coco` must be called with keep_shapes=True if iou_type is not 'bbox'; got {self.iou_type}."
            )
        kept_shapes = None
        if self._keeps_shapes:
            kept_shapes = {}
            for state, empty in KEPT_STATES.items():
                batches = [batch.cpu() for batch in getattr(self, state)]
                kept_shapes[state] = torch.cat([empty, *batches])
        has_boxes = "bbox" in self.iou_type or any(kind.has_corners for kind in self._shape_types.values())
        _extras.files().write_images(self._sharded().images(), name, kept_shapes, has_boxes=has_boxes)

    @classmethod
    def coco_to_tm(
        cls,
        coco_preds: str,
        coco_target: str,
        iou_type: _names.IouType | Sequence[_names.IouType] = "bbox",
        backend: _names.Backend = "pycocotools",
        *,
        invalid: _names.InvalidAction = "count",
        unknown_categories: _names.UnknownCategories = "raise",
        detection_areas: _names.DetectionAreas = "coco",
        guesses: list[str] | None = None,
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Read detections and ground truths from COCO's files, for `update` with `box_format="xywh"`.

        Unlike TorchMetrics this method keeps images without ground truths, where every detection is wrong; it returns
        the values as float64, as in the files, and `image_id`. An area of 0 becomes 1.2e-38, because 0 stands for no
        area in `update`. With keypoints it returns `num_keypoints`, by which pycocotools ignores ground truths.

        `LvisMAP` reads LVIS' files: with the lists of each image, without annotations that have no area, and `ignore`
        of an annotation becomes `iscrowd`.

        Args:
            coco_preds: path of a list of results; results of masks alone get the boxes of their masks.
            coco_target: path of a data set.
            iou_type: the shapes to read. "segm": `masks`, lists of dicts of run lengths; polygons are converted, and
                for these images of the data set need `height` and `width`. "keypoints": `keypoints`. "rotated":
                `rotated_boxes`, from the key `rotated_box`, from hotcoco's `obb` or from Ultralytics' `rbox` or `poly`.
            backend: not used, see the class.
            invalid: the metric's treatment of invalid objects. With "drop" the files may have scores that are not
                finite and ground truths of invalid shapes; `update` drops them. Otherwise they are errors that name the
                row.
            unknown_categories: "drop" leaves out results of categories that the data set does not have, such as those
                of a model of 80 classes on a data set of 5; "raise" makes them an error.
            detection_areas: the areas of results for the area ranges, where results have further shapes than the
                evaluated ones. "coco": the area of the first of `bbox`, `segmentation` and `keypoints` that the first
                result has, as in pycocotools and lvis-api, returned as `detection_area`; "shape": that of the evaluated
                shape, as in TorchMetrics and as for rotated boxes.
            guesses: a list that gets a line for each decision that the files leave open: results that name the files of
                images, by `file_name` or, as Ultralytics writes them, as `image_id`, in place of the `id` of the image;
                boxes that count as masks; areas that are not those of the evaluated shapes; results that were left out.
                If it is None, the decisions on which a number may depend are warnings.

        Raises:
            OSError: a file does not exist or cannot be read.
            TypeError: `iou_type` is not a name.
            ValueError: an unknown `iou_type`; a row without a required key or with a value that is not allowed, such as
                a result without `score`; a result in an image or of a category that the data set does not have; or no
                mask in any annotation where masks are read. The message names the file and the row.
        """
        preds, target = _extras.files().read_images(
            EVALUATORS[cls._row],
            coco_preds,
            coco_target,
            iou_type,
            backend=backend,
            invalid=invalid,
            unknown_categories=unknown_categories,
            detection_areas=detection_areas,
            guesses=guesses,
        )
        return list(preds), list(target)

"""The conventions of detection: options, changes of the input, and changes of the means over classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.evaluators import ClassAverages
from reid_torchmetrics.functional.detection.inputs import (
    BOX_FORMATS,
    COCO_IOU_THRESHOLDS,
    THRESHOLDS,
    BoxShapes,
    Detections,
    GroundTruths,
    Sides,
    order_by_class_and_score,
    to_xywh,
    to_xyxy,
)
from reid_torchmetrics.functional.detection.matching import Matches

from .rows import ConventionChange

LEAST_SCORE = "least_score"
"""the option for the least score of a detection that counts"""


@dataclass(frozen=True)
class MatchedObjects:
    """Detections and ground truths, with what only some evaluators read."""

    detections: Detections
    ground_truths: GroundTruths
    box_format: str | None = None
    """format of the user's boxes, None for packed ones"""
    is_difficult: Tensor | None = None
    lists: Tensor | None = None

    @property
    def is_crowd(self) -> Tensor:
        """Whether each ground truth is a crowd."""
        is_crowd = self.ground_truths.is_crowd
        return torch.zeros_like(self.ground_truths.labels, dtype=torch.bool) if is_crowd is None else is_crowd

    @property
    def are_boxes(self) -> bool:
        """Whether the shapes are boxes."""
        return isinstance(self.detections.shapes, BoxShapes)

    @cached_property
    def most_detections(self) -> int:
        """The largest number of detections of an image and class."""
        images, labels = self.detections.images.long(), self.detections.labels.long()
        groups = images * (labels.max() - labels.min() + 1) + labels if len(labels) else labels
        return int(groups.unique(return_counts=True)[1].max()) if len(groups) else 0

    def of_classes(self, labels: Tensor) -> MatchedObjects:
        """Return the objects with some labels."""
        rows = torch.isin(self.detections.labels, labels).nonzero()[:, 0]
        is_kept = torch.isin(self.ground_truths.labels, labels)
        return replace(self.with_truths(is_kept), detections=self.detections.at(rows))

    def with_truths(self, is_kept: Tensor) -> MatchedObjects:
        """Return the objects without some ground truths."""
        is_difficult = None if self.is_difficult is None else self.is_difficult[is_kept]
        ground_truths = self.ground_truths.at(is_kept.nonzero()[:, 0])
        return replace(self, ground_truths=ground_truths, is_difficult=is_difficult)


class InputChange(NamedTuple):
    """A change of the objects before they are matched."""

    change: Callable[[MatchedObjects, Any], MatchedObjects]
    has_effect: Callable[[MatchedObjects, Any], bool]


def _change_crowds(objects: MatchedObjects, value: str) -> MatchedObjects:
    if value == "left out":
        return objects.with_truths(~objects.is_crowd)
    return replace(objects, ground_truths=objects.ground_truths.with_columns(is_crowd=None))


def _change_difficult(objects: MatchedObjects, _: str) -> MatchedObjects:
    return replace(objects, is_difficult=None)


def _change_areas(objects: MatchedObjects, _: str) -> MatchedObjects:
    return replace(objects, ground_truths=objects.ground_truths.with_columns(areas=None))


def _have_other_areas(objects: MatchedObjects, _: str) -> bool:
    areas = objects.ground_truths.areas
    return objects.are_boxes and areas is not None and not torch.equal(areas, objects.ground_truths.shapes.areas())


def _change_labels(objects: MatchedObjects, value: int) -> MatchedObjects:
    return replace(objects, detections=objects.detections.with_columns(labels=objects.detections.labels.long() + value))


def _reverse_rows(objects: MatchedObjects, _: str) -> MatchedObjects:
    detections = objects.detections
    most = int(detections.images.max()) if len(detections.images) else 0
    most = max(most, int(objects.ground_truths.images.max())) if len(objects.ground_truths.images) else most
    rows = torch.arange(len(detections.labels) - 1, -1, -1, device=detections.labels.device)
    detections = detections.at(rows)
    detections = detections.with_columns(images=most - detections.images)
    ground_truths = objects.ground_truths.with_columns(images=most - objects.ground_truths.images)
    return replace(objects, detections=detections, ground_truths=ground_truths)


def _have_ties(objects: MatchedObjects, _: str) -> bool:
    detections = objects.detections
    order, classes = order_by_class_and_score(detections.labels.long(), detections.scores)
    scores = detections.scores[order]
    return bool(((scores[1:] == scores[:-1]) & (classes[1:] == classes[:-1])).any())


def _forget_scores(objects: MatchedObjects, _: str) -> MatchedObjects:
    length = len(objects.detections.labels)
    scores = torch.linspace(1, 0, length, dtype=torch.float64, device=objects.detections.labels.device)
    return replace(objects, detections=objects.detections.with_columns(scores=scores))


def _limit_images(objects: MatchedObjects, most: int) -> MatchedObjects:
    detections = objects.detections
    order, images = order_by_class_and_score(detections.images.int(), detections.scores)
    ranks = segments.runs(0, images.long().bincount())[1]
    rows = order[ranks < most].sort().values
    return replace(objects, detections=detections.at(rows))


def _have_many(objects: MatchedObjects, most: int) -> bool:
    images = objects.detections.images
    return len(images) > 0 and int(images.bincount().max()) > most


def _count_whole_pixels(objects: MatchedObjects, _: str) -> MatchedObjects:
    def with_edges(shapes: Any) -> Any:
        return replace(shapes, sides_of=Sides.of_corners)

    return replace(
        objects,
        detections=objects.detections.with_columns(boxes=with_edges(objects.detections.shapes)),
        ground_truths=objects.ground_truths.with_columns(boxes=with_edges(objects.ground_truths.shapes)),
    )


def _read_boxes(objects: MatchedObjects, value: tuple[str, str]) -> MatchedObjects:
    side, box_format = value
    changed: dict[str, Any] = {}
    for name in ("detections", "ground_truths"):
        if side in {name, "both"}:
            packed = getattr(objects, name)
            changed[name] = packed.with_columns(boxes=_read_again(packed.shapes, objects.box_format, box_format))
    if "ground_truths" in changed:
        changed["ground_truths"] = changed["ground_truths"].with_columns(areas=None)
        if bool((changed["ground_truths"].boxes[:, 2:] < 0).any()):
            raise ValueError(f"`box_format` must give sizes of at least 0; got {box_format!r}.")
    return replace(objects, **changed)


def _read_again(shapes: Any, box_format: str | None, other_format: str) -> Tensor:
    """Return boxes as x, y, width and height, as if the user's numbers were in another format."""
    boxes = to_xywh(shapes.boxes, shapes.box_format)
    if box_format == "xyxy":
        boxes = to_xyxy(boxes, "xywh")
    elif box_format == "cxcywh":
        boxes = torch.cat([boxes[:, :2] + boxes[:, 2:] / 2, boxes[:, 2:]], 1)
    return to_xywh(boxes, other_format)


def _have_format(objects: MatchedObjects, value: tuple[str, str]) -> bool:
    return objects.are_boxes and objects.box_format not in {None, value[1]}


def _have_crowds(objects: MatchedObjects, _: str) -> bool:
    return bool(objects.is_crowd.any())


def _is_difficult(objects: MatchedObjects, _: str) -> bool:
    return objects.is_difficult is not None and bool(objects.is_difficult.any())


def _always(*_: Any) -> bool:
    return True


INPUT_CHANGES: dict[str, InputChange] = {
    "iscrowd": InputChange(_change_crowds, _have_crowds),
    "difficult": InputChange(_change_difficult, _is_difficult),
    "area": InputChange(_change_areas, _have_other_areas),
    "box_format": InputChange(_read_boxes, _have_format),
    "labels": InputChange(_change_labels, _always),
    "limit_of_images": InputChange(_limit_images, _have_many),
    "scores": InputChange(_forget_scores, _always),
    "ties": InputChange(_reverse_rows, _have_ties),
    "edges": InputChange(_count_whole_pixels, lambda objects, _: objects.are_boxes),
}
"""changes of the objects, by name, in the order in which they are made"""


def _count_absent(matches: Matches, averages: ClassAverages, value: str) -> ClassAverages:
    """Let classes without ground truths count 0, or leave out those without detections."""
    if value == "0":
        return _mapped(averages, lambda values: values.nan_to_num(0.0))
    sizes = matches.class_index.long().bincount(minlength=len(matches.classes))
    return _mapped(averages, lambda values: torch.where(sizes > 0, values, torch.nan))


def _weigh_classes(matches: Matches, averages: ClassAverages, _: str) -> ClassAverages:
    """Weigh each class by its ground truths."""
    weights = matches.num_positives[0].double()
    weights = weights * (weights > 0).sum() / weights.sum()
    return _mapped(averages, lambda values: values * weights)


def _mapped(averages: ClassAverages, function: Callable[[Tensor], Tensor]) -> ClassAverages:
    precision = {limit: function(values) for limit, values in averages.average_precision.items()}
    at_confidence = {name: function(values) for name, values in averages.at_confidence.items()}
    return replace(averages, average_precision=precision, recall=function(averages.recall), at_confidence=at_confidence)


AVERAGE_CHANGES: dict[str, Callable[[Matches, ClassAverages, Any], ClassAverages]] = {
    "absent": _count_absent,
    "weights": _weigh_classes,
}
"""changes of the means over classes, by name"""

ABOVE_THRESHOLDS = tuple(math.nextafter(threshold + 1e-9, 1) for threshold in COCO_IOU_THRESHOLDS)
CHANGES = (
    ConventionChange("rule", "coco", "average precision is the mean at 101 recalls, as in COCO"),
    ConventionChange("rule", "voc07", "average precision is the mean at 11 recalls, as in PASCAL VOC 2007"),
    ConventionChange("rule", "voc", "average precision is the area under the envelope, as in PASCAL VOC since 2010"),
    ConventionChange("rule", "yolo", "average precision is a sum of trapezoids at 101 recalls, as in YOLOv4"),
    ConventionChange("rule", "yolov5", "average precision is a sum of trapezoids at 101 recalls, as in YOLOv5"),
    ConventionChange("rule", "ultralytics", "average precision is a sum of trapezoids, as in Ultralytics"),
    ConventionChange("thresholds", "coco", "thresholds are in float64"),
    ConventionChange("thresholds", "torchmetrics", "thresholds are rounded to float32, as in TorchMetrics"),
    ConventionChange("rec_thresholds", THRESHOLDS["torchmetrics"][1], "recalls are rounded to float32"),
    ConventionChange("iou_thresholds", ABOVE_THRESHOLDS, "overlaps must be above the thresholds, not at them"),
    ConventionChange("average", "micro", "all labels are one class"),
    ConventionChange("average", "macro", "the mean is over classes"),
    *(
        ConventionChange("max_detection_thresholds", (1, 10, most), f"{words} detections of an image and class count")
        for most, words in ((100, "100"), (300, "300"), (500, "500"), (1 << 30, "all"))
    ),
    ConventionChange("evaluator", "coco", "matched as in COCO"),
    ConventionChange("evaluator", "voc", "matched as in PASCAL VOC: each detection has one ground truth"),
    ConventionChange("evaluator", "ultralytics", "matched as in Ultralytics"),
    ConventionChange("evaluator", "scaled_yolov4", "matched as in ScaledYOLOv4"),
    ConventionChange("whole_pixels", value=False, words="boxes end between pixels"),
    ConventionChange("whole_pixels", value=True, words="both edges of a box are pixels of it"),
    ConventionChange("edges", "whole pixels", "both edges of a box are pixels of it"),
    ConventionChange("iscrowd", "left out", "crowds are left out, and detections in them are wrong"),
    ConventionChange("iscrowd", "objects", "crowds are objects like others"),
    ConventionChange("difficult", "objects", "difficult objects are objects like others"),
    ConventionChange("area", "boxes", "areas are those of boxes, not those of masks"),
    ConventionChange("ties", "reversed", "equal scores are ranked from the last row on"),
    ConventionChange("scores", "order", "scores are not used: detections are ranked in the order of rows"),
    ConventionChange("limit_of_images", 100, "the best 100 detections of an image count, over all classes"),
    ConventionChange("limit_of_images", 300, "the best 300 detections of an image count, over all classes"),
    ConventionChange("absent", "0", "classes without ground truths count 0"),
    ConventionChange("absent", "left out", "classes without detections are left out"),
    ConventionChange("weights", "ground truths", "the mean is over ground truths, not over classes"),
    *(
        ConventionChange(LEAST_SCORE, score, f"detections with scores below {score} are left out")
        for score in (0.001, 0.05, 0.25, 0.5)
    ),
    ConventionChange("labels", 1, "labels of detections are 1 too low"),
    ConventionChange("labels", -1, "labels of detections are 1 too high"),
    *(
        ConventionChange("box_format", ("detections", box_format), f"detected boxes are in the format {box_format!r}")
        for box_format in BOX_FORMATS
    ),
    *(
        ConventionChange("box_format", ("both", box_format), f"all boxes are in the format {box_format!r}")
        for box_format in ("xyxy", "xywh")
    ),
)
"""the conventions of detection; those of the user, and those without an effect, are left out when they are tried"""

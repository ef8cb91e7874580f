"""The conventions of detection: options, changes of the input, and changes of the means over classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.evaluators import ClassAverages
from reid_torchmetrics.functional.detection.inputs import (
    BoxShapes,
    Detections,
    GroundTruths,
    Sides,
    from_xywh,
    order_by_class_and_score,
    to_xywh,
)
from reid_torchmetrics.functional.detection.matching import Matches

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
    has_effect: Callable[[MatchedObjects, Any], bool] = lambda *_: True


def _change_crowds(objects: MatchedObjects, value: str) -> MatchedObjects:
    if value == "left out":
        return objects.with_truths(~objects.is_crowd)
    return replace(objects, ground_truths=objects.ground_truths.with_columns(is_crowd=None))


def _have_other_areas(objects: MatchedObjects, _: str) -> bool:
    areas = objects.ground_truths.areas
    return objects.are_boxes and areas is not None and not torch.equal(areas, objects.ground_truths.shapes.areas())


def _change_labels(objects: MatchedObjects, value: int) -> MatchedObjects:
    return replace(objects, detections=objects.detections.with_columns(labels=objects.detections.labels.long() + value))


def _reverse_rows(objects: MatchedObjects, _: str) -> MatchedObjects:
    detections, ground_truths = objects.detections, objects.ground_truths
    images = torch.cat([detections.images, ground_truths.images])
    last = int(images.max()) if len(images) else 0
    detections = detections.at(torch.arange(len(detections.labels), device=images.device).flip(0))
    return replace(
        objects,
        detections=detections.with_columns(images=last - detections.images),
        ground_truths=ground_truths.with_columns(images=last - ground_truths.images),
    )


def _forget_scores(objects: MatchedObjects, _: str) -> MatchedObjects:
    length = len(objects.detections.labels)
    scores = torch.linspace(1, 0, length, dtype=torch.float64, device=objects.detections.labels.device)
    return replace(objects, detections=objects.detections.with_columns(scores=scores))


def _limit_images(objects: MatchedObjects, most: int) -> MatchedObjects:
    detections = objects.detections
    order, images = order_by_class_and_score(detections.images.int(), detections.scores)
    ranks = segments.ranks(images)
    rows = order[ranks < most].sort().values
    return replace(objects, detections=detections.at(rows))


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

    def read(packed: Any) -> Any:
        """Read boxes again as if the user's numbers were in another format."""
        shapes = packed.shapes
        as_given = from_xywh(to_xywh(shapes.boxes, shapes.box_format), str(objects.box_format))
        return packed.with_columns(boxes=to_xywh(as_given, box_format))

    detections = read(objects.detections)
    if side == "detections":
        return replace(objects, detections=detections)
    ground_truths = read(objects.ground_truths).with_columns(areas=None)
    if bool((ground_truths.boxes[:, 2:] < 0).any()):
        raise ValueError(f"`box_format` must give sizes of at least 0; got {box_format!r}.")
    return replace(objects, detections=detections, ground_truths=ground_truths)


INPUT_CHANGES: dict[str, InputChange] = {
    "iscrowd": InputChange(_change_crowds, lambda objects, _: bool(objects.is_crowd.any())),
    "difficult": InputChange(
        lambda objects, _: replace(objects, is_difficult=None),
        lambda objects, _: objects.is_difficult is not None and bool(objects.is_difficult.any()),
    ),
    "area": InputChange(
        lambda objects, _: replace(objects, ground_truths=objects.ground_truths.with_columns(areas=None)),
        _have_other_areas,
    ),
    "box_format": InputChange(
        _read_boxes, lambda objects, value: objects.are_boxes and objects.box_format not in {None, value[1]}
    ),
    "labels": InputChange(_change_labels),
    "limit_of_images": InputChange(
        _limit_images, lambda objects, most: bool((objects.detections.images.bincount() > most).any())
    ),
    "scores": InputChange(_forget_scores),
    "ties": InputChange(_reverse_rows),
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

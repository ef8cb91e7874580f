"""Detections and ground truths of many images, packed: one row an object, and the number of its image beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks

from .boxes import check_areas, check_boxes, check_image_numbers, check_scores
from .shapes import BoxShapes, Shapes

Boxes = TypeVar("Boxes")


def _as_shapes(boxes: Tensor | Shapes) -> Shapes:
    return boxes if isinstance(boxes, Shapes) else BoxShapes(boxes)


def _unchecked(cls: type[Boxes], columns: dict[str, Any]) -> Boxes:
    made = object.__new__(cls)
    for name, column in columns.items():
        object.__setattr__(made, name, column)
    return made


@dataclass(frozen=True)
class Detections:
    """What a detector found, in any order of the images.

    Boxes may be inverted or not finite, as an untrained network gives them. They overlap nothing, and count as in
    pycocotools: with an area outside of the range they are ignored, such as a negative one, otherwise they are false
    positives. A box with a NaN is a false positive in every range; in pycocotools most take a ground truth that is
    free, however far it is.

    Raises:
        TypeError: a tensor of the wrong dtype.
        ValueError: shapes or devices that do not fit each other, a score that is not finite.
    """

    boxes: Float[Tensor, "detections 4"] | Shapes
    """x, y of the corner with the least coordinates, width, height, in pixels; see `to_xywh` for other formats. Objects
    that are no boxes are given as another class of `Shapes`"""
    scores: Float[Tensor, " detections"]
    labels: Integer[Tensor, " detections"]
    images: Integer[Tensor, " detections"]
    """number of the image, 0 or more; detections of one class with equal scores are ranked by it, then by row"""

    @torch.no_grad()
    def __post_init__(self) -> None:
        """Check the tensors."""
        if not isinstance(self.boxes, Shapes):
            _checks.floating_matrix("boxes", self.boxes, 4)
        length, device = len(self.boxes), self.boxes.device
        check_scores("scores", self.scores, length, device)
        _checks.integer_labels("labels", self.labels, length, device)
        check_image_numbers("images", self.images, length, device)

    @classmethod
    def unchecked(cls, **columns: Any) -> Detections:
        """Of tensors that are known to be right, by the names of the fields."""
        return _unchecked(cls, columns)

    @property
    def shapes(self) -> Shapes:
        """What is overlapped."""
        return _as_shapes(self.boxes)

    def at(self, rows: Int[Tensor, " rows"]) -> Detections:
        """Some of the detections."""
        columns = {name: column[rows] for name, column in vars(self).items()}
        return Detections.unchecked(**columns)

    def with_shapes(self, shapes: Shapes) -> Detections:
        """The same with other shapes."""
        return Detections.unchecked(**(vars(self) | {"boxes": shapes}))

    def of_one_class(self) -> Detections:
        """The same with the label 0 for all."""
        return Detections.unchecked(**(vars(self) | {"labels": torch.zeros_like(self.labels)}))


@dataclass(frozen=True)
class GroundTruths:
    """What there is to find, in any order of the images; of boxes of one image and class, the order decides ties.

    Raises:
        TypeError: a tensor of the wrong dtype.
        ValueError: shapes or devices that do not fit each other, a box or area that is not finite, a negative size.
    """

    boxes: Float[Tensor, "ground_truths 4"] | Shapes
    """as of `Detections`"""
    labels: Integer[Tensor, " ground_truths"]
    images: Integer[Tensor, " ground_truths"]
    is_crowd: Bool[Tensor, " ground_truths"] | None = None
    """regions with many objects: any number of detections may lie in one, and none of them counts"""
    areas: Float[Tensor, " ground_truths"] | None = None
    """in pixels, such as the area of COCO's masks; None stands for those of the shapes, of boxes width times height"""

    @torch.no_grad()
    def __post_init__(self) -> None:
        """Check the tensors."""
        if not isinstance(self.boxes, Shapes):
            check_boxes("boxes", self.boxes)
        length, device = len(self.boxes), self.boxes.device
        _checks.integer_labels("labels", self.labels, length, device)
        check_image_numbers("images", self.images, length, device)
        if self.is_crowd is not None:
            _checks.mask("is_crowd", self.is_crowd, length, device)
        if self.areas is not None:
            check_areas("areas", self.areas, length, device)

    @classmethod
    def unchecked(cls, **columns: Any) -> GroundTruths:
        """Of tensors that are known to be right, by the names of the fields."""
        return _unchecked(cls, columns)

    @property
    def shapes(self) -> Shapes:
        """What is overlapped."""
        return _as_shapes(self.boxes)

    def at(self, rows: Int[Tensor, " rows"]) -> GroundTruths:
        """Some of the ground truths."""
        columns = {name: None if column is None else column[rows] for name, column in vars(self).items()}
        return GroundTruths.unchecked(**columns)

    def with_shapes(self, shapes: Shapes) -> GroundTruths:
        """The same with other shapes."""
        return GroundTruths.unchecked(**(vars(self) | {"boxes": shapes}))

    def of_one_class(self) -> GroundTruths:
        """The same with the label 0 for all."""
        return GroundTruths.unchecked(**(vars(self) | {"labels": torch.zeros_like(self.labels)}))

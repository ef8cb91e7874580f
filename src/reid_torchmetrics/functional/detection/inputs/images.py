"""Detections and ground truths of many images, packed: one row for each object, with the number of its image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional.displays import Displayed

from .boxes import check_areas, check_boxes, check_image_numbers, check_scores
from .shapes import BoxShapes, Shapes

Objects = TypeVar("Objects", bound="PackedObjects")


class PackedObjects:
    """Columns with a row for each object of many images."""

    boxes: Tensor | Shapes
    labels: Tensor

    @classmethod
    def unchecked(cls: type[Objects], **columns: Any) -> Objects:  # noqa: PYI019 - Python 3.10 has no `Self`
        """Construct objects from valid columns, by the names of the fields, without the checks."""
        objects = object.__new__(cls)
        for name, column in columns.items():
            object.__setattr__(objects, name, column)
        return objects

    @property
    def shapes(self) -> Shapes:
        """The shapes to overlap."""
        if isinstance(self.boxes, Shapes):
            return self.boxes
        return BoxShapes(self.boxes)

    def at(self: Objects, rows: Int[Tensor, " rows"], *, has_shapes: bool = True) -> Objects:  # noqa: PYI019
        """Return the objects of some rows, with their shapes or without."""
        columns: dict[str, Any] = {}
        for name, column in vars(self).items():
            if name == "boxes" and not has_shapes:
                continue
            if isinstance(column, Tensor):
                columns[name] = column.index_select(0, rows)  # `column[rows]` would copy narrow numbers of rows
            else:
                columns[name] = None if column is None else column[rows]
        return self.unchecked(**columns)

    def with_columns(self: Objects, **columns: Any) -> Objects:  # noqa: PYI019
        """Replace columns, by the names of the fields."""
        return self.unchecked(**(vars(self) | columns))

    def as_one_class(self: Objects) -> Objects:  # noqa: PYI019
        """Return the objects with label 0 for all."""
        return self.with_columns(labels=torch.zeros_like(self.labels))


@dataclass(frozen=True, repr=False)
class Detections(Displayed, PackedObjects):
    """Detections, in any order of the images.

    NumPy arrays and lists become tensors.

    Boxes may be inverted or not finite, as an untrained network gives them. They overlap nothing, and count as in
    pycocotools: ignored if their area is outside the range, as a negative one is, else false positives. A box with a
    NaN is a false positive in every range; in pycocotools most of them are matched to any free ground truth, however
    far.

    Raises:
        TypeError: a tensor of the wrong dtype.
        ValueError: shapes or devices that do not fit each other, a score that is not finite.
    """

    boxes: Float[Tensor, "detections 4"] | Shapes
    """x and y of the corner with the least coordinates, width and height, in pixels; `Shapes`, for other objects than
    boxes, are internal"""
    scores: Float[Tensor, " detections"]
    labels: Integer[Tensor, " detections"]
    images: Integer[Tensor, " detections"]
    """number of the image, 0 or more; detections of one class with equal scores are ranked by it, then by row"""

    @torch.no_grad()
    def __post_init__(self) -> None:
        """Check the tensors."""
        _arrays.fields_as_tensors(self, "boxes", "scores", "labels", "images")
        if not isinstance(self.boxes, Shapes):
            _checks.floating_matrix("boxes", self.boxes, 4)
        length = len(self.boxes)
        device = self.boxes.device
        check_scores("scores", self.scores, length, device)
        _checks.integer_labels("labels", self.labels, length, device)
        check_image_numbers("images", self.images, length, device)


@dataclass(frozen=True, repr=False)
class GroundTruths(Displayed, PackedObjects):
    """Ground truths, in any order of the images; within one image and class the order decides ties.

    NumPy arrays and lists become tensors.

    Raises:
        TypeError: a tensor of the wrong dtype.
        ValueError: shapes or devices that do not fit each other, a box or area that is not finite, a negative size.
    """

    boxes: Float[Tensor, "ground_truths 4"] | Shapes
    """as in `Detections`"""
    labels: Integer[Tensor, " ground_truths"]
    images: Integer[Tensor, " ground_truths"]
    is_crowd: Bool[Tensor, " ground_truths"] | None = None
    """regions with many objects: any number of detections may lie in one, and are ignored"""
    areas: Float[Tensor, " ground_truths"] | None = None
    """areas in pixels, such as those of COCO's masks; None for areas of the shapes, for boxes width times height"""

    def range_areas(self) -> Float[Tensor, " ground_truths"]:
        """Return the areas for the area ranges, float64."""
        return self.shapes.areas() if self.areas is None else self.areas.double()

    @torch.no_grad()
    def __post_init__(self) -> None:
        """Check the tensors."""
        _arrays.fields_as_tensors(self, "boxes", "labels", "images", "is_crowd", "areas")
        if not isinstance(self.boxes, Shapes):
            check_boxes("boxes", self.boxes)
        length = len(self.boxes)
        device = self.boxes.device
        _checks.integer_labels("labels", self.labels, length, device)
        check_image_numbers("images", self.images, length, device)
        if self.is_crowd is not None:
            _checks.mask("is_crowd", self.is_crowd, length, device)
        if self.areas is not None:
            check_areas("areas", self.areas, length, device)

"""What matching knows of objects: their areas, and how much those of detections and of ground truths overlap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs.boxes import Sides, box_areas, overlap

Same = TypeVar("Same", bound="Shapes")


class Shapes(ABC):
    """The shapes of all detections, or of all ground truths, one in each row; `BoxShapes` is the class of boxes.

    A class of others is all that a new kind of shape takes: `Detections` and `GroundTruths` hold them in the place of
    boxes. What is computed of a shape more than once belongs into a cached property.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Number of shapes."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where they are."""

    @abstractmethod
    def __getitem__(self: Same, rows: Tensor) -> Same:
        """Some of the shapes, by number, in a given order."""

    @abstractmethod
    def areas(self) -> Float[Tensor, " shapes"]:
        """Their areas, float64, which decide on the area range."""

    @abstractmethod
    def overlaps(
        self: Same,
        row: Int[Tensor, " pairs"],
        ground_truths: Same,
        true_row: Int[Tensor, " pairs"],
        is_crowd: Bool[Tensor, " pairs"] | None = None,
    ) -> Float[Tensor, " pairs"]:
        """How much pairs of these shapes and of ground truths overlap, from 0 to 1, float64.

        Args:
            row: of each pair, the row of its detection here.
            ground_truths: shapes of the same class.
            true_row: of each pair, the row of its ground truth there.
            is_crowd: whether that is a crowd: then the share of the detection that lies in it. None if no one is.
        """


@final
@dataclass(frozen=True)
class BoxShapes(Shapes):
    """Boxes as x, y, width and height; they overlap by intersection over union."""

    boxes: Float[Tensor, "boxes 4"]
    sides_of: Callable[[Tensor], Sides] = Sides.of
    """edges and areas of boxes: `Sides.of` as COCO has them, `Sides.of_corners` as Pascal VOC"""

    def __len__(self) -> int:
        """See `Shapes`."""
        return len(self.boxes)

    @property
    def device(self) -> torch.device:
        """See `Shapes`."""
        return self.boxes.device

    @cached_property
    def _sides(self) -> Sides:
        return self.sides_of(self.boxes)

    def __getitem__(self, rows: Tensor) -> BoxShapes:
        """See `Shapes`."""
        return replace(self, boxes=self.boxes.index_select(0, rows))

    def areas(self) -> Float[Tensor, " boxes"]:
        """See `Shapes`: width times height."""
        return box_areas(self.boxes)

    def overlaps(
        self,
        row: Int[Tensor, " pairs"],
        ground_truths: BoxShapes,
        true_row: Int[Tensor, " pairs"],
        is_crowd: Bool[Tensor, " pairs"] | None = None,
    ) -> Float[Tensor, " pairs"]:
        """See `Shapes`."""
        return overlap(self._sides.at(row), ground_truths._sides.at(true_row), is_crowd)

"""What matching knows of the shapes of objects: how much they overlap, and their areas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs.boxes import Sides, box_areas, overlap


class Overlap(ABC):
    """The shapes of detections and of ground truths, which are told by their rows; `BoxOverlap` is the one of boxes."""

    @abstractmethod
    def at(self, rows: Int[Tensor, " _"] | None, true_rows: Int[Tensor, " _"] | None) -> Overlap:
        """Of some detections and some ground truths, in a given order; None for all as they are."""

    @abstractmethod
    def of_pairs(
        self,
        rows: Int[Tensor, " some"],
        detection: Int[Tensor, " pairs"],
        ground_truth: Int[Tensor, " pairs"],
        is_crowd: Bool[Tensor, " pairs"] | None = None,
    ) -> Float[Tensor, " pairs"]:
        """Intersection over union of pairs, float64, or over the detection's area if the ground truth is a crowd.

        Args:
            rows: of the detections of the pairs, each once.
            detection: of each pair, as its place among `rows`.
            ground_truth: of each pair, as its row.
            is_crowd: whether that is a crowd; None if no one is.
        """

    @abstractmethod
    def detection_areas(self, first: int, last: int) -> Float[Tensor, " some"]:
        """Areas of the detections of a range of rows, float64."""

    @abstractmethod
    def ground_truth_areas(self) -> Float[Tensor, " ground_truths"]:
        """Areas of all ground truths, float64."""


@final
@dataclass(frozen=True)
class BoxOverlap(Overlap):
    """Boxes as x, y, width and height; nothing is computed of a detection before it is asked for."""

    boxes: Float[Tensor, "detections 4"]
    true_boxes: Float[Tensor, "ground_truths 4"]
    sides_of: Callable[[Tensor], Sides] = Sides.of
    """edges and areas of boxes: `Sides.of` as COCO has them, `Sides.of_corners` as Pascal VOC"""

    @cached_property
    def _true_sides(self) -> Sides:
        return self.sides_of(self.true_boxes)

    def at(self, rows: Int[Tensor, " _"] | None, true_rows: Int[Tensor, " _"] | None) -> BoxOverlap:
        """See `Overlap`."""
        boxes = self.boxes if rows is None else self.boxes.index_select(0, rows)
        true_boxes = self.true_boxes if true_rows is None else self.true_boxes.index_select(0, true_rows)
        return replace(self, boxes=boxes, true_boxes=true_boxes)

    def of_pairs(
        self,
        rows: Int[Tensor, " some"],
        detection: Int[Tensor, " pairs"],
        ground_truth: Int[Tensor, " pairs"],
        is_crowd: Bool[Tensor, " pairs"] | None = None,
    ) -> Float[Tensor, " pairs"]:
        """See `Overlap`."""
        sides = self.sides_of(self.boxes.index_select(0, rows))
        return overlap(sides.at(detection), self._true_sides.at(ground_truth), is_crowd)

    def detection_areas(self, first: int, last: int) -> Float[Tensor, " some"]:
        """See `Overlap`: width times height."""
        return box_areas(self.boxes[first:last])

    def ground_truth_areas(self) -> Float[Tensor, " ground_truths"]:
        """See `Overlap`: width times height."""
        return box_areas(self.true_boxes)

"""Detections and ground truths of all images with their overlapping pairs, regardless of class.

Errors across classes follow from these pairs alone: boxes and masks need not be kept, nor overlapped again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Integer, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import AreaRange, Detections, GroundTruths, distinct_labels
from reid_torchmetrics.functional.detection.matching import find_pairs

LEAST_OVERLAP = 0.1
"""below it a detection lies on background, as in TIDE"""

# The axis of each column, for functions that change all columns of one axis.
_OF_DETECTIONS = {"axis": "detections"}
_OF_GROUND_TRUTHS = {"axis": "ground_truths"}
_OF_PAIRS = {"axis": "pairs"}


@dataclass(frozen=True)
class ObjectPairs:
    """Detections and ground truths by image, within an image in the order of input, and their overlapping pairs.

    It depends neither on the order of the images nor on how they were sharded: see `merge_object_pairs`.
    """

    scores: Real[Tensor, " objects"] = field(metadata=_OF_DETECTIONS)
    labels: Int[Tensor, " objects"] = field(metadata=_OF_DETECTIONS)
    images: Integer[Tensor, " objects"] = field(metadata=_OF_DETECTIONS)
    is_outside: Bool[Tensor, " objects"] = field(metadata=_OF_DETECTIONS)
    """whether its area is outside the area range: then it is ignored unless matched to a ground truth that counts"""
    true_labels: Int[Tensor, " true_objects"] = field(metadata=_OF_GROUND_TRUTHS)
    true_images: Integer[Tensor, " true_objects"] = field(metadata=_OF_GROUND_TRUTHS)
    is_crowd: Bool[Tensor, " true_objects"] = field(metadata=_OF_GROUND_TRUTHS)
    is_ignored: Bool[Tensor, " true_objects"] = field(metadata=_OF_GROUND_TRUTHS)
    """crowds, and ground truths outside the area range"""
    detection: Int[Tensor, " pairs"] = field(metadata=_OF_PAIRS)
    """row of each pair's detection; pairs are by ground truth, then by detection"""
    ground_truth: Int[Tensor, " pairs"] = field(metadata=_OF_PAIRS)
    iou: Float[Tensor, " pairs"] = field(metadata=_OF_PAIRS)
    """intersection over union; with a crowd over the area of the detection"""
    at_least: float = LEAST_OVERLAP
    """the least overlap of the pairs"""

    @property
    def classes(self) -> Int[Tensor, " classes"]:
        """All labels, ascending."""
        return distinct_labels(self.labels, self.true_labels)

    def without_classes(self) -> ObjectPairs:
        """The same with the label 0 for all."""
        return replace(self, labels=torch.zeros_like(self.labels), true_labels=torch.zeros_like(self.true_labels))

    def to_tensors(self) -> list[Tensor]:
        """All fields but `at_least`."""
        return [getattr(self, name) for name in AXES]

    @classmethod
    def from_tensors(cls, tensors: Sequence[Tensor]) -> ObjectPairs:
        """The inverse of `to_tensors`."""
        columns: dict[str, Any] = dict(zip(AXES, tensors, strict=True))
        return cls(**columns)

    def check_threshold(self, argument: str, threshold: float) -> None:
        """Raise unless an IoU threshold is a number from the least overlap of the pairs to 1."""
        _checks.fraction(argument, threshold)
        if threshold < self.at_least:
            raise ValueError(
                f"`{argument}` must be at least {self.at_least:g}, from which on pairs were found; got {threshold}."
            )

    def by_image(self) -> ObjectPairs:
        """Rows by image, and pairs by ground truth: stable sorts keep the order of rows within an image."""
        order, place = _order_of(self.images)
        true_order, true_place = _order_of(self.true_images)
        detection, ground_truth = place.index_select(0, self.detection), true_place.index_select(0, self.ground_truth)
        # Pairs follow their rows, and are sorted by one key for both ends.
        pair_order = (ground_truth * max(1, len(place)) + detection).argsort()
        orders = {"detections": order, "ground_truths": true_order, "pairs": pair_order}
        columns = vars(self) | {"detection": detection, "ground_truth": ground_truth}
        return replace(self, **{name: columns[name].index_select(0, orders[axis]) for name, axis in AXES.items()})


AXES = {each.name: each.metadata["axis"] for each in fields(ObjectPairs) if each.metadata}
"""names of the tensor fields, in the order of `ObjectPairs.to_tensors`, and the axis of each"""


@torch.no_grad()
def pair_objects(
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    area_range: AreaRange = (0.0, float("inf")),
    is_difficult: Bool[Tensor, " ground_truths"] | None = None,
    is_outside: Bool[Tensor, " detections"] | None = None,
    max_bytes: int | None = None,
) -> ObjectPairs:
    """Find all pairs of a detection and a ground truth of an image that overlap by `LEAST_OVERLAP`, across classes.

    Args:
        detections: of all images; the caller limits their number.
        ground_truths: of all images.
        area_range: least and largest area, both inside; ground truths outside it are ignored.
        is_difficult: more ignored ground truths; None for none.
        is_outside: detections that are ignored unless they are right; None for those outside the area range.
        max_bytes: bound on the memory of pairs at a time, besides the result of 24 bytes for each; None for 256 MiB.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `max_bytes` below 1.
    """
    # With one label for all, pairs are found across classes.
    of_one_class = detections.of_one_class(), ground_truths.of_one_class()
    pairs = find_pairs(*of_one_class, at_least=LEAST_OVERLAP, max_bytes=max_bytes)
    # Crowds, ground truths outside the range and difficult ones are ignored.
    areas = ground_truths.shapes.areas() if ground_truths.areas is None else ground_truths.areas
    is_crowd = torch.zeros_like(areas, dtype=torch.bool) if ground_truths.is_crowd is None else ground_truths.is_crowd
    is_ignored = is_crowd | _is_outside(areas, area_range)
    objects = ObjectPairs(
        scores=detections.scores,
        labels=detections.labels.long(),
        images=detections.images,
        is_outside=_is_outside(detections.shapes.areas(), area_range) if is_outside is None else is_outside,
        true_labels=ground_truths.labels.long(),
        true_images=ground_truths.images,
        is_crowd=is_crowd,
        is_ignored=is_ignored if is_difficult is None else is_ignored | is_difficult,
        detection=pairs.detection,
        ground_truth=pairs.ground_truth,
        iou=pairs.iou,
    )
    return objects.by_image()


def _is_outside(areas: Float[Tensor, " _"], area_range: AreaRange) -> Bool[Tensor, " _"]:
    areas = areas.double()
    return (areas < area_range[0]) | (areas > area_range[1])


def merge_object_pairs(parts: Sequence[ObjectPairs]) -> ObjectPairs:
    """Merge the pairs of parts of the images; no image may be in two parts."""
    # Rows are counted on from part to part.
    num_detections = num_true = 0
    shifted = []
    for part in parts:
        moved = replace(part, detection=part.detection + num_detections, ground_truth=part.ground_truth + num_true)
        shifted.append(moved.to_tensors())
        num_detections += len(part.labels)
        num_true += len(part.true_labels)
    columns = map(torch.cat, zip(*shifted, strict=True))
    return ObjectPairs.from_tensors([*columns]).by_image()


def _order_of(images: Tensor) -> tuple[Tensor, Tensor]:
    """Rows by image, and the place of each row there."""
    order = images.argsort(stable=True)
    return order, torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))

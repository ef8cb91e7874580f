"""Detections and ground truths of all images, with the pairs of them that overlap, of whatever classes.

What is said of errors across classes follows from these pairs: boxes and masks need not be kept, nor overlapped again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Integer, Shaped
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import AreaRange, Detections, GroundTruths, distinct_labels
from reid_torchmetrics.functional.detection.matching import DEFAULT_MAX_BYTES, find_pairs

LEAST_OVERLAP = 0.1
"""below it a detection lies on the background, as TIDE has it"""

_OF_DETECTIONS = MappingProxyType({"kind": "detections"})
_OF_GROUND_TRUTHS = MappingProxyType({"kind": "ground_truths"})
_OF_PAIRS = MappingProxyType({"kind": "pairs"})


@dataclass(frozen=True)
class ObjectPairs:
    """Detections and ground truths by image, those of an image as they came, and the pairs that overlap enough.

    It is the same in whatever order the images came, and however they were spread: see `merge_object_pairs`.
    """

    scores: Shaped[Tensor, " detections"] = field(metadata=_OF_DETECTIONS)
    labels: Int[Tensor, " detections"] = field(metadata=_OF_DETECTIONS)
    images: Integer[Tensor, " detections"] = field(metadata=_OF_DETECTIONS)
    is_outside: Bool[Tensor, " detections"] = field(metadata=_OF_DETECTIONS)
    """whether its own area is not in the area range: then it is ignored unless it takes a ground truth that counts"""
    true_labels: Int[Tensor, " ground_truths"] = field(metadata=_OF_GROUND_TRUTHS)
    true_images: Integer[Tensor, " ground_truths"] = field(metadata=_OF_GROUND_TRUTHS)
    is_crowd: Bool[Tensor, " ground_truths"] = field(metadata=_OF_GROUND_TRUTHS)
    is_ignored: Bool[Tensor, " ground_truths"] = field(metadata=_OF_GROUND_TRUTHS)
    """crowds, and what is not in the area range"""
    detection: Int[Tensor, " pairs"] = field(metadata=_OF_PAIRS)
    """of each pair, by ground truth, then by detection"""
    ground_truth: Int[Tensor, " pairs"] = field(metadata=_OF_PAIRS)
    iou: Float[Tensor, " pairs"] = field(metadata=_OF_PAIRS)
    """intersection over union; with a crowd over the area of the detection"""
    at_least: float = LEAST_OVERLAP
    """the overlap from which on there are pairs"""

    @property
    def classes(self) -> Int[Tensor, " classes"]:
        """All labels, ascending."""
        return distinct_labels(self.labels, self.true_labels)

    def without_classes(self) -> ObjectPairs:
        """The same with the label 0 for all."""
        return replace(self, labels=torch.zeros_like(self.labels), true_labels=torch.zeros_like(self.true_labels))

    def to_tensors(self) -> list[Tensor]:
        """All of it but the overlap from which on there are pairs."""
        return [getattr(self, name) for name in TENSORS]

    @classmethod
    def from_tensors(cls, tensors: Sequence[Tensor], at_least: float = LEAST_OVERLAP) -> ObjectPairs:
        """What `to_tensors` was called on."""
        columns: dict[str, Any] = dict(zip(TENSORS, tensors, strict=True))
        return cls(**columns, at_least=at_least)

    def check_threshold(self, argument: str, threshold: float) -> None:
        """Raise unless a threshold of overlap is a number from the overlap of the pairs to 1."""
        _checks.fraction(argument, threshold)
        if threshold < self.at_least:
            raise ValueError(
                f"`{argument}` must be at least {self.at_least:g}, from which on pairs were found; got {threshold}."
            )

    def _map(self, kind: str, function: Callable[[Tensor], Tensor]) -> ObjectPairs:
        names = [each.name for each in fields(self) if each.metadata.get("kind") == kind]
        changed: dict[str, Any] = {name: function(getattr(self, name)) for name in names}
        return replace(self, **changed)


TENSORS = tuple(each.name for each in fields(ObjectPairs) if each.metadata)
"""names of the fields that are tensors, in the order of `ObjectPairs.to_tensors`"""


@torch.no_grad()
def pair_objects(
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    at_least: float = LEAST_OVERLAP,
    area_range: AreaRange = (0.0, float("inf")),
    is_difficult: Bool[Tensor, " ground_truths"] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> ObjectPairs:
    """Find all pairs of a detection and a ground truth of one image that overlap enough, of whatever classes.

    Args:
        detections: of all images; limits of their number are the caller's.
        ground_truths: of all images.
        at_least: the overlap from which on a pair is kept, which is the least threshold that can be asked for.
        area_range: least and largest area, both inside; ground truths outside of it are ignored.
        is_difficult: ground truths that are ignored, too; None for none.
        max_bytes: bound on what is held of pairs at a time, but for those that are kept, 24 bytes each.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: `at_least` is not in (0, 1], or a `max_bytes` below 1.
    """
    _checks.fraction("at_least", at_least)
    if at_least == 0:
        raise ValueError(f"`at_least` must be above 0, which all boxes of an image reach; got {at_least}.")
    of_one_class = detections.of_one_class(), ground_truths.of_one_class()
    pairs = find_pairs(*of_one_class, at_least=at_least, max_bytes=max_bytes)
    areas = ground_truths.shapes.areas() if ground_truths.areas is None else ground_truths.areas
    crowds = ground_truths.is_crowd
    is_crowd = torch.zeros_like(areas, dtype=torch.bool) if crowds is None else crowds
    is_ignored = is_crowd | _is_outside(areas, area_range)
    found = ObjectPairs(
        scores=detections.scores,
        labels=detections.labels.long(),
        images=detections.images,
        is_outside=_is_outside(detections.shapes.areas(), area_range),
        true_labels=ground_truths.labels.long(),
        true_images=ground_truths.images,
        is_crowd=is_crowd,
        is_ignored=is_ignored if is_difficult is None else is_ignored | is_difficult,
        detection=pairs.detection,
        ground_truth=pairs.ground_truth,
        iou=pairs.iou,
        at_least=at_least,
    )
    return merge_object_pairs([found])


def _is_outside(areas: Float[Tensor, " _"], area_range: AreaRange) -> Bool[Tensor, " _"]:
    areas = areas.double()
    return (areas < area_range[0]) | (areas > area_range[1])


def merge_object_pairs(parts: Sequence[ObjectPairs]) -> ObjectPairs:
    """The pairs of all images, given those of parts of them; no image may be in two parts.

    Raises:
        ValueError: there are no parts, or their pairs begin at different overlaps.
    """
    _checks.nonempty("parts", parts)
    _checks.alike("parts", "least overlap", [part.at_least for part in parts])
    num_detections = num_true = 0
    shifted = []
    for part in parts:
        detection, ground_truth = part.detection + num_detections, part.ground_truth + num_true
        shifted.append(replace(part, detection=detection, ground_truth=ground_truth))
        num_detections += len(part.labels)
        num_true += len(part.true_labels)
    joined = {name: torch.cat([getattr(part, name) for part in shifted]) for name in TENSORS}
    return _by_image(ObjectPairs(**joined, at_least=parts[0].at_least))


def _by_image(found: ObjectPairs) -> ObjectPairs:
    """In order: stable sorts keep the rows of an image as they are, and pairs follow their ends."""
    order, place = _order_of(found.images)
    true_order, true_place = _order_of(found.true_images)
    found = found._map("detections", lambda values: values.index_select(0, order))  # noqa: SLF001
    found = found._map("ground_truths", lambda values: values.index_select(0, true_order))  # noqa: SLF001
    detection, ground_truth = place.index_select(0, found.detection), true_place.index_select(0, found.ground_truth)
    found = replace(found, detection=detection, ground_truth=ground_truth)
    pair_order = (ground_truth * max(1, len(place)) + detection).argsort()
    return found._map("pairs", lambda values: values.index_select(0, pair_order))  # noqa: SLF001


def _order_of(images: Tensor) -> tuple[Tensor, Tensor]:
    """Rows by image, and the place of each row there."""
    order = images.argsort(stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    return order, place

"""Detections and ground truths in all images with their overlapping pairs, regardless of class.

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
from reid_torchmetrics.functional.detection.evaluation import MATCH_PARTS, MatchPart, MatchRequest, check_fractions
from reid_torchmetrics.functional.detection.inputs import AreaRange, Detections, GroundTruths, distinct_labels
from reid_torchmetrics.functional.detection.matching import AreaRanges, Matches, find_pairs

LEAST_OVERLAP = 0.1
"""below it a detection lies on background, as in TIDE"""

# The axis of each column, for functions that change all columns of one axis.
_DETECTION_AXIS = {"axis": "detections"}
_GROUND_TRUTH_AXIS = {"axis": "ground_truths"}
_PAIR_AXIS = {"axis": "pairs"}
_CROWD_PAIR_AXIS = {"axis": "crowd_pairs"}


@dataclass(frozen=True)
class ObjectPairs(MatchPart):
    """Detections and ground truths by image, within an image in the order of input, and their overlapping pairs.

    It depends neither on the order of the images nor on how they were sharded: see `merge`.
    """

    scores: Real[Tensor, " objects"] = field(metadata=_DETECTION_AXIS)
    labels: Int[Tensor, " objects"] = field(metadata=_DETECTION_AXIS)
    images: Integer[Tensor, " objects"] = field(metadata=_DETECTION_AXIS)
    is_outside: Bool[Tensor, " objects"] = field(metadata=_DETECTION_AXIS)
    """whether its area is outside the area range: then it is ignored unless matched to a ground truth that counts"""
    true_labels: Int[Tensor, " true_objects"] = field(metadata=_GROUND_TRUTH_AXIS)
    true_images: Integer[Tensor, " true_objects"] = field(metadata=_GROUND_TRUTH_AXIS)
    is_crowd: Bool[Tensor, " true_objects"] = field(metadata=_GROUND_TRUTH_AXIS)
    is_ignored: Bool[Tensor, " true_objects"] = field(metadata=_GROUND_TRUTH_AXIS)
    """crowds, and ground truths outside the area range"""
    detection: Int[Tensor, " pairs"] = field(metadata=_PAIR_AXIS)
    """row of each pair's detection; pairs are by ground truth, then by detection"""
    ground_truth: Int[Tensor, " pairs"] = field(metadata=_PAIR_AXIS)
    iou: Float[Tensor, " pairs"] = field(metadata=_PAIR_AXIS)
    """intersection over union; with a crowd over the area of the detection"""
    at_least: float = LEAST_OVERLAP
    """the least overlap of the pairs"""
    crowd_iou: Float[Tensor, " crowd_pairs"] | None = field(default=None, metadata=_CROWD_PAIR_AXIS)
    """intersection over union of the pairs with crowds, for rules without crowds; other shapes than boxes have the
    values of `iou`, and so has None, as in results files of format 2"""

    @property
    def classes(self) -> Int[Tensor, " classes"]:
        """All labels, ascending."""
        return distinct_labels(self.labels, self.true_labels)

    def to_tensors(self) -> list[Tensor]:
        """Return all fields except `at_least`, in the order of `AXES`."""
        return [getattr(self, name) for name in AXES]

    @classmethod
    def of_matches(
        cls,
        request: MatchRequest,
        detections: Detections,
        ground_truths: GroundTruths,
        matches: Matches,
        is_difficult: Tensor | None,
    ) -> ObjectPairs:
        """Pair matched objects across classes, with the overlaps and the crowds that the evaluator knows."""
        # Detections beyond the largest limit were not matched.
        order = matches.rows.argsort()
        is_outside = None
        if request.evaluator.is_federated:
            is_outside = matches.area_bits[order] & 1 == 0
        if not request.evaluator.has_crowds and ground_truths.is_crowd is not None:
            rows = (~ground_truths.is_crowd).nonzero()[:, 0]
            ground_truths = ground_truths.at(rows)
            is_difficult = None if is_difficult is None else is_difficult[rows]
        area_range, *_ = request.grid.area_ranges.values()
        return pair_objects(
            request.with_edges(detections.at(matches.rows[order])),
            request.with_edges(ground_truths),
            area_range=area_range,
            max_bytes=request.max_bytes,
            is_difficult=is_difficult,
            is_outside=is_outside,
        )

    @classmethod
    def merge(cls, parts: Sequence[ObjectPairs]) -> ObjectPairs:
        """Merge the pairs of parts of the images; no image may be in two parts."""
        # The rows of each part are shifted by the numbers of objects in the parts before.
        num_detections = 0
        num_ground_truths = 0
        shifted = []
        for part in parts:
            part_of_all = replace(
                part,
                detection=part.detection + num_detections,
                ground_truth=part.ground_truth + num_ground_truths,
            )
            shifted.append(part_of_all.to_tensors())
            num_detections += len(part.labels)
            num_ground_truths += len(part.true_labels)
        columns = list(map(torch.cat, zip(*shifted, strict=True)))
        return cls.from_tensors(columns).by_image()

    def check(self) -> dict[str, Tensor]:
        """Raise unless scores and overlaps are numbers, and the objects of all pairs exist."""
        _checks.no_nan("objects.scores", self.scores)
        check_fractions("objects.iou", self.iou)
        _checks.in_range("objects.detection", self.detection, 0, len(self.scores))
        _checks.in_range("objects.ground_truth", self.ground_truth, 0, len(self.true_labels))
        if self.crowd_iou is not None:
            check_fractions("objects.crowd_iou", self.crowd_iou)
            num_crowd_pairs = int(self.is_crowd[self.ground_truth].sum())
            _checks.length("objects.crowd_iou", num_crowd_pairs, len(self.crowd_iou))
        return {"images": self.images, "true_images": self.true_images}

    @classmethod
    def from_tensors(cls, tensors: Sequence[Tensor]) -> ObjectPairs:
        """Make the object from the result of `to_tensors`."""
        columns: dict[str, Any] = dict(zip(AXES, tensors, strict=True))
        return cls(**columns)

    def by_image(self) -> ObjectPairs:
        """Return the rows by image, and pairs by ground truth; rows within an image keep their order."""
        order, place = _order_by_image(self.images)
        true_order, true_place = _order_by_image(self.true_images)
        # Pairs follow their rows, and are sorted by one key for both ends.
        detection = place.index_select(0, self.detection)
        ground_truth = true_place.index_select(0, self.ground_truth)
        pair_order = (ground_truth * max(1, len(place)) + detection).argsort()
        is_of_crowd = self.is_crowd[self.ground_truth]
        crowd_pair = is_of_crowd.cumsum(0) - 1  # row of each pair with a crowd among these pairs
        orders = {
            "detections": order,
            "ground_truths": true_order,
            "pairs": pair_order,
            "crowd_pairs": crowd_pair[pair_order][is_of_crowd[pair_order]],
        }
        columns = vars(self) | {"detection": detection, "ground_truth": ground_truth}
        return replace(self, **{name: columns[name].index_select(0, orders[axis]) for name, axis in AXES.items()})


AXES = {column.name: column.metadata["axis"] for column in fields(ObjectPairs) if column.metadata}
"""axes of the tensor fields by name, in the order of `ObjectPairs.to_tensors`"""


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
    """Find all pairs of a detection and a ground truth in an image that overlap by `LEAST_OVERLAP`, across classes.

    Args:
        detections: detections in all images; the caller limits their number.
        ground_truths: ground truths in all images.
        area_range: least and largest area, both inclusive; ground truths outside it are ignored.
        is_difficult: more ignored ground truths; None for none.
        is_outside: detections that are ignored unless they are right; None for those outside the area range.
        max_bytes: bound on the memory for pairs, except for the result with 24 bytes a pair; None for 256 MiB.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `max_bytes` below 1.
    """
    # If all objects have one label, pairs are found across classes.
    pairs = find_pairs(
        detections.as_one_class(), ground_truths.as_one_class(), at_least=LEAST_OVERLAP, max_bytes=max_bytes
    )

    # Crowds, ground truths outside the range and difficult ones are ignored.
    areas = ground_truths.range_areas()
    is_crowd = ground_truths.is_crowd
    if is_crowd is None:
        is_crowd = torch.zeros_like(areas, dtype=torch.bool)
    ranges = AreaRanges.of((area_range,), areas.device)
    is_ignored = is_crowd | ranges.exclude(areas)[0]
    if is_difficult is not None:
        is_ignored = is_ignored | is_difficult
    crowd_pairs = is_crowd[pairs.ground_truth].nonzero()[:, 0]
    crowd_iou = detections.shapes.overlaps(
        pairs.detection[crowd_pairs], ground_truths.shapes, pairs.ground_truth[crowd_pairs]
    )
    if is_outside is None:
        is_outside = ranges.exclude(detections.shapes.areas())[0]
    objects = ObjectPairs(
        scores=detections.scores,
        labels=detections.labels.long(),
        images=detections.images,
        is_outside=is_outside,
        true_labels=ground_truths.labels.long(),
        true_images=ground_truths.images,
        is_crowd=is_crowd,
        is_ignored=is_ignored,
        detection=pairs.detection,
        ground_truth=pairs.ground_truth,
        iou=pairs.iou,
        crowd_iou=crowd_iou,
    )
    return objects.by_image()


def _order_by_image(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows by image, and the new place of each row."""
    order = images.argsort(stable=True)
    return order, torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))


MATCH_PARTS["ObjectPairs"] = ObjectPairs

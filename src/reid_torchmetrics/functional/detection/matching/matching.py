"""COCO's greedy matching of detections to ground truths: all images, classes, thresholds and area ranges at once.

By its definition the detections of an image and class, by descending score, go through two phases:

    phase 1: among the free ground truths that count and overlap it enough, a detection matches the one with the largest
    overlap, of equal overlaps the last;
    phase 2: if there are none, it matches one of the ignored ground truths in the same way: crowds, which match any
    number of detections, and ground truths outside the area range.

This is repeated for each threshold and area range. For instance, with the threshold 0.5, the ground truths A and B, a
crowd C, and detections 0 to 3 by descending score:

    0 overlaps A by 0.6 and B by 0.8     phase 1: A and B are free; 0 matches B, the larger overlap: a true positive
    1 overlaps B by 0.9 and C by 0.7     phase 1: B is not free; phase 2: 1 matches the crowd C: ignored
    2 overlaps C by 0.6                  phase 1: none; phase 2: 2 matches C, too, as crowds are never full: ignored
    3 overlaps B by 0.7                  phase 1: B is not free; phase 2: none; no match: a false positive
    A is matched by no detection: a false negative

Source: `COCOeval.evaluateImg` of pycocotools; the results are equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection import inputs

from .assignment import assign
from .deferred_acceptance import merge_duplicates
from .matches import Matches, join_matches
from .pairs import DEFAULT_MAX_BYTES, overlapping_pairs

Boxes: TypeAlias = tuple[inputs.Detections, inputs.GroundTruths]
Candidates: TypeAlias = tuple[Tensor | None, Tensor | None]
"""masks, or rows, of the detections and of the ground truths to match; None for all"""

_LARGEST_THRESHOLD = 1 - 1e-10  # as in pycocotools: an overlap of 1 passes a threshold of 1 despite rounding
_BITS_OF_UINT8 = 8
_AREA_BLOCK = 1 << 16  # boxes whose areas stay in the cache of a CPU
_MANY_DETECTIONS = 1 << 20  # from this number on they are matched a few classes at a time
_DETECTIONS_AT_A_TIME = 1 << 19


@torch.no_grad()
def match_on_grid(
    detections: inputs.Detections,
    ground_truths: inputs.GroundTruths,
    grid: inputs.CocoGrid,
    *,
    classes: Int[Tensor, " classes"] | None = None,
    candidates: Candidates = (None, None),
    keep_ground_truths: bool = False,
    max_bytes: int | None = None,
) -> Matches:
    """Match the detections of all images to ground truths as COCO does.

    Args:
        detections: detections in all images.
        ground_truths: ground truths in all images.
        grid: thresholds, limits and area ranges; matching uses the largest limit, counting the others.
        classes: labels to match, boxes with other labels are left out; None for all labels.
        candidates: without `classes`, masks of the detections and ground truths to match; None for all.
        keep_ground_truths: also return the ground truth of each matched detection.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough; None for 256 MiB.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: boxes on different devices, or a `max_bytes` below 1.
    """
    _checks.cutoff("max_bytes", max_bytes)
    _checks.same_device("detections", detections.labels, "ground_truths", ground_truths.labels)
    if classes is not None:
        classes = _checks.integer_labels("classes", classes, device=detections.labels.device)
    match_rows = partial(
        _match_rows,
        (detections, ground_truths),
        grid=grid,
        keep_ground_truths=keep_ground_truths,
        max_bytes=max_bytes or DEFAULT_MAX_BYTES,
    )
    work = partial(_match, match_rows, detections.labels, ground_truths.labels, candidates, classes)
    return workers.run(work, detections.labels.device)


def _match(
    match_rows: Callable[[Candidates, Tensor], Matches],
    labels: Tensor,
    true_labels: Tensor,
    masks: Candidates,
    classes: Int[Tensor, " classes"] | None,
) -> Matches:
    """Match the boxes of some classes by `match_rows`, or all boxes in the masks if `classes` is None."""
    if classes is not None:
        classes = classes.long().unique()
        masks = (torch.isin(labels, classes), torch.isin(true_labels, classes))
    mask, true_mask = masks
    candidate_labels = labels if mask is None else labels[mask]
    if classes is None:
        classes = inputs.distinct_labels(candidate_labels, true_labels if true_mask is None else true_labels[true_mask])
    if len(labels) < _MANY_DETECTIONS or labels.device.type != "cpu":
        return match_rows((_rows_of_mask(mask), _rows_of_mask(true_mask)), classes)

    # A few classes at a time, so that only their boxes take memory. The classes are independent of each other.
    num_by_class = inputs.place_of_labels(candidate_labels, classes).bincount(minlength=len(classes))
    del candidate_labels

    def match_classes(some: slice) -> Matches:
        first, last = classes[some][0], classes[some][-1]
        rows = _rows_within(labels, mask, first, last)
        true_rows = _rows_within(true_labels, true_mask, first, last)
        return match_rows((rows, true_rows), classes[some])

    return join_matches(map(match_classes, segments.ranges_within(num_by_class, _DETECTIONS_AT_A_TIME)), classes)


def _rows_of_mask(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask.nonzero()[:, 0]


def _rows_within(labels: Tensor, mask: Tensor | None, first: Tensor, last: Tensor) -> Tensor:
    """Return the rows of a mask with labels from `first` to `last`."""
    is_within = (labels >= first).logical_and_(labels <= last)
    if mask is not None:
        is_within = is_within.logical_and_(mask)
    return is_within.nonzero()[:, 0].int()


def _match_rows(
    boxes: Boxes,
    rows: Candidates,
    classes: Int[Tensor, " classes"],
    *,
    grid: inputs.CocoGrid,
    keep_ground_truths: bool,
    max_bytes: int,
) -> Matches:
    """Match some rows of detections and of ground truths, None for all, given their classes."""
    detections, ground_truths = boxes
    largest_limit = max(grid.max_detection_thresholds)
    ranges = AreaRanges.of(tuple(grid.area_ranges.values()), classes.device)
    # Two threads of a CPU order the boxes and look up the area ranges.
    works: Sequence[Callable[[], Any]] = (
        partial(_order_rows, boxes, rows, classes, largest_limit),
        partial(_area_bits, ranges, detections.shapes, rows[0]),
    )
    (ordered, true_ordered, places), area_bits = workers.share(lambda work: work(), works)
    area_bits = area_bits.index_select(0, places)
    del places  # as large as all the pairs

    # Each area range ignores crowds, and the ground truths outside it.
    outside = ranges.exclude(ground_truths.range_areas().index_select(0, true_ordered.rows))
    ignored = true_ordered.is_crowd | outside
    num_positives = torch.zeros((len(ignored), len(classes)), dtype=torch.int64, device=classes.device)
    num_positives.index_add_(1, true_ordered.class_index, (~ignored).long())

    # Matching needs ascending thresholds: a pair that passes n thresholds passes the first n.
    order = sorted(range(len(grid.iou_thresholds)), key=grid.iou_thresholds.__getitem__)
    thresholds = [min(grid.iou_thresholds[index], _LARGEST_THRESHOLD) for index in order]
    distinct = merge_duplicates(true_ordered, ground_truths.shapes, ignored)
    pairs = overlapping_pairs(
        ordered,
        distinct.ordered,
        detections.shapes,
        distinct.shapes,
        at_least=thresholds[0],
        max_bytes=max_bytes,
    )
    assignments = assign(
        pairs,
        distinct,
        thresholds,
        num_detections=len(ordered.rows),
        keep_ground_truths=keep_ground_truths,
        max_bytes=max_bytes,
    )
    matches = Matches(
        classes=classes,
        num_positives=num_positives,
        scores=detections.scores.index_select(0, ordered.rows),
        class_index=ordered.class_index,
        images=ordered.images,
        rows=ordered.rows,
        limits=_limits(ordered, grid.max_detection_thresholds),
        area_bits=area_bits,
        **assignments._asdict(),
    )
    if order != sorted(order):  # back to the order of the grid
        index_in_order = sorted(order, key=order.__getitem__)
        matches = matches.map_columns(lambda values: values[:, index_in_order])
    if largest_limit < len(ordered.rows):  # detections beyond the largest limit were no candidates
        matches = matches.within(len(grid.max_detection_thresholds) - 1)
    return matches


def _order_rows(
    boxes: Boxes, rows: Candidates, classes: Int[Tensor, " classes"], most: int
) -> tuple[inputs.OrderedDetections, inputs.OrderedGroundTruths, Int[Tensor, " detections"]]:
    """Order some rows, and return them with the places of the detections among these rows."""
    detections, ground_truths = boxes
    detection_rows, true_rows = rows
    # The shapes stay behind, because they are read a few at a time.
    if detection_rows is not None:
        detections = detections.at(detection_rows, has_shapes=False)
    if true_rows is not None:
        ground_truths = ground_truths.at(true_rows, has_shapes=False)
    ordered, true_ordered = inputs.order_boxes(detections, ground_truths, classes, most)
    places = ordered.rows
    if detection_rows is not None:
        ordered = ordered._replace(rows=detection_rows.index_select(0, places))
    if true_rows is not None:
        true_ordered = true_ordered._replace(rows=true_rows.index_select(0, true_ordered.rows))
    return ordered, true_ordered, places


class AreaRanges(NamedTuple):
    """Ends of the area ranges, both inclusive; an area that is NaN is outside none, as in pycocotools."""

    least: Float[Tensor, "areas 1"]
    most: Float[Tensor, "areas 1"]
    weights: Integer[Tensor, "areas 1"]
    """1, 2, 4, ..., in a dtype with a bit for each range"""

    @staticmethod
    @lru_cache(maxsize=8)
    def of(ranges: tuple[inputs.AreaRange, ...], device: torch.device) -> AreaRanges:
        """Make the tensors; equal ranges share them, so they must not be written to."""
        ends = torch.tensor(ranges, dtype=torch.float64, device=device)
        dtype = torch.uint8 if len(ranges) <= _BITS_OF_UINT8 else torch.int64
        weights = (1 << torch.arange(len(ranges), device=device)).to(dtype)
        return AreaRanges(ends[:, :1], ends[:, 1:], weights[:, None])

    def exclude(self, areas: Float[Tensor, " boxes"]) -> Bool[Tensor, "areas boxes"]:
        """Return whether boxes are outside each range."""
        return (areas < self.least) | (areas > self.most)

    def bits(self, areas: Float[Tensor, " boxes"]) -> Integer[Tensor, " boxes"]:
        """Return the ranges around each area, one bit per range."""
        outside = torch.sum(self.exclude(areas) * self.weights, 0, dtype=self.weights.dtype)
        return outside.bitwise_xor_((1 << len(self.weights)) - 1)


def _area_bits(
    ranges: AreaRanges, shapes: inputs.Shapes, rows: Int[Tensor, " rows"] | None
) -> Integer[Tensor, " rows"]:
    """Return the ranges around the area of each row, one bit per range; None for all rows."""

    def bits_of_rows(some_rows: Tensor) -> Tensor:
        return ranges.bits(shapes[some_rows].areas())

    compute_bits: Callable[[Tensor], Tensor] = ranges.bits if rows is None else bits_of_rows
    values = shapes.areas() if rows is None else rows
    if values.device.type != "cpu" or len(values) <= _AREA_BLOCK:
        return compute_bits(values)
    return torch.cat(workers.share(compute_bits, values.split(_AREA_BLOCK)))


def _limits(detections: inputs.OrderedDetections, limits: Sequence[int]) -> Int[Tensor, " detections"]:
    """Return the number of limits that exclude each detection, because its rank in its group reaches them."""
    dtype = torch.int8 if len(limits) <= torch.iinfo(torch.int8).max else torch.int64
    num_reached = torch.zeros_like(detections.groups, dtype=dtype)
    for limit in limits:
        if limit < len(num_reached):
            # The rank is at least r if the detection r places before belongs to the same group.
            is_reached = detections.groups[limit:] == detections.groups[:-limit]
            num_reached[limit:].add_(is_reached.view(torch.int8))
    return torch.empty_like(num_reached).scatter_(0, detections.grouped, num_reached)

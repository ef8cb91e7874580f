"""COCO's greedy matching of detections to ground truths: all images, classes, thresholds and area ranges at once.

By its definition each detection of an image and class, by descending score, goes through two phases:

    phase 1: of the free ground truths that count and that it overlaps enough, it matches the one with the largest
    overlap, of equal overlaps the last;
    phase 2: if there are none, the same among the ignored ones: crowds, which match any number of detections, and
    ground truths outside the area range.

That is done for each threshold and area range. Source: `COCOeval.evaluateImg` of pycocotools; the results are equal bit
for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection import inputs

from .assignment import assign
from .duplicates import merge_duplicates
from .matches import Matches, join_matches
from .pairs import DEFAULT_MAX_BYTES, overlapping_pairs

Boxes: TypeAlias = tuple[inputs.Detections, inputs.GroundTruths]
Candidates: TypeAlias = tuple[Tensor | None, Tensor | None]

_LARGEST_THRESHOLD = 1 - 1e-10  # as in pycocotools: an overlap of 1 passes a threshold of 1 despite rounding
_BITS_OF_UINT8 = 8
_AREA_BLOCK = 1 << 16  # boxes whose areas stay in the cache of a CPU
_MANY_DETECTIONS, _AT_A_TIME = 1 << 20, 1 << 19  # so many are matched by classes, about so many at a time


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
        detections: of all images.
        ground_truths: of all images.
        grid: thresholds, limits and area ranges; matching uses the largest limit, counting the others.
        classes: labels to match, boxes with others are left out; None for all that occur.
        candidates: without `classes`, masks of the detections and ground truths to match; None for all.
        keep_ground_truths: give the ground truth of each matched detection, too.
        max_bytes: bound on the memory for pairs of boxes; pairs that overlap enough come in addition; None for 256 MiB.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: boxes on different devices, or a `max_bytes` below 1.
    """
    _checks.cutoff("max_bytes", max_bytes)
    _checks.same_device("detections", detections.labels, "ground_truths", ground_truths.labels)
    if classes is not None:
        classes = _checks.integer_labels("classes", classes, device=detections.labels.device)
    options = {"keep_ground_truths": keep_ground_truths, "max_bytes": max_bytes or DEFAULT_MAX_BYTES}
    work = partial(_match, (detections, ground_truths), candidates, classes, grid, options)
    return workers.run(work, detections.labels.device)


def _match(
    boxes: Boxes,
    masks: Candidates,
    classes: Int[Tensor, " classes"] | None,
    grid: inputs.CocoGrid,
    options: Mapping[str, Any],
) -> Matches:
    """Match the boxes of some classes, or without these all boxes of the masks.

    `options` are those of `assign`.
    """
    columns = boxes[0].labels, boxes[1].labels
    if classes is not None:
        classes = classes.long().unique()
        masks = (torch.isin(columns[0], classes), torch.isin(columns[1], classes))
    is_many = len(columns[0]) >= _MANY_DETECTIONS and columns[0].device.type == "cpu"
    labels = [each if mask is None else each[mask] for each, mask in zip(columns, masks, strict=True)]
    classes = inputs.distinct_labels(*labels) if classes is None else classes

    def match(some: Tensor) -> Matches:
        rows, true_rows = (_rows_within(*side, some if is_many else None) for side in zip(columns, masks, strict=True))
        return _match_rows(boxes, (rows, true_rows), some, grid, options)

    if not is_many:
        return match(classes)
    # A few classes at a time, so that memory is that of their boxes. Classes have nothing to do with each other.
    sizes = inputs.place_of_labels(labels[0], classes).bincount(minlength=len(classes))
    del labels
    portions = (classes[some] for some in segments.ranges_within(sizes, _AT_A_TIME))
    return join_matches(map(match, portions), classes)


def _rows_within(labels: Tensor, mask: Tensor | None, classes: Tensor | None) -> Tensor | None:
    """The rows of a mask with labels in a range of classes; None for all."""
    if classes is None:
        return None if mask is None else mask.nonzero()[:, 0]
    is_within = (labels >= classes[0]).logical_and_(labels <= classes[-1])
    return (is_within if mask is None else is_within.logical_and_(mask)).nonzero()[:, 0].int()


def _match_rows(
    boxes: Boxes, rows: Candidates, classes: Int[Tensor, " classes"], grid: inputs.CocoGrid, options: Mapping[str, Any]
) -> Matches:
    """Match some rows of detections and of ground truths, None for all, given their classes."""
    (detections, ground_truths), most, shapes = boxes, max(grid.max_detection_thresholds), boxes[0].shapes
    ranges = _AreaRanges.of(tuple(map(tuple, grid.area_ranges.values())), classes.device)
    works: Sequence[Callable[[], Any]] = (
        lambda: _order_rows(boxes, rows, classes, most),
        lambda: ranges.bits(shapes, rows[0]),  # meanwhile
    )
    (ordered, true_ordered, places), area_bits = workers.share(lambda work: work(), works)
    area_bits = area_bits.index_select(0, places)
    del places  # as large as all the pairs

    # Ground truths that each area range ignores: crowds, and those outside the range.
    areas = ground_truths.shapes.areas() if ground_truths.areas is None else ground_truths.areas.double()
    ignored = true_ordered.is_crowd | ranges.exclude(areas.index_select(0, true_ordered.rows))
    num_positives = classes.new_zeros((len(ignored), len(classes)))
    num_positives.index_add_(1, true_ordered.class_index, (~ignored).long())

    # Thresholds ascend in matching: the number of thresholds that a pair passes names them.
    order = sorted(range(len(grid.iou_thresholds)), key=grid.iou_thresholds.__getitem__)
    thresholds = [min(grid.iou_thresholds[slot], _LARGEST_THRESHOLD) for slot in order]
    distinct = merge_duplicates(true_ordered, ground_truths.shapes, ignored)
    sides = (ordered, distinct.ordered, shapes, distinct.shapes)
    pairs = overlapping_pairs(*sides, at_least=thresholds[0], max_bytes=options["max_bytes"])
    assignments = assign(pairs, distinct, thresholds, num_detections=len(ordered.rows), **options)

    # The matches, and what else counting needs of the detections.
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
    if order != sorted(order):
        places = sorted(order, key=order.__getitem__)
        matches = matches.map_columns(lambda values: values[:, places])
    if most < len(ordered.rows):  # detections beyond the largest limit were no candidates
        matches = matches.within(len(grid.max_detection_thresholds) - 1)
    return matches


def _order_rows(
    boxes: Boxes, rows: Candidates, classes: Int[Tensor, " classes"], most: int
) -> tuple[inputs.OrderedDetections, inputs.OrderedGroundTruths, Int[Tensor, " detections"]]:
    """Some rows in order, and the places of the detections among these rows."""
    # Without their shapes, which are read some at a time.
    sides = zip(boxes, rows, strict=True)
    parts: Any = [each if some is None else each.at(some, has_shapes=False) for each, some in sides]
    ordered, true_ordered = inputs.order_boxes(parts[0], parts[1], classes, most)
    places = ordered.rows
    if rows[0] is not None:
        ordered = ordered._replace(rows=rows[0].index_select(0, places))
    if rows[1] is not None:
        true_ordered = true_ordered._replace(rows=rows[1].index_select(0, true_ordered.rows))
    return ordered, true_ordered, places


class _AreaRanges(NamedTuple):
    """The ends of area ranges."""

    least: Float[Tensor, "areas 1"]
    most: Float[Tensor, "areas 1"]
    weights: Integer[Tensor, "areas 1"]
    """1, 2, 4, ..., in a dtype with a bit for each range"""

    @staticmethod
    @lru_cache(maxsize=8)
    def of(ranges: tuple[inputs.AreaRange, ...], device: torch.device) -> _AreaRanges:
        """Tensors of the ends; they are read only, as the same ranges give the same tensors."""
        ends = torch.tensor(ranges, dtype=torch.float64, device=device)
        dtype = torch.uint8 if len(ranges) <= _BITS_OF_UINT8 else torch.int64
        weights = (1 << torch.arange(len(ranges), device=device)).to(dtype)
        return _AreaRanges(ends[:, :1], ends[:, 1:], weights[:, None])

    def exclude(self, areas: Float[Tensor, " boxes"]) -> Bool[Tensor, "areas boxes"]:
        """Whether boxes are outside each range; an area that is NaN is outside none, as in pycocotools."""
        return (areas < self.least) | (areas > self.most)

    def bits(self, shapes: inputs.Shapes, rows: Int[Tensor, " rows"] | None) -> Integer[Tensor, " rows"]:
        """The ranges that the shape of each row, None for all, lies in, one bit each."""
        values = shapes.areas() if rows is None else rows

        def bits(some: Tensor) -> Tensor:
            areas = some if rows is None else shapes[some].areas()
            outside = torch.sum(self.exclude(areas) * self.weights, 0, dtype=self.weights.dtype)
            return outside.bitwise_xor_((1 << len(self.weights)) - 1)

        if values.device.type != "cpu" or len(values) <= _AREA_BLOCK:
            return bits(values)
        return torch.cat(workers.share(bits, values.split(_AREA_BLOCK)))


def _limits(detections: inputs.OrderedDetections, limits: Sequence[int]) -> Int[Tensor, " detections"]:
    """The number of limits that leave a detection out, as its rank in its group is at or beyond them."""
    dtype = torch.int8 if len(limits) <= torch.iinfo(torch.int8).max else torch.int64
    exceeded = torch.zeros_like(detections.groups, dtype=dtype)
    # The rank is at least r if the detection r places before is of the same group.
    for limit in (each for each in limits if each < len(exceeded)):
        exceeded[limit:].add_((detections.groups[limit:] == detections.groups[:-limit]).view(torch.int8))
    return torch.empty_like(exceeded).scatter_(0, detections.grouped, exceeded)

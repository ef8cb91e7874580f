"""Warn of input in other units than it is read in: shares of an image for pixels, corners, labels of another list.

Units are checked once, as soon as both sides have enough objects. A warning needs most objects to agree, and comes from
`compute`, so one odd batch says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain

import torch
from torch import Tensor

from reid_torchmetrics._arrays import at_work
from reid_torchmetrics.functional.box_units import LEAST_BOXES, MOST, ROUNDING, are_shares, are_within
from reid_torchmetrics.functional.detection.batches import (
    ImageNumbering,
    ShapeBatch,
    sides_of,
    warn_of_rounded_coordinates,
)
from reid_torchmetrics.functional.detection.inputs import BoxShapes, CocoGrid, Detections, GroundTruths, to_xywh
from reid_torchmetrics.functional.detection.matching import Matches, match_on_grid
from reid_torchmetrics.functional.world import Said

from .image_matches import ImageMatches
from .sharded_images import ShardedImages

_LEAST_IMAGES = 10  # without lists of classes: those of a few images may be empty
_MOST_BATCHES, _MOST_ROWS = 32, 1 << 12  # that are looked at, and of each
_PIXELS = 2  # sides of boxes in pixels are longer, in most boxes
_FEW_SMALL = 0.01  # boxes with a size below the position, where sizes are corners: boxes of negative size
_LEAST_CORNERS, _CLOSE = 20, 0.8  # different boxes, and ratios of two corners that are close to each other
_MOST_IMAGES, _MOST_FOUND = 256, 300  # that labels are compared in, and detections of each
_FEW, _FEW_RIGHT, _SAME = 0.3, 0.1, 0.8  # recall, shares of pairs with equal labels, and of pairs with the usual ones
_MOST_SHOWN = 3  # labels in a text
_LEAST_SHARE = 1e-9  # an area that is less stands for 0

_TEXTS = {
    "mixed": "Most of {0} checked boxes of `{1}` lie within [0, 1], boxes of `{2}` do not: the first seem to be shares"
    " of the image, the others pixels. Multiply the shares by the image's width and height.",
    "sizes": "Most of {0} checked boxes lie within [0, 1], but area ranges are in square pixels, so `map_small`"
    ' says nothing. Give boxes in pixels, or `area_ranges={{"all": (0, 1e10)}}` for the numbers without sizes.',
    "area": "Every `area` of {0} checked is below 1 though boxes are in pixels: it seems to be a share of"
    " the image. Give it in square pixels, or leave it out.",
    "keypoints": "Most labeled keypoints of ground truths, {0} of {1}, lie within [0, 1] and outside of the box of the"
    " object: they seem to be shares of the image. Multiply them by its width and height.",
    "rotated": "Most angles of `rotated_boxes`, {0} of {1}, are beyond 2 pi: they seem to be degrees. Give radians, for"
    " instance by `torch.deg2rad`.",
    "segm": "The masks of {0} of {1} images have several values and no 0, but all that is not 0 belongs to a mask. Give"
    " bool masks, such as `masks > 0.5` of soft ones.",
    "corners": "Almost no width is below its x, and no height below its y, in {0} checked boxes of {1}: they seem to be"
    ' two corners that are read as sizes. Give `box_format="xyxy"`; files of COCO must hold x, y, width and height.',
    "labels": "Only {0} of {1} ground truths that are found have the label of their detection; most frequent are {2}."
    " Give `labels` by the same list on both sides; one may begin at 0, and the other at 1.",
    "lists": "None of {0} images has `neg_category_ids` or `not_exhaustive_category_ids`: detections of classes without"
    " ground truths in their image do not count. Give the lists in `target`; `DetectionMAP` is for images that are"
    " annotated in full.",
    "groups": "No ground truth has a label of {0}: these are of the labels {1}, and ground truths have {2}. Give both"
    " by the same list.",
}


class Units:
    """Counts of odd input; members of a collection share them."""

    def __init__(self, reported: Collection[str] | None = None) -> None:
        self._reported = reported
        self.reset()

    def reset(self) -> None:
        """Forget all input."""
        self._noted: dict[str, list[Tensor]] = {}
        self._num_noted = 0
        self._is_sure = False

    def note(self, batch: ShapeBatch, states: Mapping[str, Tensor]) -> None:
        """Count what is odd about the shapes of a batch, without waiting for the device; `states` are of its boxes."""
        if self._is_sure or self._num_noted == _MOST_BATCHES or not states:
            return
        self._num_noted += 1
        boxes = to_xywh(states["ground_truth_boxes"], batch.box_format)
        for name in batch.types.keys() & _COUNTS.keys():  # nothing is known of the units of other shapes
            kind = batch.types[name]
            sides = [[item[kind.key] for item in items] for items in (batch.preds, batch.target)]
            shapes = ([each for each in side if isinstance(each, Tensor) and each.numel()] for side in sides)
            detections, ground_truths = shapes
            self._noted.setdefault(name, []).append(_COUNTS[name](detections, ground_truths, boxes))

    def look(self, matches: ImageMatches, sharded: ShardedImages, *, reported: str | None) -> None:
        """Warn of units and labels that can hardly be meant.

        Args:
            matches: of the images of all processes.
            sharded: the images of this process.
            reported: the name of the number that is asked for; None for all of them.
        """
        states, said, request = sharded.states, sharded.world.said, matches.request
        if matches.num_without_lists >= _LEAST_IMAGES:
            _warn(said, "lists", matches.num_without_lists)
        if values := _groups_without_ground_truths(matches.matches, request.grid.class_groups):
            _warn(said, "groups", *values)
        if not request.micro and matches.once(_are_few_right):
            images = sharded.images()
            _warn_of_labels(said, *ImageNumbering.alone(images).number(images, 0).boxes(request.iou_type))
        if self._is_sure or not states["detection_counts"]:
            return
        # A look at some boxes of the whole run is enough, and costs the same at any size.
        sides = [_some(states[f"{side}_boxes"]) for side in ("detection", "ground_truth")]
        if min(map(len, sides)) < LEAST_BOXES:
            return
        self._is_sure = True
        counts = {name: torch.stack([*map(Tensor.cpu, batches)]).sum(0) for name, batches in self._noted.items()}
        for name, odd, num in ((name, *pair) for name, pairs in counts.items() for pair in pairs.tolist()):
            if num >= LEAST_BOXES and 2 * odd > num:
                _warn(said, name, odd, num)
        # Whether a number of an area range is asked for.
        sizes, names = [*request.grid.area_ranges][1:], self._reported or ([reported] if reported else None)
        has_sizes = bool(sizes) if names is None else any(f"_{size}" in name for name in names for size in sizes)
        area = float(_some(states["ground_truth_areas"]).amax())
        _warn_of_boxes(said, sides, area, sharded.box_format, has_sizes=has_sizes)
        if request.iou_type == "bbox":
            _warn_of_corners(said, sides, sharded.box_format)


def look_at_objects(
    detections: Detections,
    ground_truths: GroundTruths,
    matches: Matches,
    grid: CocoGrid,
    labels: Sequence[object] | None = None,
) -> None:
    """Warn of units and labels of packed objects that can hardly be meant.

    Boxes are x, y, width and height; `labels` are what users call the labels, by number; None for the same.
    """
    said = Said()
    if _are_few_right(matches):
        _warn_of_labels(said, detections, ground_truths, labels)
    shapes = detections.shapes, ground_truths.shapes
    sides = [_some([each.boxes]) for each in shapes if isinstance(each, BoxShapes)]
    if isinstance(detections.shapes, BoxShapes) and isinstance(ground_truths.shapes, BoxShapes):
        warn_of_rounded_coordinates(said, "boxes", detections.shapes.boxes, ground_truths.shapes.boxes)
    if len(sides) == len(shapes) and min(map(len, sides)) >= LEAST_BOXES:
        area, has_sizes = ground_truths.areas, len(grid.area_ranges) > 1
        _warn_of_boxes(said, sides, 0.0 if area is None else float(area.amax()), "xywh", has_sizes=has_sizes)
        _warn_of_corners(said, sides, "xywh")


def _warn(said: Said, name: str, *values: object) -> None:
    said.tell(name, _TEXTS[name].format(*values))


def _some(blocks: Sequence[Tensor]) -> Tensor:
    """Rows of batches from the whole run, where float64 can be computed."""
    chosen = [block[:_MOST_ROWS] for block in blocks[:: -(-len(blocks) // _MOST_BATCHES)]]
    return at_work(chosen[0] if len(chosen) == 1 else torch.cat([each.to(chosen[0].device) for each in chosen]))


def _warn_of_boxes(said: Said, sides: Sequence[Tensor], area: float, box_format: str, *, has_sizes: bool) -> None:
    """Warn if boxes of detections or ground truths, or the largest given area, seem to be shares of the image."""
    # As a rule boxes go beyond 1, and this is all that is looked at.
    within = [*map(are_within, sides)]
    if not (any(within) or _LEAST_SHARE < area < 1):  # as a rule
        return
    units = [_unit_of(*each, box_format) for each in zip(sides, within, strict=True)]
    if {*units} == {"shares", "pixels"}:
        place = units.index("shares")
        names = ("preds", "target") if place == 0 else ("target", "preds")
        _warn(said, "mixed", len(sides[place]), *names)
    elif units == ["shares"] * 2 and area <= 1 and has_sizes:
        _warn(said, "sizes", sum(map(len, sides)))
    elif units[1] == "pixels" and _LEAST_SHARE < area < 1:
        _warn(said, "area", len(sides[1]))


def _warn_of_corners(said: Said, sides: Sequence[Tensor], box_format: str) -> None:
    if box_format == "xyxy":
        return
    names = [f"`{name}`" for name, boxes in zip(("preds", "target"), sides, strict=True) if _are_corners(boxes)]
    if names:
        _warn(said, "corners", min(map(len, sides)), " and ".join(names))


def _are_corners(boxes: Tensor) -> bool:
    """Whether sizes of boxes are almost never below their positions, are often close to them, and grow with them."""
    if float((boxes[:, 2:] < boxes[:, :2]).any(1).double().mean()) > _FEW_SMALL:  # as a rule
        return False
    boxes = boxes.double().unique(dim=0)
    starts, ends = boxes[:, :2], boxes[:, 2:]
    if len(boxes) < _LEAST_CORNERS or not bool(((starts > _CLOSE * ends).double().mean(0) >= 1 - _CLOSE).all()):
        return False
    # Objects of about one size can end there, too, but do not grow to the right.
    spread = torch.stack([starts, ends]) - torch.stack([starts, ends]).mean(1, keepdim=True)
    shared = spread.prod(0).sum(0)
    return bool((shared > 0.5 * spread.square().sum(1).prod(0).sqrt()).all())


def _unit_of(boxes: Tensor, is_within: bool, box_format: str) -> str | None:
    """The unit of boxes if it is sure: boxes of one size or of whole numbers are not taken for shares."""
    sides = sides_of(boxes, box_format)
    if is_within:
        return "shares" if are_shares(boxes, sides) else None
    return "pixels" if float((sides > _PIXELS).all(1).double().mean()) >= MOST else None


def _groups_without_ground_truths(matches: Matches, groups: Mapping[str, Sequence[int]]) -> tuple[str, str, str] | None:
    """Names, labels, and labels of ground truths, if these are many and none of them is in a group of classes."""
    num, labels = matches.num_positives[0], [*chain(*groups.values())]
    if not labels or int(num.sum()) < LEAST_BOXES:
        return None
    true = matches.classes[num > 0].tolist()
    if not {*labels}.isdisjoint(true):
        return None
    names = ", ".join(f"`map_{name}`" for name, of_group in groups.items() if of_group)
    of_groups, of_true = (", ".join(map(str, each[:_MOST_SHOWN])) for each in (sorted(labels), true))
    return names, of_groups, of_true


def _are_few_right(matches: Matches) -> bool:
    """Whether few ground truths are found, in all and in the mean of the classes."""
    num = matches.num_positives[0]
    if int(num.sum()) < LEAST_BOXES:
        return False
    right = matches.class_index[matches.columns[matches.true_positive[0, 0]]].bincount(minlength=len(matches.classes))
    shares = (right.double() / num)[num > 0]
    return bool((right.sum() < _FEW * num.sum()) & (shares.mean() < _FEW))


def _warn_of_labels(
    said: Said, detections: Detections, ground_truths: GroundTruths, labels: Sequence[object] | None = None
) -> None:
    """Warn if most ground truths are found without labels, few of them with, and the pairs of labels seem to be a list.

    Labels 0, 1, 2 for 1, 2, 3 are found as 0 for 1, 1 for 2, 2 for 3: each label has one of its own. A classifier that
    learned nothing has other pairs, or a single label on one side.
    """
    # Some images are enough, and cost the same at any size.
    images = ground_truths.images.unique()
    chosen = images[:: -(-len(images) // _MOST_IMAGES) or 1]
    detections = detections.at(torch.isin(detections.images, chosen).nonzero()[:, 0])
    ground_truths = ground_truths.at(torch.isin(ground_truths.images, chosen).nonzero()[:, 0])
    grid = CocoGrid((0.5,), max_detection_thresholds=(_MOST_FOUND,), area_ranges={"all": (-math.inf, math.inf)})
    matches = match_on_grid(detections.of_one_class(), ground_truths.of_one_class(), grid, keep_ground_truths=True)
    is_found = matches.true_positive[0, 0]
    assert matches.ground_truths is not None  # noqa: S101 - they were asked for
    rows = matches.rows[matches.columns[is_found]], matches.ground_truths[0, 0][is_found]
    pairs = torch.stack([each.labels[row].long() for each, row in zip((detections, ground_truths), rows, strict=True)])
    num, num_right = len(rows[0]), int((pairs[0] == pairs[1]).sum())
    if num < LEAST_BOXES or 2 * num <= int(matches.num_positives.sum()) or num_right >= _FEW_RIGHT * num:
        return
    is_other = not bool(torch.isin(detections.labels, ground_truths.labels).any())
    if not (is_other or _is_list(pairs)):
        return
    kinds, counts = pairs.unique(dim=1, return_counts=True)
    best = kinds[:, counts.argsort(descending=True, stable=True)[:2]].T.tolist()
    named = best if labels is None else [[labels[place] for place in pair] for pair in best]
    _warn(said, "labels", num_right, num, ", ".join(f"{found} for {true}" for found, true in named))


def _is_list(pairs: Tensor) -> bool:
    """Whether each label goes with one on the other side, in most pairs after its first."""
    kinds, counts = pairs.unique(dim=1, return_counts=True)
    for labels in kinds:
        place = labels.unique(return_inverse=True)[1]
        usual = counts.new_zeros(int(place.amax()) + 1).scatter_reduce(0, place, counts, "amax")
        repeated = int(counts.sum()) - len(usual)
        if repeated < LEAST_BOXES or int((usual - 1).sum()) < _SAME * repeated:
            return False
    return True


def _outside(detections: Sequence[Tensor], ground_truths: Sequence[Tensor], boxes: Tensor) -> Tensor:  # noqa: ARG001
    """Number of labeled keypoints that are shares and lie outside of their box, and of all labeled ones, [1, 2]."""
    if not ground_truths:
        return boxes.new_zeros((1, 2), dtype=torch.int64)
    # A keypoint in pixels lies in its box, give or take; a share of the image does only by chance.
    points = torch.cat([*ground_truths]).to(boxes.device)
    places, is_labeled = points[:, :, :2], points[:, :, 2] > 0
    low, high = boxes[:, None, :2] - ROUNDING, (boxes[:, None, :2] + boxes[:, None, 2:]) + ROUNDING
    is_share = ((places - 0.5).abs() <= 0.5 + ROUNDING).all(2) & ((places < low) | (places > high)).any(2)
    return torch.stack([(is_share & is_labeled).sum(), is_labeled.sum()])[None]


def _turned(detections: Sequence[Tensor], ground_truths: Sequence[Tensor], boxes: Tensor) -> Tensor:
    """Number of angles beyond 2 pi, and of angles other than 0, of each side, [2, 2]; four corners have none."""
    turned = ([each[:, 4] for each in side if each.shape[1] == 5] for side in (detections, ground_truths))
    angles = [torch.cat([boxes.new_zeros(0), *(each.to(boxes.device) for each in side)]) for side in turned]
    return torch.stack([torch.stack([(each.abs() > 2 * math.pi).sum(), (each != 0).sum()]) for each in angles])


def _soft(detections: Sequence[Tensor], ground_truths: Sequence[Tensor], boxes: Tensor) -> Tensor:
    """Number of images with masks of several values but no 0, and of all images with numeric masks, [1, 2]."""
    ends = [each.aminmax() for each in (*detections, *ground_truths) if each.dtype != torch.bool]
    odd = [((low != 0) & (low < high)).to(boxes.device) for low, high in ends]
    num_odd = torch.stack([boxes.new_zeros((), dtype=torch.bool), *odd]).sum()
    return torch.stack([num_odd, torch.full_like(num_odd, len(odd))])[None]


_COUNTS: dict[str, Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], Tensor]] = {
    "keypoints": _outside,
    "rotated": _turned,
    "segm": _soft,
}
"""given shapes of detections and of ground truths, and boxes of ground truths: numbers of odd shapes and of all"""

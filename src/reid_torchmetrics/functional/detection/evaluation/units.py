"""Warn of input in other units than it is read in: shares of an image for pixels, degrees, labels of another list.

Units are checked once, as soon as both sides have enough objects. A warning needs most objects to agree, and comes from
`compute`, so one odd batch says nothing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.batches import ImageNumbering, Images, ShapeBatch, sides_of
from reid_torchmetrics.functional.detection.inputs import to_xywh

from .image_matches import ImageMatches, MatchRequest

_LEAST_OBJECTS = 10  # on each side: fewer say nothing
_MOST_BATCHES, _MOST_ROWS = 32, 1 << 12  # that are looked at, and of each
_ROUNDING = 0.01  # that shares may be beyond an image
_PIXELS, _MOST = 2, 0.9  # sides of boxes in pixels are longer, in most boxes
_LEAST_SHARE = 1e-9  # an area that is less stands for 0

_TEXTS = {
    "mixed": "All {0} checked boxes of `{1}` lie within [0, 1], boxes of `{2}` do not: the first seem to be shares of"
    " the image, the others pixels. Multiply the shares by the image's width and height.",
    "sizes": "All {0} checked boxes lie within [0, 1], but area ranges are in square pixels, so `map_small`"
    ' says nothing. Give boxes in pixels, or `area_ranges={{"all": (0, 1e10)}}` for the numbers without sizes.',
    "area": "Every `area` of {0} checked is below 1 though boxes are in pixels: it seems to be a share of"
    " the image. Give it in square pixels, or leave it out.",
    "keypoints": "Most labeled keypoints of ground truths, {0} of {1}, lie within [0, 1] and outside of the box of the"
    " object: they seem to be shares of the image. Multiply them by its width and height.",
    "rotated": "Most angles of `rotated_boxes`, {0} of {1}, are beyond 2 pi: they seem to be degrees. Give radians, for"
    " instance by `torch.deg2rad`.",
    "segm": "The masks of {0} of {1} images have several values and no 0, but all that is not 0 belongs to a mask. Give"
    " bool masks, such as `masks > 0.5` of soft ones.",
    "labels": "No detection has a label of the ground truths ({0} for {1}), though boxes of other labels find {2} of"
    " {3} ground truths. Give `labels` by the same list on both sides; one may begin at 0, and the other at 1.",
}


class Units:
    """Counts of odd input; members of a collection share them."""

    def __init__(self, reported: Collection[str] | None = None) -> None:
        self._reported = reported
        self._noted: dict[str, list[Tensor]] = {}
        self._num_noted = 0
        self._is_sure = self._has_told_labels = False

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

    def look(
        self,
        matches: ImageMatches,
        states: Mapping[str, Sequence[Tensor]],
        images: Callable[[], Images],
        *,
        reported: str | None,
    ) -> None:
        """Warn of units and labels that can hardly be meant.

        Args:
            matches: of the images of all processes.
            states: of the metric on this process.
            images: joins the images of the states, which is seldom asked for.
            reported: the name of the number that is asked for; None for all of them.
        """
        if not self._has_told_labels and matches.once(_has_other_labels):
            self._has_told_labels = _warn_of_labels(matches, images())
        if self._is_sure or not states["detection_counts"]:
            return
        # A look at some boxes of the whole run is enough, and costs the same at any size.
        sides = [_some(states[f"{side}_boxes"]) for side in ("detection", "ground_truth")]
        if min(map(len, sides)) < _LEAST_OBJECTS:
            return
        self._is_sure = True
        for name, batches in self._noted.items():
            for odd, num in torch.stack([each.cpu() for each in batches]).sum(0).tolist():
                if num >= _LEAST_OBJECTS and 2 * odd > num:
                    _warn(name, odd, num)
        names = self._reported if reported is None or self._reported else [reported]
        area = float(_some(states["ground_truth_areas"]).amax())
        _warn_of_boxes(sides, area, matches.request.box_format, has_sizes=_has_sizes(matches.request, names))


def _warn(name: str, *values: object) -> None:
    warnings.warn(_TEXTS[name].format(*values), stacklevel=2)


def _some(blocks: Sequence[Tensor]) -> Tensor:
    """Rows of batches from the whole run."""
    chosen = [block[:_MOST_ROWS] for block in blocks[:: -(-len(blocks) // _MOST_BATCHES)]]
    return chosen[0] if len(chosen) == 1 else torch.cat([each.to(chosen[0].device) for each in chosen])


def _warn_of_boxes(sides: Sequence[Tensor], area: float, box_format: str, *, has_sizes: bool) -> None:
    """Warn if boxes of detections or ground truths, or the largest given area, seem to be shares of the image."""
    # As a rule boxes go beyond 1, and this is all that is looked at.
    within = [*map(_are_within, sides)]
    if not (any(within) or _LEAST_SHARE < area < 1):  # as a rule
        return
    units = [_unit_of(*each, box_format) for each in zip(sides, within, strict=True)]
    if {*units} == {"shares", "pixels"}:
        place = units.index("shares")
        names = ("preds", "target") if place == 0 else ("target", "preds")
        _warn("mixed", len(sides[place]), *names)
    elif units == ["shares"] * 2 and area <= 1 and has_sizes:
        _warn("sizes", sum(map(len, sides)))
    elif units[1] == "pixels" and _LEAST_SHARE < area < 1:
        _warn("area", len(sides[1]))


def _are_within(boxes: Tensor) -> bool:
    """Whether all numbers are from 0 to 1."""
    low, high = torch.stack(boxes.aminmax()).tolist()
    return bool(low >= -_ROUNDING and high <= 1 + _ROUNDING)


def _unit_of(boxes: Tensor, is_within: bool, box_format: str) -> str | None:
    """The unit of boxes if it is sure: boxes of one size or of whole numbers are not taken for shares."""
    sides = sides_of(boxes, box_format)
    if is_within:
        return "shares" if bool((sides != sides[0]).any() & (boxes != boxes.floor()).any()) else None
    return "pixels" if float((sides > _PIXELS).all(1).double().mean()) >= _MOST else None


def _has_sizes(request: MatchRequest, reported: Collection[str] | None) -> bool:
    """Whether a number of an area range is asked for."""
    names = [*request.grid.area_ranges][1:]
    return bool(names) if reported is None else any(f"_{each}" in text for text in reported for each in names)


def _has_other_labels(images: ImageMatches) -> bool:
    """Whether no detection has a label of the ground truths, and there are enough of both."""
    matches = images.matches[0]
    if images.request.micro[0] or len(matches.scores) < _LEAST_OBJECTS or bool(matches.true_positive[0, 0].any()):
        return False
    counts = matches.num_positives[0]
    return not bool((counts > 0)[matches.class_index.long()].any()) and int(counts.sum()) >= _LEAST_OBJECTS


def _warn_of_labels(all_images: ImageMatches, images: Images) -> bool:
    """Warn if without labels most ground truths of this process are found."""
    request = replace(all_images.request, micro=(True,), with_overlaps=False, with_origins=False, across_classes=False)
    matches = request.run(ImageNumbering.alone(images).number(images, 0)).matches[0]
    num_right, num = int(matches.true_positive[0, 0].sum()), int(matches.num_positives[0].sum())
    if 2 * num_right > num:
        sides = images.detection_labels, images.ground_truth_labels
        _warn("labels", *(", ".join(map(str, each.unique()[:3].tolist())) for each in sides), num_right, num)
    return 2 * num_right > num


def _outside(detections: Sequence[Tensor], ground_truths: Sequence[Tensor], boxes: Tensor) -> Tensor:  # noqa: ARG001
    """Number of labeled keypoints that are shares and lie outside of their box, and of all labeled ones, [1, 2]."""
    if not ground_truths:
        return boxes.new_zeros((1, 2), dtype=torch.int64)
    # A keypoint in pixels lies in its box, give or take; a share of the image does only by chance.
    points = torch.cat([*ground_truths]).to(boxes.device)
    places, is_labeled = points[:, :, :2], points[:, :, 2] > 0
    low, high = boxes[:, None, :2] - _ROUNDING, (boxes[:, None, :2] + boxes[:, None, 2:]) + _ROUNDING
    is_share = ((places - 0.5).abs() <= 0.5 + _ROUNDING).all(2) & ((places < low) | (places > high)).any(2)
    return torch.stack([(is_share & is_labeled).sum(), is_labeled.sum()])[None]


def _turned(detections: Sequence[Tensor], ground_truths: Sequence[Tensor], boxes: Tensor) -> Tensor:
    """Number of angles beyond 2 pi, and of angles other than 0, of each side, [2, 2]."""
    sides = detections, ground_truths
    angles = [torch.cat([boxes.new_zeros(0), *(each[:, 4].to(boxes.device) for each in side)]) for side in sides]
    return torch.stack([torch.stack([(each.abs() > 2 * math.pi).sum(), (each != 0).sum()]) for each in angles])


def _soft(detections: Sequence[Tensor], ground_truths: Sequence[Tensor], boxes: Tensor) -> Tensor:
    """Number of images with masks of several values but no 0, and of all images with numeric masks, [1, 2]."""
    ends = [
        torch.stack(each.aminmax()).to(boxes.device)
        for each in (*detections, *ground_truths)
        if each.dtype != torch.bool
    ]
    odd = [(low != 0) & (low < high) for low, high in ends]
    num_odd = torch.stack(odd).sum() if odd else boxes.new_zeros(()).long()
    return torch.stack([num_odd, torch.full_like(num_odd, len(odd))])[None]


_COUNTS: dict[str, Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], Tensor]] = {
    "keypoints": _outside,
    "rotated": _turned,
    "segm": _soft,
}
"""given shapes of detections and of ground truths, and boxes of ground truths: numbers of odd shapes and of all"""

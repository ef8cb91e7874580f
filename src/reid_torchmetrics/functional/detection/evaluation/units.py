"""Notice input in other units than it is read in: shares of an image for pixels, degrees, labels of another list.

Nothing is looked at twice: once both sides have had enough objects, a metric asks no more about units. It warns only
where most objects agree, and `compute` does, so that one odd batch says nothing.
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

from .local_matches import Matched, MatchRequest

_LEAST_OBJECTS = 10  # on each side: fewer say nothing
_MOST_BATCHES, _MOST_ROWS = 32, 1 << 12  # that are looked at, and of each
_ROUNDING = 0.01  # that shares may be beyond an image
_PIXELS, _MOST = 2, 0.9  # sides of boxes in pixels are longer, in most boxes
_LEAST_SHARE = 1e-9  # an area that is less stands for 0

_TEXTS = {
    "mixed": "All {0} boxes of `{1}` that were looked at lie within [0, 1], those of `{2}` do not: some seem to be"
    " shares of the image, the others pixels. Multiply the shares by the image's width and height.",
    "sizes": "All {0} boxes that were looked at lie within [0, 1], but area ranges are in square pixels, so `map_small`"
    ' says nothing. Give boxes in pixels, or `area_ranges={{"all": (0, 1e10)}}` for the numbers without sizes.',
    "area": "Every `area`, of {0} that were looked at, is below 1 though boxes are in pixels: it seems to be a share of"
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
    """What a metric has noted of its input; members of a collection share it."""

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
        for name, kind in batch.types.items():
            sides = [[item[kind.key] for item in items] for items in (batch.preds, batch.target)]
            found, true = ([each for each in side if isinstance(each, Tensor) and each.numel()] for side in sides)
            self._noted.setdefault(name, []).append(_COUNTS[name](found, true, boxes))

    def look(
        self,
        matched: Matched,
        states: Mapping[str, Sequence[Tensor]],
        images: Callable[[], Images],
        *,
        reported: str | None,
    ) -> None:
        """Warn of what can hardly be meant.

        Args:
            matched: the matches of all images.
            states: of the metric on this process.
            images: joins the images of the states, which is seldom asked for.
            reported: the name of the number that is asked for; None for all of them.
        """
        if not self._has_told_labels and matched.once(_has_other_labels):
            self._has_told_labels = _warn_of_labels(matched, images())
        if self._is_sure or not states["detection_counts"]:
            return
        found, true = (_some(states[f"{side}_boxes"]) for side in ("detection", "ground_truth"))
        if min(len(found), len(true)) < _LEAST_OBJECTS:
            return
        self._is_sure = True
        for name, batches in self._noted.items():
            for odd, num in torch.stack([each.cpu() for each in batches]).sum(0).tolist():
                if num >= _LEAST_OBJECTS and 2 * odd > num:
                    _warn(name, odd, num)
        names = self._reported if reported is None or self._reported else [reported]
        area = float(_some(states["ground_truth_areas"]).amax())
        _warn_of_boxes(found, true, area, matched.request.box_format, has_sizes=_has_sizes(matched.request, names))


def _warn(name: str, *values: object) -> None:
    warnings.warn(_TEXTS[name].format(*values), stacklevel=2)


def _some(blocks: Sequence[Tensor]) -> Tensor:
    """Rows of batches that are spread over all of them."""
    chosen = [block[:_MOST_ROWS] for block in blocks[:: -(-len(blocks) // _MOST_BATCHES)]]
    return chosen[0] if len(chosen) == 1 else torch.cat([each.to(chosen[0].device) for each in chosen])


def _warn_of_boxes(found: Tensor, true: Tensor, area: float, box_format: str, *, has_sizes: bool) -> None:
    """Warn of boxes, or of the largest area that ground truths were given, that seem to be shares of the image."""
    within = _are_within(found), _are_within(true)
    if not (any(within) or _LEAST_SHARE < area < 1):  # as a rule
        return
    units = [_unit_of(*each, box_format) for each in zip((found, true), within, strict=True)]
    if {*units} == {"shares", "pixels"}:
        sides = ("preds", "target") if units[0] == "shares" else ("target", "preds")
        _warn("mixed", len(found if units[0] == "shares" else true), *sides)
    elif units == ["shares"] * 2 and area <= 1 and has_sizes:
        _warn("sizes", len(found) + len(true))
    elif units[1] == "pixels" and _LEAST_SHARE < area < 1:
        _warn("area", len(true))


def _are_within(boxes: Tensor) -> bool:
    """Whether all numbers are from 0 to 1."""
    low, high = torch.stack(boxes.aminmax()).tolist()
    return bool(low >= -_ROUNDING and high <= 1 + _ROUNDING)


def _unit_of(boxes: Tensor, is_within: bool, box_format: str) -> str | None:
    """What boxes are surely given in, if anything: neither those of one size nor those of whole numbers are shares."""
    sides = sides_of(boxes, box_format)
    if is_within:
        return "shares" if bool((sides != sides[0]).any() & (boxes != boxes.floor()).any()) else None
    return "pixels" if float((sides > _PIXELS).all(1).double().mean()) >= _MOST else None


def _has_sizes(request: MatchRequest, reported: Collection[str] | None) -> bool:
    """Whether a number of an area range is asked for."""
    names = [*request.grid.area_ranges][1:]
    return bool(names) if reported is None else any(f"_{each}" in text for text in reported for each in names)


def _has_other_labels(matched: Matched) -> bool:
    """Whether no detection has a label of the ground truths, and there are enough of both."""
    matches = matched.found.matches[0]
    if matched.request.micro[0] or len(matches.scores) < _LEAST_OBJECTS or bool(matches.true_positive[0, 0].any()):
        return False
    counts = matches.num_positives[0]
    return not bool((counts > 0)[matches.class_index.long()].any()) and int(counts.sum()) >= _LEAST_OBJECTS


def _warn_of_labels(matched: Matched, held: Images) -> bool:
    """Warn if without labels most ground truths of this process are found."""
    request = replace(matched.request, micro=(True,), with_overlaps=False, with_origins=False, across_classes=False)
    matches = request.run(ImageNumbering.alone(held).number(held, 0)).matches[0]
    num_right, num = int(matches.true_positive[0, 0].sum()), int(matches.num_positives[0].sum())
    if 2 * num_right > num:
        sides = held.detection_labels, held.ground_truth_labels
        _warn("labels", *(", ".join(map(str, each.unique()[:3].tolist())) for each in sides), num_right, num)
    return 2 * num_right > num


def _outside(found: Sequence[Tensor], true: Sequence[Tensor], boxes: Tensor) -> Tensor:  # noqa: ARG001
    """Labeled keypoints of ground truths that are shares, for they lie outside of the boxes, and all, [1, 2]."""
    if not true:
        return boxes.new_zeros((1, 2), dtype=torch.int64)
    points = torch.cat([*true]).to(boxes.device)
    places, is_labeled = points[:, :, :2], points[:, :, 2] > 0
    low, high = boxes[:, None, :2] - _ROUNDING, (boxes[:, None, :2] + boxes[:, None, 2:]) + _ROUNDING
    is_share = ((places - 0.5).abs() <= 0.5 + _ROUNDING).all(2) & ((places < low) | (places > high)).any(2)
    return torch.stack([(is_share & is_labeled).sum(), is_labeled.sum()])[None]


def _turned(found: Sequence[Tensor], true: Sequence[Tensor], boxes: Tensor) -> Tensor:
    """Angles of either side beyond 2 pi, and those that are not 0, [2, 2]."""
    angles = [
        torch.cat([boxes.new_zeros(0), *(each[:, 4].to(boxes.device) for each in side)]) for side in (found, true)
    ]
    return torch.stack([torch.stack([(each.abs() > 2 * math.pi).sum(), (each != 0).sum()]) for each in angles])


def _soft(found: Sequence[Tensor], true: Sequence[Tensor], boxes: Tensor) -> Tensor:
    """Images whose masks have several values but no 0, of those whose masks are numbers, [1, 2]."""
    ends = [torch.stack(each.aminmax()).to(boxes.device) for each in (*found, *true) if each.dtype != torch.bool]
    odd = [(low != 0) & (low < high) for low, high in ends]
    num_odd = torch.stack(odd).sum() if odd else boxes.new_zeros(()).long()
    return torch.stack([num_odd, torch.full_like(num_odd, len(odd))])[None]


_COUNTS: dict[str, Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], Tensor]] = {
    "keypoints": _outside,
    "rotated": _turned,
    "segm": _soft,
}
"""of the shapes of detections, those of ground truths and the boxes of these: how many are odd, and of how many"""

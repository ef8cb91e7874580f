"""Trials on shapes as they were given: `update` turns shapes into overlaps, and drops them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES, ROUNDING
from reid_torchmetrics.functional.detection.inputs import to_xywh

from .case import DetectionCase

_NUM_ANGLED = 5  # numbers of a rotated box; four corners have no angle


def keypoints_in_shares(case: DetectionCase) -> Values | None:
    """Return values if most labeled keypoints of ground truths lie within [0, 1], and outside of their box."""
    num_odd = num = 0
    for _, target in case.shown:
        if not _is_filled(target.get("keypoints")):
            continue
        # A keypoint in pixels lies in its box, except for rounding. A fraction of the size does so only by chance.
        points = target["keypoints"]
        places = points[:, :, :2]
        is_labeled = points[:, :, 2] > 0
        boxes = to_xywh(target["boxes"], case.box_format)
        low = boxes[:, None, :2] - ROUNDING
        high = (boxes[:, None, :2] + boxes[:, None, 2:]) + ROUNDING
        is_within = ((places - 0.5).abs() <= 0.5 + ROUNDING).all(2)
        is_outside = ((places < low) | (places > high)).any(2)
        num_odd += int((is_within & is_outside & is_labeled).sum())
        num += int(is_labeled.sum())
    return _if_most(num_odd, num)


def angles_in_degrees(case: DetectionCase) -> Values | None:
    """Return values if most angles of one side are beyond 2 pi."""
    for side in (0, 1):
        boxes = [shape for shape in _shapes(case, side, "rotated_boxes") if shape.shape[1] == _NUM_ANGLED]
        angles = torch.cat([torch.zeros(0, device="cpu"), *(shape[:, 4] for shape in boxes)])
        values = _if_most(int((angles.abs() > 2 * math.pi).sum()), int((angles != 0).sum()))
        if values is not None:
            return values
    return None


def soft_masks(case: DetectionCase) -> Values | None:
    """Return values if the masks of most images have several values, and no 0."""
    num_odd = num = 0
    for items in case.shown:
        for item in items:
            extremes = item["masks"].extremes if "masks" in item else None
            if extremes is not None:
                low, high = extremes.tolist()
                num += 1
                num_odd += low != 0 and low < high
    return _if_most(num_odd, num)


def _shapes(case: DetectionCase, side: int, key: str) -> list[Tensor]:
    return list(_filled(images[side].get(key) for images in case.shown))


def _filled(values: Iterable[Any]) -> Iterator[Tensor]:
    return (value for value in values if _is_filled(value))


def _is_filled(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() > 0


def _if_most(num_odd: int, num: int) -> Values | None:
    """Return the numbers as values of a message, if most of many shapes are odd."""
    return {"num_odd": num_odd, "num": num} if num >= LEAST_BOXES and 2 * num_odd > num else None

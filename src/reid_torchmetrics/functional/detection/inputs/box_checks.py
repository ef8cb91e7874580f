"""Checks of packed boxes and of what stands beside them, one value for each box."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks

_LARGEST_IMAGE = 2**31 - 1


def check_boxes(argument: str, boxes: Any) -> None:
    """Raise unless boxes are a floating point tensor [N, 4] of finite x, y, width >= 0, height >= 0."""
    _checks.floating_matrix(argument, boxes, 4)
    if not len(boxes):
        return
    _check_finite(argument, boxes)
    least = float(boxes[:, 2:].contiguous().amin())  # several times faster than along the gaps of a slice
    if least < 0:
        raise ValueError(f"`{argument}` must have widths and heights of at least 0; got {least}.")


def check_scores(argument: str, scores: Any, length: int, device: torch.device) -> None:
    """Raise unless scores are a vector of finite floats, one for each box."""
    _checks.floating_vector(argument, scores)
    if len(scores) != length:
        raise ValueError(f"`{argument}` must have one value for each of {length} boxes; got {len(scores)}.")
    if scores.device != device:
        raise ValueError(f"`{argument}` must be on the device of the boxes, {device}; got {scores.device}.")
    if length:
        _check_finite(argument, scores)


def check_areas(argument: str, areas: Any, length: int, device: torch.device) -> None:
    """Raise unless areas are a vector of finite floats of at least 0, one for each box."""
    check_scores(argument, areas, length, device)
    if length and float(areas.amin()) < 0:
        raise ValueError(f"`{argument}` must hold areas of at least 0; got {float(areas.amin())}.")


def check_image_numbers(argument: str, images: Any, length: int, device: torch.device) -> None:
    """Raise unless the numbers of images are a vector of ints from 0 to 2^31 - 1, one for each box."""
    _checks.integer_labels(argument, images, length, device)
    if length:
        least, most = (int(end) for end in images.aminmax())
        if least < 0 or most > _LARGEST_IMAGE:
            came = least if least < 0 else most
            raise ValueError(f"`{argument}` must hold numbers from 0 to {_LARGEST_IMAGE}; got {came}.")


def _check_finite(argument: str, values: Tensor) -> None:
    ends = torch.stack(values.aminmax())  # NaN if there is one
    if not bool(ends.isfinite().all()):
        raise ValueError(f"`{argument}` must be finite; got {float(values[~values.isfinite()][0])}.")

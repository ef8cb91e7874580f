"""Checks of packed boxes and of the options of matching."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from reid_torchmetrics._checks.detection import overlap_thresholds
from reid_torchmetrics._checks.kinds import kind
from reid_torchmetrics._checks.options import positive_int
from reid_torchmetrics._checks.tensors import floating_matrix, floating_vector, integer_labels

_LARGEST_IMAGE = 2**31 - 1


def four_columns(argument: str, value: object) -> None:
    """Raise unless `value` is a floating point tensor [N, 4]."""
    floating_matrix(argument, value, "4")
    assert isinstance(value, Tensor)  # noqa: S101 - `floating_matrix` has seen to it
    if value.shape[1] != 4:
        raise ValueError(f"`{argument}` must have shape [N, 4]; got {[*value.shape]}.")


def packed_boxes(argument: str, value: object) -> None:
    """Raise unless `value` is a floating point tensor [N, 4] of finite x, y, width >= 0, height >= 0."""
    four_columns(argument, value)
    assert isinstance(value, Tensor)  # noqa: S101 - `four_columns` has seen to it
    if not len(value):
        return
    _finite(argument, value)
    least = float(value[:, 2:].contiguous().amin())  # several times faster than along the gaps of a slice
    if least < 0:
        raise ValueError(f"`{argument}` must have widths and heights of at least 0; got {least}.")


def box_scores(argument: str, value: object, length: int, device: torch.device) -> None:
    """Raise unless `value` is a vector of finite floats, one for each box."""
    floating_vector(argument, value)
    assert isinstance(value, Tensor)  # noqa: S101 - `floating_vector` has seen to it
    _beside_boxes(argument, value, length, device)
    if length:
        _finite(argument, value)


def own_areas(argument: str, value: object, length: int, device: torch.device) -> None:
    """Raise unless `value` is a vector of finite areas of at least 0, one for each box."""
    box_scores(argument, value, length, device)
    assert isinstance(value, Tensor)  # noqa: S101 - `box_scores` has seen to it
    if length and float(value.amin()) < 0:
        raise ValueError(f"`{argument}` must hold areas of at least 0; got {float(value.amin())}.")


def image_numbers(argument: str, value: object, length: int, device: torch.device) -> None:
    """Raise unless `value` is a vector of ints from 0 to 2^31 - 1, one for each box."""
    integer_labels(argument, value, length, device)
    assert isinstance(value, Tensor)  # noqa: S101 - `integer_labels` has seen to it
    if length:
        least, most = (int(end) for end in value.aminmax())
        if least < 0 or most > _LARGEST_IMAGE:
            came = least if least < 0 else most
            raise ValueError(f"`{argument}` must hold numbers from 0 to {_LARGEST_IMAGE}; got {came}.")


def _beside_boxes(argument: str, value: Tensor, length: int, device: torch.device) -> None:
    if len(value) != length:
        raise ValueError(f"`{argument}` must have one value for each of {length} boxes; got {len(value)}.")
    if value.device != device:
        raise ValueError(f"`{argument}` must be on the device of the boxes, {device}; got {value.device}.")


def _finite(argument: str, value: Tensor) -> None:
    ends = torch.stack(value.aminmax())  # NaN if there is one
    if not bool(ends.isfinite().all()):
        raise ValueError(f"`{argument}` must be finite; got {float(value[~value.isfinite()][0])}.")


def matching_options(
    iou_thresholds: object, max_detections: object, area_ranges: object, max_bytes: object = 1
) -> None:
    """Raise unless these are overlaps, ascending limits, and named ranges of areas."""
    overlap_thresholds("iou_thresholds", iou_thresholds)
    limits = limits_of_detections("max_detections", max_detections)
    if limits != sorted(limits):
        raise ValueError(f"`max_detections` must ascend; got {max_detections!r}.")
    ranges_of_areas("area_ranges", area_ranges)
    positive_int("max_bytes", max_bytes)


def limits_of_detections(argument: str, values: object) -> list[int]:
    """The values as a list; raise unless they are a non-empty sequence of ints of at least 1."""
    if not isinstance(values, (tuple, list)):
        raise TypeError(f"`{argument}` must be a tuple or list of ints; got {kind(values)}.")
    for value in values:
        positive_int(argument, value, fits_int64=False)
    if not values:
        raise ValueError(f"`{argument}` must hold at least one int; got {values!r}.")
    return list(values)


def ranges_of_areas(argument: str, value: object) -> None:
    """Raise unless `value` is a mapping of at most 62 names to a least and a largest area."""
    if not isinstance(value, Mapping):
        raise TypeError(f"`{argument}` must be a mapping of names to (least, largest) area; got {kind(value)}.")
    if not 0 < len(value) <= 62:
        raise ValueError(f"`{argument}` must have 1 to 62 ranges; got {len(value)}.")
    for name, ends in value.items():
        if not isinstance(name, str):
            raise TypeError(f"`{argument}` must have strings as names; got {name!r}.")
        if not isinstance(ends, (tuple, list)) or len(ends) != 2 or not all(_is_number(end) for end in ends):
            raise TypeError(f"`{argument}` must have pairs of numbers as values; got {ends!r} for {name!r}.")
        if math.isnan(ends[0]) or not ends[0] <= ends[1]:
            raise ValueError(f"`{argument}` must have a least area first; got {ends!r} for {name!r}.")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def of_grid(argument: str, shape: tuple[int, ...], least: int, grid: tuple[int, int, int]) -> None:
    """Raise unless matches have as many area ranges and thresholds as a grid, and no more limits."""
    if shape != grid[:2] or least > grid[2]:
        raise ValueError(
            f"`{argument}` must be the one that `matches` were made with; got {grid[0]} area ranges,"
            f" {grid[1]} thresholds and {grid[2]} limits for matches of {shape[0]}, {shape[1]} and at least {least}."
        )


def mergeable(argument: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise unless there are matches, all of as many area ranges and thresholds."""
    if not shapes:
        raise ValueError(f"`{argument}` must hold at least one part; got none.")
    if len(set(shapes)) > 1:
        raise ValueError(f"`{argument}` must have the same numbers of area ranges and thresholds; got {shapes}.")

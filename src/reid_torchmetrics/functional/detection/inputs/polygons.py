"""Which pixels a polygon covers, as COCO's masks have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FINENESS = 5  # parts of a pixel that the corners of a polygon are rounded to
_LEAST_NUMBERS = 6  # three points

Ints = NDArray[np.int64]


def polygon_flips(polygon: Sequence[Any], size: tuple[int, int]) -> Ints:
    """Where a polygon begins and ends to cover pixels, counted down the columns, ascending.

    Its corners are rounded to fifths of a pixel, its edges to the points of that grid, and the pixels of a column below
    an odd number of edges are covered. These are the roundings of pycocotools, whose masks are the reference of COCO.

    Args:
        polygon: x, y, x, y, ... of the corners.
        size: height and width of the image.

    Raises:
        ValueError: less than three corners, or an odd number of numbers.
    """
    if len(polygon) < _LEAST_NUMBERS or len(polygon) % 2:
        raise ValueError(f"`polygon` must have x and y of at least three corners; got {len(polygon)} numbers.")
    # Toward 0, also where it is negative.
    corners = (_FINENESS * np.asarray(polygon, dtype=np.float64) + 0.5).astype(np.int64).reshape(-1, 2)
    x, y = _points(corners)
    # A boundary passes the middle of a column where x changes there.
    height, width = size
    step = np.flatnonzero(x[1:] != x[:-1]) + 1
    column = (np.where(x[step] < x[step - 1], x[step], x[step] - 1) + 0.5) / _FINENESS - 0.5
    is_middle = (np.floor(column) == column) & (column >= 0) & (column <= width - 1)
    step, column = step[is_middle], column[is_middle].astype(np.int64)
    row = (np.minimum(y[step], y[step - 1]) + 0.5) / _FINENESS - 0.5
    row = np.ceil(row.clip(0, height)).astype(np.int64)
    flips: Ints = np.sort(column * height + row)
    return flips


def _points(corners: Ints) -> tuple[Ints, Ints]:
    """The points of the grid along all edges; a corner comes twice."""
    ends = np.roll(corners, -1, 0)
    is_flat = np.abs(ends - corners)[:, 0] >= np.abs(ends - corners)[:, 1]
    main = np.where(is_flat, 0, 1)
    edge = np.arange(len(corners))
    # An edge is followed along the axis where it is longer, in ascending order, and turned round afterwards.
    is_turned = corners[edge, main] > ends[edge, main]
    low, high = (np.where(is_turned[:, None], *pair) for pair in ((ends, corners), (corners, ends)))
    length = high[edge, main] - low[edge, main]
    rise = high[edge, 1 - main] - low[edge, 1 - main]
    slope = np.divide(rise, length, out=np.zeros(len(edge)), where=length > 0)
    of_point = np.repeat(edge, length + 1)
    offset = np.arange(len(of_point)) - np.repeat((length + 1).cumsum() - length - 1, length + 1)
    offset = np.where(is_turned[of_point], length[of_point] - offset, offset)
    along = offset + low[edge, main][of_point]
    across = (low[edge, 1 - main][of_point] + slope[of_point] * offset + 0.5).astype(np.int64)
    flat = is_flat[of_point]
    return np.where(flat, along, across), np.where(flat, across, along)

"""Polygons as masks: the places where a mask begins and ends, column by column, as `RunLengths` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FINENESS = 5  # corners of a polygon are rounded to this part of a pixel
_LEAST_NUMBERS = 6  # three points

Ints = NDArray[np.int64]


def object_flips(polygons: Sequence[Sequence[Any]], size: tuple[int, int]) -> Ints:
    """Return the flips of an object, the union of polygons; see `RunLengths.from_polygons`."""
    parts = [polygon_flips(polygon, size) for polygon in polygons]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.empty(0, dtype=np.int64)
    places = np.concatenate(parts)
    # The number of masks after each place: +1 where a mask begins, -1 where it ends.
    steps = np.concatenate([1 - 2 * (np.arange(len(part)) % 2) for part in parts])
    places, inverse = np.unique(places, return_inverse=True)
    depth = np.bincount(inverse, weights=steps, minlength=len(places)).cumsum().astype(np.int64) > 0
    flips: Ints = places[np.diff(depth, prepend=False)]
    return flips


def polygon_flips(polygon: Sequence[Any], size: tuple[int, int]) -> Ints:
    """Return the flips of a polygon: pixels where it begins and ends, counted down the columns, ascending.

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
    # Truncated toward 0, negative numbers too.
    corners = (_FINENESS * np.asarray(polygon, dtype=np.float64) + 0.5).astype(np.int64).reshape(-1, 2)
    x, y = _edge_points(corners)

    # The boundary passes the middle of a column where x changes there.
    height, width = size
    step = np.flatnonzero(x[1:] != x[:-1]) + 1
    left = np.where(x[step] < x[step - 1], x[step], x[step] - 1)
    column = (left + 0.5) / _FINENESS - 0.5
    is_middle = (np.floor(column) == column) & (column >= 0) & (column <= width - 1)
    step = step[is_middle]
    column = column[is_middle].astype(np.int64)

    top = np.minimum(y[step], y[step - 1])
    row = (top + 0.5) / _FINENESS - 0.5
    row = np.ceil(row.clip(0, height)).astype(np.int64)
    flips: Ints = np.sort(column * height + row)
    return flips


def _edge_points(corners: Ints) -> tuple[Ints, Ints]:
    """Return x and y of the grid points along all edges; corners are repeated, as ends of two edges."""
    ends = np.roll(corners, -1, 0)
    distance = np.abs(ends - corners)
    is_flat = distance[:, 0] >= distance[:, 1]
    edge = np.arange(len(corners))
    axis = np.where(is_flat, 0, 1)  # the longer one
    other_axis = 1 - axis

    # Edges in ascending order along the longer axis; the order of descending edges is reversed afterwards.
    is_turned = corners[edge, axis] > ends[edge, axis]
    low = np.where(is_turned[:, None], ends, corners)
    high = np.where(is_turned[:, None], corners, ends)
    length = high[edge, axis] - low[edge, axis]
    rise = high[edge, other_axis] - low[edge, other_axis]
    slope = np.divide(rise, length, out=np.zeros(len(edge)), where=length > 0)

    # The points of all edges, by their offset from the low end.
    num_points = length + 1
    edge_of_point = np.repeat(edge, num_points)
    offset = np.arange(len(edge_of_point)) - np.repeat(num_points.cumsum() - num_points, num_points)
    offset = np.where(is_turned[edge_of_point], length[edge_of_point] - offset, offset)
    along = offset + low[edge, axis][edge_of_point]
    across = low[edge, other_axis][edge_of_point] + slope[edge_of_point] * offset
    across = (across + 0.5).astype(np.int64)
    is_flat_point = is_flat[edge_of_point]
    return np.where(is_flat_point, along, across), np.where(is_flat_point, across, along)

"""Polygons as masks: the places where a mask begins and ends, column by column, as `RunLengths` has them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reid_torchmetrics.functional import segments

_FINENESS = 5  # corners of a polygon are rounded to this part of a pixel
_LEAST_NUMBERS = 6  # three points
_MOST_COLUMNS = 1 << 15  # of all edges that are in memory together; they stay in the cache of a CPU

Ints = NDArray[np.int64]


def flips_of_objects(objects: Sequence[Sequence[Sequence[Any]]], sizes: Any) -> tuple[Ints, Ints]:
    """Return the flips of objects, each the union of its polygons; see `RunLengths.from_polygons`.

    Args:
        objects: the polygons of each object, x, y, x, y, ... of their corners.
        sizes: height and width of the image of each object, [objects, 2].

    Returns:
        The flips of all objects, pixels where a mask begins or ends, counted down the columns, ascending within an
        object; and their number for each object.

    Raises:
        ValueError: a polygon of less than three corners, or of an odd number of numbers.
    """
    num_polygons = np.array(list(map(len, objects)), dtype=np.int64)
    polygons = list(chain.from_iterable(objects))
    lengths = np.array(list(map(len, polygons)), dtype=np.int64)
    is_wrong = (lengths < _LEAST_NUMBERS) | (lengths % 2 > 0)
    if is_wrong.any():
        got = lengths[is_wrong.argmax()]
        raise ValueError(f"`polygon` must have x and y of at least three corners; got {got} numbers.")
    numbers = np.fromiter(chain.from_iterable(polygons), np.float64, int(lengths.sum()))
    # Truncated toward 0, negative numbers too.
    corners = (_FINENESS * numbers + 0.5).astype(np.int64).reshape(-1, 2)
    object_of_polygon = np.repeat(np.arange(len(objects)), num_polygons)
    polygon_sizes = np.array(sizes, dtype=np.int64).reshape(-1, 2)[object_of_polygon]
    flips, num_flips = _flips_of_polygons(corners, lengths // 2, polygon_sizes)
    object_of_flip = np.repeat(object_of_polygon, num_flips)
    is_joined = num_polygons[object_of_flip] > 1
    if is_joined.any():
        has_others = num_polygons[object_of_polygon] > 1
        joined, object_of_joined = _union(flips[is_joined], object_of_flip[is_joined], num_flips[has_others])
        flips = np.concatenate([flips[~is_joined], joined])
        object_of_flip = np.concatenate([object_of_flip[~is_joined], object_of_joined])
        flips = flips[object_of_flip.argsort(kind="stable")]
    return flips, np.bincount(object_of_flip, minlength=len(objects))


def _union(flips: Ints, objects: Ints, num_flips: Ints) -> tuple[Ints, Ints]:
    """Join the flips of all polygons of each object; return the flips that are left, and their objects.

    Args:
        flips: of all polygons.
        objects: the object of each flip.
        num_flips: number of flips of each polygon.
    """
    # The number of masks after each place: +1 where a mask begins, -1 where it ends.
    starts = np.repeat(num_flips.cumsum() - num_flips, num_flips)
    steps = 1 - 2 * ((np.arange(len(flips)) - starts) % 2)
    order = np.lexsort((flips, objects))
    flips, objects, steps = flips[order], objects[order], steps[order]
    depth = np.concatenate([[0], steps.cumsum()])
    is_first = np.diff(objects, prepend=-1) != 0
    depth = depth[1:] - np.repeat(depth[:-1][is_first], np.diff(np.append(np.flatnonzero(is_first), len(flips))))
    is_last = np.append(np.diff(flips) != 0, True) | np.append(is_first[1:], True)  # among flips at one place
    flips, objects, is_covered = flips[is_last], objects[is_last], depth[is_last] > 0
    was_covered = np.append(False, is_covered[:-1]) & (np.diff(objects, prepend=-1) == 0)
    is_flip = is_covered != was_covered
    return flips[is_flip], objects[is_flip]


def _flips_of_polygons(corners: Ints, num_corners: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Return the flips of polygons: pixels where each begins and ends, and their number for each polygon.

    Edges are rounded to the points of the grid of the corners, and the pixels of a column below an odd number of edges
    are covered. These are the roundings of pycocotools, whose masks are the reference of COCO.

    Args:
        corners: x and y of the corners of all polygons [corners, 2], in fifths of a pixel.
        num_corners: number of corners of each polygon.
        sizes: height and width of the image of each polygon [polygons, 2].
    """
    first = num_corners.cumsum() - num_corners
    following = np.arange(1, len(corners) + 1)
    following[first + num_corners - 1] = first
    ends = corners[following]
    polygon_of_edge = np.repeat(np.arange(len(num_corners)), num_corners)
    width = sizes[polygon_of_edge, 1]

    # Columns with their middle, 2.5 fifths from their left, within an edge.
    first_column = -((2 - np.minimum(corners[:, 0], ends[:, 0])) // _FINENESS)
    last_column = (np.maximum(corners[:, 0], ends[:, 0]) - 3) // _FINENESS
    first_column = np.maximum(first_column, 0)
    num_columns = np.maximum(np.minimum(last_column, width - 1) - first_column + 1, 0)
    stride = int(sizes.prod(1).max(initial=0)) + 1  # more than any place in an image
    flips = [np.empty(0, dtype=np.int64)]
    polygons = [np.empty(0, dtype=np.int64)]
    edge_bounds = np.append(first, len(corners))
    columns_before = np.concatenate([[0], num_columns.cumsum()])[edge_bounds]
    for part in segments.ranges_within(torch.from_numpy(np.diff(columns_before)), _MOST_COLUMNS):
        edges = slice(edge_bounds[part.start], edge_bounds[part.stop])
        runs = segments.runs(torch.from_numpy(first_column[edges]), torch.from_numpy(num_columns[edges]))
        edge, column = (run.numpy() for run in runs)
        polygon = polygon_of_edge[edges][edge]
        height = sizes[polygon, 0]
        top = _tops(corners[edges], ends[edges], edge, _FINENESS * column + 2)
        row = (top + 0.5) / _FINENESS - 0.5
        row = np.ceil(row.clip(0, height)).astype(np.int64)
        before = polygon * stride
        flips.append(np.sort(before + column * height + row) - before)
        polygons.append(polygon)
    return np.concatenate(flips), np.bincount(np.concatenate(polygons), minlength=len(num_corners))


def _tops(corners: Ints, ends: Ints, edge: Ints, x: Ints) -> Ints:
    """Return the upper one of the two grid points of an edge between which it goes from `x` to `x + 1`.

    An edge has a point for each step along its longer axis, from its low end on, with the other coordinate rounded.
    """
    distance = np.abs(ends - corners)
    is_flat = distance[:, 0] >= distance[:, 1]
    rows = np.arange(len(corners))
    axis = np.where(is_flat, 0, 1)  # the longer one
    is_turned = corners[rows, axis] > ends[rows, axis]
    low = np.where(is_turned[:, None], ends, corners)
    high = np.where(is_turned[:, None], corners, ends)
    length = high[rows, axis] - low[rows, axis]
    rise = high[rows, 1 - axis] - low[rows, 1 - axis]
    slope = np.divide(rise, length, out=np.zeros(len(rows)), where=length > 0)

    left, upper = low[edge].T
    slope = slope[edge]
    top = np.minimum(_rounded(upper + slope * (x - left)), _rounded(upper + slope * (x + 1 - left)))
    steep = np.flatnonzero(~is_flat[edge])
    if len(steep):
        left, upper, slope, x = left[steep], upper[steep], slope[steep], x[steep]
        # The first step with another side of the middle; the quotient misses it by one at most.
        step = ((x + 0.5 - left) / slope).astype(np.int64) - 1
        for _ in range(3):
            is_behind = (_rounded(left + slope * step) > x) == (slope > 0)
            step += ~is_behind
        top[steep] = upper + step - 1
    return top


def _rounded(values: NDArray[np.float64]) -> Ints:
    return (values + 0.5).astype(np.int64)

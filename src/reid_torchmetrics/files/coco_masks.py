"""Masks in the rows of COCO's files: polygons, run lengths, also as texts, or the box of a row without a mask.

Areas of results are here, too: COCO's API takes them from a box, even where masks or keypoints are evaluated. Source:
`COCO.loadRes` of pycocotools; `LVISResults` of lvis-api has the same rule for boxes and masks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import SHAPES_IN_WORDS, RunMasks, flips_between, lengths_of

from .coco_columns import RESULTS, Note, Row, RowList, is_finite_number, is_missing, is_whole_number, shortened
from .polygons import flips_of_objects

_MIN_POLYGON_NUMBERS = 6  # x and y of three corners
_MAX_COORDINATE = 1_000_000
"""pixels; the points of an edge are in memory, so a longer one would need gigabytes"""
_NO_MASKS = RunMasks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2), np.int64))
_MOST_PIXELS = 2**40  # of an image, so that the pixels of many images can be counted through
_MASKS_IN_CACHE = 256  # whose run lengths stay in the cache of a CPU
_MASK_RULE = "polygons [[x, y, x, y, ...], ...] of at least three corners, or run lengths with `size` and `counts`,"
_SIZE_RULE = "`height` and `width`, whole numbers of at least 1, in each image with polygons or boxes as masks;"
_KEYS_OF_AREAS = {"bbox": "bbox", "segmentation": "segm", "keypoints": "keypoints"}
"""keys of results in the order in which areas are taken from them, with the value of `iou_type` for each"""
_COLUMNS_OF_AREAS = {column.key: replace(column, is_required=True) for column in RESULTS}


class RunLengthRow(msgspec.Struct, gc=False):
    """Run lengths in a row of JSON that is decoded by type."""

    size: tuple[int, int]
    counts: str | list[int]


def masks_of_column(segmentations: Sequence[Any], sizes: NDArray[np.int64]) -> RunMasks:
    """Return the masks of rows that were decoded by type, see `_masks`.

    Raises:
        ValueError: a mask that cannot be read, or no mask.
    """
    objects = [segmentation for segmentation in segmentations if isinstance(segmentation, list)]
    numbers = np.fromiter(chain.from_iterable(chain.from_iterable(objects)), np.float64)
    if not all(objects) or not (np.abs(numbers) <= _MAX_COORDINATE).all():
        raise ValueError
    if len(numbers) and numbers.max() <= 1:  # the reader of rows tells shares of the image from pixels
        raise ValueError
    return _masks(segmentations, sizes)


def _masks(segmentations: Sequence[Any], sizes: NDArray[np.int64]) -> RunMasks:
    """Return masks as run lengths.

    Args:
        segmentations: a `RunLengthRow`, or a list of polygons, of each row.
        sizes: height and width of the image of each row, [rows, 2], for polygons.

    Raises:
        ValueError: run lengths that do not cover their image, or polygons in an image of no size.
    """
    are_polygons = np.array([isinstance(segmentation, list) for segmentation in segmentations], dtype=bool)
    polygons, run_lengths = are_polygons.nonzero()[0].tolist(), (~are_polygons).nonzero()[0].tolist()
    parts = [_NO_MASKS]
    if polygons:
        if sizes[polygons].min() < 1:
            raise ValueError
        flips = flips_of_objects([segmentations[place] for place in polygons], sizes[polygons])
        parts.append(RunMasks(*flips, sizes[polygons]))
    for part in segments.ranges(len(run_lengths), _MASKS_IN_CACHE):
        rows = [segmentations[place] for place in run_lengths[part]]
        parts.append(_read_run_lengths(rows))
    masks = RunMasks.joined(parts)
    return masks.at(np.argsort(polygons + run_lengths)) if polygons and run_lengths else masks


def _read_run_lengths(masks: Sequence[RunLengthRow]) -> RunMasks:
    """Return the masks of run lengths; errors as in `_masks`."""
    lengths, num_lengths = lengths_of([mask.counts for mask in masks])
    sizes = np.array([mask.size for mask in masks], dtype=np.int64)
    if sizes.min() < 0 or sizes.astype(np.float64).prod(1).max() > _MOST_PIXELS:
        raise ValueError
    flips, num_flips, is_wrong = flips_between(lengths, num_lengths, sizes.prod(1))
    if is_wrong.any():
        raise ValueError
    return RunMasks(flips, num_flips, sizes)


def _find_fault(row: Row) -> tuple[str, Any] | None:
    """Return the rule that a row's mask breaks, and what the row has; None also for a text that does not fit its size.

    A box counts as a mask.
    """
    segmentation = row.get("segmentation")
    if isinstance(segmentation, Mapping) and segmentation:
        return _run_lengths_fault(segmentation)
    if not is_missing(segmentation):
        return _polygons_fault(segmentation)
    if is_missing(row.get("bbox")):
        return "a mask, or a box as `bbox`,", segmentation
    return None


def is_side(value: Any) -> bool:
    """Return whether a value is valid as the height or width of an image."""
    return is_whole_number(value) and value >= 1


def _run_lengths_fault(mask: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the fault of a mask as run lengths, see `_find_fault`."""
    size = mask.get("size")
    if not isinstance(size, (list, tuple)) or len(size) != 2 or not all(map(is_whole_number, size)) or min(size) < 0:
        return "run lengths with the height and width of the image as `size`", dict(mask)
    counts = mask.get("counts")
    if isinstance(counts, (str, bytes)):
        return None
    if not isinstance(counts, (list, tuple)) or not all(is_whole_number(count) and count >= 0 for count in counts):
        return "run lengths with whole numbers of at least 0, or a text, as `counts`", counts
    height, width = size
    if sum(counts) != height * width:
        rule = f"run lengths that add up to the pixels of the image, {height * width},"
        return rule, sum(counts)
    return None


def _polygons_fault(segmentation: Any) -> tuple[str, Any] | None:
    """Return the fault of a mask as a list of polygons, see `_find_fault`."""
    if not isinstance(segmentation, (list, tuple)):
        return _MASK_RULE, segmentation
    for polygon in segmentation:
        if not isinstance(polygon, (list, tuple)):
            return _MASK_RULE, segmentation
        if len(polygon) < _MIN_POLYGON_NUMBERS or len(polygon) % 2 or not _are_finite(polygon):
            return _MASK_RULE, polygon
        if max(polygon) > _MAX_COORDINATE or min(polygon) < -_MAX_COORDINATE:
            rule = f"polygons with coordinates of at most {_MAX_COORDINATE:,} pixels"
            return rule, polygon
    return None


def _are_finite(numbers: Sequence[Any]) -> bool:
    """Return whether all values are finite ints or floats of Python."""
    if not set(map(type, numbers)) <= {int, float}:
        return False
    return is_finite_number(sum(numbers)) or all(map(is_finite_number, numbers))  # a sum may overflow


def masks_of_list(row_list: RowList, images: Mapping[Any, Row]) -> RunMasks:
    """Return the masks of annotations or results, or their boxes as masks; `images` are by id.

    Raises:
        ValueError: a row without mask and box, a mask that cannot be read, or polygons or a box in an image without
            height and width; the message names the row and the value.
    """
    segmentations: list[Any] = []
    sizes = np.zeros((len(row_list.rows), 2), dtype=np.int64)
    for position, row in enumerate(row_list.rows):
        fault = _find_fault(row)
        if fault is not None:
            raise row_list.invalid(position, "segmentation", *fault)
        segmentation: Any = row.get("segmentation")
        if isinstance(segmentation, Mapping) and segmentation:
            segmentations.append(RunLengthRow(segmentation["size"], segmentation["counts"]))
            continue
        image = images.get(row["image_id"], {})
        size: Any = (image.get("height"), image.get("width"))
        if not all(map(is_side, size)):
            height, width = map(shortened, size)
            got = f"height {height} and width {width} for {row_list.place(position)}"
            raise ValueError(f"`{row_list.source}` must have {_SIZE_RULE} got {got}.")
        sizes[position] = size
        if is_missing(segmentation):
            x, y, width, height = row["bbox"]
            # The corners in the order of COCO's API.
            segmentation = [[x, y, x, y + height, x + width, y + height, x + width, y]]
        segmentations.append(list(segmentation))
    try:
        return _masks(segmentations, sizes)
    except ValueError as error:
        position = _first_unread(segmentations)
        height, width = segmentations[position].size
        rule = f"run lengths as a text of COCO's API, for {height * width} pixels,"
        raise row_list.invalid(position, "segmentation", rule, segmentations[position].counts) from error


class _RowsInMemory(RowList):
    """Annotations in memory, which messages name by their ids."""

    def place(self, position: int) -> str:
        row = self.rows[position]
        return f"annotation {row.get('id', 'without an id')} of image {shortened(row.get('image_id'))}"


def masks_of_annotations(rows: Sequence[dict[str, Any]], images: Mapping[Any, Row]) -> RunMasks:
    """Return the masks of annotations in memory, see `masks_of_list`."""
    return masks_of_list(_RowsInMemory("annotations", "annotations", rows), images)


def are_of_other_sizes(images: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which masks have another size than the first mask of their image, given the place of each image."""
    first_sizes = np.zeros((images.max(initial=-1) + 1, 2), dtype=np.int64)
    first_sizes[images[::-1]] = sizes[::-1]
    are_other: NDArray[np.bool_] = (first_sizes[images] != sizes).any(axis=1)
    return are_other


def num_without_mask(rows: Sequence[Row]) -> int:
    """Count the rows without a mask."""
    return sum(is_missing(row.get("segmentation")) for row in rows)


def _first_unread(segmentations: Sequence[Any]) -> int:
    """Return the position of the first run lengths that cannot be read."""
    positions = [position for position, mask in enumerate(segmentations) if isinstance(mask, RunLengthRow)]
    for part in segments.ranges(len(positions), _MASKS_IN_CACHE):
        if _can_be_read([segmentations[position] for position in positions[part]]):
            continue
        for position in positions[part]:
            if not _can_be_read([segmentations[position]]):
                return position
    raise ValueError("`segmentations` must have run lengths that cannot be read; got none.")


def _can_be_read(masks: Sequence[RunLengthRow]) -> bool:
    """Return whether run lengths cover their images."""
    try:
        _read_run_lengths(masks)
    except ValueError:
        return False
    return True


def shape_of_areas(rows: Sequence[Row]) -> str | None:
    """Return the `iou_type` of the shapes that give the areas of all results: the first that the first result has."""
    for key, iou_type in _KEYS_OF_AREAS.items():
        if rows and not is_missing(rows[0].get(key)):
            return iou_type
    return None


def note_on_areas(source: str, shape: str) -> Note:
    """Return the note on results with the areas of other shapes than the evaluated ones."""
    text = f"the sizes of results are those of their {SHAPES_IN_WORDS[shape]}, as in pycocotools"
    return Note(f"{source}: {text}", is_doubtful=False)


def fill_boxes_and_areas(results: RowList, images: Mapping[Any, Row]) -> None:
    """Give results areas, and boxes around masks or keypoints if the first result has no box.

    Args:
        results: results whose `image_id` was checked.
        images: the images by id.

    Raises:
        ValueError: a result without the shape of the first one, or with an invalid one; the message names the row.
    """
    iou_type = shape_of_areas(results.rows)
    if iou_type == "bbox":
        results.check([_COLUMNS_OF_AREAS["bbox"]])
        for position, row in enumerate(results.rows):
            box = row["bbox"]
            if box is None or len(box) == 0:
                raise results.invalid(position, "bbox", "four numbers")
            row["area"] = box[2] * box[3]
            row["iscrowd"] = 0
    elif iou_type == "segm":
        masks = masks_of_list(results, images)
        for row, area, box in zip(results.rows, masks.counts.tolist(), masks.boxes().tolist(), strict=True):
            row["area"] = area
            row["iscrowd"] = 0
            if is_missing(row.get("bbox")):
                row["bbox"] = box
    elif iou_type == "keypoints":
        results.check([_COLUMNS_OF_AREAS["keypoints"]])
        for row in results.rows:
            x = row["keypoints"][0::3]
            y = row["keypoints"][1::3]
            width = max(x) - min(x)
            height = max(y) - min(y)
            row["area"] = width * height
            row["bbox"] = [min(x), min(y), width, height]


def compressed(lengths: Sequence[Sequence[int]]) -> list[str]:
    """Compress lengths to COCO's texts, the inverse of `decompressed`."""
    numbers = np.fromiter(chain.from_iterable(lengths), np.int64)
    num_lengths = np.array(list(map(len, lengths)), dtype=np.int64)
    place = np.arange(len(numbers)) - np.repeat(num_lengths.cumsum() - num_lengths, num_lengths)
    # From the fourth number of a text on, each number is the difference to the number two places before.
    rest = numbers.copy()
    rest[2:] -= np.where(place[2:] > 2, numbers[:-2], 0)

    # Five bits of all numbers at a time, until only the sign is left of each.
    columns = []
    goes_on = np.ones(len(rest), dtype=bool)
    while goes_on.any():
        bits = rest & 0x1F
        rest = rest >> 5
        has_character = goes_on
        sign = np.where(bits & 0x10, -1, 0)
        goes_on = has_character & (rest != sign)
        columns.append(np.where(has_character, bits + 0x20 * goes_on + 48, 0))
    table = np.stack([*columns, np.zeros(len(rest), dtype=np.int64)], 1).astype(np.uint8)

    # The characters of each text: those of its numbers, one after the other.
    ends = np.concatenate([[0], np.count_nonzero(table, axis=1).cumsum()])
    edges = ends[np.cumsum([0, *map(len, lengths)])].tolist()
    text = table[table > 0].tobytes().decode("ascii")
    return [text[begin:end] for begin, end in pairwise(edges)]

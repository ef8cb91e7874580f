"""Masks in the rows of COCO's files: polygons, run lengths, or the box of a row without a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import RunMasks, flips_between, lengths_of

from .coco_columns import Row, RowList, is_finite_number, is_missing, is_whole_number, shortened
from .polygons import flips_of_objects
from .run_length_texts import first_invalid_counts

_MIN_POLYGON_NUMBERS = 6  # x and y of three corners
_MAX_COORDINATE = 1_000_000
"""pixels; the points of an edge are in memory, so a longer one would need gigabytes"""
_NO_MASKS = RunMasks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2), np.int64))
_MASKS_AT_A_TIME = 10_000  # whose run lengths are in memory together
_MOST_PIXELS = 2**40  # of an image, so that the pixels of many images can be counted through
_MASKS_IN_CACHE = 256  # whose run lengths stay in the cache of a CPU
_MASK_RULE = "polygons [[x, y, x, y, ...], ...] of at least three corners, or run lengths with `size` and `counts`,"
_SIZE_RULE = "`height` and `width`, whole numbers of at least 1, in each image with polygons or boxes as masks;"


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


class MaskFault(NamedTuple):
    """The reason for which the mask of a row cannot be read."""

    key: str
    """key of the row, or `size` of its image"""
    rule: str
    got: Any


def find_mask_fault(row: Row, image: Row) -> MaskFault | None:
    """Find the fault of a row's mask; None if the mask can be read.

    The sum of run lengths that are compressed to a text is checked by `check_masks` for many rows together.
    """
    segmentation = row.get("segmentation")
    if isinstance(segmentation, Mapping) and segmentation:
        return _run_lengths_fault(segmentation)
    if is_missing(segmentation):
        if is_missing(row.get("bbox")):
            return MaskFault("segmentation", "a mask, or a box as `bbox`,", segmentation)
    else:
        fault = _polygons_fault(segmentation)
        if fault is not None:
            return fault
    size = [image.get("height"), image.get("width")]
    if not all(map(is_side, size)):
        return MaskFault("size", _SIZE_RULE, size)
    return None


def _is_text(segmentation: Any) -> bool:
    """Return whether a mask is run lengths as a text."""
    return isinstance(segmentation, Mapping) and isinstance(segmentation.get("counts"), (str, bytes))


def is_side(value: Any) -> bool:
    """Return whether a value is valid as the height or width of an image."""
    return is_whole_number(value) and value >= 1


def _run_lengths_fault(mask: Mapping[str, Any]) -> MaskFault | None:
    """Return the fault of a mask as run lengths."""
    size = mask.get("size")
    if not isinstance(size, (list, tuple)) or len(size) != 2 or not all(map(is_whole_number, size)) or min(size) < 0:
        return MaskFault("segmentation", "run lengths with the height and width of the image as `size`", dict(mask))
    counts = mask.get("counts")
    if isinstance(counts, (str, bytes)):
        return None
    if not isinstance(counts, (list, tuple)) or not all(is_whole_number(count) and count >= 0 for count in counts):
        return MaskFault("segmentation", "run lengths with whole numbers of at least 0, or a text, as `counts`", counts)
    height, width = size
    if sum(counts) != height * width:
        rule = f"run lengths that add up to the pixels of the image, {height * width},"
        return MaskFault("segmentation", rule, sum(counts))
    return None


def _polygons_fault(segmentation: Any) -> MaskFault | None:
    """Return the fault of a mask as a list of polygons."""
    if not isinstance(segmentation, (list, tuple)):
        return MaskFault("segmentation", _MASK_RULE, segmentation)
    for polygon in segmentation:
        if not isinstance(polygon, (list, tuple)):
            return MaskFault("segmentation", _MASK_RULE, segmentation)
        if len(polygon) < _MIN_POLYGON_NUMBERS or len(polygon) % 2:
            return MaskFault("segmentation", _MASK_RULE, polygon)
        if not _are_finite(polygon):
            return MaskFault("segmentation", _MASK_RULE, polygon)
        if max(polygon) > _MAX_COORDINATE or min(polygon) < -_MAX_COORDINATE:
            rule = f"polygons with coordinates of at most {_MAX_COORDINATE:,} pixels"
            return MaskFault("segmentation", rule, polygon)
    return None


def _are_finite(numbers: Sequence[Any]) -> bool:
    """Return whether all values are finite ints or floats of Python."""
    if not set(map(type, numbers)) <= {int, float}:
        return False
    return is_finite_number(sum(numbers)) or all(map(is_finite_number, numbers))  # a sum may overflow


def check_masks(row_list: RowList, images: Mapping[Any, Row]) -> None:
    """Raise for the first row with a mask that cannot be read.

    Args:
        row_list: annotations or results whose `image_id` was checked.
        images: the images by id.

    Raises:
        ValueError: the message names the file, the row and the value.
    """
    compressed = []
    for position, row in enumerate(row_list.rows):
        fault = find_mask_fault(row, images[row["image_id"]])
        if fault is not None:
            raise _fault_error(row_list, position, fault)
        if _is_text(row.get("segmentation")):
            compressed.append(position)
    _check_compressed(row_list, compressed)


def _fault_error(row_list: RowList, position: int, fault: MaskFault) -> ValueError:
    """Return the error for a row with a mask that cannot be read."""
    if fault.key != "size":
        return row_list.invalid(position, fault.key, fault.rule, fault.got)
    height, width = map(shortened, fault.got)
    image = shortened(row_list.rows[position]["image_id"])
    got = f"height {height} and width {width} of image {image}"
    return ValueError(f"`{row_list.source}` must have {fault.rule} got {got} for {row_list.place(position)}.")


def _check_compressed(row_list: RowList, compressed: Sequence[int]) -> None:
    """Raise for the first of the rows with compressed run lengths that do not cover their image."""
    for start in range(0, len(compressed), _MASKS_AT_A_TIME):
        positions = compressed[start : start + _MASKS_AT_A_TIME]
        masks = [row_list.rows[position]["segmentation"] for position in positions]
        invalid = first_invalid_counts(masks)
        if invalid is not None:
            height, width = masks[invalid]["size"]
            rule = f"run lengths as a text of COCO's API, for {height * width} pixels,"
            raise row_list.invalid(positions[invalid], "segmentation", rule, masks[invalid]["counts"])


def check_mask_sizes(lists: Sequence[RowList], images: Mapping[Any, Row]) -> None:
    """Raise if masks of the same image have different sizes; `check_masks` comes first.

    Raises:
        ValueError: the message names the file, the row and both sizes.
    """
    first_sizes: dict[Any, list[int]] = {}
    for row_list in lists:
        for position, row in enumerate(row_list.rows):
            segmentation = row.get("segmentation")
            if isinstance(segmentation, Mapping) and segmentation:
                size = list(segmentation["size"])
            else:
                image = images[row["image_id"]]
                size = [image["height"], image["width"]]
            expected = first_sizes.setdefault(row["image_id"], size)
            if size != expected:
                rule = f"a mask of {expected[0]} x {expected[1]} pixels, as other rows of the image,"
                raise row_list.invalid(position, "segmentation", rule, size)


def num_without_mask(rows: Sequence[Row]) -> int:
    """Count the rows without a mask."""
    return sum(is_missing(row.get("segmentation")) for row in rows)


def checked_masks_of_rows(rows: Sequence[Row], images: Sequence[Row]) -> RunMasks:
    """Return the masks of rows, or their boxes as masks; arguments as below.

    Raises:
        ValueError: a row without mask and box, a mask that cannot be read, or polygons or a box in an image without
            height and width.
    """
    for row, image in zip(rows, images, strict=True):
        fault = find_mask_fault(row, image)
        if fault is None:
            continue
        if fault.key == "size":
            height, width = map(shortened, fault.got)
            got = f"got height {height} and width {width} for {_place(row)}"
            raise ValueError(f"`images` must have {fault.rule} {got}.")
        raise _fault_of_annotation(row, fault.rule, fault.got)
    try:
        return masks_of_rows(rows, images)
    except ValueError as error:
        texts = [row for row in rows if _is_text(row.get("segmentation"))]
        invalid = first_invalid_counts([row["segmentation"] for row in texts])
        if invalid is None:
            raise
        row = texts[invalid]
        raise _fault_of_annotation(row, "run lengths for all pixels of the image", row["segmentation"]) from error


def _fault_of_annotation(row: Row, rule: str, got: Any) -> ValueError:
    """Return the error for a mask of an annotation that cannot be read."""
    return ValueError(f"`annotations` must have {rule} as `segmentation`; got {shortened(got)} in {_place(row)}.")


def _place(row: Row) -> str:
    """Return the place of an annotation for a message."""
    return f"annotation {row.get('id', 'without an id')} of image {shortened(row.get('image_id'))}"


def masks_of_rows(rows: Sequence[Row], images: Sequence[Row]) -> RunMasks:
    """Return the masks of rows that were checked, or their boxes as masks.

    Args:
        rows: annotations or results.
        images: the image of each row.

    Raises:
        ValueError: run lengths as a text that do not cover their image.
    """
    segmentations: list[Any] = []
    sizes = np.zeros((len(rows), 2), dtype=np.int64)
    for place, (row, image) in enumerate(zip(rows, images, strict=True)):
        segmentation: Any = row.get("segmentation")
        if isinstance(segmentation, Mapping) and segmentation:
            segmentations.append(RunLengthRow(segmentation["size"], segmentation["counts"]))
            continue
        if is_missing(segmentation):
            x, y, width, height = row["bbox"]
            # The corners in the order of COCO's API.
            segmentation = [[x, y, x, y + height, x + width, y + height, x + width, y]]
        segmentations.append(list(segmentation))
        sizes[place] = image["height"], image["width"]
    return _masks(segmentations, sizes)


def add_run_lengths(rows: Sequence[dict[str, Any]], images: Mapping[Any, Row]) -> None:
    """Give rows that were checked their masks as `run_lengths`; `images` are by id."""
    masks = masks_of_rows(rows, [images[row["image_id"]] for row in rows])
    for row, mask in zip(rows, masks.to_coco(), strict=True):
        row["run_lengths"] = mask

"""YOLO's files: for each image a text file of ground truths, and one of detections, a line for each object."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

from reid_torchmetrics import _checks

from reid_torchmetrics.functional.detection.batches import image_dict

from .array_files import text_lines
from .folders import list_files

_NUM_BOX, _LEAST_POLYGON = 4, 6  # numbers of a box, and of a polygon of three corners
_LARGEST_CLASS = 2**63 - 1
_ROUNDING = 0.01  # tolerance, a share of the image, as in Ultralytics
_LEAST_LEAVING = 3  # boxes outside of the image that are no chance

Dicts = list[dict[str, Any]]


class _Object(NamedTuple):
    """A line."""

    label: int
    numbers: list[float]
    """of a box or a polygon"""
    confidence: float
    text: str
    """the line, and where it stands"""


def read_yolo(
    results: str | PathLike[str],
    labels: str | PathLike[str],
    *,
    image_sizes: tuple[int, int] | Mapping[str, tuple[int, int]] | None = None,
) -> tuple[Dicts, Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `DetectionMAP.update`.

    A line of `labels` is the class, and center, width and height as shares of the image; a line of `results` ends with
    the confidence. The corners of a polygon, x and y each, may stand for a box: their bounding box is read. Boxes are
    corners, `box_format="xyxy"`. An image may have a file in one folder only, for there are no files without objects.
    Source of the formats: Ultralytics' documentation of its data sets, and `save_txt=True` with `save_conf=True` of its
    `predict`.

    Args:
        results: folder of text files, named like the images.
        labels: folder of text files, named like the images.
        image_sizes: width and height in pixels of all images, or of each by its name; boxes are then in pixels. None
            leaves them as shares, with the same overlaps, but without areas for COCO's ranges.

    Returns:
        For each image `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels` and `image_id`, the name
        of the image, a str.

    Raises:
        FileNotFoundError: a folder that does not exist.
        TypeError: `image_sizes` are neither a pair of sizes nor such pairs by name.
        ValueError: a malformed line, named with its file: without a class, with shares outside of 0 to 1 by more than
            0.01, or with the confidence in front of the box, as in darknet, if boxes tell; or an image without a size.
    """
    detected, true = _read("results", results), _read("labels", labels)
    _check_order([each for objects in detected.values() for each in objects if len(each.numbers) == _NUM_BOX])
    preds, target = [], []
    for name in sorted({*detected, *true}):
        size, objects = _size(image_sizes, name), detected.get(name, [])
        preds.append(_columns(objects, size) | image_dict(scores=[each.confidence for each in objects]))
        target.append(_columns(true.get(name, []), size) | {"image_id": name})
    return preds, target


def _size(sizes: tuple[int, int] | Mapping[str, tuple[int, int]] | None, name: str) -> tuple[int, int]:
    if sizes is None:
        return 1, 1
    if isinstance(sizes, Mapping):
        if name not in sizes:
            raise ValueError(f"`image_sizes` must have the size of each image; got none of {name!r}.")
        sizes = sizes[name]
    _checks.positive_ints("image_sizes", sizes, distinct=False)
    if len(sizes) != 2:
        raise ValueError(f"`image_sizes` must be width and height; got {sizes!r}.")
    return sizes


def _read(argument: str, folder: str | PathLike[str]) -> dict[str, list[_Object]]:
    """The objects of each image that has a file."""
    paths = list_files(argument, folder, ".txt")
    return {path.stem: [_object(argument, line, where) for where, line in text_lines(path)] for path in paths}


def _object(argument: str, line: str, where: str) -> _Object:
    has_confidence = argument == "results"
    try:
        first, *others = line.split()
        label, numbers = int(first), [*map(float, others)]
    except ValueError:
        label, numbers = 0, []
    num = len(numbers) - has_confidence
    is_shape = num == _NUM_BOX or (num >= _LEAST_POLYGON and num % 2 == 0)
    rules = (
        (is_shape, "a class, a box or polygon" + " and a confidence" * has_confidence),
        (0 <= label <= _LARGEST_CLASS, f"a class from 0 to {_LARGEST_CLASS}"),
        (_are_shares(numbers), "numbers from 0 to 1"),
    )
    for is_kept, rule in rules:
        if not is_kept:
            raise ValueError(f"`{argument}` must have {rule} in a line; got {line!r}, {where}.")
    return _Object(label, numbers[:num], numbers[-1], f"{line!r}, {where}")


def _check_order(boxes: Sequence[_Object]) -> None:
    """Raise if most boxes of detections leave the image, but hardly any does with the confidence in front of it."""
    leaving = [each for each in boxes if not _are_shares(_corners(each.numbers))]
    otherwise = [each for each in boxes if not _are_shares(_corners([*each.numbers[1:], each.confidence]))]
    if len(leaving) >= max(_LEAST_LEAVING, len(boxes) / 2 + 1) and 10 * len(otherwise) <= len(boxes):
        rule = "the confidence behind the box, as boxes leave the image otherwise"
        raise ValueError(f"`results` must have {rule}; got {leaving[0].text}.")


def _are_shares(numbers: Sequence[float]) -> bool:
    return all(-_ROUNDING <= number <= 1 + _ROUNDING for number in numbers)


def _columns(objects: Sequence[_Object], size: tuple[int, int]) -> dict[str, Any]:
    boxes = [[*map(operator.mul, _corners(each.numbers), (*size, *size))] for each in objects]
    return image_dict(boxes=boxes, labels=[each.label for each in objects])


def _corners(numbers: Sequence[float]) -> list[float]:
    """Left, top, right and bottom of a box or of a polygon, as shares."""
    if len(numbers) == _NUM_BOX:
        x, y, width, height = numbers
        return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    return [min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])]

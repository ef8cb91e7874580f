"""YOLO's files: for each image a text file of ground truths, and one of detections, a line for each object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch

from reid_torchmetrics import _checks
from reid_torchmetrics._files import files_in

_NUM_BOX, _LEAST_POLYGON = 4, 6  # numbers of a box, and of a polygon of three corners
_BOTH_SIDES = 2
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
    paths = [{path.stem: path for path in files_in(folder, ".txt")} for folder in (results, labels)]
    names = sorted({*paths[0], *paths[1]})
    objects = [(_read("results", paths[0].get(name)), _read("labels", paths[1].get(name))) for name in names]
    _check_order([each for of_image, _ in objects for each in of_image if len(each.numbers) == _NUM_BOX])
    preds, target = [], []
    for name, (of_results, of_labels) in zip(names, objects, strict=True):
        size = _size(image_sizes, name)
        scores = torch.tensor([each.confidence for each in of_results], dtype=torch.float64, device="cpu")
        preds.append(_columns(of_results, size) | {"scores": scores})
        target.append(_columns(of_labels, size) | {"image_id": name})
    return preds, target


def _size(sizes: tuple[int, int] | Mapping[str, tuple[int, int]] | None, name: str) -> tuple[int, int]:
    if sizes is None:
        return 1, 1
    if isinstance(sizes, Mapping):
        if name not in sizes:
            raise ValueError(f"`image_sizes` must have the size of each image; got none of {name!r}.")
        sizes = sizes[name]
    _checks.positive_ints("image_sizes", sizes, distinct=False)
    if len(sizes) != _BOTH_SIDES:
        raise ValueError(f"`image_sizes` must be width and height; got {sizes!r}.")
    return sizes


def _read(argument: str, path: Path | None) -> list[_Object]:
    """The objects of an image, none where there is no file."""
    lines = [] if path is None else path.read_text(encoding="utf-8-sig").splitlines()
    return [_object(argument, line, f"{path}:{place}") for place, line in enumerate(lines, start=1) if line.strip()]


def _object(argument: str, line: str, where: str) -> _Object:
    def check(rule: str, *, is_kept: bool) -> None:
        if not is_kept:
            raise ValueError(f"`{argument}` must have {rule} in a line; got {line!r}, {where}.")

    has_confidence = argument == "results"
    try:
        first, *others = line.split()
        label, numbers = int(first), [*map(float, others)]
    except ValueError:
        label, numbers = 0, []
    num, confidence = len(numbers) - has_confidence, numbers[-1] if has_confidence and numbers else 1.0
    wanted = "a class, a box or polygon" + (" and a confidence" if has_confidence else "")
    check(wanted, is_kept=num == _NUM_BOX or (num >= _LEAST_POLYGON and num % 2 == 0))
    check(f"a class from 0 to {_LARGEST_CLASS}", is_kept=0 <= label <= _LARGEST_CLASS)
    check("numbers from 0 to 1", is_kept=all(-_ROUNDING <= number <= 1 + _ROUNDING for number in numbers))
    return _Object(label, numbers[:num], confidence, f"{line!r}, {where}")


def _check_order(boxes: Sequence[_Object]) -> None:
    """Raise if most boxes of detections leave the image, but hardly any does with the confidence in front of it."""
    leaving = [each for each in boxes if _leaves(each.numbers)]
    otherwise = sum(_leaves([*each.numbers[1:], each.confidence]) for each in boxes)
    if len(leaving) >= max(_LEAST_LEAVING, len(boxes) / 2 + 1) and 10 * otherwise <= len(boxes):
        raise ValueError(
            "`results` must have the confidence behind the box, as boxes leave the image otherwise; got"
            f" {leaving[0].text}."
        )


def _leaves(box: Sequence[float]) -> bool:
    return not all(-_ROUNDING <= edge <= 1 + _ROUNDING for edge in _corners(box))


def _columns(objects: Sequence[_Object], size: tuple[int, int]) -> dict[str, Any]:
    corners = torch.tensor([_corners(each.numbers) for each in objects], dtype=torch.float64, device="cpu").view(-1, 4)
    boxes = corners * torch.tensor([*size, *size], dtype=torch.float64, device="cpu")
    return {"boxes": boxes, "labels": torch.tensor([each.label for each in objects], dtype=torch.int64, device="cpu")}


def _corners(numbers: Sequence[float]) -> list[float]:
    """Left, top, right and bottom of a box or of a polygon, as shares."""
    if len(numbers) == _NUM_BOX:
        x, y, width, height = numbers
        return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    return [min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])]

"""Boxes in three common layouts of text: that of Cartucho's and Padilla's tools, KITTI's, and OpenImages' tables."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from reid_torchmetrics._files import readable
from reid_torchmetrics.functional.detection.batches import image_dict

from .array_files import reading, text_lines
from .folders import Folder, check_common_name, list_files
from .image_sizes import ImageSizes, Size

KITTI_CLASSES = ("Car", "Van", "Truck", "Pedestrian", "Person_sitting", "Cyclist", "Tram", "Misc")
"""the classes of KITTI's objects, beside the regions DontCare"""

_Dicts = list[dict[str, Any]]
_KITTI_BOX = slice(4, 8)  # words of a line: left, top, right and bottom
_NUM_KITTI_WORDS = 15  # of a label; a result has its score behind them
_OPEN_IMAGES_BOX = ("XMin", "YMin", "XMax", "YMax")


class _TextBox(NamedTuple):
    """An object, or a detection."""

    image: str
    name: str
    """of its class"""
    box: list[float]
    score: float = 1.0
    is_flagged: bool = False
    """whether it is difficult, or a region of several objects"""
    where: str = ""


def read_cartucho(
    labels: Folder, results: Folder, class_names: Sequence[str], *, image_sizes: Size | Mapping[str, Size] | None = None
) -> tuple[_Dicts, _Dicts]:
    """Read the text files of Cartucho's `mAP` and of Padilla's Object-Detection-Metrics.

    A line of labels is a class and four numbers, and may end with `difficult`; a line of results is a class, the
    confidence and four numbers. The numbers stay as they are: give the metric their `box_format`, "xyxy" for left, top,
    right and bottom. Source of the formats: the README files of github.com/Cartucho/mAP and
    github.com/rafaelpadilla/Object-Detection-Metrics.

    Args:
        labels: folder of text files, named like the images.
        results: folder of text files, named like the images.
        class_names: names of the classes that are evaluated; a label is the place in it.
        image_sizes: width and height in pixels of all images, or of each by its name, by which shares of the image are
            multiplied; None for numbers that are pixels.

    Returns:
        For each image, by ascending name, `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels` and
        `image_id`, the name of the image; where some object is difficult also `difficult`, which `VocMAP` reads.

    Raises:
        OSError: a folder that does not exist.
        ValueError: a folder without text files, two folders without a common name, a malformed line, or a class that is
            not among `class_names`; the message names the file and the line.
    """
    detected = _read_folder("results", results, "a class, a confidence and four numbers", _cartucho_result)
    true = _read_folder("labels", labels, "a class, four numbers and maybe `difficult`", _cartucho_label)
    check_common_name(list(true), list(detected), argument="labels", folder=labels, results=results)
    return _as_dicts(true, detected, class_names, ImageSizes(image_sizes), flag="difficult")


def _cartucho_label(words: list[str]) -> tuple[str, list[float], float, bool]:
    is_difficult = words[-1] == "difficult"
    name, box = _name_and_numbers(words[:-1] if is_difficult else words, 4)
    return name, box, 1.0, is_difficult


def _cartucho_result(words: list[str]) -> tuple[str, list[float], float, bool]:
    name, (score, *box) = _name_and_numbers(words, 5)
    return name, box, score, False


def _name_and_numbers(words: list[str], number: int) -> tuple[str, list[float]]:
    """Take a line apart; the name of a class may have spaces."""
    name = " ".join(words[:-number])
    if not name:
        raise ValueError
    return name, _finite(words[-number:])


def read_kitti(labels: Folder, results: Folder, class_names: Sequence[str] = KITTI_CLASSES) -> tuple[_Dicts, _Dicts]:
    """Read the text files of KITTI's object benchmark, with the boxes in the image.

    A line is the type, 14 numbers, of which those from the fourth on are left, top, right and bottom in pixels, and in
    results the score; boxes are corners, `box_format="xyxy"`. KITTI ignores detections that overlap a region DontCare
    by their own area, of any class. COCO does so with crowds, of one class, so each region is a crowd of every class in
    `class_names`. KITTI's own numbers have levels of difficulty, other thresholds for cars and 40 recalls besides.
    Source of the format: the development kit of the KITTI object benchmark.

    Args:
        labels: folder of text files, named like the images.
        results: folder of text files, named like the images.
        class_names: names of the classes that are evaluated; a label is the place in it.

    Returns:
        For each image, by ascending name, `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels`,
        `iscrowd`, int64, and `image_id`, the name of the image.

    Raises:
        OSError: a folder that does not exist.
        ValueError: as `read_cartucho`.
    """
    rule = "a type, 14 numbers"
    true = _read_folder("labels", labels, rule, _kitti_label)
    detected = _read_folder("results", results, f"{rule} and a score", _kitti_result)
    check_common_name(list(true), list(detected), argument="labels", folder=labels, results=results)
    for image, objects in true.items():
        true[image] = [copy for one in objects for copy in _of_each_class(one, class_names)]
    return _as_dicts(true, detected, class_names, ImageSizes(None), flag="iscrowd")


def _kitti_label(words: list[str]) -> tuple[str, list[float], float, bool]:
    if len(words) != _NUM_KITTI_WORDS:
        raise ValueError
    _finite(words[1:])
    return words[0], _finite(words[_KITTI_BOX]), 1.0, words[0] == "DontCare"


def _kitti_result(words: list[str]) -> tuple[str, list[float], float, bool]:
    if len(words) != _NUM_KITTI_WORDS + 1:
        raise ValueError
    _finite(words[1:])
    return words[0], _finite(words[_KITTI_BOX]), float(words[-1]), False


def _of_each_class(one: _TextBox, class_names: Sequence[str]) -> list[_TextBox]:
    """Return a region DontCare once for each class, and any other object as it is."""
    return [one._replace(name=name) for name in class_names] if one.is_flagged else [one]


def read_open_images(
    annotations: str | PathLike[str],
    results: str | PathLike[str],
    class_names: Sequence[str],
    *,
    image_sizes: Size | Mapping[str, Size] | None = None,
) -> tuple[_Dicts, _Dicts]:
    """Read the tables of OpenImages, with a row for each box.

    The columns are `ImageID`, `LabelName`, `XMin`, `XMax`, `YMin` and `YMax`, shares of the image; `IsGroupOf` of
    annotations, where 1 makes a crowd; and `Score`, or `Confidence`, of results. Boxes are corners,
    `box_format="xyxy"`. OpenImages' own numbers also expand the hierarchy of classes and use lists of verified absent
    classes, which this reader does not. Source of the format: the page of OpenImages V7's downloads.

    Args:
        annotations: path of a table of comma-separated values.
        results: path of such a table.
        class_names: the `LabelName` of the classes that are evaluated; a label is the place in it.
        image_sizes: width and height in pixels of all images, or of each by its name; None leaves boxes as shares, with
            the same overlaps, but without areas for COCO's ranges.

    Returns:
        As `read_kitti`.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: a table without a column, two tables without a common image, a malformed row, or a class that is not
            among `class_names`; the message names the file and the line.
    """
    true = _read_table("annotations", annotations, score_columns=())
    detected = _read_table("results", results, score_columns=("Score", "Confidence"))
    check_common_name(list(true), list(detected), argument="annotations", folder=annotations, results=results)
    return _as_dicts(true, detected, class_names, ImageSizes(image_sizes), flag="iscrowd")


def _read_table(argument: str, path: str | PathLike[str], *, score_columns: Sequence[str]) -> dict[str, list[_TextBox]]:
    """Read the rows of a table, for each image."""
    objects: dict[str, list[_TextBox]] = {}
    for where, row in _rows(argument, readable(path), score_columns):
        try:
            box = _finite([row[column] for column in _OPEN_IMAGES_BOX])
            scores = _finite([row[column] for column in score_columns if column in row])
        except (TypeError, ValueError):
            rule = "numbers as " + ", ".join((*_OPEN_IMAGES_BOX, *score_columns))
            got = ",".join(map(str, row.values()))
            raise ValueError(f"`{argument}` must have {rule}; got {got!r}, {where}.") from None
        score = scores[0] if scores else 1.0
        is_group = not score_columns and row.get("IsGroupOf", "0").strip() in ("1", "true", "True")
        one = _TextBox(row["ImageID"], row["LabelName"], box, score, is_group, where)
        objects.setdefault(one.image, []).append(one)
    return objects


def _rows(argument: str, path: Path, score_columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a table by its columns, with their places, after a check of the columns."""
    with reading(path, "a table of comma-separated values"), path.open(encoding="utf-8-sig", newline="") as file:
        table = csv.DictReader(file)
        columns = table.fieldnames or []
        rows = [(f"{path}:{table.line_num}", row) for row in table]
    for column in ("ImageID", "LabelName", *_OPEN_IMAGES_BOX):
        if column not in columns:
            raise ValueError(f"`{argument}` must have a column {column!r}; got {', '.join(columns) or 'none'}, {path}.")
    if score_columns and not set(score_columns) & set(columns):
        rule = f"a column {' or '.join(map(repr, score_columns))}"
        raise ValueError(f"`{argument}` must have {rule}; got {', '.join(columns)}, {path}.")
    yield from rows


def _read_folder(
    argument: str, folder: Folder, rule: str, parse: Callable[[list[str]], tuple[str, list[float], float, bool]]
) -> dict[str, list[_TextBox]]:
    """Read the lines of each text file of a folder; `parse` raises a ValueError for a line of another form."""
    objects: dict[str, list[_TextBox]] = {}
    for path in list_files(argument, folder, ".txt"):
        objects[path.stem] = []
        for where, line in text_lines(path):
            try:
                name, box, score, is_flagged = parse(line.split())
            except ValueError:
                raise ValueError(f"`{argument}` must have {rule} in a line; got {line!r}, {where}.") from None
            objects[path.stem].append(_TextBox(path.stem, name, box, score, is_flagged, where))
    return objects


def _finite(words: Iterable[str]) -> list[float]:
    """Return words as numbers.

    Raises:
        ValueError: one is no finite number.
    """
    numbers = list(map(float, words))
    if not all(map(math.isfinite, numbers)):
        raise ValueError
    return numbers


def _as_dicts(
    true: Mapping[str, Sequence[_TextBox]],
    detected: Mapping[str, Sequence[_TextBox]],
    class_names: Sequence[str],
    sizes: ImageSizes,
    *,
    flag: str,
) -> tuple[_Dicts, _Dicts]:
    """Return the dicts of all images, by ascending name; `flag` is the key of flagged ground truths."""
    labels = {name: label for label, name in enumerate(class_names)}
    has_flags = flag == "iscrowd" or any(one.is_flagged for objects in true.values() for one in objects)
    preds = []
    target = []
    for image in sorted({*true, *detected}):
        size = sizes.find(image)
        results = detected.get(image, [])
        objects = true.get(image, [])
        scores = [one.score for one in results]
        preds.append(image_dict(**_boxes("results", results, labels, size), scores=scores))
        ground_truths = image_dict(**_boxes("labels", objects, labels, size))
        if has_flags:
            ground_truths |= image_dict(**{flag: [one.is_flagged for one in objects]})
        target.append(ground_truths | {"image_id": image})
    return preds, target


def _boxes(argument: str, objects: Sequence[_TextBox], labels: Mapping[str, int], size: Size) -> dict[str, list[Any]]:
    """Return the boxes in pixels and the labels of the objects of an image."""
    for one in objects:
        if one.name not in labels:
            raise ValueError(f"`{argument}` must have objects of `class_names` only; got {one.name!r}, {one.where}.")
    boxes = [[side * length for side, length in zip(one.box, (*size, *size), strict=True)] for one in objects]
    return {"boxes": boxes, "labels": [labels[one.name] for one in objects]}

"""Pascal VOC's files and DOTA's: annotations of each image, and a text file of detections for each class."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import torch

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._files import files_in
from reid_torchmetrics.functional.detection.batches import image_dict
from reid_torchmetrics.functional.detection.inputs import CORNER_ORDER, crossing_edges

from .array_files import text_lines

VOC_CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"),
    *("horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
"""the 20 classes of Pascal VOC since 2007"""

DOTA_CLASSES = (
    *("plane", "baseball-diamond", "bridge", "ground-track-field", "small-vehicle", "large-vehicle", "ship"),
    *("tennis-court", "basketball-court", "storage-tank", "soccer-ball-field", "roundabout", "harbor"),
    *("swimming-pool", "helicopter"),
)
"""the 15 classes of DOTA-v1.0"""

_EDGES = ("xmin", "ymin", "xmax", "ymax")
_OF_CORNERS, _HEADERS = 8, ("imagesource", "gsd")  # of a line of DOTA

_Dicts = list[dict[str, Any]]


def read_voc(
    results: str | PathLike[str], annotations: str | PathLike[str], class_names: Sequence[str] = VOC_CLASSES
) -> tuple[_Dicts, _Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `DetectionMAP.update`.

    A label is the place of the class in `class_names`. Boxes are corners, `box_format="xyxy"`, as in the files: pixels
    are counted from 1, and the last pixel belongs to the box. Source of the formats: the
    development kit of the Pascal VOC challenge.

    Args:
        results: folder of text files, one for each detected class, with a name that ends with the class, such as
            `comp4_det_test_car.txt`; a line is the name of an image, the confidence and the four edges.
        annotations: folder of XML documents, one for each image, named like the images.
        class_names: names of the classes that are evaluated.

    Returns:
        For each image `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels`, `difficult`, bool, and
        `image_id`, the name of the image, a str.

    Raises:
        FileNotFoundError: a folder that does not exist.
        ValueError: a malformed file, a class that is not among `class_names`, or a detection in an image without a
            document; the message names the file, and the line.
    """
    labels = {name: label for label, name in enumerate(class_names)}
    documents = sorted(files_in(annotations, ".xml"), key=lambda path: path.stem)
    # Images are those with a document: without objects they have one, too.
    target = [_objects_of_voc(path, labels) for path in documents]
    return _detections(results, target, labels, "boxes", (len(_EDGES), "four edges")), target


def read_dota(
    results: str | PathLike[str],
    annotations: str | PathLike[str],
    class_names: Sequence[str] = DOTA_CLASSES,
    *,
    invalid: _names.InvalidAction = "count",
) -> tuple[_Dicts, _Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `VocMAP(iou_type="rotated")`.

    A label is the place of the class in `class_names`. The script of DOTA-v1.5 takes no object as difficult: leave the
    flags out for its numbers.

    Args:
        results: folder of text files, one for each detected class, such as `Task1_plane.txt`; a line is the name of an
            image, the confidence, and x and y of four corners in turn.
        annotations: folder of text files, one for each image, named like the images, usually `labelTxt`; a line is x
            and y of four corners, the class and, if there is one, the flag of difficult objects.
        class_names: names of the classes that are evaluated.
        invalid: as of the metric. With "drop", which leaves invalid ground truths out, corners of ground truths are not
            checked here.

    Returns:
        For each image `rotated_boxes` [objects, 8], `scores` and `labels`, float64 and int64, and `rotated_boxes`,
        `labels`, `difficult`, bool, and `image_id`, the name of the image, a str.

    Raises:
        FileNotFoundError: a folder that does not exist.
        ValueError: a malformed line, a class that is not among `class_names`, corners of a ground truth that are not
            in turn, so that edges cross, or a detection in an image without annotations; the message names the file,
            and the line.
    """
    _checks.one_of("invalid", invalid, _names.InvalidAction)
    labels = {name: label for label, name in enumerate(class_names)}
    paths = sorted(files_in(annotations, ".txt"), key=lambda path: path.stem)
    target = [_objects_of_dota(path, labels, is_checked=invalid != "drop") for path in paths]
    return _detections(results, target, labels, "rotated_boxes", (_OF_CORNERS, "x and y of four corners")), target


def _detections(
    results: str | PathLike[str], target: _Dicts, labels: Mapping[str, int], key: str, numbers: tuple[int, str]
) -> _Dicts:
    """Read the detections of each image from a file for each class, with some numbers of an object under a key.

    `numbers` are how many they are, and what.
    """
    detections: dict[str, list[tuple[list[float], float, int]]] = {each["image_id"]: [] for each in target}
    for path in sorted(files_in(results, ".txt")):
        # The class with the longest name that is the file's, or ends it after an underscore.
        fitting = [name for name in labels if f"_{path.stem}".endswith(f"_{name}")]
        if not fitting:
            raise ValueError(f"`results` must have files with names that end with a class; got {path.name!r}.")
        label = labels[max(fitting, key=len)]
        for where, line in text_lines(path):
            image, score, *box = _detection(line, where, detections, *numbers)
            detections[image].append((box, score, label))
    columns = [[*zip(*rows, strict=True)] or [()] * 3 for rows in detections.values()]
    return [image_dict(**{key: boxes}, scores=scores, labels=each) for boxes, scores, each in columns]


def _detection(line: str, where: str, images: Container[str], size: int, what: str) -> tuple[Any, ...]:
    image, *values = line.split()
    try:
        numbers = [*map(float, values)]
    except ValueError:
        numbers = []
    if len(numbers) != 1 + size:
        raise ValueError(f"`results` must have an image, a confidence and {what} in a line; got {line!r}, {where}.")
    if image not in images:
        raise ValueError(f"`results` must have detections in annotated images only; got {image!r}, {where}.")
    return image, *numbers


def _objects_of_voc(path: Path, labels: Mapping[str, int]) -> dict[str, Any]:
    try:
        objects = ET.parse(path).getroot().findall("object")  # noqa: S314 - annotations of one's own data
        names = [_text(each, "name") for each in objects]
        boxes = [[float(_text(each, f"bndbox/{edge}")) for edge in _EDGES] for each in objects]
        # Not all documents have the flag.
        difficult = [int(each.findtext("difficult", "0")) != 0 for each in objects]
    except (ET.ParseError, ValueError) as error:
        came = f"{path}: {error}"
        raise ValueError(f"`annotations` must have objects with a name and the edges of a box; {came}.") from error
    return _annotated(path, names, labels, boxes=boxes, difficult=difficult)


def _objects_of_dota(path: Path, labels: Mapping[str, int], *, is_checked: bool) -> dict[str, Any]:
    lines = [(where, line) for where, line in text_lines(path) if not line.startswith(_HEADERS)]
    rows = [_object_of_dota(line, where) for where, line in lines]
    corners, names, difficult = list(zip(*rows, strict=True)) or [()] * 3
    if corners and is_checked:
        boxes = torch.tensor(corners, dtype=torch.float64, device="cpu")
        for row in crossing_edges(boxes).nonzero()[:1, 0].tolist():
            where, line = lines[row]
            raise ValueError(f"`annotations` must have {CORNER_ORDER}; got {line!r}, {where}.")
    return _annotated(path, names, labels, rotated_boxes=corners, difficult=difficult)


def _object_of_dota(line: str, where: str) -> tuple[list[float], str, bool]:
    values = line.split()
    try:
        name, *flags = values[_OF_CORNERS:]
        (flag,) = map(int, flags or ["0"])
        return [*map(float, values[:_OF_CORNERS])], name, flag != 0
    except ValueError:
        what = "x and y of four corners and a class in a line, and maybe a flag"
        raise ValueError(f"`annotations` must have {what}; got {line!r}, {where}.") from None


def _annotated(path: Path, names: Sequence[str], labels: Mapping[str, int], **columns: Any) -> dict[str, Any]:
    """The dict of an image from the names of its objects' classes, and more columns."""
    for name in names:
        if name not in labels:
            raise ValueError(f"`annotations` must have objects of `class_names` only; got {name!r}, {path}.")
    return image_dict(labels=[labels[name] for name in names], **columns) | {"image_id": path.stem}


def _text(element: ET.Element, path: str) -> str:
    value = element.findtext(path)
    if value is None:
        raise ValueError(f"an object without {path!r}")
    return value.strip()

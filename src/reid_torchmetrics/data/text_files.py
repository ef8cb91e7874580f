"""Readers of Pascal VOC's and YOLO's files.

Pascal VOC has an XML document for each image and a text file of detections for each class. YOLO has, for each image, a
text file of ground truths and one of detections, with a line for each object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import torch

from reid_torchmetrics import _checks

VOC_CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"),
    *("horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
"""the 20 classes of Pascal VOC since 2007"""

_EDGES = ("xmin", "ymin", "xmax", "ymax")
_NUM_BOX, _LEAST_POLYGON = 4, 6  # numbers of a box, and of a polygon of three corners
_BOTH_SIDES = 2
_LARGEST_CLASS = 2**63 - 1
_ROUNDING = 0.01  # tolerance as a share of the image, as in Ultralytics
_LEAST_LEAVING = 3  # boxes outside the image are no accident

Dicts = list[dict[str, Any]]


class _Detection(NamedTuple):
    """A line of results."""

    box: list[float]
    score: float
    label: int


def read_voc(
    results: str | PathLike[str], annotations: str | PathLike[str], class_names: Sequence[str] = VOC_CLASSES
) -> tuple[Dicts, Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `DetectionMAP.update`.

    A label is the place of the class in `class_names`. Boxes are corners, `box_format="xyxy"`, unchanged from the
    files: pixels are counted from 1, and the last one is inside. Source of the formats: the development kit of the
    Pascal VOC challenge.

    Args:
        results: folder of text files, one for each detected class, with names that end with the name of the class, such
            as `comp4_det_test_car.txt`; a line is the name of an image, the confidence and the four edges.
        annotations: folder of XML documents, one for each image, with its name.
        class_names: of the classes to evaluate.

    Returns:
        For each image `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels`, `difficult`, bool, and
        `image_id`, the name of the image, a str.

    Raises:
        FileNotFoundError: a folder that does not exist.
        ValueError: a malformed file, a class that is not among `class_names`, or a detection in an image without a
            document; the message names the file and the line.
    """
    labels = {name: label for label, name in enumerate(class_names)}
    documents = sorted(_files(annotations, ".xml"), key=lambda path: path.stem)
    target = [_ground_truths(path, labels) for path in documents]
    detections: dict[str, list[_Detection]] = {path.stem: [] for path in documents}
    for path in sorted(_files(results, ".txt")):
        label = _label_of_file(path, labels)
        for place, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
            if line.strip():
                image, detection = _detection(line, f"{path}:{place}", label)
                if image not in detections:
                    raise ValueError(
                        f"`results` must have detections in annotated images only; got {image!r}, {path}:{place}."
                    )
                detections[image].append(detection)
    return [_packed(detections[path.stem]) for path in documents], target


def _files(folder: str | PathLike[str], suffix: str) -> list[Path]:
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r}.")
    return [path for path in Path(folder).iterdir() if path.suffix == suffix]


def _label_of_file(path: Path, labels: dict[str, int]) -> int:
    """The class of a file: its name, or the end of it after an underscore; the longest class that fits."""
    fitting = [name for name in labels if path.stem == name or path.stem.endswith(f"_{name}")]
    if not fitting:
        raise ValueError(f"`results` must have files whose names end with that of a class; got {path.name!r}.")
    return labels[max(fitting, key=len)]


def _detection(line: str, where: str, label: int) -> tuple[str, _Detection]:
    try:
        image, *values = line.split()
        score, *box = map(float, values)
    except ValueError:
        score, box = 0.0, []
    if len(box) != len(_EDGES):
        raise ValueError(f"`results` must have an image, a confidence and four edges in a line; got {line!r}, {where}.")
    return image, _Detection(box, score, label)


def _ground_truths(path: Path, labels: dict[str, int]) -> dict[str, Any]:
    try:
        objects = ET.parse(path).getroot().findall("object")  # noqa: S314 - annotations of one's own data
        rows = [_annotated_object(each) for each in objects]
    except (ET.ParseError, ValueError) as error:
        raise ValueError(
            f"`annotations` must have objects with a name and the edges of a box; {path}: {error}."
        ) from error
    for name, _, _ in rows:
        if name not in labels:
            raise ValueError(f"`annotations` must have objects of `class_names` only; got {name!r}, {path}.")
    return {
        "boxes": torch.tensor([box for _, box, _ in rows], dtype=torch.float64, device="cpu").view(-1, 4),
        "labels": torch.tensor([labels[name] for name, _, _ in rows], dtype=torch.int64, device="cpu"),
        "difficult": torch.tensor([difficult for _, _, difficult in rows], dtype=torch.bool, device="cpu"),
        "image_id": path.stem,
    }


def _annotated_object(element: ET.Element) -> tuple[str, list[float], bool]:
    """Class, edges and the difficult flag."""

    def text(path: str) -> str:
        value = element.findtext(path)
        if value is None:
            raise ValueError(f"an object without {path!r}")
        return value.strip()

    is_difficult = int(element.findtext("difficult", "0")) != 0
    return text("name"), [float(text(f"bndbox/{edge}")) for edge in _EDGES], is_difficult


def _packed(detections: Sequence[_Detection]) -> dict[str, Any]:
    return {
        "boxes": torch.tensor([each.box for each in detections], dtype=torch.float64, device="cpu").view(-1, 4),
        "scores": torch.tensor([each.score for each in detections], dtype=torch.float64, device="cpu"),
        "labels": torch.tensor([each.label for each in detections], dtype=torch.int64, device="cpu"),
    }


class _Object(NamedTuple):
    """A line of a file."""

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

    A line of `labels` is the class, and center, width and height as shares of the image's size; a line of `results` has
    the confidence behind them. A polygon, x and y of its corners, may replace the box, and is read as its bounding box.
    Boxes are returned as corners, `box_format="xyxy"`. An image without objects on one side may lack a file there.
    Source of the formats: Ultralytics' documentation of its data sets, and `save_txt=True` with `save_conf=True` of its
    `predict`.

    Args:
        results: folder of text files, named like the images.
        labels: folder of text files, named like the images.
        image_sizes: width and height in pixels, of all images or by name, to convert boxes to pixels. None leaves them
            as shares: overlaps are the same, but COCO's area ranges mean nothing.

    Returns:
        For each image `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels` and `image_id`, the name
        of the image, a str.

    Raises:
        FileNotFoundError: a folder that does not exist.
        TypeError: `image_sizes` are neither a pair of sizes nor such pairs by name.
        ValueError: a malformed line, named with its file: without a class, with shares outside of 0 to 1 by more than
            0.01, or with the confidence in front of the box, as in darknet, if the boxes show that; or an image without
            a size.
    """
    files, true_files = ({path.stem: path for path in _files(each, ".txt")} for each in (results, labels))
    names = sorted({*files, *true_files})
    objects = [(_read("results", files.get(name)), _read("labels", true_files.get(name))) for name in names]
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
    """The objects of an image, none without a file."""
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
    """Raise if most boxes of detections leave the image, but hardly any would if the confidence came first."""
    leaving = [each for each in boxes if _leaves(each.numbers)]
    otherwise = sum(_leaves([*each.numbers[1:], each.confidence]) for each in boxes)
    if len(leaving) >= max(_LEAST_LEAVING, len(boxes) / 2 + 1) and 10 * otherwise <= len(boxes):
        raise ValueError(
            "`results` must have the confidence behind the box, which leaves the image otherwise; got"
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

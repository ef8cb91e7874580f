"""Pascal VOC's files and DOTA's: annotations of each image, and a text file of detections for each class."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import torch

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._signatures import with_hints
from reid_torchmetrics.files import ImagesByName, image_dict
from reid_torchmetrics.tasks.rotated_boxes import CORNER_ORDER, crossing_edges

from .array_files import read_text_lines
from .folders import Folder, has_files, list_files, warn_of_exchange

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
_NUM_CORNER_NUMBERS = 8  # x and y of four corners
_HEADERS = ("imagesource", "gsd")  # first words of DOTA's lines without an object
_NOT_DIFFICULT = ("", "0", "unspecified")  # texts of `difficult`, in small letters

_Dicts = list[dict[str, Any]]


class _Shape(NamedTuple):
    """The shape of a detection in a line of results."""

    key: str
    """key in the dict of an image"""
    size: int
    """number of values"""
    description: str
    """words for messages"""


_BOX = _Shape(key="boxes", size=len(_EDGES), description="four edges")
_CORNERS = _Shape(key="rotated_boxes", size=_NUM_CORNER_NUMBERS, description="x and y of four corners")


@with_hints
def read_voc(annotations: Folder, results: Folder, class_names: Sequence[str] = VOC_CLASSES) -> tuple[_Dicts, _Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `DetectionMAP.update`.

    A label is the place of the class in `class_names`. Boxes are corners, `box_format="xyxy"`, as in the files: pixels
    are counted from 1, and the last pixel belongs to the box. A line of results names an image by the last part of its
    name, with or without suffix. An object is difficult unless its tag `difficult` is missing, empty, 0 or Unspecified;
    tags may have capital letters. Source of the formats: the development kit of the Pascal VOC challenge.

    Folders that were exchanged are recognized by the XML documents: they are read as they are meant, with a warning.

    Args:
        annotations: folder of XML documents, one for each image, named like the images.
        results: folder of text files, one for each detected class, with a name that ends with the class, such as
            `comp4_det_test_car.txt`; a line is the name of an image, the confidence and the four edges.
        class_names: names of the classes that are evaluated.

    Returns:
        For each image `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels`, `difficult`, bool, and
        `image_id`, the name of the image, a str.

    Raises:
        FileNotFoundError: A folder that does not exist.
        ValueError: A folder without a single file of its kind, a malformed file, a class that is not among
            `class_names`, or a detection in an image without a document; the message names the file, and the line or
            the tag.
    """
    has_documents = has_files(annotations, ".xml")
    if not has_documents and has_files(annotations, ".txt") and has_files(results, ".xml"):
        warn_of_exchange("annotations", annotations, results)
        annotations, results = results, annotations
    labels = {name: label for label, name in enumerate(class_names)}
    documents = list_files("annotations", annotations, ".xml")
    # Each image has a document, also one without objects.
    target = [_read_voc_objects(path, labels) for path in documents]
    return _read_detections(results, documents, labels, _BOX), target


@with_hints
def find_voc_classes(annotations: Folder) -> tuple[str, ...]:
    """Find the names of the classes in a folder of XML documents of Pascal VOC, in ascending order.

    Args:
        annotations: folder of XML documents; one without any has no classes.

    Raises:
        FileNotFoundError: The folder does not exist.
        ValueError: A document that cannot be read; the message names it.
    """
    if not has_files(annotations, ".xml"):
        return ()
    names: set[str] = set()
    for path in list_files("annotations", annotations, ".xml"):
        names.update(_read_class_names(path))
    return tuple(sorted(names))


@with_hints
def read_dota(
    annotations: Folder,
    results: Folder,
    class_names: Sequence[str] = DOTA_CLASSES,
    *,
    invalid: _names.InvalidAction = "count",
) -> tuple[_Dicts, _Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `VocMAP(iou_type="rotated")`.

    A label is the place of the class in `class_names`. A line of results names an image by the last part of its name,
    with or without suffix. The script of DOTA-v1.5 takes no object as difficult: leave the flags out for its numbers.

    Folders that were exchanged are recognized by their lines: they are read as they are meant, with a warning.

    Args:
        annotations: folder of text files, one for each image, named like the images, usually `labelTxt`; a line is x
            and y of four corners, the class and, if there is one, the flag of difficult objects.
        results: folder of text files, one for each detected class, such as `Task1_plane.txt`; a line is the name of an
            image, the confidence, and x and y of four corners in turn.
        class_names: names of the classes that are evaluated.
        invalid: as the argument of the metric. With "drop", which leaves invalid ground truths out, corners of ground
            truths are not checked here.

    Returns:
        For each image `rotated_boxes` [objects, 8], `scores` and `labels`, float64 and int64, and `rotated_boxes`,
        `labels`, `difficult`, bool, and `image_id`, the name of the image, a str.

    Raises:
        FileNotFoundError: A folder that does not exist.
        ValueError: A folder without a single file of its kind, a malformed line, a number that is not finite, a class
            that is not among `class_names`, corners of a ground truth that are not in turn, so that edges cross, or a
            detection in an image without annotations; the message names the file, and the line.
    """
    _checks.one_of("invalid", invalid, _names.InvalidAction)
    labels = {name: label for label, name in enumerate(class_names)}
    paths = list_files("annotations", annotations, ".txt")
    result_paths = list_files("results", results, ".txt")
    if _are_dota_results(paths, labels) and not _are_dota_results(result_paths, labels):
        warn_of_exchange("annotations", annotations, results)
        paths, results = result_paths, annotations
    target = [_read_dota_objects(path, labels, is_checked=invalid != "drop") for path in paths]
    return _read_detections(results, paths, labels, _CORNERS), target


def _are_dota_results(paths: Sequence[Path], classes: Collection[str]) -> bool:
    """Return whether all files are named like classes and begin with a detection; all but one may be empty."""
    if not all(_find_class(path, classes) for path in paths):
        return False
    has_detections = False
    for path in paths:
        for _, line in islice(read_text_lines(path), 1):
            if not _is_detection(line, _CORNERS):
                return False
            has_detections = True
    return has_detections


def _is_detection(line: str, shape: _Shape) -> bool:
    numbers = _parse_numbers(line.split()[1:])
    return len(numbers) == 1 + shape.size


def _find_class(path: Path, classes: Collection[str]) -> str | None:
    """Return the class with the longest name that is the name of a file, or ends it after an underscore."""
    names = [name for name in classes if f"_{path.stem}".endswith(f"_{name}")]
    return max(names, key=len, default=None)


def _read_detections(results: Folder, documents: Sequence[Path], labels: Mapping[str, int], shape: _Shape) -> _Dicts:
    """Read the detections of each image from a file for each class."""
    names = [path.name for path in documents]
    images_by_name = ImagesByName(names, range(len(names)))
    images: list[dict[str, list[Any]]] = [{shape.key: [], "scores": [], "labels": []} for _ in names]
    for path in list_files("results", results, ".txt"):
        class_name = _find_class(path, labels)
        if class_name is None:
            raise ValueError(f"`results` must have files with names that end with a class; got {path.name!r}.")
        for where, line in read_text_lines(path):
            reference, *words = line.split()
            score, *box = _parse_detection(words, shape, line, where)
            image = images[_find_image(reference, images_by_name, documents, where)]
            image["scores"].append(score)
            image[shape.key].append(box)
            image["labels"].append(labels[class_name])
    return [image_dict(**image) for image in images]


def _find_image(reference: str, images: ImagesByName, documents: Sequence[Path], where: str) -> int:
    """Return the position of the image with the name in a line of results.

    Raises:
        ValueError: No image has the name, or several have it.
    """
    positions = images.find(reference)
    if len(positions) == 1:
        return int(str(positions[0]))
    if positions:
        raise ValueError(f"`results` must name one image in a line; got {reference!r}, {where}, for {len(positions)}.")
    first = documents[0].stem
    raise ValueError(
        f"`results` must have detections in annotated images only; got {reference!r}, {where}; the first annotated"
        f" image is {first!r}."
    )


def _parse_detection(words: Sequence[str], shape: _Shape, line: str, where: str) -> list[float]:
    """Return the confidence and the shape of a detection.

    Raises:
        ValueError: Another number of words, or a word that is no finite number.
    """
    numbers = _parse_numbers(words)
    if len(numbers) != 1 + shape.size:
        rule = f"an image, a confidence and {shape.description} in a line"
        raise ValueError(f"`results` must have {rule}; got {line!r}, {where}.")
    _check_finite("results", numbers, line, where)
    return numbers


def _parse_numbers(words: Sequence[str]) -> list[float]:
    """Return words as numbers; an empty list if some word is no number."""
    try:
        return list(map(float, words))
    except ValueError:
        return []


def _check_finite(argument: str, numbers: Sequence[float], line: str, where: str) -> None:
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"`{argument}` must have finite numbers in a line; got {line!r}, {where}.")


def _read_voc_objects(path: Path, labels: Mapping[str, int]) -> dict[str, Any]:
    """Return the dict of an image from its document."""
    names = []
    boxes = []
    difficult = []
    with _reading_document(path):
        for place, element in _find_objects(path):
            names.append(_find_text(element, "name", place))
            boxes.append([_find_edge(element, edge, place) for edge in _EDGES])
            difficult.append(_is_difficult(element, place))
    image = image_dict(labels=_find_labels(path, names, labels), boxes=boxes, difficult=difficult)
    return image | {"image_id": path.stem}


def _read_class_names(path: Path) -> list[str]:
    """Return the class of each object in a document."""
    with _reading_document(path):
        return [_find_text(element, "name", place) for place, element in _find_objects(path)]


@contextmanager
def _reading_document(path: Path) -> Iterator[None]:
    """Name the document in errors.

    Raises:
        ValueError: The document cannot be read.
    """
    try:
        yield
    except (ET.ParseError, LookupError, ValueError) as error:  # LookupError: an unknown encoding
        rule = "objects with a name and the edges of a box"
        raise ValueError(f"`annotations` must have {rule}; {path}: {error}.") from error


def _find_objects(path: Path) -> Iterator[tuple[str, ET.Element]]:
    """Yield a name for messages and the element of each object in a document.

    Raises:
        ValueError: The document is of another kind.
    """
    root = ET.parse(path).getroot()  # noqa: S314 - annotations of one's own data
    if not _is_tag(root, "annotation"):
        raise ValueError(f"the first tag must be 'annotation'; got {root.tag!r}")
    elements = [element for element in root if _is_tag(element, "object")]
    for position, element in enumerate(elements):
        yield f"`object[{position}]`", element


def _is_tag(element: ET.Element, tag: str) -> bool:
    """Return whether an element has a tag, in small or capital letters; comments have none."""
    return isinstance(element.tag, str) and element.tag.lower() == tag


def _find_child(element: ET.Element, tag: str) -> ET.Element | None:
    """Return the first child with a tag, in small or capital letters."""
    for child in element:
        if _is_tag(child, tag):
            return child
    return None


def _find_text(element: ET.Element, path: str, place: str) -> str:
    """Return the text of the element at a path of tags, without spaces around it.

    Raises:
        ValueError: There is no such element; the message names the path.
    """
    inner = element
    for tag in path.split("/"):
        child = _find_child(inner, tag)
        if child is None:
            raise ValueError(f"{place} is an object without {path!r}")
        inner = child
    return (inner.text or "").strip()


def _find_edge(element: ET.Element, edge: str, place: str) -> float:
    """Return an edge of the box of an object.

    Raises:
        ValueError: It is missing, or no finite number.
    """
    path = f"bndbox/{edge}"
    text = _find_text(element, path, place)
    numbers = _parse_numbers([text])
    if not numbers or not math.isfinite(numbers[0]):
        raise ValueError(f"{path!r} of {place} must be a finite number; got {text!r}")
    return numbers[0]


def _is_difficult(element: ET.Element, place: str) -> bool:
    flag = _find_child(element, "difficult")  # not all documents have it
    if flag is None:
        return False
    text = (flag.text or "").strip()
    if text.lower() in _NOT_DIFFICULT:
        return False
    try:
        return int(text) != 0
    except ValueError:
        rule = "must be 0, 1, Unspecified or empty"
        raise ValueError(f"{flag.tag!r} of {place} {rule}; got {text!r}") from None


def _read_dota_objects(path: Path, labels: Mapping[str, int], *, is_checked: bool) -> dict[str, Any]:
    """Return the dict of an image from its text file; with `is_checked`, raise if edges of an object cross."""
    corners = []
    names = []
    difficult = []
    places = []
    for where, line in read_text_lines(path):
        if line.startswith(_HEADERS):
            continue
        numbers, name, is_difficult = _parse_dota_object(line, where)
        corners.append(numbers)
        names.append(name)
        difficult.append(is_difficult)
        places.append(f"{line!r}, {where}")
    if corners and is_checked:
        are_crossing = crossing_edges(torch.tensor(corners, dtype=torch.float64, device="cpu"))
        crossing_rows = are_crossing.nonzero().flatten().tolist()
        if crossing_rows:
            raise ValueError(f"`annotations` must have {CORNER_ORDER}; got {places[crossing_rows[0]]}.")
    image = image_dict(labels=_find_labels(path, names, labels), rotated_boxes=corners, difficult=difficult)
    return image | {"image_id": path.stem}


def _parse_dota_object(line: str, where: str) -> tuple[list[float], str, bool]:
    """Return the corners, the class and the flag of a difficult object in a line.

    Raises:
        ValueError: A malformed line, or a number that is not finite.
    """
    words = line.split()
    corners = _parse_numbers(words[:_NUM_CORNER_NUMBERS])
    try:
        name, *flag_words = words[_NUM_CORNER_NUMBERS:]
        (flag,) = map(int, flag_words or ["0"])
    except ValueError:  # no class, several flags, or a flag that is no integer
        corners = []
    if len(corners) != _NUM_CORNER_NUMBERS:
        rule = "x and y of four corners and a class in a line, and maybe a flag"
        raise ValueError(f"`annotations` must have {rule}; got {line!r}, {where}.")
    _check_finite("annotations", corners, line, where)
    return corners, name, flag != 0


def _find_labels(path: Path, names: Sequence[str], labels: Mapping[str, int]) -> list[int]:
    """Return the label of each object from the name of its class.

    Raises:
        ValueError: The class is not among `class_names`.
    """
    for name in names:
        if name not in labels:
            raise ValueError(f"`annotations` must have objects of `class_names` only; got {name!r}, {path}.")
    return [labels[name] for name in names]

"""Pascal VOC's files and DOTA's: annotations of each image, and a text file of detections for each class."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.files import ImagesByName
from reid_torchmetrics.tasks.rotated_boxes import CORNER_ORDER, crossing_edges

from .box_lines import Dicts, check_edges, check_lines, find_labels, finite_numbers, labels_by_name
from .folders import Folder, has_files, list_files, warn_of_exchange
from .line_tables import Line, LineTable, parse_numbers, read_lines, split_images, table_of_lines
from .text_files import read_text_lines

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
_HEADERS = ("imagesource", "gsd")  # first words of DOTA's lines without an object
_NOT_DIFFICULT = ("", "0", "unspecified")  # texts of `difficult`, in small letters


class _Shape(NamedTuple):
    """The shape of a detection in a line of results."""

    key: str
    """key in the dict of an image"""
    columns: Sequence[str]
    """names of its numbers, for messages"""
    rule: str
    """contents of a line, for messages"""


_BOX = _Shape("boxes", _EDGES, "an image, a confidence and four edges in a line")
_CORNERS = _Shape(
    "rotated_boxes",
    ("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4"),
    "an image, a confidence and x and y of four corners in a line",
)


def read_voc(annotations: Folder, results: Folder, class_names: Sequence[str] = VOC_CLASSES) -> tuple[Dicts, Dicts]:
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
        TypeError: `class_names` is no list of names.
        ValueError: A name of a class that stands twice; a folder without a single file of its kind, a malformed file, a
            class that is not among `class_names`, or a detection in an image without a document; the message names the
            file, and the line or the tag.
    """
    has_documents = has_files(annotations, ".xml")
    if not has_documents and has_files(annotations, ".txt") and has_files(results, ".xml"):
        warn_of_exchange("annotations", annotations, results)
        annotations, results = results, annotations
    labels = labels_by_name(class_names) if class_names else {}  # documents without objects have no class
    documents = list_files("annotations", annotations, ".xml")
    # Each image has a document, also one without objects.
    lines = table_of_lines("annotations", {path.stem: _read_document(path) for path in documents})
    target = _ground_truths(lines, labels, _BOX)
    check_edges(lines, lines.columns(0, len(_EDGES)))
    return _read_detections(results, documents, labels, _BOX), target


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
        names.update(line.words[0] for line in _read_document(path))
    return tuple(sorted(names))


def read_dota(
    annotations: Folder,
    results: Folder,
    class_names: Sequence[str] = DOTA_CLASSES,
    *,
    invalid: _names.InvalidAction = "count",
) -> tuple[Dicts, Dicts]:
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
        TypeError: `class_names` is no list of names.
        ValueError: No name of a class, or one that stands twice; a folder without a single file of its kind, a
            malformed line, a number that is not finite, a class that is not among `class_names`, corners of a ground
            truth that are not in turn, so that edges cross, or a detection in an image without annotations; the message
            names the file, and the line.
    """
    _checks.one_of("invalid", invalid, _names.InvalidAction)
    labels = labels_by_name(class_names)
    paths = list_files("annotations", annotations, ".txt")
    result_paths = list_files("results", results, ".txt")
    if _are_dota_results(paths, labels) and not _are_dota_results(result_paths, labels):
        warn_of_exchange("annotations", annotations, results)
        paths, results = result_paths, annotations
    lines = table_of_lines("annotations", {path.stem: _read_dota_objects(path) for path in paths})
    target = _ground_truths(lines, labels, _CORNERS)
    if invalid != "drop" and len(lines):
        corners = torch.from_numpy(lines.columns(0, len(_CORNERS.columns)))
        check_lines(lines, ~crossing_edges(corners).numpy(), CORNER_ORDER)
    return _read_detections(results, paths, labels, _CORNERS), target


def _are_dota_results(paths: Sequence[Path], classes: Collection[str]) -> bool:
    """Return whether all files are named like classes and begin with a detection; all but one may be empty."""
    if not all(_find_class(path, classes) for path in paths):
        return False
    has_detections = False
    for path in paths:
        for _, line in islice(read_text_lines(path), 1):
            if len(parse_numbers(line.split()[1:])) != 1 + len(_CORNERS.columns):
                return False
            has_detections = True
    return has_detections


def _find_class(path: Path, classes: Collection[str]) -> str | None:
    """Return the class with the longest name that is the name of a file, or ends it after an underscore."""
    names = [name for name in classes if f"_{path.stem}".endswith(f"_{name}")]
    return max(names, key=len, default=None)


def _read_detections(results: Folder, documents: Sequence[Path], labels: Mapping[str, int], shape: _Shape) -> Dicts:
    """Read the detections of each image from a file for each class."""
    paths = list_files("results", results, ".txt")
    class_labels = []
    for path in paths:
        class_name = _find_class(path, labels)
        if class_name is None:
            raise ValueError(f"`results` must have files with names that end with a class; got {path.name!r}.")
        class_labels.append(labels[class_name])
    lines = read_lines("results", paths)
    check_lines(lines, lines.lengths == 1 + len(shape.columns), shape.rule)
    numbers = finite_numbers(lines, 0, ("confidence", *shape.columns))
    images = _find_images(lines, documents)

    # Sort the lines by image; those of an image keep their order.
    order = np.argsort(images, kind="stable")
    ends = np.cumsum(np.bincount(images, minlength=len(documents))).tolist()
    files = {str(place): slice(start, end) for place, (start, end) in enumerate(pairwise([0, *ends]))}
    lengths = [rows.stop - rows.start for rows in lines.files.values()]
    columns = {
        shape.key: numbers[order, 1:],
        "scores": numbers[order, 0],
        "labels": np.repeat(np.array(class_labels, np.int64), lengths)[order],
    }
    return split_images(columns, files, files)


def _find_images(lines: LineTable, documents: Sequence[Path]) -> Int[NDArray[np.int64], " lines"]:
    """Return the position of the image that each line of results names.

    Raises:
        ValueError: No image has the name, or several have it.
    """
    names = [path.name for path in documents]
    images_by_name = ImagesByName(names, range(len(names)))
    images = []
    for place, reference in enumerate(lines.vocabulary):
        positions = images_by_name.find(reference)
        if len(positions) == 1:
            images.append(int(str(positions[0])))
            continue
        where = lines.find_line(int((lines.words == place).argmax())).where
        if positions:
            raise ValueError(
                f"`results` must name one image in a line; got {reference!r}, {where}, for {len(positions)}."
            )
        raise ValueError(
            f"`results` must have detections in annotated images only; got {reference!r}, {where}; the first annotated"
            f" image is {documents[0].stem!r}."
        )
    return np.array(images, np.int64)[lines.words]


def _ground_truths(lines: LineTable, labels: Mapping[str, int], shape: _Shape) -> Dicts:
    """Return the dict of the ground truths in each image, given lines of a class, a shape and a flag."""
    numbers = finite_numbers(lines, 0, (*shape.columns, "difficult"))
    columns = {
        "labels": find_labels(lines, labels),
        shape.key: numbers[:, :-1],
        "difficult": numbers[:, -1] != 0,
    }
    return split_images(columns, lines.files, lines.files, has_ids=True)


def _read_document(path: Path) -> list[Line]:
    """Return the class, the edges and the flag of each object in a document.

    Raises:
        ValueError: The document cannot be read, or an object lacks a tag or has it twice.
    """
    try:
        return [_read_object(element, f"object[{place}]", path) for place, element in enumerate(_find_objects(path))]
    except (ET.ParseError, LookupError, ValueError) as error:  # LookupError: an unknown encoding
        rule = "objects with a name and the edges of a box"
        raise ValueError(f"`annotations` must have {rule}; {path}: {error}.") from error


def _find_objects(path: Path) -> list[ET.Element]:
    """Return the element of each object in a document, with tags in small letters.

    Raises:
        ValueError: The document is of another kind.
    """
    root = ET.parse(path).getroot()  # noqa: S314 - annotations of one's own data
    if root.tag.lower() != "annotation":
        raise ValueError(f"the first tag must be 'annotation'; got {root.tag!r}")
    for element in root.iter():
        if isinstance(element.tag, str):  # comments have none
            element.tag = element.tag.lower()
    return root.findall("object")


def _read_object(element: ET.Element, place: str, path: Path) -> Line:
    """Return the class, the edges and the flag of an object."""
    name = _find_text(element, "name", place)
    box = element.find("bndbox")
    edges = [_find_text(box, edge, place, "bndbox/") for edge in _EDGES]
    flag = ""
    if element.find("difficult") is not None:  # not all documents have it
        flag = _find_text(element, "difficult", place)
    words = [name, *edges, "0" if flag.lower() in _NOT_DIFFICULT else flag]
    return Line(words, " ".join(words), f"{path}: {place}")


def _find_text(element: ET.Element | None, tag: str, place: str, path: str = "") -> str:
    """Return the text of the child with a tag, without spaces around it.

    Raises:
        ValueError: There is no such child, or several; the message names its path and the object.
    """
    children = [] if element is None else element.findall(tag)
    if len(children) != 1:
        count = f"with {len(children)} of" if children else "without"
        raise ValueError(f"`{place}` is an object {count} {path + tag!r}")
    return (children[0].text or "").strip()


def _read_dota_objects(path: Path) -> list[Line]:
    """Return the class, the corners and the flag of each object in a text file.

    Raises:
        ValueError: A line with too many or too few words.
    """
    objects = []
    for where, line in read_text_lines(path):
        if line.startswith(_HEADERS):
            continue
        words = line.split()
        num_corners = len(_CORNERS.columns)
        corners, names, flags = words[:num_corners], words[num_corners : num_corners + 1], words[num_corners + 1 :]
        row = Line([*names, *corners, *(flags or ["0"])], line, where)
        if not names or len(flags) > 1:
            raise row.fault("annotations", "x and y of four corners and a class in a line, and maybe a flag")
        objects.append(row)
    return objects

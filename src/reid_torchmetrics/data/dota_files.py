"""DOTA's files of Task 1: a text file of objects for each image, and one of detections for each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from reid_torchmetrics._files import files_in

from .array_files import text_lines
from .voc_files import Dicts, annotated, read_detections

DOTA_CLASSES = (
    *("plane", "baseball-diamond", "bridge", "ground-track-field", "small-vehicle", "large-vehicle", "ship"),
    *("tennis-court", "basketball-court", "storage-tank", "soccer-ball-field", "roundabout", "harbor"),
    *("swimming-pool", "helicopter"),
)
"""the 15 classes of DOTA-v1.0"""

_NUMBERS = 8
_HEADERS = ("imagesource", "gsd")


def read_dota(
    results: str | PathLike[str], annotations: str | PathLike[str], class_names: Sequence[str] = DOTA_CLASSES
) -> tuple[Dicts, Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `VocMAP(iou_type="rotated")`.

    A label is the place of the class in `class_names`. The script of DOTA-v1.5 takes no object as difficult: leave the
    flags out for its numbers.

    Args:
        results: folder of text files, one for each detected class, such as `Task1_plane.txt`; a line is the name of an
            image, the confidence, and x and y of four corners in turn.
        annotations: folder of text files, one for each image, named like the images, usually `labelTxt`; a line is x
            and y of four corners, the class and, if there is one, the flag of difficult objects.
        class_names: names of the classes that are evaluated.

    Returns:
        For each image `rotated_boxes` [objects, 8], `scores` and `labels`, float64 and int64, and `rotated_boxes`,
        `labels`, `difficult`, bool, and `image_id`, the name of the image, a str.

    Raises:
        FileNotFoundError: a folder that does not exist.
        ValueError: a malformed line, a class that is not among `class_names`, or a detection in an image without
            annotations; the message names the file, and the line.
    """
    labels = {name: label for label, name in enumerate(class_names)}
    paths = sorted(files_in(annotations, ".txt"), key=lambda path: path.stem)
    target = [_ground_truths(path, labels) for path in paths]
    numbers = _NUMBERS, "x and y of four corners"
    return read_detections(results, [path.stem for path in paths], labels, "rotated_boxes", numbers), target


def _ground_truths(path: Path, labels: Mapping[str, int]) -> dict[str, Any]:
    rows = [_object(line, where) for where, line in text_lines(path) if not line.startswith(_HEADERS)]
    corners, names, difficult = [*zip(*rows, strict=True)] or [()] * 3
    return annotated(path, names, labels, rotated_boxes=corners, difficult=difficult)


def _object(line: str, where: str) -> tuple[list[float], str, bool]:
    values = line.split()
    try:
        name, *flags = values[_NUMBERS:]
        (flag,) = map(int, flags or ["0"])
        return [*map(float, values[:_NUMBERS])], name, flag != 0
    except ValueError:
        what = "x and y of four corners and a class in a line, and maybe a flag"
        raise ValueError(f"`annotations` must have {what}; got {line!r}, {where}.") from None

"""Lines of text with the name of a class and a box each: paired by image, checked and converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from reid_torchmetrics import _checks, _hints, _names

from .folders import Folder, list_files, match_images, warn_of_exchange
from .image_sizes import ImageSizes, are_shares
from .line_tables import Files, LineTable, exchange, read_lines, split_images

Dicts: TypeAlias = list[dict[str, Any]]
EDGES = ("left", "top", "right", "bottom")
"""names of the numbers of a box, for messages"""

_Mask: TypeAlias = Bool[NDArray[np.bool_], " lines"]


class PairedLines(NamedTuple):
    """The lines of ground truths and of detections."""

    ground_truths: LineTable
    detections: LineTable
    detection_files: Files
    """lines of the detections by the names that images have among the ground truths"""

    @property
    def names(self) -> list[str]:
        """Return the names of all images in ascending order; an image may have lines on one side only."""
        return sorted(self.ground_truths.files.keys() | self.detection_files.keys())


def pair_images(ground_truths: LineTable, detections: LineTable, folder: Folder, result_folder: Folder) -> PairedLines:
    """Return the lines with the names that images have on both sides.

    Raises:
        ValueError: Two names on one side belong to one image, or the sides have no image in common.
    """
    files = match_images(
        ground_truths.files,
        detections.files,
        argument=ground_truths.argument,
        folder=folder,
        result_folder=result_folder,
    )
    return PairedLines(ground_truths, detections, files)


def read_folders(
    labels: Folder,
    results: Folder,
    find_roles: Callable[[LineTable], tuple[_Mask, _Mask]],
    *,
    rule: str,
    result_rule: str,
) -> PairedLines:
    """Read the ground truths and the detections of all images from two folders of text files.

    Folders that were exchanged are recognized by the scores: they are read as they are meant, with a warning.

    Args:
        labels: The folder of ground truths.
        results: The folder of detections.
        find_roles: Returns which lines may be ground truths, and which may be detections, by their numbers of words.
        rule: The rule for a line of `labels`, for messages.
        result_rule: The rule for a line of `results`.

    Raises:
        FileNotFoundError: A folder that does not exist.
        ValueError: A folder without text files, two folders without a common name, or a line with another number of
            words.
    """
    ground_truths = read_lines("labels", list_files("labels", labels, ".txt"))
    detections = read_lines("results", list_files("results", results, ".txt"))
    are_true, may_be_detections = find_roles(ground_truths)
    check_lines(ground_truths, are_true | may_be_detections, rule)
    may_be_true, are_detections = find_roles(detections)
    check_lines(detections, may_be_true | are_detections, result_rule)
    is_exchanged = may_be_detections.all() and not are_detections.any()
    if is_exchanged and len(ground_truths) and len(detections):
        warn_of_exchange("labels", labels, results)
        ground_truths, detections = exchange(ground_truths, detections)
        are_true, are_detections = may_be_true, may_be_detections
        labels, results = results, labels
    check_lines(ground_truths, are_true, rule)
    check_lines(detections, are_detections, result_rule)
    return pair_images(ground_truths, detections, labels, results)


def check_lines(lines: LineTable, is_valid: _Mask, rule: str) -> None:
    """Raise unless all lines satisfy a rule.

    Raises:
        ValueError: The message shows the first line that breaks the rule.
    """
    if not is_valid.all():
        raise lines.fault(int(is_valid.argmin()), rule)


def check_edges(lines: LineTable, boxes: Float[NDArray[np.float64], "lines 4"]) -> None:
    """Raise for a box with an edge beyond the opposite one."""
    is_box = np.asarray((boxes[:, 2:] >= boxes[:, :2]).all(axis=1))
    check_lines(lines, is_box, "right and bottom edges behind left and top ones")


def labels_by_name(class_names: Sequence[str]) -> dict[str, int]:
    """Return the label of each class, its place among the names.

    Raises:
        TypeError: One string, or names that are no strings.
        ValueError: No name, or a repeated one.
    """
    is_sequence = isinstance(class_names, Sequence) and not isinstance(class_names, str)
    if not is_sequence or not all(isinstance(name, str) for name in class_names):
        raise TypeError(f"`class_names` must be a list or tuple of names; got {class_names!r}.")
    _checks.nonempty("class_names", class_names)
    labels: dict[str, int] = {}
    for label, name in enumerate(class_names):
        if name in labels:
            raise ValueError(f"`class_names` must give every class a name of its own; got {name!r} twice.")
        labels[name] = label
    return labels


def finite_numbers(lines: LineTable, start: int, names: Sequence[str]) -> Float[NDArray[np.float64], "lines columns"]:
    """Return the numbers in adjacent columns, from the one at `start` on.

    Raises:
        ValueError: A word is no finite number; the message has the name of its column.
    """
    numbers = lines.columns(start, len(names))
    is_finite = np.isfinite(numbers)
    if not is_finite.all():
        position, column = divmod(int(is_finite.argmin()), len(names))
        raise lines.fault(position, f"a finite number for {names[column]!r}", 1 + start + column)
    return numbers


@dataclass(frozen=True)
class BoxReader:
    """The conversion of lines with the name of a class and a box each."""

    labels: dict[str, int]
    """labels by the name of the class"""
    sizes: ImageSizes = field(default_factory=ImageSizes)
    columns: Sequence[str] = EDGES
    """names of the numbers of a box, for messages"""
    box_format: _names.BoxFormat = "xyxy"
    has_shares: bool = False
    """whether boxes are shares of the image"""

    def detections(self, sides: PairedLines, start: int, score: int, score_name: str) -> Dicts:
        """Return the dict of the detections of each image, given the columns of boxes and scores."""
        lines = sides.detections
        columns = self._columns(lines, sides.detection_files, start)
        columns["scores"] = finite_numbers(lines, score, [score_name])[:, 0]
        return split_images(columns, sides.detection_files, sides.names)

    def ground_truths(self, sides: PairedLines, start: int, **flags: NDArray[Any]) -> Dicts:
        """Return the dict of the ground truths of each image, given the column of boxes, with flags of lines.

        Raises:
            ValueError: An edge is beyond the opposite one, or a line has another fault.
        """
        lines = sides.ground_truths
        columns = self._columns(lines, lines.files, start)
        check_edges(lines, columns["boxes"])
        return split_images(columns | flags, lines.files, sides.names, has_ids=True)

    def _columns(self, lines: LineTable, files: Files, start: int) -> dict[str, NDArray[Any]]:
        """Return left, top, right and bottom and the label of each line."""
        numbers = finite_numbers(lines, start, self.columns)
        if self.has_shares:
            is_inside = np.asarray(are_shares(numbers).all(axis=1))
            check_lines(lines, is_inside, "shares of the image, from 0 to 1, in a line with a box")
        boxes = _to_edges(numbers, self.box_format) * np.tile(self.sizes.of_lines(files), 2)
        return {"boxes": boxes, "labels": find_labels(lines, self.labels)}


def find_labels(lines: LineTable, labels: Mapping[str, int]) -> Int[NDArray[np.int64], " lines"]:
    """Return the label of the class in each line.

    Raises:
        ValueError: A class is unknown.
    """
    for place, name in enumerate(lines.vocabulary):
        if name not in labels:
            position = int((lines.words == place).argmax())
            raise lines.fault(position, "classes of `class_names` only", 0, _hints.value_meant(name, labels))
    return np.array([labels[name] for name in lines.vocabulary], np.int64)[lines.words]


def _to_edges(
    numbers: Float[NDArray[np.float64], "lines 4"], box_format: _names.BoxFormat
) -> Float[NDArray[np.float64], "lines 4"]:
    """Return left, top, right and bottom of boxes."""
    if box_format == "xyxy":
        return numbers
    corners, extents = numbers[:, :2], numbers[:, 2:]
    if box_format == "cxcywh":
        corners = corners - extents / 2
    return np.concatenate([corners, corners + extents], axis=1)

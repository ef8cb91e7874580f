"""Rows of text with one box each: read by columns, checked, and collected for each image."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from reid_torchmetrics import _checks, _hints, _names
from reid_torchmetrics.files import image_dict

from .array_files import read_text_lines, reading
from .folders import Folder, list_files, match_images, warn_of_exchange
from .image_sizes import ImageSizes, Size, are_shares

Dicts: TypeAlias = list[dict[str, Any]]
Columns: TypeAlias = Sequence[str]


class Row(NamedTuple):
    """The words of a line, and its place."""

    words: Mapping[str, str]
    """words by column"""
    text: str
    where: str

    def number(self, argument: str, column: str) -> float:
        """Return the number in a column.

        Raises:
            ValueError: The word is no finite number.
        """
        word = self.words[column]
        try:
            number = float(word)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.fault(argument, f"a finite number for {column!r} in a line", f"{word!r} in {self.text!r}")
        return number

    def fault(self, argument: str, rule: str, value: str | None = None) -> ValueError:
        """Return the error for a line that breaks a rule; without a value the message shows the line."""
        return ValueError(f"`{argument}` must have {rule}; got {value or repr(self.text)}, {self.where}.")


_SCORES_OF_ONE = ("1", "1.0")
Rows: TypeAlias = dict[str, list[Row]]
"""rows of each image, by its name"""


def read_text_rows(
    argument: str, folder: Folder, find_columns: Callable[[Sequence[str]], Columns | None], rule: str
) -> Rows:
    """Read the lines of each image that has a text file.

    Args:
        argument: The name of the argument, for messages.
        folder: The folder of text files.
        find_columns: Returns the columns of a line from its words; None if the line is malformed.
        rule: The rule for a line, for messages.

    Raises:
        FileNotFoundError: The folder does not exist.
        ValueError: A folder without a text file, or a malformed line.
    """
    rows: Rows = {}
    for path in list_files(argument, folder, ".txt"):
        image_rows = []
        for where, text in read_text_lines(path):
            words = text.split()
            columns = find_columns(words)
            if columns is None:
                raise Row({}, text, where).fault(argument, rule)
            words_by_column = dict(zip(columns, words, strict=True))
            image_rows.append(Row(words_by_column, text, where))
        rows[path.stem] = image_rows
    return rows


class Table(NamedTuple):
    """A CSV file."""

    columns: list[str]
    rows: list[Row]


def read_table(argument: str, path: Path, required: Columns, spellings: Mapping[str, str]) -> Table:
    """Read a CSV file with a header.

    Args:
        argument: The name of the argument, for messages.
        path: The file.
        required: Columns that the file must have, in small or capital letters.
        spellings: Names of further columns by their names in files; other columns keep their names.

    Raises:
        OSError: There is no such file, or it may not be read.
        ValueError: A file that is no CSV, a missing column, or a row with too few or too many values.
    """
    with reading(path, "a table in CSV with a header, in UTF-8"), path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        header = [name.strip() for name in next(reader, [])]
        lines = [(reader.line_num, words) for words in reader if words]
    columns = _column_names(argument, path, header, required, spellings)
    rows = []
    for line_number, words in lines:
        words_by_column = dict(zip(columns, map(str.strip, words), strict=False))
        row = Row(words_by_column, ",".join(words), f"{path}:{line_number}")
        if len(words) != len(columns):
            rule = f"{len(columns)} values in a row, as many as names in the header"
            raise row.fault(argument, rule, f"{len(words)} in {row.text!r}")
        rows.append(row)
    return Table(columns, rows)


def _column_names(
    argument: str, path: Path, header: Columns, required: Columns, spellings: Mapping[str, str]
) -> list[str]:
    """Return the names of the columns in a header, in our own spelling.

    Raises:
        ValueError: A missing column, or two columns of one meaning.
    """
    names = {name.lower(): name for name in required}
    names |= {spelling.lower(): name for spelling, name in spellings.items()}
    columns = [names.get(name.lower(), name) for name in header]
    value = f"the header {','.join(header)!r}, {path}"
    for name in required:
        if name not in columns:
            raise ValueError(f"`{argument}` must have a column {name!r}; got {value}.")
    if len(set(columns)) != len(columns):
        raise ValueError(f"`{argument}` must have columns of different meanings; got {value}.")
    return columns


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


@dataclass(frozen=True)
class BoxColumns:
    """The columns of an object in a format of files, and their units."""

    name: str
    """column of the class"""
    box: tuple[str, str, str, str]
    """columns of the box"""
    labels: Mapping[str, int]
    """labels by the name of the class"""
    sizes: ImageSizes
    score: str
    """column of the score"""
    box_format: _names.BoxFormat = "xyxy"
    has_shares: bool = False
    """whether boxes are shares of the image"""

    def label(self, argument: str, row: Row) -> int:
        """Return the label of the class in a row.

        Raises:
            ValueError: The class is unknown.
        """
        name = row.words[self.name]
        if name not in self.labels:
            value = f"{name!r}{_hints.value_meant(name, self.labels)} in {row.text!r}"
            raise row.fault(argument, "classes of `class_names` only", value)
        return self.labels[name]

    def detections(self, image: str, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the dict of the detections in an image."""
        boxes = self._boxes("results", image, rows)
        scores = [row.number("results", self.score) for row in rows]
        labels = [self.label("results", row) for row in rows]
        return image_dict(boxes=boxes, scores=scores, labels=labels)

    def ground_truths(self, argument: str, image: str, rows: Sequence[Row]) -> dict[str, Any]:
        """Return the dict of the ground truths in an image."""
        boxes = self.ordered_boxes(argument, image, rows)
        labels = [self.label(argument, row) for row in rows]
        return image_dict(boxes=boxes, labels=labels) | {"image_id": image}

    def ordered_boxes(self, argument: str, image: str, rows: Sequence[Row]) -> list[list[float]]:
        """Return left, top, right and bottom in each row.

        Raises:
            ValueError: An edge is beyond the opposite one.
        """
        boxes = self._boxes(argument, image, rows)
        for (left, top, right, bottom), row in zip(boxes, rows, strict=True):
            if right < left or bottom < top:
                raise row.fault(argument, "right and bottom edges behind left and top ones")
        return boxes

    def _boxes(self, argument: str, image: str, rows: Sequence[Row]) -> list[list[float]]:
        """Return left, top, right and bottom in each row."""
        size = self.sizes.find(image)
        return [self._box(argument, row, size) for row in rows]

    def _box(self, argument: str, row: Row, size: Size) -> list[float]:
        numbers = [row.number(argument, column) for column in self.box]
        if self.has_shares and not are_shares(numbers):
            raise row.fault(argument, "shares of the image, from 0 to 1, in a line with a box")
        left, top, right, bottom = _to_edges(numbers, self.box_format)
        width, height = size
        return [left * width, top * height, right * width, bottom * height]


def _to_edges(numbers: Sequence[float], box_format: _names.BoxFormat) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a box."""
    if box_format == "xyxy":
        left, top, right, bottom = numbers
        return left, top, right, bottom
    x, y, width, height = numbers
    if box_format == "cxcywh":
        x -= width / 2
        y -= height / 2
    return x, y, x + width, y + height


def read_folders(
    labels: Folder,
    results: Folder,
    find_columns: Callable[[Sequence[str]], Columns | None],
    score: str,
    *,
    rule: str,
    result_rule: str,
) -> tuple[Rows, Rows]:
    """Read the ground truths and the detections of all images, by ascending name, from two folders of text files.

    Folders that were exchanged are recognized by the scores: they are read as they are meant, with a warning.

    Args:
        labels: The folder of ground truths.
        results: The folder of detections.
        find_columns: Returns the columns of a line from its words; None if the line is malformed.
        score: The column of scores.
        rule: The rule for a line of `labels`, for messages.
        result_rule: The rule for a line of `results`.

    Raises:
        FileNotFoundError: A folder that does not exist.
        ValueError: A folder without text files, two folders without a common name, or a malformed line.
    """
    ground_truths = read_text_rows("labels", labels, find_columns, rule)
    detections = read_text_rows("results", results, find_columns, result_rule)
    if _are_exchanged(ground_truths, detections, score):
        warn_of_exchange("labels", labels, results)
        ground_truths, detections = detections, ground_truths
        labels, results = results, labels
    _check_scores("labels", ground_truths, score, rule, is_result=False)
    _check_scores("results", detections, score, result_rule, is_result=True)
    return align_images(ground_truths, detections, argument="labels", folder=labels, result_folder=results)


def align_images(
    ground_truths: Rows, detections: Rows, *, argument: str, folder: Folder, result_folder: Folder
) -> tuple[Rows, Rows]:
    """Return the ground truths and the detections of all images, by ascending name; an image may have no rows.

    Raises:
        ValueError: Two names on one side belong to one image, or the sides have no image in common.
    """
    detections = match_images(ground_truths, detections, argument=argument, folder=folder, result_folder=result_folder)
    images = sorted(ground_truths.keys() | detections.keys())
    all_ground_truths = {image: ground_truths.get(image, []) for image in images}
    all_detections = {image: detections.get(image, []) for image in images}
    return all_ground_truths, all_detections


def all_rows(rows: Rows) -> list[Row]:
    """Return the rows of all images."""
    return list(chain.from_iterable(rows.values()))


def _are_exchanged(ground_truths: Rows, detections: Rows, score: str) -> bool:
    """Return whether all ground truths have a score, and no detection has one."""
    true_rows = all_rows(ground_truths)
    detected_rows = all_rows(detections)
    if not true_rows or not detected_rows:
        return False
    have_scores = all(score in row.words for row in true_rows)
    return have_scores and not any(score in row.words for row in detected_rows)


def _check_scores(argument: str, rows: Rows, score: str, rule: str, *, is_result: bool) -> None:
    """Raise unless all detections have a score, or no ground truth has one but the score 1 of datumaro for all.

    Raises:
        ValueError: The message shows the first line that breaks the rule.
    """
    if not is_result and all(row.words.get(score) in _SCORES_OF_ONE for row in all_rows(rows)):
        return
    for row in all_rows(rows):
        if (score in row.words) != is_result:
            raise row.fault(argument, rule)

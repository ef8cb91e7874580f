"""Rows of text with one box each: read by columns, checked, and collected for each image."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection.batches import image_dict

from .array_files import reading, text_lines
from .folders import Folder, check_common_name, list_files, rename_results, warn_of_exchange
from .image_sizes import ImageSizes, Size

_ROUNDING = 0.01  # tolerance of shares, as for YOLO's files

Dicts: TypeAlias = list[dict[str, Any]]
Columns: TypeAlias = Sequence[str]


class Row(NamedTuple):
    """The words of a line, and its place."""

    words: Mapping[str, str]
    """by column"""
    text: str
    where: str

    def number(self, argument: str, column: str) -> float:
        """Return the number in a column.

        Raises:
            ValueError: it is no finite number.
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
        """Return the error of a line that breaks a rule; without a value the message shows the line."""
        return ValueError(f"`{argument}` must have {rule}; got {value or repr(self.text)}, {self.where}.")


Rows: TypeAlias = dict[str, list[Row]]
"""the rows of each image, by its name"""


def read_text_rows(
    argument: str, folder: Folder, find_columns: Callable[[Sequence[str]], Columns | None], rule: str
) -> Rows:
    """Read the lines of each image that has a text file.

    Args:
        argument: the name of the argument, for messages.
        folder: the folder of text files.
        find_columns: returns the columns of a line from its words; None if the line is malformed.
        rule: what a line must be, for messages.

    Raises:
        FileNotFoundError: the folder does not exist.
        ValueError: a folder without a text file, or a malformed line.
    """
    rows: Rows = {}
    for path in list_files(argument, folder, ".txt"):
        rows[path.stem] = []
        for where, text in text_lines(path):
            words = text.split()
            columns = find_columns(words)
            if columns is None:
                raise Row({}, text, where).fault(argument, rule)
            rows[path.stem].append(Row(dict(zip(columns, words, strict=True)), text, where))
    return rows


class Table(NamedTuple):
    """A CSV file."""

    columns: list[str]
    rows: list[Row]


def read_table(argument: str, path: Path, required: Columns, spellings: Mapping[str, str]) -> Table:
    """Read a CSV file with a header.

    Args:
        argument: the name of the argument, for messages.
        path: the file.
        required: the columns that the file must have, in any case.
        spellings: the names of more columns by how files may call them; other columns keep their names.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: a file that is no CSV, a missing column, or a row with too few or too many values.
    """
    with reading(path, "a table in CSV with a header, in UTF-8"), path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        header = [name.strip() for name in next(reader, [])]
        values = [(reader.line_num, words) for words in reader if words]
    columns = _column_names(argument, path, header, required, spellings)
    rows = []
    for line_number, words in values:
        row = Row(dict(zip(columns, map(str.strip, words), strict=False)), ",".join(words), f"{path}:{line_number}")
        if len(words) != len(columns):
            rule = f"{len(columns)} values in a row, as many as names in the header"
            raise row.fault(argument, rule, f"{len(words)} in {row.text!r}")
        rows.append(row)
    return Table(columns, rows)


def _column_names(
    argument: str, path: Path, header: Columns, required: Columns, spellings: Mapping[str, str]
) -> list[str]:
    """Return the names of the columns in a header, as they are called here."""
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
        TypeError: one string, or names that are no strings.
        ValueError: no name, or a repeated one.
    """
    is_text = isinstance(class_names, str)
    if is_text or not isinstance(class_names, Sequence) or not all(isinstance(name, str) for name in class_names):
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
    """The columns of a format that make an object."""

    name: str
    """of the class"""
    box: tuple[str, str, str, str]
    labels: Mapping[str, int]
    sizes: ImageSizes
    score: str
    box_format: _names.BoxFormat = "xyxy"
    has_shares: bool = False

    def label(self, argument: str, row: Row) -> int:
        """Return the label of the class in a row.

        Raises:
            ValueError: the class is unknown.
        """
        name = row.words[self.name]
        if name not in self.labels:
            value = f"{name!r}{_checks.hint_for_value(name, self.labels)} in {row.text!r}"
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
            ValueError: an edge is beyond the opposite one.
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
        x, y, right, bottom = numbers
        if self.box_format == "cxcywh":
            x, y = x - right / 2, y - bottom / 2
        if self.box_format != "xyxy":
            right, bottom = x + right, y + bottom
        width, height = size
        return [x * width, y * height, right * width, bottom * height]


def are_shares(numbers: Sequence[float]) -> bool:
    """Return whether numbers lie within the image, up to rounding."""
    return all(-_ROUNDING <= number <= 1 + _ROUNDING for number in numbers)


def match_images(argument: str, folder: Folder, results: Folder, true: Rows, detected: Rows) -> Rows:
    """Return the detections by the names that the images have among the ground truths.

    Raises:
        ValueError: no image has both, or several names are those of one image.
    """
    renamed = rename_results(true, detected, argument=argument)
    check_common_name(list(true), list(renamed), argument=argument, folder=folder, results=results)
    return renamed


def read_folders(
    labels: Folder,
    results: Folder,
    find_columns: Callable[[Sequence[str]], Columns | None],
    score: str,
    *,
    rule: str,
    result_rule: str,
) -> tuple[Rows, Rows]:
    """Read the ground truths and the detections of each image from two folders of text files.

    Folders that were exchanged are recognized by the scores: they are read as they are meant, with a warning.

    Args:
        labels: the folder of ground truths.
        results: the folder of detections.
        find_columns: returns the columns of a line from its words; None if the line is malformed.
        score: the column of scores.
        rule: what a line of `labels` must be, for messages.
        result_rule: what a line of `results` must be.

    Raises:
        FileNotFoundError: a folder that does not exist.
        ValueError: a folder without text files, two folders without a common name, or a malformed line.
    """
    true = read_text_rows("labels", labels, find_columns, rule)
    detected = read_text_rows("results", results, find_columns, result_rule)
    if _are_exchanged(true, detected, score):
        warn_of_exchange("labels", labels, results)
        true, detected = detected, true
        labels, results = results, labels
    _check_scores("labels", true, score, rule, is_result=False)
    _check_scores("results", detected, score, result_rule, is_result=True)
    return true, match_images("labels", labels, results, true, detected)


def all_rows(rows: Rows) -> list[Row]:
    """Return the rows of all images."""
    return [row for rows_of_image in rows.values() for row in rows_of_image]


def _are_exchanged(true: Rows, detected: Rows, score: str) -> bool:
    """Return whether all ground truths have a score, and none of the detections has."""
    true_have_score = [score in row.words for row in all_rows(true)]
    detected_have_score = [score in row.words for row in all_rows(detected)]
    if not true_have_score or not detected_have_score:
        return False
    return all(true_have_score) and not any(detected_have_score)


def _check_scores(argument: str, rows: Rows, score: str, rule: str, *, is_result: bool) -> None:
    """Raise unless all detections have a score, or no ground truth has one.

    Raises:
        ValueError: the message shows the first line that breaks the rule.
    """
    for row in all_rows(rows):
        if (score in row.words) != is_result:
            raise row.fault(argument, rule)

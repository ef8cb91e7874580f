"""The columns of COCO's files: required keys, optional keys, and the values that each may have.

There is one table for each list of a data set (`images`, `categories`, `annotations`) and one for results. Everything
that reads COCO's files reads these tables. Source of the columns: the data format and the results format of COCO
(cocodataset.org), and the data format of LVIS (lvisdataset.org).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reid_torchmetrics.functional.detection.batches import are_similar, simplified

Row: TypeAlias = Mapping[str, Any]

_MAX_CHARACTERS = 60  # of a value in a message
_MAX_KEYS = 8
_MAX_IDS = 5
_INT64 = range(-(2**63), 2**63)
_NO_VALUE: Any = object()


@dataclass(frozen=True)
class ValueKind:
    """A kind of values that a column may have: numbers between two ends, texts, or lists of numbers."""

    rule: str
    """completes "must have ... as `key`\""""
    is_valid: Callable[[Any], bool]

    def first_invalid(self, values: Sequence[Any]) -> int | None:
        """Return the position of the first value that is not allowed; None if all values are."""
        if self._are_surely_valid(values):
            return None
        for position, value in enumerate(values):
            if not self.is_valid(value):
                return position
        return None

    def _are_surely_valid(self, values: Sequence[Any]) -> bool:
        """Return whether all values are valid, by few of them; False only means that each value must be tested."""
        types = set(map(type, values))
        if types == {list}:
            are_valid = all(self.is_valid([0] * length) for length in set(map(len, values)))
            return are_valid and NUMBER.first_invalid(list(chain.from_iterable(values))) is None
        if types == {str}:
            return self.is_valid("a")
        if types <= {int}:  # valid ints have no gaps
            return not values or (self.is_valid(min(values)) and self.is_valid(max(values)))
        if types == {float} and self.is_valid(math.nan):
            return True
        if types <= {int, float} and self.is_valid(0.5):
            # Both ends are NaN if a number is. Ints that are too large for float64 make an array of objects.
            numbers = np.array(values)
            return numbers.dtype.kind == "f" and self.is_valid(numbers.min()) and self.is_valid(numbers.max())
        return False


def is_number(value: object) -> bool:
    """Return whether a value is an int or float, of Python or NumPy, that float64 can hold; NaN and infinity are."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def is_finite_number(value: object) -> bool:
    """Return whether a value is a finite int or float."""
    return is_number(value) and math.isfinite(float(value))  # type: ignore[arg-type]


def is_whole_number(value: object) -> bool:
    """Return whether a value is an int, or a float without a fraction, that fits int64."""
    if type(value) is int:
        return value in _INT64
    if not is_finite_number(value):
        return False
    return float(value) % 1 == 0 and int(value) in _INT64  # type: ignore[arg-type, call-overload]


def is_image_id(value: object) -> bool:
    """Return whether a value is a whole number or a text."""
    return isinstance(value, str) or is_whole_number(value)


def is_missing(value: object) -> bool:
    """Return whether a value stands for no box, no mask or no name: null, or an empty list or text."""
    return value is None or (isinstance(value, (list, tuple, str, dict)) and not value)


def _is_list_of_numbers(value: object, lengths: Container[int]) -> bool:
    """Return whether a value is a list, a tuple or an array of numbers with one of some lengths."""
    if not isinstance(value, (list, tuple, np.ndarray)) or len(value) not in lengths:
        return False
    return all(map(is_number, value))


IMAGE_ID = ValueKind("a whole number below 2**63 or a name", is_image_id)
WHOLE_NUMBER = ValueKind("a whole number below 2**63", is_whole_number)
COUNT = ValueKind("a whole number of at least 0", lambda value: is_whole_number(value) and float(value) >= 0)
NUMBER = ValueKind("a number", is_number)
FINITE_NUMBER = ValueKind("a finite number", is_finite_number)
AREA = ValueKind("a number of at least 0", lambda value: is_finite_number(value) and float(value) >= 0)
FLAG = ValueKind("0 or 1", lambda value: isinstance(value, (bool, np.bool_)) or (is_number(value) and value in (0, 1)))
TEXT = ValueKind("a text", lambda value: value is None or isinstance(value, str))
BOX = ValueKind("four numbers", lambda value: is_missing(value) or _is_list_of_numbers(value, (4,)))
ROTATED_BOX = ValueKind("5 numbers or 8", lambda value: _is_list_of_numbers(value, (5, 8)))
KEYPOINTS = ValueKind(
    "x, y and visibility of each keypoint", lambda value: _is_list_of_numbers(value, range(3, sys.maxsize, 3))
)


@dataclass(frozen=True)
class Column:
    """A key of the rows of a list."""

    key: str
    kind: ValueKind | None
    """the allowed values; None for values with a check of their own, such as masks"""
    is_required: bool = True
    """whether a row without the key is an error"""
    other_keys: tuple[str, ...] = ()
    """keys of other tools for the same values, in lower case without `_` and `-`; messages name them"""


_IMAGE_ID = Column("image_id", IMAGE_ID, other_keys=("image", "imgid", "img", "imagename", "filename"))
_CATEGORY_ID = Column(
    "category_id", WHOLE_NUMBER, other_keys=("classid", "class", "cls", "category", "labelid", "label", "catid")
)
_BOX = Column("bbox", BOX, is_required=False, other_keys=("box", "boxes", "boundingbox", "xywh", "xyxy"))
_MASK = Column(
    "segmentation", None, is_required=False, other_keys=("mask", "masks", "segm", "rle", "polygon", "polygons")
)
_KEYPOINTS = Column("keypoints", KEYPOINTS, is_required=False, other_keys=("kpts", "points", "pose", "landmarks"))
_ROTATED_BOX = Column("rotated_box", ROTATED_BOX, is_required=False, other_keys=("rotatedbbox", "corners"))

RESULTS = (
    _IMAGE_ID,
    _CATEGORY_ID,
    Column("score", NUMBER, other_keys=("confidence", "conf", "probability", "prob", "certainty", "scores")),
    _BOX,
    _MASK,
    _KEYPOINTS,
    _ROTATED_BOX,
)
ANNOTATIONS = (
    _IMAGE_ID,
    _CATEGORY_ID,
    Column("iscrowd", FLAG, is_required=False, other_keys=("crowd", "isgroup", "isgroupof")),
    Column("area", AREA, is_required=False),
    Column("ignore", FLAG, is_required=False),
    Column("num_keypoints", COUNT, is_required=False),
    _BOX,
    _MASK,
    _KEYPOINTS,
    _ROTATED_BOX,
)
IMAGES = (
    Column("id", IMAGE_ID, other_keys=("imageid", "imgid")),
    Column("file_name", TEXT, is_required=False),
    Column("width", None, is_required=False),
    Column("height", None, is_required=False),
)
CATEGORIES = (
    Column("id", WHOLE_NUMBER, other_keys=("categoryid", "catid", "classid")),
    Column("name", TEXT, is_required=False),
)
TABLES = {"images": IMAGES, "categories": CATEGORIES, "annotations": ANNOTATIONS, "results": RESULTS}
"""the columns of each list"""


@dataclass(frozen=True)
class RowList:
    """A list of rows, with its name for messages."""

    source: str
    """path of the file, or name of the argument"""
    name: str
    """`images`, `categories`, `annotations` or `results`"""
    rows: Sequence[dict[str, Any]]
    positions: Sequence[int] | None = None
    """positions of the rows in the file; None for all rows"""

    def select(self, positions: Sequence[int]) -> RowList:
        """Return some of the rows; messages name their positions in the file."""
        rows = [self.rows[position] for position in positions]
        if self.positions is not None:
            positions = [self.positions[position] for position in positions]
        return replace(self, rows=rows, positions=positions)

    def place(self, position: int) -> str:
        """Return the place of a row for a message, such as "`annotations[3]` (id 41, image 7)"."""
        row = self.rows[position]
        number = position if self.positions is None else self.positions[position]
        names = []
        if self.name != "results" and "id" in row:
            names.append(f"id {shortened(row['id'])}")
        if "image_id" in row:
            names.append(f"image {shortened(row['image_id'])}")
        ids = f" ({', '.join(names)})" if names else ""
        return f"`{self.name}[{number}]`{ids}"

    def invalid(self, position: int, key: str, rule: str, got: object = _NO_VALUE) -> ValueError:
        """Return the error for a value that is not allowed: the value of `key` unless `got` is passed."""
        value = self.rows[position].get(key) if got is _NO_VALUE else got
        return ValueError(
            f"`{self.source}` must have {rule} as `{key}`; got {shortened(value)} in {self.place(position)}."
        )

    def missing(self, position: int, column: Column) -> ValueError:
        """Return the error for a row without a column."""
        row = self.rows[position]
        similar = _similar_key(column, row)
        if similar is None:
            # An unknown key may be the one that is meant, so it comes first.
            known_keys = self._known_keys()
            keys = sorted(map(str, row), key=known_keys.__contains__)
            got = f"the keys {', '.join(keys[:_MAX_KEYS])}" if keys else "an empty object"
        else:
            got = f"`{similar}` in its place"
        return ValueError(
            f"`{self.source}` must have `{column.key}` in every row of `{self.name}`; got {got} in"
            f" {self.place(position)}."
        )

    def check(self, columns: Iterable[Column]) -> None:
        """Raise for the first column with a missing value, an invalid value or a misspelled key.

        All rows of a column are checked together, since files may have hundreds of thousands of rows.

        Raises:
            ValueError: the message names the file, the row, the key and the value.
        """
        keys = set().union(*self.rows)
        for column in columns:
            if column.key in keys or column.is_required:
                self._check_column(column)
            if not column.is_required and self.name in ("annotations", "results"):
                self._check_similar_keys(column, keys)

    def _known_keys(self) -> set[str]:
        """Return the keys of all columns of the list."""
        return {column.key for column in TABLES[self.name]}

    def _check_column(self, column: Column) -> None:
        """Raise for the first row without a required key, else for the first row with an invalid value."""
        positions: Sequence[int] = range(len(self.rows))
        try:
            values = list(map(itemgetter(column.key), self.rows))
        except KeyError:
            if column.is_required:
                lacks_key = [column.key not in row for row in self.rows]
                raise self.missing(lacks_key.index(True), column) from None
            positions = [position for position, row in enumerate(self.rows) if column.key in row]
            values = [self.rows[position][column.key] for position in positions]
        if column.kind is None:
            return
        invalid = column.kind.first_invalid(values)
        if invalid is not None:
            raise self.invalid(positions[invalid], column.key, column.kind.rule)

    def misspelled_keys(self, column: Column, keys: Iterable[str]) -> set[str]:
        """Return the keys that may stand for that of a column, among the keys of rows."""
        unknown_keys = set(keys) - self._known_keys()
        return {key for key in unknown_keys if _are_similar(column, key)}

    def _check_similar_keys(self, column: Column, keys: Iterable[str]) -> None:
        """Raise if a row has a misspelled key in the place of an optional one."""
        misspelled = self.misspelled_keys(column, keys)
        if not misspelled:
            return
        for position, row in enumerate(self.rows):
            if column.key not in row and not misspelled.isdisjoint(row):
                raise self.missing(position, column)


class Note(NamedTuple):
    """A line for the user about a decision that the files leave open."""

    text: str
    is_doubtful: bool
    """whether another decision is as likely, so that a number may depend on it"""


def check_kind_of_ids(images: RowList) -> None:
    """Raise unless the ids of all images are numbers, or all are texts.

    Raises:
        ValueError: the message names the file and the first image with an id of another kind.
    """
    are_texts = [isinstance(image["id"], str) for image in images.rows]
    if any(are_texts) and not all(are_texts):
        position = are_texts.index(not are_texts[0])
        kind = "a text" if are_texts[0] else "a number"
        raise images.invalid(position, "id", f"{kind}, like that of the first image,")


def repeated_id(rows: RowList) -> str:
    """Return the message about two images or two categories with one id; "" if ids differ."""
    places: dict[Any, int] = {}
    for position, row in enumerate(rows.rows):
        first = places.setdefault(row["id"], position)
        if first != position:
            return (
                f"`{rows.source}` must have each `id` of `{rows.name}` once; got {shortened(row)} after"
                f" {shortened(rows.rows[first])} in {rows.place(position)}."
            )
    return ""


def check_distinct(rows: RowList) -> None:
    """Raise a ValueError, which names both rows, if two images or two categories have one id."""
    message = repeated_id(rows)
    if message:
        raise ValueError(message)


def unknown_id(row_list: RowList, key: str, ids: Collection[Any]) -> str:
    """Return the message about the first row with an image or a category that the data set lacks; "" without one.

    A data set without categories lacks none.
    """
    is_category = key == "category_id"
    for position, row in enumerate(row_list.rows if ids or not is_category else ()):
        if row[key] not in ids:
            first_ids = ", ".join(map(repr, islice(ids, _MAX_IDS))) or "none"
            ellipsis = ", ..." if len(ids) > _MAX_IDS else ""
            ending = "."
            if is_category and row[key] in (0, len(ids)):
                ending = f"; are yours counted from {int(row[key] > 0)}?"
            name = "categories" if is_category else "images"
            return (
                f"`{row_list.source}` must have {row_list.name} in {name} of the data set only; got"
                f" {shortened(row[key])} as `{key}` in {row_list.place(position)}; those of the data set are"
                f" {first_ids}{ellipsis}{ending}"
            )
    return ""


def counts_although_ignored(row: Row, *, reads_keypoints: bool) -> bool:
    """Return whether `ignore` marks an annotation that counts all the same, as in pycocotools, which overwrites it."""
    if not isinstance(row.get("ignore"), (bool, int, float)) or not row["ignore"]:
        return False
    has_no_keypoints = reads_keypoints and row.get("num_keypoints") == 0
    return not row.get("iscrowd") and not has_no_keypoints


def similar_key(key: str, row: Row) -> str | None:
    """Return the key of a result or an annotation that is used in place of `key`; None if there is none."""
    columns = {column.key: column for column in (*ANNOTATIONS, *RESULTS)}
    return _similar_key(columns[key], row) if key in columns else None


def _similar_key(column: Column, row: Row) -> str | None:
    """Return the key of a row that is used in place of a column's key; None if there is none."""
    for key in row:
        if _are_similar(column, key):
            return key
    simple_keys = {simplified(key): key for key in row}
    for other_key in column.other_keys:
        simple_key = simplified(other_key)
        if simple_key in simple_keys:
            return simple_keys[simple_key]
    return None


def _are_similar(column: Column, key: str) -> bool:
    """Return whether a key is another spelling of a column's key, or another word for `iscrowd`."""
    if column.key == "iscrowd" and simplified(key) in column.other_keys:
        return True
    return are_similar(key, column.key)


def shortened(value: Any) -> str:
    """Return the start of a value as JSON, for a message."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):  # rows in memory may hold anything
        text = repr(value)
    if len(text) > _MAX_CHARACTERS:
        text = f"{text[:_MAX_CHARACTERS]}..."
    return text

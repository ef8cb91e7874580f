"""CSV files of Open Images: one of annotated boxes, and one of detections."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .array_files import reading
from .box_lines import BoxReader, Dicts, labels_by_name, pair_images
from .folders import warn_of_exchange
from .image_sizes import ImageSizes, Sizes
from .line_tables import Line, LineTable, table_of_lines
from .text_files import read_rows

_IMAGE = "ImageID"
_BOX = ("XMin", "YMin", "XMax", "YMax")
_REQUIRED = (_IMAGE, "LabelName", *_BOX)
_GROUP = "IsGroupOf"
_SPELLINGS = {name.lower(): name for name in (*_REQUIRED, _GROUP, "Source", "Score")}
_SPELLINGS |= {"confidence": "Score", "conf": "Score"}
"""names of columns by their names in files, in small letters"""
_ANNOTATION_COLUMNS = frozenset((_GROUP, "Source"))
"""columns of annotations alone"""
_IS_GROUP = {"1": 1, "true": 1, "0": 0, "-1": 0, "false": 0, "": 0}
"""meaning of the values of `IsGroupOf`, in small letters; -1 is unknown"""


def read_open_images(
    annotations: str | PathLike[str],
    results: str | PathLike[str],
    class_names: Sequence[str],
    *,
    image_sizes: Sizes = None,
) -> tuple[Dicts, Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `DetectionMAP.update`.

    The header of both files has `ImageID`, `LabelName`, `XMin`, `XMax`, `YMin` and `YMax`, in any order and case, that
    of `results` also `Score` or `Confidence`. Edges are shares of the image. A label is the place of `LabelName` in
    `class_names`. Files that were exchanged are recognized by their columns: they are read as they are meant, with a
    warning. Source of the format: the description of the data set Open Images.

    A box with `IsGroupOf` 1 is a crowd, `iscrowd` 1: a detection without an object is ignored if the share of its area
    in the box reaches the threshold. The other flags have no meaning for the numbers, nor has the confidence of
    annotations, which is always 1. The numbers of the Open Images Challenge differ: they leave out classes that nobody
    verified in an image, expand the hierarchy of classes, and count a group as found once if a detection is in it.

    Args:
        annotations: CSV file of annotated boxes, such as `validation-annotations-bbox.csv`.
        results: CSV file of detections.
        class_names: the values of `LabelName` that are evaluated, such as `/m/01g317`, as they stand in the files.
        image_sizes: width and height in pixels of all images, or of each by its name; boxes are then in pixels. None
            leaves them as shares, with the same overlaps, but without areas for COCO's ranges.

    Returns:
        For each image `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels`, `iscrowd`, int64, and
        `image_id`, the name of the image, a str. Boxes are left, top, right and bottom, `box_format="xyxy"`.

    Raises:
        OSError: There is no such file, or it may not be read.
        TypeError: `class_names` is no list of names, or `image_sizes` are neither a pair of sizes nor such pairs by
            name.
        ValueError: A file that is no CSV, without a required column, or without annotations; two files without a common
            image; a malformed row, a share outside of 0 to 1 by more than 0.01, or a class that is not among
            `class_names`, named with file and line; or an image without a size.
    """
    classes = labels_by_name(class_names)
    true_table = _read_table("annotations", Path(annotations))
    detected_table = _read_table("results", Path(results))
    if true_table.are_results and not detected_table.are_results:
        warn_of_exchange("annotations", annotations, results)
        true_table, detected_table = detected_table, true_table
        annotations, results = results, annotations
    if "Score" not in detected_table.columns:
        columns = ",".join(detected_table.columns)
        raise ValueError(
            f"`results` must have a column 'Score' or 'Confidence'; got the header {columns!r}, {results}."
        )
    if not true_table.rows:
        raise ValueError(f"`annotations` must have a row for each box; got a header alone, {annotations}.")
    flags = [name for name in true_table.columns if name == _GROUP]
    ground_truths = true_table.lines("annotations", (*_BOX, *flags))
    detections = detected_table.lines("results", (*_BOX, "Score"))
    sides = pair_images(ground_truths, detections, annotations, results)
    reader = BoxReader(classes, ImageSizes(image_sizes), _BOX, has_shares=True)
    preds = reader.detections(sides, start=0, score=len(_BOX), score_name="Score")
    return preds, reader.ground_truths(sides, start=0, iscrowd=_are_groups(ground_truths, has_flags=bool(flags)))


class _Table(NamedTuple):
    """A CSV file."""

    columns: Sequence[str]
    rows: Sequence[Line]

    @property
    def are_results(self) -> bool:
        """Whether the table has scores, and no column of annotations."""
        return "Score" in self.columns and _ANNOTATION_COLUMNS.isdisjoint(self.columns)

    def lines(self, argument: str, number_columns: Sequence[str]) -> LineTable:
        """Return the class and some columns of each row, by image.

        Raises:
            ValueError: A row without an image.
        """
        image_place = self.columns.index(_IMAGE)
        places = [self.columns.index(name) for name in ("LabelName", *number_columns)]
        by_image: dict[str, list[Line]] = {}
        for row in self.rows:
            image = row.words[image_place]
            if not image:
                raise row.fault(argument, f"an image in the column {_IMAGE!r} of each row")
            by_image.setdefault(image, []).append(row._replace(words=[row.words[place] for place in places]))
        return table_of_lines(argument, by_image)


def _read_table(argument: str, path: Path) -> _Table:
    """Read a CSV file with a header.

    Raises:
        OSError: There is no such file, or it may not be read.
        ValueError: A file that is no CSV, a missing column, two columns of one meaning, or a row with too few or too
            many values.
    """
    with reading(path, "a table in CSV with a header, in UTF-8"):
        numbered_rows = read_rows(path).numbered_rows
    lines = [Line(list(map(str.strip, words)), ",".join(words), f"{path}:{number}") for number, words in numbered_rows]
    header = lines[0].words if lines else []
    columns = [_SPELLINGS.get(name.lower(), name) for name in header]
    value = f"the header {','.join(header)!r}, {path}"
    for name in _REQUIRED:
        if name not in columns:
            raise ValueError(f"`{argument}` must have a column {name!r}; got {value}.")
    if len(set(columns)) != len(columns):
        raise ValueError(f"`{argument}` must have columns of different meanings; got {value}.")
    for row in lines[1:]:
        if len(row.words) != len(columns):
            rule = f"{len(columns)} values in a row, as many as names in the header"
            raise row.fault(argument, rule, f"{len(row.words)} in ")
    return _Table(columns, lines[1:])


def _are_groups(lines: LineTable, *, has_flags: bool) -> NDArray[np.int64]:
    """Return 1 for a box around a group of objects, and 0 for other boxes, by the last word of each line.

    Raises:
        ValueError: Another value of `IsGroupOf`.
    """
    if not has_flags:
        return np.zeros(len(lines), np.int64)
    words = [word.lower() for word in lines.last_words]
    for position, word in enumerate(words):
        if word not in _IS_GROUP:
            raise lines.fault(position, f"0, 1 or -1 in the column {_GROUP!r}", -1)
    return np.array([_IS_GROUP[word] for word in words], np.int64)

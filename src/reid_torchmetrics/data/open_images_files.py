"""CSV files of Open Images: one of annotated boxes, and one of detections."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from reid_torchmetrics._signatures import with_hints
from reid_torchmetrics.files import image_dict

from .box_rows import BoxColumns, Dicts, Row, Rows, Table, align_images, labels_by_name, read_table
from .folders import warn_of_exchange
from .image_sizes import ImageSizes, Sizes

_IMAGE = "ImageID"
_BOX = ("XMin", "YMin", "XMax", "YMax")
_REQUIRED = (_IMAGE, "LabelName", *_BOX)
_SPELLINGS = {
    "IsGroupOf": "IsGroupOf",
    "Source": "Source",
    "Score": "Score",
    "Confidence": "Score",
    "Conf": "Score",
}
"""names of further columns by their names in files"""
_ANNOTATION_COLUMNS = frozenset(("IsGroupOf", "Source"))
"""columns of annotations alone"""
_IS_GROUP = {"1": 1, "true": 1, "0": 0, "-1": 0, "false": 0, "": 0}
"""meaning of the values of `IsGroupOf`, in small letters; -1 is unknown"""


@with_hints
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
    true_table = read_table("annotations", Path(annotations), _REQUIRED, _SPELLINGS)
    detected_table = read_table("results", Path(results), _REQUIRED, _SPELLINGS)
    if _are_results(true_table) and not _are_results(detected_table):
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
    ground_truths = _group_by_image("annotations", true_table)
    detections = _group_by_image("results", detected_table)
    ground_truths, detections = align_images(
        ground_truths, detections, argument="annotations", folder=annotations, result_folder=results
    )
    box_columns = BoxColumns(
        name="LabelName", box=_BOX, labels=classes, sizes=ImageSizes(image_sizes), score="Score", has_shares=True
    )
    preds = [box_columns.detections(image, rows) for image, rows in detections.items()]
    target = []
    for image, rows in ground_truths.items():
        flags = image_dict(iscrowd=[_is_group(row) for row in rows])
        target.append(box_columns.ground_truths("annotations", image, rows) | flags)
    return preds, target


def _are_results(table: Table) -> bool:
    """Return whether a table has scores, and no column of annotations."""
    return "Score" in table.columns and _ANNOTATION_COLUMNS.isdisjoint(table.columns)


def _group_by_image(argument: str, table: Table) -> Rows:
    """Return the rows of each image.

    Raises:
        ValueError: A row without an image.
    """
    rows: Rows = {}
    for row in table.rows:
        image = row.words[_IMAGE]
        if not image:
            raise row.fault(argument, f"an image in the column {_IMAGE!r} of each row")
        rows.setdefault(image, []).append(row)
    return rows


def _is_group(row: Row) -> int:
    """Return 1 for a box around a group of objects, and 0 for other boxes.

    Raises:
        ValueError: Another value of `IsGroupOf`.
    """
    word = row.words.get("IsGroupOf", "")
    if word.lower() not in _IS_GROUP:
        raise row.fault("annotations", "0, 1 or -1 in the column 'IsGroupOf'", f"{word!r} in {row.text!r}")
    return _IS_GROUP[word.lower()]

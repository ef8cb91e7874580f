"""Text files of Cartucho's mAP and Rafael Padilla's tools: one for each image, a line for each box."""

from __future__ import annotations

from collections.abc import Sequence

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._signatures import with_hints
from reid_torchmetrics.files import image_dict

from .box_rows import BoxColumns, Columns, Dicts, Row, Rows, all_rows, labels_by_name, read_folders
from .folders import Folder
from .image_sizes import ImageSizes, Sizes, are_shares

_BOX = ("left", "top", "right", "bottom")
_LAYOUTS = {5: ("class", *_BOX), 6: ("class", "confidence", *_BOX)}
"""columns by the number of words in a line"""
_DIFFICULT_LAYOUT = ("class", *_BOX, "difficult")
_NUMBERS = {
    "xyxy": "left top right bottom",
    "xywh": "left top width height",
    "cxcywh": "center_x center_y width height",
}
"""numbers of a box in words, for messages"""


@with_hints
def read_cartucho(
    labels: Folder,
    results: Folder,
    class_names: Sequence[str],
    *,
    box_format: _names.BoxFormat = "xyxy",
    image_sizes: Sizes = None,
) -> tuple[Dicts, Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `VocMAP.update`.

    A line of `labels` is `class left top right bottom`, perhaps with the word `difficult` behind it; a line of
    `results` is `class confidence left top right bottom`. A label is the place of the class in `class_names`. An image
    may have a file in one folder only. Folders that were exchanged are recognized by the confidences: they are read as
    they are meant, with a warning. Sources of the format: Cartucho's mAP, and Rafael Padilla's
    Object-Detection-Metrics and review_object_detection_metrics. These tools take the last pixel as a part of the box,
    as `VocMAP` does.

    Args:
        labels: folder of text files, named like the images.
        results: folder of text files, named like the images.
        class_names: names of the classes that are evaluated.
        box_format: meaning of the four numbers: "xyxy": left, top, right, bottom; "xywh": left, top, width, height;
            "cxcywh": the center, width, height. Padilla's relative coordinates are "cxcywh".
        image_sizes: width and height in pixels of all images, or of each by its name, for files with shares of the
            image. None leaves the numbers in the unit that they have.

    Returns:
        For each image `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels` and `image_id`, the name
        of the image, a str, with `difficult`, bool, if any line has the word. Boxes are left, top, right and bottom,
        `box_format="xyxy"`, whatever format the files have.

    Raises:
        FileNotFoundError: A folder that does not exist.
        TypeError: `class_names` is no list of names, or `image_sizes` are neither a pair of sizes nor such pairs by
            name.
        ValueError: An unknown `box_format`; a folder without text files; two folders without a common name; a malformed
            line, a class that is not among `class_names`, or a confidence that is behind the box, named with file and
            line; shares of the image in one folder and pixels in the other one; or an image without a size.
    """
    _checks.one_of("box_format", box_format, _names.BoxFormat)
    label_rule = f"lines of 'class {_NUMBERS[box_format]}', perhaps with 'difficult' behind, and no spaces in names"
    result_rule = f"lines of 'class confidence {_NUMBERS[box_format]}' and no spaces in names"
    classes = labels_by_name(class_names)
    ground_truths, detections = read_folders(
        labels, results, _find_columns, "confidence", rule=label_rule, result_rule=result_rule
    )
    _check_order(detections)
    if image_sizes is None:
        _check_units(ground_truths, detections)
    columns = BoxColumns(
        name="class",
        box=_BOX,
        labels=classes,
        sizes=ImageSizes(image_sizes),
        score="confidence",
        box_format=box_format,
        has_shares=image_sizes is not None,
    )
    preds = [columns.detections(image, rows) for image, rows in detections.items()]
    target = [columns.ground_truths("labels", image, rows) for image, rows in ground_truths.items()]
    if any("difficult" in row.words for row in all_rows(ground_truths)):
        for image, rows in zip(target, ground_truths.values(), strict=True):
            flags = ["difficult" in row.words for row in rows]
            image.update(image_dict(difficult=flags))
    return preds, target


def _find_columns(words: Sequence[str]) -> Columns | None:
    """Return the columns of a line; None if the number of words is wrong."""
    if len(words) == len(_DIFFICULT_LAYOUT) and words[-1].lower() == "difficult":
        return _DIFFICULT_LAYOUT
    return _LAYOUTS.get(len(words))


def _check_order(detections: Rows) -> None:
    """Raise if the last number in all lines is from 0 to 1, and the first one in none, of boxes in pixels.

    Such a last number is the confidence, as some tools write it; it would be read as the bottom edge of a box.

    Raises:
        ValueError: The message shows the first line.
    """
    rows = all_rows(detections)
    confidences = [row.number("results", "confidence") for row in rows]
    bottoms = [row.number("results", "bottom") for row in rows]
    has_box_of_shares = any(_has_shares("results", row) for row in rows)
    has_confidence = any(are_shares([number]) for number in confidences)
    if rows and are_shares(bottoms) and not has_box_of_shares and not has_confidence:
        raise rows[0].fault("results", "the confidence in front of the box")


def _check_units(ground_truths: Rows, detections: Rows) -> None:
    """Raise if all boxes of one folder are shares of the image, and no box of the other one is.

    Raises:
        ValueError: The message shows the first line of each folder.
    """
    true_rows = all_rows(ground_truths)
    detected_rows = all_rows(detections)
    if not true_rows or not detected_rows:
        return
    are_true_shares = [_has_shares("labels", row) for row in true_rows]
    are_detected_shares = [_has_shares("results", row) for row in detected_rows]
    if all(are_true_shares) and not any(are_detected_shares):
        raise _unit_error("labels", true_rows[0], "results", detected_rows[0])
    if all(are_detected_shares) and not any(are_true_shares):
        raise _unit_error("results", detected_rows[0], "labels", true_rows[0])


def _unit_error(share_argument: str, share_row: Row, pixel_argument: str, pixel_row: Row) -> ValueError:
    """Return the error for a folder with pixels beside a folder with shares."""
    rule = f"coordinates in the unit of `{share_argument}`"
    value = f"shares such as {share_row.text!r}, {share_row.where}, and pixels such as {pixel_row.text!r}"
    return pixel_row.fault(pixel_argument, rule, value)


def _has_shares(argument: str, row: Row) -> bool:
    return are_shares([row.number(argument, column) for column in _BOX])

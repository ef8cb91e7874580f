"""Text files of Cartucho's mAP and Rafael Padilla's tools: one for each image, a line for each box."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from reid_torchmetrics import _checks, _names

from .box_lines import EDGES, BoxReader, Dicts, PairedLines, finite_numbers, labels_by_name, read_folders
from .folders import Folder
from .image_sizes import ImageSizes, Sizes, are_shares
from .line_tables import LineTable

_DETECTION = ("confidence", *EDGES)
_NUMBERS = {
    "xyxy": "left top right bottom",
    "xywh": "left top width height",
    "cxcywh": "center_x center_y width height",
}
"""numbers of a box in words, for messages"""


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
    sides = read_folders(labels, results, _find_roles, rule=label_rule, result_rule=result_rule)
    _check_units(sides, are_pixels_allowed=image_sizes is None)
    reader = BoxReader(classes, ImageSizes(image_sizes), box_format=box_format, has_shares=image_sizes is not None)
    preds = reader.detections(sides, start=1, score=0, score_name="confidence")
    are_difficult = _are_difficult(sides.ground_truths)
    flags = {"difficult": are_difficult} if are_difficult.any() else {}
    return preds, reader.ground_truths(sides, start=0, **flags)


def _are_difficult(lines: LineTable) -> Bool[NDArray[np.bool_], " lines"]:
    """Return which lines of a class and a box end with the word `difficult`."""
    is_difficult: NDArray[np.bool_] = np.array([word.lower() == "difficult" for word in lines.last_words], np.bool_)
    is_difficult &= lines.lengths == len(_DETECTION)
    return is_difficult


def _find_roles(lines: LineTable) -> tuple[Bool[NDArray[np.bool_], " lines"], Bool[NDArray[np.bool_], " lines"]]:
    """Return which lines may be ground truths, and which may be detections."""
    are_difficult = _are_difficult(lines)
    return (lines.lengths == len(EDGES)) | are_difficult, (lines.lengths == len(_DETECTION)) & ~are_difficult


def _check_units(sides: PairedLines, *, are_pixels_allowed: bool) -> None:
    """Raise for confidences behind boxes, and for shares of the image on one side and pixels on the other.

    Raises:
        ValueError: The last number in all lines of detections is from 0 to 1, and the first one in none, of boxes in
            pixels: such a last number is the confidence, as some tools write it, and would be read as the bottom edge
            of a box. Or all boxes of one folder are shares of the image, and no box of the other one is.
    """
    detections = finite_numbers(sides.detections, 0, _DETECTION)
    are_detected_shares = np.asarray(are_shares(detections[:, 1:]).all(axis=1))
    may_be_score = are_shares(detections)
    is_behind = may_be_score[:, -1].all() and not are_detected_shares.any() and not may_be_score[:, 0].any()
    if len(detections) and is_behind:
        raise sides.detections.fault(0, "the confidence in front of the box")
    are_true_shares = np.asarray(are_shares(finite_numbers(sides.ground_truths, 0, EDGES)).all(axis=1))
    if not are_pixels_allowed or not len(detections) or not len(are_true_shares):
        return
    if are_true_shares.all() and not are_detected_shares.any():
        raise _unit_error(sides.ground_truths, sides.detections)
    if are_detected_shares.all() and not are_true_shares.any():
        raise _unit_error(sides.detections, sides.ground_truths)


def _unit_error(shares: LineTable, pixels: LineTable) -> ValueError:
    """Return the error for a folder with pixels beside a folder with shares."""
    share, pixel = shares.find_line(0), pixels.find_line(0)
    value = f"shares such as {share.text!r}, {share.where}, and pixels such as {pixel.text!r}, {pixel.where}"
    return ValueError(f"`{pixels.argument}` must have coordinates in the unit of `{shares.argument}`; got {value}.")

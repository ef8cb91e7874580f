"""Lines of text with the name of a class and a box each: paired by image, checked and converted.

Cartucho's mAP, Rafael Padilla's tools and KITTI have a text file for each image, with a line for each box.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from reid_torchmetrics import _checks, _hints, _names
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.files import ImagesByName, check_apart

from .folders import Folder, list_files, warn_of_exchange
from .image_sizes import ImageSizes, Sizes, are_shares
from .line_tables import Files, LineTable, exchange, read_lines, split_images

KITTI_CLASSES = ("Car", "Van", "Truck", "Pedestrian", "Person_sitting", "Cyclist", "Tram", "Misc")
"""names of the 8 classes of KITTI's labels, without the regions `DontCare`"""

Dicts: TypeAlias = list[dict[str, Any]]
EDGES = ("left", "top", "right", "bottom")
"""names of the numbers of a box, for messages"""

_FEW = 0.5  # of the images on one side are on both sides
_DETECTION = ("confidence", *EDGES)
_NUMBERS = {
    "xyxy": "left top right bottom",
    "xywh": "left top width height",
    "cxcywh": "center_x center_y width height",
}
"""numbers of a box in words, for messages"""
_KITTI_COLUMNS = "type truncated occluded alpha left top right bottom height width length x y z rotation_y"
_BOX, _SCORE = 3, 14
"""places of the first edge and of the score behind the type"""
REGION = "DontCare"
_SCORES_OF_ONE = ("1", "1.0")  # in ground truths by datumaro
_NO_LABEL = -1  # of regions, while lines are read
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

    A warning tells if few images are on both sides.

    Args:
        ground_truths: The ground truths.
        detections: The detections.
        folder: The folder or file of ground truths.
        result_folder: The folder or file of detections.

    Raises:
        ValueError: Two names on one side belong to one image, or the sides have no image in common.
    """
    argument, names = ground_truths.argument, ground_truths.files
    by_name = ImagesByName(list(names), list(names))
    images: dict[str, list[Any]] = {}
    for name in detections.files:
        candidates = [name] if name in names else by_name.find(name) or [name]
        if len(candidates) > 1:
            got = f"{_hints.listed(candidates, str)} for {name!r}"
            raise ValueError(f"`{argument}` must have one name for each image; got {got}.")
        images[name] = candidates
    check_apart("results", images)
    renamed = {images[name][0]: lines for name, lines in detections.files.items()}

    unknown_names = renamed.keys() - names.keys()
    num_common = len(renamed) - len(unknown_names)
    if num_common < _FEW * min(len(names), len(renamed)):
        first = min(names.keys() - renamed.keys())
        got = f"{min(unknown_names)!r} first in {str(result_folder)!r}, and {first!r} first in {str(folder)!r}"
        if not num_common:
            raise ValueError(f"`results` must have an image in common with `{argument}`; got {got}.")
        warn(f"`results` should have most images in common with `{argument}`; got {num_common:,}, without {got}.")
    return PairedLines(ground_truths, detections, renamed)


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
    sides = read_folders(labels, results, _find_cartucho_roles, rule=label_rule, result_rule=result_rule)
    _check_units(sides, are_pixels_allowed=image_sizes is None)
    reader = BoxReader(classes, ImageSizes(image_sizes), box_format=box_format, has_shares=image_sizes is not None)
    preds = reader.detections(sides, start=1, score=0, score_name="confidence")
    are_difficult = _are_difficult(sides.ground_truths)
    flags = {"difficult": are_difficult} if are_difficult.any() else {}
    return preds, reader.ground_truths(sides, start=0, **flags)


def _are_difficult(lines: LineTable) -> _Mask:
    """Return which lines of a class and a box end with the word `difficult`."""
    is_difficult: NDArray[np.bool_] = np.array([word.lower() == "difficult" for word in lines.last_words], np.bool_)
    is_difficult &= lines.lengths == len(_DETECTION)
    return is_difficult


def _find_cartucho_roles(lines: LineTable) -> tuple[_Mask, _Mask]:
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


def read_kitti(labels: Folder, results: Folder, class_names: Sequence[str] = KITTI_CLASSES) -> tuple[Dicts, Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `DetectionMAP.update`.

    A line is `type truncated occluded alpha left top right bottom height width length x y z rotation_y`, in `results`
    with a score behind it; ground truths may all have the score 1, as datumaro writes them. The boxes in the image are
    read, not those in space. A label is the place of the type in `class_names`. An image may have a file in one folder
    only. Folders that were exchanged are recognized by the scores: they are read as they are meant, with a warning.
    Source of the format: the development kit of KITTI's object benchmark.

    A region `DontCare` becomes a crowd, `iscrowd` 1, of each class that has a detection or an object in its image: a
    detection without an object is ignored if the share of its area in a region reaches the threshold. KITTI's own
    numbers differ in other respects. They leave out objects by three levels of difficulty, which depend on the height
    of the box and on `occluded` and `truncated`; they need an overlap of 0.7 for cars and 0.5 for pedestrians and
    cyclists; they ignore vans for cars, and sitting persons for pedestrians; and they average the precision at 40
    recalls. Here all objects count, and the metric has the thresholds and the recalls.

    Args:
        labels: folder of text files, named like the images, usually `label_2`.
        results: folder of text files, named like the images.
        class_names: names of the types that the files have, without `DontCare`.

    Returns:
        For each image `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels`, `iscrowd`, int64, and
        `image_id`, the name of the image, a str. Boxes are left, top, right and bottom in pixels, `box_format="xyxy"`.

    Raises:
        FileNotFoundError: A folder that does not exist.
        TypeError: `class_names` is no list of names.
        ValueError: `class_names` with `DontCare`; a folder without text files; two folders without a common name; or a
            malformed line, an edge or a score that is not finite, or a type that is not among `class_names`, named with
            file and line.
    """
    classes = labels_by_name(class_names)
    if REGION in classes:
        raise ValueError(f"`class_names` must be without {REGION!r}, which is no class; got {class_names!r}.")
    sides = read_folders(
        labels,
        results,
        _find_kitti_roles,
        rule=f"lines of '{_KITTI_COLUMNS}'",
        result_rule=f"lines of '{_KITTI_COLUMNS} score'",
    )
    preds = BoxReader(classes).detections(sides, _BOX, _SCORE, "score")
    target = BoxReader(classes | {REGION: _NO_LABEL}).ground_truths(sides, _BOX)
    images = []
    for pred, ground_truths in zip(preds, target, strict=True):
        images.append(_with_crowds(ground_truths, pred["labels"].tolist()))
    return preds, images


def _find_kitti_roles(lines: LineTable) -> tuple[_Mask, _Mask]:
    """Return which lines may be ground truths, without a score or with 1 in all lines, and which may be detections."""
    have_scores = lines.lengths == _SCORE + 1
    are_ones = all(word in _SCORES_OF_ONE for word in lines.last_words)
    return (lines.lengths == _SCORE) | (have_scores & are_ones), have_scores


def _with_crowds(image: dict[str, Any], detected_labels: Sequence[int]) -> dict[str, Any]:
    """Return the objects in an image, and its regions as crowds of each class in the image."""
    boxes, labels = image["boxes"], image["labels"]
    is_region = labels == _NO_LABEL
    regions = boxes[is_region]
    labels = labels[~is_region]
    classes = torch.tensor(sorted({*detected_labels, *labels.tolist()}), dtype=torch.int64, device="cpu")
    crowd_labels = classes.repeat_interleave(len(regions))
    return {
        "boxes": torch.cat([boxes[~is_region], regions.repeat(len(classes), 1)]),
        "labels": torch.cat([labels, crowd_labels]),
        "iscrowd": torch.cat([torch.zeros_like(labels), torch.ones_like(crowd_labels)]),
        "image_id": image["image_id"],
    }

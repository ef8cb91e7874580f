"""YOLO's files: for each image a text file of ground truths, and one of detections, a line for each object."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics import _checks, _hints, _names
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional.detection.inputs import RunLengths

from .box_lines import Dicts, pair_images
from .folders import Folder, list_files, warn_of_exchange
from .image_sizes import LEAST_SHARE, MOST_SHARE, ImageSizes, Size, are_shares
from .line_tables import Files, LineTable, exchange, is_number, parse_numbers, read_lines, split_images
from .yolo_layouts import (
    CORNERS,
    NUM_BOX,
    Layout,
    edges_of_boxes,
    find_layout,
    find_pose,
    first_fault,
    keypoints_of,
    sizes_by_length,
    usual_layout,
)
from .yolo_names import class_numbers, find_name_file, is_note, read_yolo_names

_LEAST_LEAVING = 3  # boxes outside of the image that are no accident
_LEAST_SHARE_LEAVING = 0.03
_MAX_VISIBILITY = 2
_MAX_CLASS = 2**63 - 1
_NUM_DOTA = (9, 10)
"""words in a line of DOTA: four corners in pixels and a class, and maybe a flag, or a name, a confidence and corners"""
_CLASS_RULE = f"a class from 0 to {_MAX_CLASS}"


def read_yolo(
    labels: Folder,
    results: Folder,
    *,
    image_sizes: tuple[int, int] | Mapping[str, tuple[int, int]] | None = None,
    iou_type: _names.IouType | None = None,
) -> tuple[Dicts, Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `DetectionMAP.update`.

    A line is the class, a shape in shares of the image and, in `results`, the confidence, behind which a tracking id is
    left out. There are four kinds of shapes: a box, center, width and height; a polygon, x and y of its corners; four
    corners of a rotated box; and a box with keypoints, x and y or x, y and visibility. Which of them the lines have is
    found for all files of both folders together.

    An image may have a file in one folder only, for there are no files without objects. Files belong to the same image
    if their names are equal, with or without the suffix of an image. Lists of classes, `classes.txt`, and a README are
    left out. Folders that were exchanged are recognized by the confidences: they are read as they are meant, with a
    warning. Names of classes may lie in or above each folder: `data.yaml` or `data.yml`, `dataset.yaml`, `classes.txt`,
    a file of .names, or `_darknet.labels`. If both folders have other names, detections get the numbers that their
    classes have among the ground truths. Source of the formats: Ultralytics' documentation of its data sets, and
    `save_txt=True` with `save_conf=True` of its `predict`.

    Args:
        labels: folder of text files, named like the images.
        results: folder of text files, named like the images.
        image_sizes: width and height in pixels of all images, or of each by its name; shapes are then in pixels. None
            leaves them as shares, with the same overlaps of boxes and corners, but without areas for COCO's ranges, and
            with the similarity of keypoints that square images have, of which a warning tells.
        iou_type: kind of shapes to read. None is "bbox", but 8 numbers in all lines are four corners if all are
            parallelograms and not all lie along the axes: then corners are read as well, with a warning.
            "bbox": boxes, or those around polygons and corners, or those of keypoints.
            "segm": polygons, as masks with the pixels of pycocotools' `frPyObjects`; `image_sizes` are required.
            "rotated": four corners.
            "keypoints": keypoints; those of two numbers are labeled unless both are 0.

    Returns:
        For each image detections and ground truths: `labels`, int64, of detections `scores`, float64, of ground truths
        `image_id`, the name of the image, a str, and the shapes, float64: `boxes` [objects, 4], corners as with
        `box_format="xyxy"`; `masks`, a list of dicts of run lengths; `rotated_boxes` [objects, 8]; or `keypoints`
        [objects, keypoints, 3] with `boxes` and, of ground truths, `area`, that of the box, since the files have no
        other. Ultralytics takes 0.53 of it, which makes the similarities of keypoints smaller.

    Raises:
        FileNotFoundError: A folder that does not exist.
        TypeError: `image_sizes` are neither a pair of sizes nor such pairs by name.
        ValueError: An unknown `iou_type`; None or "bbox" where the lines may be of several kinds; a folder without text
            files; two folders without a common name; a malformed line, named with its file: without a class, with
            shares outside of 0 to 1 by more than 0.01, or with two corners, or the confidence in front of the box, as
            in darknet, if boxes tell; an image without a size; or names of classes without that of an object.
    """
    files = read_yolo_folders(labels, results, image_sizes=image_sizes, iou_type=iou_type)
    return files.preds, files.target


class YoloFolders(NamedTuple):
    """Detections and ground truths of each image, and the names of their classes."""

    preds: Dicts
    target: Dicts
    class_names: dict[int, str] | None
    """names by the numbers of the ground truths; None without a file of names"""
    notes: list[str]
    """which files of names were used, as lines for the user"""


def read_yolo_folders(
    labels: Folder,
    results: Folder,
    *,
    image_sizes: tuple[int, int] | Mapping[str, tuple[int, int]] | None,
    iou_type: _names.IouType | None,
    needs_names: bool = False,
) -> YoloFolders:
    """Read what `read_yolo` returns, with the names of classes if they are asked for."""
    if iou_type is not None:
        _checks.one_of("iou_type", iou_type, _names.IouType)
    if iou_type == "segm" and image_sizes is None:
        raise ValueError("`image_sizes` must be given for iou_type='segm', as masks consist of pixels; got None.")
    sizes = ImageSizes(image_sizes)
    ground_truths = _read_yolo_lines("labels", labels)
    detections = _read_yolo_lines("results", results)

    # Find the layout of all lines, in the other order of the folders if they are exchanged.
    layout = find_layout((ground_truths, detections), iou_type)
    exchanged = None
    if layout is None or layout.kind == "polygons":
        exchanged = _find_exchanged_layout(ground_truths, detections, layout, iou_type)
    if exchanged is not None:
        warn_of_exchange("labels", labels, results)
        ground_truths, detections = exchange(ground_truths, detections)
        labels, results = results, labels
        layout = exchanged
    if layout is None:
        tables = ground_truths, detections
        raise first_fault(tables, usual_layout(tables, iou_type))
    sides = pair_images(ground_truths, detections, labels, results)
    target_shapes = _ShapesOfLines(ground_truths, layout)
    pred_shapes = _ShapesOfLines(detections, layout)
    _check_order(target_shapes)
    _check_order(pred_shapes)
    class_names, notes = _match_classes(target_shapes, pred_shapes, labels, results, needs_names=needs_names)
    is_inferred_rotated = iou_type is None and layout is CORNERS
    num_lines = len(ground_truths) + len(detections)
    if is_inferred_rotated:
        warn(
            f"The 8 numbers of {num_lines:,} lines are read as four corners of rotated boxes, as `rotated_boxes`,"
            " and `boxes` are those around them: pass `iou_type`, 'rotated' or 'bbox', to read one of them."
        )
    if iou_type == "keypoints" and image_sizes is None and num_lines:
        warn("Keypoints are read as shares of images: without `image_sizes` their similarity is that of square images.")

    # Convert the columns of all lines, and split them into images.
    kinds = ("rotated", "bbox") if is_inferred_rotated else (iou_type or "bbox",)
    preds = pred_shapes.images(sides.detection_files, sides.names, sizes, kinds)
    target = target_shapes.images(ground_truths.files, sides.names, sizes, kinds)
    return YoloFolders(preds, target, class_names, notes)


def _match_classes(
    ground_truths: _ShapesOfLines, detections: _ShapesOfLines, labels: Folder, results: Folder, *, needs_names: bool
) -> tuple[dict[int, str] | None, list[str]]:
    """Give detections the class numbers of the ground truths; return the names of classes, and what was decided.

    Args:
        ground_truths: The ground truths.
        detections: The detections.
        labels: The folder of the ground truths, also if it was passed as `results`.
        results: The folder of the detections.
        needs_names: Whether names are wanted, also where no class is matched by them.
    """
    true_file = find_name_file(labels)
    result_file = find_name_file(results)
    name_file = true_file or result_file
    may_differ = None not in (true_file, result_file) and true_file != result_file
    if name_file is None or not (needs_names or may_differ):
        return None, []
    names = read_yolo_names(name_file)
    notes = [f"names of classes from {name_file}"] if needs_names else []
    _check_named(ground_truths, names, name_file)
    result_names = read_yolo_names(result_file) if result_file is not None and may_differ else names
    if result_names == names:
        _check_named(detections, names, name_file)
    else:
        detections.classes = class_numbers(detections.classes, result_names, names, str(result_file))
        notes.append(f"classes of detections by their names in {result_file}")
    return names, notes


def _check_named(shapes: _ShapesOfLines, names: Mapping[int, str], source: Path) -> None:
    """Raise unless each class has a name.

    Raises:
        ValueError: A class has none; SAHI and labelformat write ids of COCO, from 1, beside names that count from 0.
    """
    is_unnamed = np.isin(shapes.classes, list(names), invert=True)
    if is_unnamed.any():
        listed = f"{_hints.listed(names.values())} for {min(names)} to {max(names)}"
        rule = f"classes that have a name in {source}, {listed}, and are not counted from 1"
        raise shapes.lines.fault(int(is_unnamed.argmax()), rule)


def _find_exchanged_layout(
    labels: LineTable, results: LineTable, layout: Layout | None, iou_type: str | None
) -> Layout | None:
    """Return the layout of lines in the other order of the folders; None if they are in the right order.

    Keypoints of three numbers may have an odd number of them, and so does a polygon with its confidence. So lines that
    can be polygons in one order may be keypoints in the other one, and keypoints count for more.

    Args:
        labels: Lines of the folder that was passed as `labels`.
        results: Lines of the folder that was passed as `results`.
        layout: Their layout in this order; None if lines do not fit.
        iou_type: Kind of shapes to read.
    """
    if not len(labels) or not len(results):
        return None
    if layout is not None and iou_type not in (None, "bbox"):
        return None
    tables = exchange(labels, results)
    if layout is not None:
        return find_pose(tables, needs_box=True)
    exchanged = find_layout(tables, iou_type)
    may_be_pose = exchanged is not None and exchanged.kind == "polygons"
    if may_be_pose and find_pose((labels, results), needs_box=False) is not None:
        return None
    return exchanged


class _ShapesOfLines:
    """The shapes in lines with a common layout.

    Raises:
        ValueError: A number is no share of the image.
    """

    def __init__(self, lines: LineTable, layout: Layout) -> None:
        self.lines = lines
        self.layout = layout
        self.classes = np.array([_parse_class(word) for word in lines.vocabulary], np.int64)[lines.words]
        by_length = sizes_by_length(lines, layout)
        self.sizes = np.array([by_length[length] for length in lines.lengths.tolist()], np.int64)
        """number of values of each shape; all lines fit the layout"""
        self._check_numbers()

    def _check_numbers(self) -> None:
        """Raise unless all numbers are shares of the image, and visibilities 0, 1, 2 or confidences of keypoints."""
        lines = self.lines
        column = lines.places
        size = np.repeat(self.sizes, lines.lengths)
        least = np.full(len(column), LEAST_SHARE)
        most = np.full(len(column), MOST_SHARE)
        if self.layout.width(self.lines) == 3:
            is_visibility = (column >= NUM_BOX) & (column < size) & ((column - NUM_BOX) % 3 == 2)
            least[is_visibility] = 0
            most[is_visibility] = _MAX_VISIBILITY
        is_valid = (lines.numbers >= least) & (lines.numbers <= most)  # NaN is not
        is_valid |= column >= size + self.lines.are_results
        if not is_valid.all():
            place = int(is_valid.argmin())
            position = int(np.searchsorted(lines.starts + lines.lengths, place, side="right"))
            raise _word_error(lines, position, int(column[place]) + 1, "numbers from 0 to 1", "is none")

    def images(self, files: Files, names: Sequence[str], sizes: ImageSizes, kinds: Sequence[str]) -> Dicts:
        """Return the labels and shapes of each image, in pixels, and the scores of detections.

        Args:
            files: The lines of each file, by the name of the image, in the order of the table.
            names: Names of all images.
            sizes: Width and height of all images.
            kinds: Shapes to return, by `iou_type`.
        """
        columns = {"labels": self.classes} | self._columns(sizes.of_lines(files), kinds)
        if self.lines.are_results:
            columns["scores"] = self.lines.numbers[self.lines.starts + self.sizes]
        images = split_images(columns, files, names, has_ids=not self.lines.are_results)
        if "segm" in kinds:
            points, starts = self._points(np.ones(len(self.sizes), np.bool_))  # as shares
            polygons = np.split(points, starts[1:])[: len(starts)]
            for name, image in zip(names, images, strict=True):
                image["masks"] = _masks(polygons[files.get(name, slice(0, 0))], sizes.find(name))
        return images

    def _columns(self, sizes: NDArray[np.float64], kinds: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return the arrays of shapes with a row for each line, given width and height of its image."""
        columns: dict[str, NDArray[Any]] = {}
        if "rotated" in kinds:
            columns["rotated_boxes"] = self.lines.columns(0, 8) * np.tile(sizes, 4)
        if "bbox" in kinds or "keypoints" in kinds:
            columns["boxes"] = self._edges() * np.tile(sizes, 2)
        if "keypoints" in kinds:
            columns["keypoints"] = self._keypoints(sizes)
            if not self.lines.are_results:
                box_width, box_height = self.lines.columns(2, 2).T
                columns["area"] = box_width * box_height * sizes[:, 0] * sizes[:, 1]
        return columns

    def _edges(self) -> NDArray[np.float64]:
        """Return left, top, right and bottom of each shape, as shares."""
        is_box = self.sizes == NUM_BOX
        if self.layout.kind == "pose":
            is_box = np.ones_like(is_box)
        edges: NDArray[np.float64] = np.empty((len(is_box), 4))
        edges[is_box] = edges_of_boxes(self.lines.columns(0, NUM_BOX, is_box))
        if not is_box.all():
            points, starts = self._points(~is_box)
            least = np.minimum.reduceat(points, starts)
            most = np.maximum.reduceat(points, starts)
            edges[~is_box] = np.concatenate([least, most], axis=1)
        return edges

    def _points(self, is_selected: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the points of some polygons, end to end, and the place of the first point of each."""
        lines = self.lines
        is_point = lines.places < np.repeat(np.where(is_selected, self.sizes, 0), lines.lengths)
        num_points = self.sizes[is_selected] // 2
        return lines.numbers[is_point].reshape(-1, 2), np.cumsum(num_points) - num_points

    def _keypoints(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return x, y and visibility of keypoints, in pixels: [lines, keypoints, 3]."""
        points = keypoints_of(self.lines, self.layout)
        if points.shape[-1] != 3:
            is_labeled = (points != 0).any(axis=-1, keepdims=True)
            points = np.concatenate([points, 2.0 * is_labeled], axis=-1)
        factors = np.concatenate([sizes, np.ones((len(sizes), 1))], axis=1)
        scaled: NDArray[np.float64] = points * factors[:, None]
        return scaled


def _check_order(shapes: _ShapesOfLines) -> None:
    """Raise if boxes leave the image, but hardly any does as two corners, or with the confidence in front of it.

    Raises:
        ValueError: The message shows the first box that leaves the image.
    """
    is_box = shapes.sizes == NUM_BOX
    numbers = shapes.lines.columns(0, NUM_BOX + shapes.lines.are_results, is_box)
    boxes = numbers[:, :NUM_BOX]
    leaves_image = _leave_image(boxes)
    num_leaving = int(np.count_nonzero(leaves_image))
    if num_leaving < max(_LEAST_LEAVING, _LEAST_SHARE_LEAVING * len(numbers)):
        return
    num_faults = {"center, width and height, and not two corners": (boxes[:, 2:] < boxes[:, :2]).any(axis=1)}
    # Left top corners that are read as centers leave the image on the left and at the top, and nowhere else.
    num_left_top = np.count_nonzero(edges_of_boxes(boxes)[:, :2] < LEAST_SHARE, axis=0)
    if num_left_top.min() >= _LEAST_LEAVING:
        rule = "center, width and height, and not the left top corner"
        num_faults[rule] = (boxes[:, :2] + boxes[:, 2:] > MOST_SHARE).any(axis=1)
    if shapes.lines.are_results:
        num_faults["the confidence behind the box"] = _leave_image(numbers[:, 1:])
    for rule, is_fault in num_faults.items():
        if 10 * int(np.count_nonzero(is_fault)) <= num_leaving:
            first = int(is_box.nonzero()[0][leaves_image.argmax()])
            raise shapes.lines.fault(first, f"{rule}, as boxes leave the image otherwise")


def _leave_image(boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether boxes leave the image, up to rounding."""
    return ~np.asarray(are_shares(edges_of_boxes(boxes)).all(axis=1))


def _masks(polygons: Sequence[NDArray[np.float64]], size: Size) -> list[dict[str, Any]]:
    """Return run lengths of polygons, given their points as shares of the image."""
    width, height = size
    in_pixels = [[(points * [width, height]).ravel().tolist()] for points in polygons]
    return RunLengths.from_polygons(in_pixels, (height, width)).to_coco()


def _read_yolo_lines(argument: str, folder: Folder) -> LineTable:
    """Read the lines of a folder with a file for each image; a list of classes and a README are no images.

    Raises:
        FileNotFoundError: The folder does not exist.
        ValueError: A folder without a single file, or a line without a class, or with a word that is no number.
    """
    lines = read_lines(argument, list_files(argument, folder, ".txt", is_skipped=is_note))
    is_faulty = np.isin(lines.words, [place for place, word in enumerate(lines.vocabulary) if _find_fault(word)])
    line_of_number = np.repeat(np.arange(len(lines)), lines.lengths)
    is_faulty[line_of_number[np.isnan(lines.numbers)]] = True
    if is_faulty.any():
        raise _fault_of_words(lines, int(is_faulty.argmax()))
    return lines


def _word_error(lines: LineTable, position: int, column: int, rule: str, fault: str) -> ValueError:
    """Return the error for the word in a column of a line."""
    words, text, where = lines.find_line(position)
    word = f"word {column + 1}, {words[column]!r}, {fault}"
    return ValueError(f"`{lines.argument}` must have {rule} in a line; got {text!r}, {where}: {word}.")


def _fault_of_words(lines: LineTable, position: int) -> ValueError:
    """Return the error for a word that cannot be read: a number behind the class, or else the class."""
    words = lines.find_line(position).words
    numbers = parse_numbers(words)
    remedy = ""
    has_corners = len(words) in _NUM_DOTA and sum(map(math.isnan, numbers)) == 1
    if words[0].startswith("imagesource") or (has_corners and any(number > 1 for number in numbers)):
        remedy = "; for lines of DOTA pass `--evaluator dota` or call `read_dota`"
    for column, number in enumerate(numbers[1:], start=1):
        if math.isnan(number):
            fault = "has a comma" if "," in words[column] else "is no number"
            return _word_error(lines, position, column, "numbers behind the class", fault + remedy)
    return _word_error(lines, position, 0, _CLASS_RULE, _find_fault(words[0]) + remedy)


def _find_fault(word: str) -> str:
    """Return what is wrong with the word of a class; "" for one that can be read."""
    try:
        label = _parse_class(word)
    except (ValueError, OverflowError):
        return "has a comma" if "," in word else "is no whole number"
    return "" if 0 <= label <= _MAX_CLASS else "is outside of it"


def _parse_class(word: str) -> int:
    """Return a class: a whole number, also as a float such as 2.0.

    Raises:
        ValueError: Another word.
        OverflowError: Infinity.
    """
    if not is_number(word) or not float(word).is_integer():
        raise ValueError(word)
    try:
        return int(word)
    except ValueError:
        return int(float(word))

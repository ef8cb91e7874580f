"""YOLO's files: for each image a text file of ground truths, and one of detections, a line for each object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.files import image_dict
from reid_torchmetrics.functional.detection.inputs import RunLengths

from .folders import Folder, match_images, warn_of_exchange
from .image_sizes import ImageSizes, Size
from .yolo_layouts import CORNERS, NUM_BOX, Layout, find_layout, find_pose, first_fault, sizes_by_length, usual_layout
from .yolo_lines import Line, check_shares, list_images, read_lines
from .yolo_tables import ShapeTable, leave_image, read_shapes

_LEAST_LEAVING = 3  # boxes outside of the image that are no accident
_LEAST_SHARE_LEAVING = 0.03

_Dicts = list[dict[str, Any]]
_Lines = dict[str, list[Line]]


class _Object(NamedTuple):
    """An object in a line."""

    label: int
    shape: list[float]
    """numbers of a box, a polygon or corners, or of a box and its keypoints"""
    confidence: float
    """1 for a ground truth"""


def read_yolo(
    labels: Folder,
    results: Folder,
    *,
    image_sizes: tuple[int, int] | Mapping[str, tuple[int, int]] | None = None,
    iou_type: _names.IouType | None = None,
) -> tuple[_Dicts, _Dicts]:
    """Read detections and ground truths of each image, by ascending name, for `DetectionMAP.update`.

    A line is the class, a shape in shares of the image and, in `results`, the confidence, behind which a tracking id is
    left out. There are four kinds of shapes: a box, center, width and height; a polygon, x and y of its corners; four
    corners of a rotated box; and a box with keypoints, x and y or x, y and visibility. Which of them the lines have is
    found for all files of both folders together.

    An image may have a file in one folder only, for there are no files without objects. Files belong to the same image
    if their names are equal, with or without the suffix of an image. Lists of classes, `classes.txt`, and a README are
    left out. Folders that were exchanged are recognized by the confidences: they are read as they are meant, with a
    warning. Source of the formats: Ultralytics' documentation of its data sets, and `save_txt=True` with
    `save_conf=True` of its `predict`.

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
            shares outside of 0 to 1 by more than 0.01, or with the confidence in front of the box, as in darknet, if
            boxes tell; or an image without a size.
    """
    if iou_type is not None:
        _checks.one_of("iou_type", iou_type, _names.IouType)
    if iou_type == "segm" and image_sizes is None:
        raise ValueError("`image_sizes` must be given for iou_type='segm', as masks consist of pixels; got None.")
    sizes = ImageSizes(image_sizes)
    label_paths = list_images("labels", labels)
    may_be_boxes = iou_type in (None, "bbox")
    true_table = read_shapes(label_paths, is_result=False) if may_be_boxes else None
    if true_table is None:
        ground_truths = read_lines("labels", label_paths)
        result_paths = list_images("results", results)
    else:
        result_paths = list_images("results", results)
        detected_table = read_shapes(result_paths, is_result=True)
        if detected_table is not None and not _are_scores_in_front(*detected_table.scored_boxes()):
            return _convert_tables(true_table, detected_table, labels, results, sizes)
        ground_truths = read_lines("labels", label_paths)
    detections = read_lines("results", result_paths)
    return _convert_lines(ground_truths, detections, labels, results, iou_type=iou_type, sizes=sizes)


def _are_scores_in_front(boxes: NDArray[np.float64], scores: NDArray[np.float64]) -> bool:
    """Return whether boxes leave the image, but hardly any does if the confidence is in front of it."""
    num_leaving = int(np.count_nonzero(leave_image(boxes)))
    if num_leaving < max(_LEAST_LEAVING, _LEAST_SHARE_LEAVING * len(boxes)):
        return False
    boxes_behind_scores = np.column_stack([boxes[:, 1:], scores])
    num_leaving_then = int(np.count_nonzero(leave_image(boxes_behind_scores)))
    return 10 * num_leaving_then <= num_leaving


def _convert_tables(
    ground_truths: ShapeTable, detections: ShapeTable, labels: Folder, results: Folder, sizes: ImageSizes
) -> tuple[_Dicts, _Dicts]:
    """Return the dicts of all images from tables of boxes and polygons."""
    result_files = match_images(
        ground_truths.files, detections.files, argument="labels", folder=labels, result_folder=results
    )
    names = sorted(result_files.keys() | ground_truths.files.keys())
    image_sizes = {name: sizes.find(name) for name in names}
    preds = _image_dicts(detections, result_files, image_sizes, is_result=True)
    target = _image_dicts(ground_truths, ground_truths.files, image_sizes, is_result=False)
    for name, ground_truth in zip(names, target, strict=True):
        ground_truth["image_id"] = name
    return preds, target


def _image_dicts(
    table: ShapeTable, files: Mapping[str, slice], image_sizes: Mapping[str, Size], *, is_result: bool
) -> _Dicts:
    """Return the labels and the boxes, in pixels, of each image, and the scores of detections.

    Args:
        table: The rows of all files.
        files: The rows of each file, by the name of the image, in the order of the table.
        image_sizes: Width and height of all images, by name.
        is_result: Whether the rows are detections.
    """
    num_rows = [rows.stop - rows.start for rows in files.values()]
    file_sizes = np.array([image_sizes[name] for name in files], np.float64)
    row_sizes = np.repeat(file_sizes, num_rows, axis=0)
    columns = {"labels": table.labels, "boxes": table.edges() * np.concatenate([row_sizes, row_sizes], axis=1)}
    if is_result:
        columns["scores"] = table.scores
    no_rows = slice(0, 0)
    images = []
    for name in image_sizes:
        rows = files.get(name, no_rows)
        # A view would keep the boxes of all images.
        images.append({key: torch.from_numpy(values[rows].copy()) for key, values in columns.items()})
    return images


def _convert_lines(
    ground_truths: _Lines,
    detections: _Lines,
    labels: Folder,
    results: Folder,
    *,
    iou_type: _names.IouType | None,
    sizes: ImageSizes,
) -> tuple[_Dicts, _Dicts]:
    """Return the dicts of all images from lines, by the layout that fits all of them.

    Raises:
        ValueError: Lines without a common layout, or folders without a common name.
    """
    true_lines = _flatten(ground_truths)
    detected_lines = _flatten(detections)
    layout = find_layout(true_lines, detected_lines, iou_type)
    exchanged = None
    if layout is None or layout.kind == "polygons":
        exchanged = _find_exchanged_layout(true_lines, detected_lines, layout, iou_type)
    if exchanged is not None:
        warn_of_exchange("labels", labels, results)
        ground_truths, detections = detections, ground_truths
        labels, results = results, labels
        layout = exchanged
    if layout is None:
        raise first_fault(true_lines, detected_lines, usual_layout(true_lines, detected_lines, iou_type))
    detections = match_images(ground_truths, detections, argument="labels", folder=labels, result_folder=results)
    return _Converter(layout, iou_type, sizes).convert(ground_truths, detections)


def _flatten(lines: _Lines) -> list[Line]:
    """Return the lines of all images."""
    return list(chain.from_iterable(lines.values()))


def _find_exchanged_layout(
    labels: Sequence[Line], results: Sequence[Line], layout: Layout | None, iou_type: str | None
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
    if not labels or not results:
        return None
    if layout is not None and iou_type not in (None, "bbox"):
        return None
    if layout is not None:
        return find_pose(results, labels, needs_box=True)
    exchanged = find_layout(results, labels, iou_type)
    may_be_pose = exchanged is not None and exchanged.kind == "polygons"
    if may_be_pose and find_pose(labels, results, needs_box=False) is not None:
        return None
    return exchanged


class _Converter:
    """A conversion of lines with a common layout to the dicts of images."""

    def __init__(self, layout: Layout, iou_type: _names.IouType | None, sizes: ImageSizes) -> None:
        self.layout = layout
        self.sizes = sizes
        self.iou_type = iou_type or "bbox"
        self.is_inferred_rotated = iou_type is None and layout is CORNERS

    def convert(self, ground_truths: _Lines, detections: _Lines) -> tuple[_Dicts, _Dicts]:
        """Return the dicts of all images for `update`."""
        label_lines = _flatten(ground_truths)
        result_lines = _flatten(detections)
        label_sizes = self._checked_sizes("labels", label_lines)
        result_sizes = self._checked_sizes("results", result_lines)
        _check_order([line for line in result_lines if result_sizes[len(line.numbers)] == NUM_BOX])
        self._warn_of_doubts(len(label_lines) + len(result_lines))
        preds = []
        target = []
        for name in sorted(detections.keys() | ground_truths.keys()):
            size = self.sizes.find(name)
            detected_objects = _objects(detections.get(name, []), result_sizes)
            scores = image_dict(scores=[item.confidence for item in detected_objects])
            preds.append(self._shapes(detected_objects, size, is_result=True) | scores)
            true_objects = _objects(ground_truths.get(name, []), label_sizes)
            target.append(self._shapes(true_objects, size, is_result=False) | {"image_id": name})
        return preds, target

    def _checked_sizes(self, argument: str, lines: Sequence[Line]) -> dict[int, int]:
        """Return the number of values of the shape by the length of a line, and check the values of all lines."""
        is_result = argument == "results"
        by_length = sizes_by_length(lines, self.layout, is_result=is_result)
        sizes = {length: size for length, size in by_length.items() if size is not None}  # all lines fit the layout
        visibilities = range(0)  # positions in a line
        if self.layout.width(is_result=is_result) == 3:
            visibilities = range(NUM_BOX + 2, NUM_BOX + 3 * self.layout.num_keypoints, 3)
        for line in lines:
            size = sizes[len(line.numbers)]
            free = visibilities if size > NUM_BOX else range(0)
            check_shares(argument, line, size + is_result, free)
        return sizes

    def _warn_of_doubts(self, num_lines: int) -> None:
        """Warn of corners without an `iou_type`, and of keypoints without sizes of images."""
        if self.is_inferred_rotated:
            warn(
                f"The 8 numbers of {num_lines:,} lines are read as four corners of rotated boxes, as `rotated_boxes`,"
                " and `boxes` are those around them: pass `iou_type`, 'rotated' or 'bbox', to read one of them."
            )
        if self.iou_type == "keypoints" and self.sizes.sizes is None and num_lines:
            warn(
                "Keypoints are read as shares of images: without `image_sizes` their similarity is that of square"
                " images."
            )

    def _shapes(self, objects: Sequence[_Object], size: Size, *, is_result: bool) -> dict[str, Any]:
        """Return the labels and the shapes of the objects of an image, in pixels."""
        image = image_dict(labels=[item.label for item in objects])
        if self.iou_type == "rotated" or self.is_inferred_rotated:
            corners = [_scaled(item.shape, size) for item in objects]
            image |= image_dict(rotated_boxes=corners)
        if self.iou_type == "segm":
            image["masks"] = _masks([_scaled(item.shape, size) for item in objects], size)
        if self.iou_type in ("bbox", "keypoints"):
            edges = [_scaled(self._edges(item.shape), size) for item in objects]
            image |= image_dict(boxes=edges)
        if self.iou_type == "keypoints":
            image["keypoints"] = self._keypoints(objects, size, is_result=is_result)
            if not is_result:
                width, height = size
                areas = [item.shape[2] * item.shape[3] * width * height for item in objects]
                image |= image_dict(area=areas)
        return image

    def _edges(self, shape: Sequence[float]) -> list[float]:
        """Return left, top, right and bottom of a shape, as shares."""
        if len(shape) == NUM_BOX or self.layout.kind == "pose":
            x, y, width, height = shape[:NUM_BOX]
            return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
        x_coordinates = shape[::2]
        y_coordinates = shape[1::2]
        return [min(x_coordinates), min(y_coordinates), max(x_coordinates), max(y_coordinates)]

    def _keypoints(self, objects: Sequence[_Object], size: Size, *, is_result: bool) -> Tensor:
        """Return x, y and visibility of keypoints, in pixels: [objects, keypoints, 3]."""
        if not objects:
            return torch.zeros(0, self.layout.num_keypoints, 3, dtype=torch.float64, device="cpu")
        width = self.layout.width(is_result=is_result)
        numbers = torch.tensor([item.shape[NUM_BOX:] for item in objects], dtype=torch.float64, device="cpu")
        points = numbers.view(len(objects), self.layout.num_keypoints, width)
        if width == 2:
            is_labeled = (points != 0).any(-1, keepdim=True)
            points = torch.cat([points, 2.0 * is_labeled], dim=-1)
        return points * torch.tensor([*size, 1.0], dtype=torch.float64, device="cpu")


def _objects(lines: Sequence[Line], sizes: Mapping[int, int]) -> list[_Object]:
    """Return the objects of an image from its lines and the sizes of shapes by the length of a line."""
    objects = []
    for line in lines:
        size = sizes[len(line.numbers)]
        confidence = line.numbers[size] if size < len(line.numbers) else 1.0
        objects.append(_Object(label=line.label, shape=line.numbers[:size], confidence=confidence))
    return objects


def _check_order(lines: Sequence[Line]) -> None:
    """Raise if boxes of detections leave the image, but hardly any does if the confidence is in front of it.

    Raises:
        ValueError: The message shows the first box that leaves the image.
    """
    if not lines:
        return
    numbers = np.array([line.numbers[: NUM_BOX + 1] for line in lines])
    boxes = numbers[:, :NUM_BOX]
    if _are_scores_in_front(boxes, numbers[:, NUM_BOX]):
        first = int(leave_image(boxes).argmax())
        rule = "the confidence behind the box, as boxes leave the image otherwise"
        raise ValueError(f"`results` must have {rule}; got {lines[first]}.")


def _scaled(shares: Sequence[float], size: Size) -> list[float]:
    """Return alternating x and y in pixels."""
    width, height = size
    pixels = list(shares)
    pixels[::2] = [share * width for share in shares[::2]]
    pixels[1::2] = [share * height for share in shares[1::2]]
    return pixels


def _masks(polygons: Sequence[list[float]], size: Size) -> list[dict[str, Any]]:
    width, height = size
    return RunLengths.from_polygons([[polygon] for polygon in polygons], (height, width)).to_coco()

"""YOLO's files: for each image a text file of ground truths, and one of detections, a line for each object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional.detection.batches import image_dict
from reid_torchmetrics.functional.detection.inputs import RunLengths

from .folders import Folder, check_common_name, rename_results, warn_of_exchange
from .image_sizes import ImageSizes, Size
from .yolo_layouts import CORNERS, NUM_BOX, Layout, find_layout, find_pose, first_fault, sizes_by_length, usual_layout
from .yolo_lines import Line, are_shares, check_shares, list_images, read_lines
from .yolo_tables import ShapeTable, count_leaving, read_shapes

_LEAST_LEAVING = 3  # boxes outside of the image that are no chance

_Dicts = list[dict[str, Any]]
_Lines = dict[str, list[Line]]


class _Object(NamedTuple):
    """The numbers of a line, as the layout of all lines has them."""

    label: int
    shape: list[float]
    """of a box, a polygon or corners, or of a box and its keypoints"""
    confidence: float
    """of a ground truth a number without meaning"""


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
        iou_type: what is read. "bbox": boxes, or those around polygons and corners, or those of keypoints; "segm":
            polygons, as masks with the pixels of pycocotools' `frPyObjects`, for which `image_sizes` are required;
            "rotated": four corners; "keypoints": keypoints, of which those of two numbers are labeled unless both are
            0. None is "bbox", but 8 numbers in all lines are four corners if all are parallelograms and not all lie
            along the axes: then corners are read as well, with a warning.

    Returns:
        For each image detections and ground truths: `labels`, int64, of detections `scores`, float64, of ground truths
        `image_id`, the name of the image, a str, and the shapes, float64: `boxes` [objects, 4], corners as with
        `box_format="xyxy"`; `masks`, a list of dicts of run lengths; `rotated_boxes` [objects, 8]; or `keypoints`
        [objects, keypoints, 3] with `boxes` and, of ground truths, `area`, that of the box, since the files have no
        other. Ultralytics takes 0.53 of it, which makes the similarities of keypoints smaller.

    Raises:
        FileNotFoundError: a folder that does not exist.
        TypeError: `image_sizes` are neither a pair of sizes nor such pairs by name.
        ValueError: an unknown `iou_type`; None where the lines may be of several kinds; a folder without text files;
            two folders without a common name; a malformed line, named with its file: without a class, with shares
            outside of 0 to 1 by more than 0.01, or with the confidence in front of the box, as in darknet, if boxes
            tell; or an image without a size.
    """
    if iou_type is not None:
        _checks.one_of("iou_type", iou_type, _names.IouType)
    if iou_type == "segm" and image_sizes is None:
        raise ValueError("`image_sizes` must be given for iou_type='segm', as masks consist of pixels; got None.")
    label_paths = list_images("labels", labels)
    may_be_boxes = iou_type in (None, "bbox")
    true_table = read_shapes(label_paths, is_result=False) if may_be_boxes else None
    true = read_lines("labels", label_paths) if true_table is None else {}
    result_paths = list_images("results", results)
    sizes = ImageSizes(image_sizes)
    if true_table is not None:
        detected_table = read_shapes(result_paths, is_result=True)
        if detected_table is not None and not _has_score_in_front(detected_table):
            return _read_tables(true_table, detected_table, labels, results, sizes)
        true = read_lines("labels", label_paths)
    detected = read_lines("results", result_paths)
    true_lines, detected_lines = _all(true), _all(detected)
    layout = find_layout(true_lines, detected_lines, iou_type)
    exchanged = None
    if layout is None or layout.kind == "polygons":
        exchanged = _exchanged_layout(true_lines, detected_lines, layout, iou_type)
    if exchanged is not None:
        warn_of_exchange("labels", labels, results)
        true, detected, layout = detected, true, exchanged
        labels, results = results, labels
    if layout is None:
        raise first_fault(true_lines, detected_lines, usual_layout(true_lines, detected_lines, iou_type))
    detected = rename_results(true, detected, argument="labels")
    check_common_name(list(true), list(detected), argument="labels", folder=labels, results=results)
    return _Reading(layout, iou_type, sizes).read(true, detected)


def _has_score_in_front(detected: ShapeTable) -> bool:
    """Return whether most boxes leave the image, but hardly any does with the confidence in front of it."""
    boxes = detected.boxes()
    if detected.scores is None or not _are_many(count_leaving(boxes), len(boxes)):
        return False
    scores = detected.scores[detected.sizes == NUM_BOX]
    otherwise = np.column_stack([boxes[:, 1:], scores])
    return 10 * count_leaving(otherwise) <= len(boxes)


def _are_many(num_leaving: int, num_boxes: int) -> bool:
    return num_leaving >= max(_LEAST_LEAVING, num_boxes / 2 + 1)


def _read_tables(
    true: ShapeTable, detected: ShapeTable, labels: Folder, results: Folder, sizes: ImageSizes
) -> tuple[_Dicts, _Dicts]:
    """Return the dicts of all images, where all lines are boxes and polygons."""
    result_files = rename_results(true.files, detected.files, argument="labels")
    check_common_name(list(true.files), list(result_files), argument="labels", folder=labels, results=results)
    names = sorted({*result_files, *true.files})
    size_of = {name: sizes.find(name) for name in names}
    preds = _image_dicts(detected, result_files, names, size_of)
    target = _image_dicts(true, true.files, names, size_of)
    for name, ground_truth in zip(names, target, strict=True):
        ground_truth["image_id"] = name
    return preds, target


def _image_dicts(
    table: ShapeTable, files: Mapping[str, slice], names: Sequence[str], size_of: Mapping[str, Size]
) -> _Dicts:
    """Return the labels and the boxes, in pixels, of each image, and the scores of detections.

    Args:
        table: the rows of all files.
        files: the rows of each file, by the name of the image, in the order of the table.
        names: the images.
        size_of: width and height by the name of the image.
    """
    num_rows = [rows.stop - rows.start for rows in files.values()]
    size_of_file = np.array([size_of[name] for name in files], np.float64)
    corner = np.repeat(size_of_file, num_rows, axis=0)
    columns = {"labels": table.labels, "boxes": table.edges() * np.concatenate([corner, corner], axis=1)}
    if table.scores is not None:
        columns["scores"] = table.scores
    no_rows = slice(0, 0)
    images = []
    for name in names:
        rows = files.get(name, no_rows)
        # A view would keep the boxes of all images.
        images.append({key: torch.from_numpy(values[rows].copy()) for key, values in columns.items()})
    return images


def _all(lines: _Lines) -> list[Line]:
    return [line for lines_of_image in lines.values() for line in lines_of_image]


def _exchanged_layout(
    labels: Sequence[Line], results: Sequence[Line], layout: Layout | None, iou_type: str | None
) -> Layout | None:
    """Return the layout of lines in the other order of the folders; None if they are in the right order.

    Keypoints of three numbers may have an odd number of them, and so does a polygon with its confidence. So lines that
    can be polygons in one order may be keypoints in the other one, and keypoints count for more.

    Args:
        labels: the lines of the folder that was given for the ground truths.
        results: the lines of the other folder.
        layout: their layout in the order that was given; None if lines do not fit.
        iou_type: what is read.
    """
    if not labels or not results:
        return None
    if layout is not None:
        return find_pose(results, labels, needs_box=True) if iou_type in (None, "bbox") else None
    exchanged = find_layout(results, labels, iou_type)
    may_be_pose = exchanged is not None and exchanged.kind == "polygons"
    if may_be_pose and find_pose(labels, results, needs_box=False) is not None:
        return None
    return exchanged


class _Reading:
    """What is read of lines with a layout."""

    def __init__(self, layout: Layout, iou_type: _names.IouType | None, sizes: ImageSizes) -> None:
        self.layout = layout
        self.sizes = sizes
        self.iou_type = iou_type or "bbox"
        self.is_inferred_rotated = iou_type is None and layout is CORNERS

    def read(self, true: _Lines, detected: _Lines) -> tuple[_Dicts, _Dicts]:
        """Return the dicts of all images for `update`."""
        label_lines, result_lines = _all(true), _all(detected)
        label_sizes = self._checked_sizes("labels", label_lines)
        result_sizes = self._checked_sizes("results", result_lines)
        _check_order([line for line in result_lines if result_sizes[len(line.numbers)] == NUM_BOX])
        self._warn(len(label_lines) + len(result_lines))
        preds, target = [], []
        for name in sorted({*detected, *true}):
            size = self.sizes.find(name)
            detections = _objects(detected.get(name, []), result_sizes)
            scores = image_dict(scores=[detection.confidence for detection in detections])
            preds.append(self._shapes(detections, size, is_result=True) | scores)
            ground_truths = _objects(true.get(name, []), label_sizes)
            target.append(self._shapes(ground_truths, size, is_result=False) | {"image_id": name})
        return preds, target

    def _checked_sizes(self, argument: str, lines: Sequence[Line]) -> dict[int, int]:
        """Return how many numbers of a line are the shape, by how many it has, and check the numbers of all lines."""
        is_result = argument == "results"
        by_length = sizes_by_length(lines, self.layout, is_result=is_result)
        sizes = {length: size for length, size in by_length.items() if size is not None}  # all, by this layout
        visibilities = range(0)  # their positions in a line, of keypoints that have them
        if self.layout.width(is_result=is_result) == 3:
            visibilities = range(NUM_BOX + 2, NUM_BOX + 3 * self.layout.num_keypoints, 3)
        for line in lines:
            size = sizes[len(line.numbers)]
            check_shares(argument, line, size + is_result, visibilities if size > NUM_BOX else range(0))
        return sizes

    def _warn(self, num_lines: int) -> None:
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
        item = image_dict(labels=[item.label for item in objects])
        if self.iou_type == "rotated" or self.is_inferred_rotated:
            corners = [_scaled(item.shape, size) for item in objects]
            item |= image_dict(rotated_boxes=corners)
        if self.iou_type == "segm":
            item["masks"] = _masks([_scaled(item.shape, size) for item in objects], size)
        if self.iou_type in ("bbox", "keypoints"):
            edges = [_scaled(self._edges(item.shape), size) for item in objects]
            item |= image_dict(boxes=edges)
        if self.iou_type == "keypoints":
            item["keypoints"] = self._keypoints(objects, size, is_result=is_result)
        if self.iou_type == "keypoints" and not is_result:
            item |= image_dict(area=[item.shape[2] * item.shape[3] * size[0] * size[1] for item in objects])
        return item

    def _edges(self, shape: Sequence[float]) -> list[float]:
        """Return left, top, right and bottom of a shape, as shares."""
        if len(shape) == NUM_BOX or self.layout.kind == "pose":
            x, y, width, height = shape[:NUM_BOX]
            return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
        return [min(shape[::2]), min(shape[1::2]), max(shape[::2]), max(shape[1::2])]

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
    """Return the objects of an image from its lines and the sizes of shapes by how many numbers a line has."""
    objects = []
    for line in lines:
        size = sizes[len(line.numbers)]
        confidence = line.numbers[size] if size < len(line.numbers) else 1.0
        objects.append(_Object(label=line.label, shape=line.numbers[:size], confidence=confidence))
    return objects


def _check_order(lines: Sequence[Line]) -> None:
    """Raise if most boxes of detections leave the image, but hardly any does with the confidence in front of it."""
    leaving = [line for line in lines if _leaves_image(line.numbers[:NUM_BOX])]
    if not _are_many(len(leaving), len(lines)):
        return
    otherwise = [line for line in lines if _leaves_image(line.numbers[1 : NUM_BOX + 1])]
    if 10 * len(otherwise) <= len(lines):
        rule = "the confidence behind the box, as boxes leave the image otherwise"
        raise ValueError(f"`results` must have {rule}; got {leaving[0]}.")


def _leaves_image(box: Sequence[float]) -> bool:
    x, y, width, height = box
    return not are_shares((x - width / 2, y - height / 2, x + width / 2, y + height / 2))


def _scaled(shares: Sequence[float], size: Size) -> list[float]:
    """Return x and y in turn in pixels."""
    width, height = size
    pixels = list(shares)
    pixels[::2] = [share * width for share in shares[::2]]
    pixels[1::2] = [share * height for share in shares[1::2]]
    return pixels


def _masks(polygons: Sequence[list[float]], size: Size) -> list[dict[str, Any]]:
    width, height = size
    return RunLengths.from_polygons([[polygon] for polygon in polygons], (height, width)).to_coco()

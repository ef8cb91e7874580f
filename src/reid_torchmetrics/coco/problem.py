"""Annotations and results in COCO's format, converted to the objects to match."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics._warnings import warn
from reid_torchmetrics.files import counts_although_ignored, num_without_mask, similar_key, size_of
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection.batches import SMALLEST_AREA
from reid_torchmetrics.functional.detection.evaluation import EvaluatedObjects, ShownColumns, ShownImages
from reid_torchmetrics.functional.detection.inputs import (
    BoxShapes,
    CocoGrid,
    Detections,
    GroundTruths,
    ObjectColumns,
    Shapes,
    TableShapes,
    shape_types,
)
from reid_torchmetrics.functional.detection.matching import Matches, match_on_grid
from reid_torchmetrics.functional.world import results_made

from .data_set import COCO, Row, masks_of

_CPU = torch.device("cpu")
_MOST_SHOWN = 256  # images
_SHOWN_COLUMNS: dict[str, tuple[Any, ...]] = {
    "boxes": ("bbox", 4),
    "scores": ("score",),
    "area": ("area",),
    "iscrowd": ("iscrowd",),
    "keypoints": ("keypoints", -1, 3),
}
"""for each key of a shown image, the key of rows and the axes of a value"""
_PARAMETER_NAMES = {
    "iou_thresholds": "iouThrs",
    "rec_thresholds": "recThrs",
    "max_detection_thresholds": "maxDets",
    "area_ranges": "areaRng",
}
"""names of the parameters for messages, by field of the grid"""


@dataclass(frozen=True)
class CocoSide:
    """The annotations or the results for some images and categories, sorted by image."""

    coco: COCO
    rows: list[Row]
    images: Tensor
    """place of the image in `imgIds`, for each row"""
    labels: Tensor
    """place of the category in `catIds`, or 0 if categories do not count, for each row"""

    @classmethod
    def of(cls, coco: COCO | None, params: Any) -> CocoSide:
        """Return the rows of a data set in the images and categories of the parameters."""
        coco = COCO() if coco is None else coco
        places = {category: place for place, category in enumerate(params.catIds)}
        rows: list[Row] = []
        counts = []
        for image in params.imgIds:
            image_rows = [row for row in coco.imgToAnns.get(image, ()) if row.get("category_id") in places]
            if not params.useCats:  # pycocotools ranks equal scores in the order of the categories
                image_rows.sort(key=lambda row: places[row["category_id"]])
            rows += image_rows
            counts.append(len(image_rows))
        images = torch.from_numpy(np.arange(len(counts)).repeat(counts))
        labels = [places[row["category_id"]] if params.useCats else 0 for row in rows]
        return cls(coco, rows, images, torch.tensor(labels, dtype=torch.int64, device=_CPU))

    def prepared(self, iou_type: str) -> defaultdict[tuple[Any, Any], list[Row]]:
        """Return copies of the rows by image and category, as in pycocotools: with `ignore`, and masks compressed."""
        prepared = defaultdict(list)
        for row in self.rows:
            has_no_keypoints = iou_type == "keypoints" and row.get("num_keypoints") == 0
            changes: Row = {"ignore": int(bool(row.get("iscrowd") or has_no_keypoints))}
            if iou_type == "segm":
                changes["segmentation"] = self.coco.annToRLE(row)
            prepared[row["image_id"], row["category_id"]].append(row | changes)
        return prepared

    def shown(self, num_images: int, iou_type: str) -> ShownColumns:
        """Return the rows of the first images as a metric shows them."""
        counts = self.images.bincount(minlength=num_images)[:num_images]
        num_rows = int(counts.sum())
        rows = self.rows[:num_rows]
        columns = {"labels": self.labels[:num_rows]}
        for key, (name, *shape) in _SHOWN_COLUMNS.items():
            values = _numbers(rows, name, *shape) if rows else None
            if values is not None:
                columns[key] = torch.from_numpy(values)
        if "area" in columns:
            columns["area"].clamp_(min=SMALLEST_AREA)  # 0 stands for none
        if iou_type == "segm":
            (kind,) = shape_types(("segm",), None).values()
            masks = kind.read("annotations", masks_of(rows, self.coco.imgs), is_true=True)
            columns["boxes"], columns["masks"] = kind.boxes(masks), kind.areas(masks)
        return ShownColumns(counts, columns)


def _column(rows: list[Row], key: str, *shape: int, is_finite: bool = True) -> Tensor:
    """Return the numbers under a key of rows, float64 [rows, *shape].

    Raises:
        ValueError: a row lacks them, or has something else.
    """
    values = _numbers(rows, key, *shape)
    if values is not None and (not is_finite or np.isfinite(values).all()):
        return torch.from_numpy(values)
    if len(rows) > 1:  # find the first invalid row for the message
        for row in rows:
            _column([row], key, *shape, is_finite=is_finite)
    finite = "finite " if is_finite else ""
    rule = f"{math.prod(shape)} {finite}numbers" if shape else f"a {finite}number"
    if key == "keypoints":
        rule += f", x, y and visibility for each of the {shape[0]} `params.kpt_oks_sigmas`"
    got = repr(rows[0].get(key))
    if key in rows[0] and key == "keypoints" and hasattr(rows[0][key], "__len__"):
        got = f"{len(rows[0][key])} values in the list"
    elif key not in rows[0]:
        similar = similar_key(key, rows[0])
        if similar is not None:
            got = f"`{similar}` in its place"
    raise ValueError(f"`{key}` must be {rule}; got {got} in annotation {rows[0]['id']!r}.")


def _numbers(rows: list[Row], key: str, *shape: int) -> NDArray[np.float64] | None:
    """Return the numbers under a key of rows, float64 [rows, *shape]; None if a row lacks them, or is invalid."""
    if not rows:
        return np.empty((0, *shape))
    try:
        values = np.array([row[key] for row in rows])
        if values.dtype.kind not in "iuf":  # such as strings with digits
            return None
        if not shape and values.ndim > 1:  # such as lists of one number
            return None
        return values.astype(np.float64).reshape(len(rows), *shape)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class CocoProblem:
    """The objects that `COCOeval` matches, and the grid of thresholds."""

    grid: CocoGrid
    key: tuple[Any, ...]
    """the parameters that the objects depend on, see `key_of`"""
    images: list[Any]
    categories: list[Any]
    """-1 only, if categories do not count"""
    truth: CocoSide
    results: CocoSide
    ground_truths: GroundTruths
    detections: Detections

    @classmethod
    def read(cls, cocoGt: COCO | None, cocoDt: COCO | None, params: Any) -> CocoProblem:
        """Read and check the annotations and results for the parameters.

        Raises:
            ValueError: an invalid parameter, an annotation with a missing or invalid value, or repeated ids.
        """
        grid = grid_of(params)
        if cocoGt is not None and cocoGt.anns and params.useCats and "categories" not in cocoGt.dataset:
            raise ValueError("`cocoGt` must have `categories` where `params.useCats` is 1; got none in the data set.")
        truth = CocoSide.of(cocoGt, params)
        results = CocoSide.of(cocoDt, params)
        _check_ids(truth.rows)
        if params.iouType == "segm":
            _warn_of_boxes_as_masks(truth, results)

        is_crowd = torch.tensor([bool(row.get("iscrowd")) for row in truth.rows], dtype=torch.bool, device=_CPU)
        areas = _column(truth.rows, "area")
        scores = _column(results.rows, "score")
        shapes, true_shapes = _shapes(results, truth, params, areas, is_crowd)
        if params.iouType == "keypoints":  # an object without a labeled keypoint counts in no area range
            areas = areas.masked_fill(_column(truth.rows, "num_keypoints") == 0, -math.inf)
        return cls(
            grid=grid,
            key=key_of(params),
            images=list(params.imgIds),
            categories=list(params.catIds) if params.useCats else [-1],
            truth=truth,
            results=results,
            ground_truths=GroundTruths.unchecked(
                boxes=true_shapes,
                labels=truth.labels,
                images=truth.images,
                is_crowd=is_crowd,
                areas=areas,
            ),
            detections=Detections.unchecked(
                boxes=shapes,
                labels=results.labels,
                images=results.images,
                scores=scores,
            ),
        )

    def matches(self, *, keep_ground_truths: bool = False) -> Matches:
        """Match the objects on the grid; as in pycocotools, a match with annotation 0 does not count."""
        rows_with_id_0 = [place for place, row in enumerate(self.truth.rows) if row["id"] == 0]
        matches = match_on_grid(
            self.detections,
            self.ground_truths,
            self.grid,
            classes=torch.arange(len(self.categories), device=_CPU),
            keep_ground_truths=keep_ground_truths or bool(rows_with_id_0),
        )
        if not rows_with_id_0 or matches.ground_truths is None:
            return matches
        is_void = matches.true_positive & (matches.ground_truths == rows_with_id_0[0])
        return replace(matches, matched=matches.matched & ~is_void, true_positive=matches.true_positive & ~is_void)

    def show(self, matches: Matches) -> None:
        """Let the diagnosis look at the matches."""
        is_ignored = partial(counts_although_ignored, reads_keypoints=self.key[0] == "keypoints")
        objects = EvaluatedObjects(
            self.detections,
            self.ground_truths,
            self.grid,
            iou_type=self.key[0],
            shown=self._shown,
            label_names=self.categories,
            sigmas=self.key[4],
            num_ignored=sum(map(is_ignored, self.truth.rows)),
        )
        results_made(matches, objects)

    def _shown(self) -> ShownImages:
        """Return the objects in the first images, in the form of metrics."""
        images = list(self.images)[:_MOST_SHOWN]
        preds, target = (side.shown(len(images), self.key[0]) for side in (self.results, self.truth))
        sizes = [size_of(self.truth.coco.imgs.get(image, {})) for image in images]
        return ShownImages(preds, target, sizes)


def _check_ids(annotations: list[Row]) -> None:
    """Raise if two annotations have the same id, because ids identify matches; warn about the id 0."""
    counts = Counter(row["id"] for row in annotations)
    for annotation_id, count in counts.items():
        if count > 1:
            raise ValueError(f"`annotations` must have an id of their own; got {annotation_id!r} {count} times.")
    if 0 in counts:
        warn("Annotation 0 counts as missed, and its match as wrong, as in pycocotools: ids must begin with 1.")


def _warn_of_boxes_as_masks(truth: CocoSide, results: CocoSide) -> None:
    """Warn about rows without a mask, because their boxes count as masks.

    Raises:
        ValueError: no annotation has a mask.
    """
    for name, rows in (("annotations", truth.rows), ("results", results.rows)):
        num_boxes = num_without_mask(rows)
        if num_boxes and name == "annotations" and num_boxes == len(rows):
            raise ValueError(f"`annotations` must have a `segmentation`; got none in {num_boxes:,} annotations.")
        if num_boxes:
            warn(f"{num_boxes:,} of {len(rows):,} {name} have no `segmentation`: their boxes count as masks.")


def key_of(params: Any) -> tuple[Any, ...]:
    """Return the parameters that the objects depend on."""
    return (
        params.iouType,
        bool(params.useCats),
        tuple(params.imgIds),
        tuple(params.catIds),
        tuple(params.kpt_oks_sigmas),
    )


def grid_of(params: Any) -> CocoGrid:
    """Return the other parameters as a grid; the names of area ranges are their places.

    Raises:
        TypeError: a parameter of another type.
        ValueError: an invalid value.
    """
    ranges: Any = {}
    for place, ends in enumerate(params.areaRng):
        ranges[str(place)] = tuple(float(end) for end in ends)
    iou_thresholds = tuple(float(threshold) for threshold in params.iouThrs)
    rec_thresholds = tuple(float(threshold) for threshold in params.recThrs)
    try:
        return CocoGrid(iou_thresholds, rec_thresholds, tuple(np.asarray(params.maxDets).tolist()), ranges)
    except (TypeError, ValueError) as error:
        text = str(error)
        for field, parameter in _PARAMETER_NAMES.items():
            text = text.replace(field, parameter)
        raise type(error)(text) from None


def _shapes(results: CocoSide, truth: CocoSide, params: Any, areas: Tensor, is_crowd: Tensor) -> tuple[Shapes, Shapes]:
    """Return the shapes of detections and of ground truths."""
    # Boxes of detections may hold any numbers; invalid boxes overlap nothing.
    result_areas = _column(results.rows, "area", is_finite=False)
    if params.iouType == "bbox":
        boxes = _column(results.rows, "bbox", 4, is_finite=False)
        return BoxShapes(boxes, areas_given=result_areas), BoxShapes(_column(truth.rows, "bbox", 4))

    has_keypoints = params.iouType == "keypoints"
    sigmas = tuple(np.asarray(params.kpt_oks_sigmas).tolist()) if has_keypoints else None
    (kind,) = shape_types((params.iouType,), sigmas).values()
    boxes = _column(truth.rows, "bbox", 4) if has_keypoints else areas.new_zeros(len(areas), 4)
    counts = [side.images.bincount(minlength=len(params.imgIds)) for side in (results, truth)]
    parts = zip(_slices(counts[0]), _slices(counts[1]), params.imgIds, strict=True)

    def read(side: CocoSide, rows: slice, name: str, *, is_true: bool) -> Any:
        """Read the keypoints or masks in an image."""
        values: Any
        if has_keypoints:
            values = _column(side.rows[rows], "keypoints", len(params.kpt_oks_sigmas), 3)
        else:
            values = masks_of(side.rows[rows], side.coco.imgs)
        return kind.read(name, values, is_true=is_true)

    def compute_overlaps(image_part: tuple[slice, slice, Any]) -> Tensor:
        """Return the overlaps of all detections and ground truths in an image."""
        rows, true_rows, image = image_part
        name = f"annotations of image {image!r}"
        detections = read(results, rows, name, is_true=False)
        ground_truths = read(truth, true_rows, name, is_true=True)
        if not len(detections) or not len(ground_truths):
            return areas[:0]
        kind.check_pair(name, detections, ground_truths)
        columns = ObjectColumns(boxes[true_rows], areas[true_rows], is_crowd[true_rows])
        return kind.overlaps(detections, ground_truths, columns).flatten()

    table = torch.cat([areas[:0], *workers.share(compute_overlaps, list(parts))])
    if has_keypoints and not params.useCats:  # then nothing overlaps in pycocotools
        table.zero_()
    return TableShapes.of_images(table, result_areas, areas, *counts)


def _slices(counts: Tensor) -> list[slice]:
    """Return the rows of each image."""
    ends = [0, *counts.cumsum(0).tolist()]
    return [slice(start, stop) for start, stop in pairwise(ends)]

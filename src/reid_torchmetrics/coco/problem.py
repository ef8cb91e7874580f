"""Annotations and results in COCO's format, as the objects that are matched."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection.advice import advise_on_detections
from reid_torchmetrics.functional.detection.batches import num_without_mask, similar_key
from reid_torchmetrics.functional.detection.evaluation import evidence_of_objects
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
from reid_torchmetrics.functional.world import WarningLog

from .data_set import COCO, Row, mask_of

_CPU = torch.device("cpu")
# What the fields of the grid are called among the parameters, for messages.
_NAMES = {"iou_thresholds": "iouThrs", "rec_thresholds": "recThrs", "max_detection_thresholds": "maxDets"}
_NAMES |= {"area_ranges": "areaRng"}


@dataclass(frozen=True)
class CocoSide:
    """The annotations or the results of some images and categories, by image."""

    coco: COCO
    rows: list[Row]
    images: Tensor
    """place of the image in `imgIds`"""
    labels: Tensor
    """place of the category in `catIds`, or 0 where categories do not count"""

    @classmethod
    def of(cls, coco: COCO | None, params: Any) -> CocoSide:
        """Of a data set; what has other images or categories is left out."""
        coco = COCO() if coco is None else coco
        places = {category: place for place, category in enumerate(params.catIds)}
        of_images = (coco.imgToAnns.get(image, ()) for image in params.imgIds)
        listed = [[row for row in of_image if row.get("category_id") in places] for of_image in of_images]
        if not params.useCats:  # equal scores are in the order of the categories
            listed = [sorted(of_image, key=lambda row: places[row["category_id"]]) for of_image in listed]
        rows = [row for of_image in listed for row in of_image]
        labels = [places[row["category_id"]] if params.useCats else 0 for row in rows]
        images = np.arange(len(listed)).repeat([*map(len, listed)])
        return cls(coco, rows, torch.from_numpy(images), torch.tensor(labels, dtype=torch.int64, device=_CPU))

    def prepared(self, iou_type: str) -> defaultdict[tuple[Any, Any], list[Row]]:
        """Copies of the rows by image and category, as pycocotools prepares them: with `ignore`, masks compressed."""
        prepared = defaultdict(list)
        for row in self.rows:
            is_ignored = row.get("iscrowd") or (iou_type == "keypoints" and row.get("num_keypoints") == 0)
            mask = {"segmentation": self.coco.annToRLE(row)} if iou_type == "segm" else {}
            prepared[row["image_id"], row["category_id"]].append(row | {"ignore": int(bool(is_ignored))} | mask)
        return prepared


def _column(rows: list[Row], key: str, *shape: int, is_finite: bool = True) -> Tensor:
    """Numbers of rows, float64 [rows, *shape].

    Raises:
        ValueError: a row without them, or with others.
    """
    values = _numbers(rows, key, *shape)
    if values is not None and (not is_finite or np.isfinite(values).all()):
        return torch.from_numpy(values)
    if len(rows) > 1:  # the first invalid one has the error
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
        got = got if similar is None else f"`{similar}` in its place"
    raise ValueError(f"`{key}` must be {rule}; got {got} in annotation {rows[0]['id']!r}.")


def _numbers(rows: list[Row], key: str, *shape: int) -> NDArray[np.float64] | None:
    """Return numbers of rows, float64 [rows, *shape]; None if a row lacks them, or has something else."""
    if not rows:
        return np.empty((0, *shape))
    try:
        values = np.array([row[key] for row in rows])
        if values.dtype.kind not in "iuf":  # texts of numbers are no numbers
            return None
        if not shape and values.ndim > 1:  # a list of one number is no number
            return None
        return values.astype(np.float64).reshape(len(rows), *shape)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class CocoProblem:
    """What `COCOeval` matches."""

    grid: CocoGrid
    key: tuple[Any, ...]
    """the parameters that decide what the objects are"""
    images: list[Any]
    categories: list[Any]
    """-1 alone where categories do not count"""
    truth: CocoSide
    results: CocoSide
    ground_truths: GroundTruths
    detections: Detections

    @classmethod
    def read(cls, cocoGt: COCO | None, cocoDt: COCO | None, params: Any) -> CocoProblem:
        """Read and check the annotations and results that parameters ask for.

        Raises:
            ValueError: a parameter, or an annotation without a value or with one that is not allowed, or ids twice.
        """
        grid = grid_of(params)
        if cocoGt is not None and cocoGt.anns and params.useCats and "categories" not in cocoGt.dataset:
            raise ValueError("`cocoGt` must have `categories` where `params.useCats` is 1; got none in the data set.")
        truth, results = CocoSide.of(cocoGt, params), CocoSide.of(cocoDt, params)
        # A match is told by the id of its annotation, in `dtMatches` of pycocotools.
        counts = Counter(row["id"] for row in truth.rows)
        for number, count in counts.items():
            if count > 1:
                raise ValueError(f"`annotations` must have an id of their own; got {number!r} {count} times.")
        if 0 in counts:
            text = "Annotation 0 counts as missed, and its match as wrong, as in pycocotools: ids must begin with 1."
            warn(text)
        if params.iouType == "segm":
            _warn_of_boxes_as_masks(truth, results)
        crowds = torch.tensor([bool(row.get("iscrowd")) for row in truth.rows], dtype=torch.bool, device=_CPU)
        areas, scores = _column(truth.rows, "area"), _column(results.rows, "score")
        shapes, true_shapes = _shapes(results, truth, params, areas, crowds)
        if params.iouType == "keypoints":  # an object without a labeled keypoint counts in no area range
            areas = areas.masked_fill(_column(truth.rows, "num_keypoints") == 0, -math.inf)
        ground_truths = GroundTruths.unchecked(
            boxes=true_shapes, labels=truth.labels, images=truth.images, is_crowd=crowds, areas=areas
        )
        detections = Detections.unchecked(boxes=shapes, labels=results.labels, images=results.images, scores=scores)
        categories = [*params.catIds] if params.useCats else [-1]
        return cls(grid, key_of(params), [*params.imgIds], categories, truth, results, ground_truths, detections)

    def matches(self, *, keep_ground_truths: bool = False) -> Matches:
        """The matches on the grid; the match of an annotation of id 0 is none, as in pycocotools."""
        zero = next((place for place, row in enumerate(self.truth.rows) if row["id"] == 0), None)
        sides, classes = (self.detections, self.ground_truths), torch.arange(len(self.categories), device=_CPU)
        keeps = keep_ground_truths or zero is not None
        matches = match_on_grid(*sides, self.grid, classes=classes, keep_ground_truths=keeps)
        if zero is None or matches.ground_truths is None:
            return matches
        is_none = matches.true_positive & (matches.ground_truths == zero)
        return replace(matches, matched=matches.matched & ~is_none, true_positive=matches.true_positive & ~is_none)

    def advise(self, matches: Matches) -> None:
        """Warn of what is probably not meant, such as units and categories."""
        evidence = evidence_of_objects(
            self.detections,
            self.ground_truths,
            matches,
            self.grid,
            label_names=self.categories,
            image_sizes=self._image_sizes(),
        )
        advise_on_detections(evidence, WarningLog())

    def _image_sizes(self) -> Tensor:
        """Width and height of each image, NaN where the data set does not have them."""
        sizes = []
        for image in self.images:
            row = self.truth.coco.imgs.get(image, {})
            sides = [row.get("width"), row.get("height")]
            is_known = all(isinstance(side, (int, float)) and side > 0 for side in sides)
            sizes.append(sides if is_known else [math.nan, math.nan])
        return torch.tensor(sizes, dtype=torch.float64, device=_CPU).view(-1, 2)


def _warn_of_boxes_as_masks(truth: CocoSide, results: CocoSide) -> None:
    """Warn of rows without a mask, as their boxes count as masks.

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
    """The parameters that decide what the objects are."""
    return params.iouType, bool(params.useCats), *map(tuple, (params.imgIds, params.catIds, params.kpt_oks_sigmas))


def grid_of(params: Any) -> CocoGrid:
    """The other parameters; area ranges have their places as names.

    Raises:
        TypeError: a parameter of another type.
        ValueError: a value that is not allowed.
    """
    ranges: Any = {str(place): tuple(map(float, ends)) for place, ends in enumerate(params.areaRng)}
    thresholds, recalls = (tuple(map(float, each)) for each in (params.iouThrs, params.recThrs))
    try:
        return CocoGrid(thresholds, recalls, tuple(np.asarray(params.maxDets).tolist()), ranges)
    except (TypeError, ValueError) as error:
        text = str(error)
        for ours, theirs in _NAMES.items():
            text = text.replace(ours, theirs)
        raise type(error)(text) from None


def _shapes(results: CocoSide, truth: CocoSide, params: Any, areas: Tensor, crowds: Tensor) -> tuple[Shapes, Shapes]:
    """The detections and the ground truths."""
    # Boxes of detections may be anything: what is no box overlaps nothing.
    areas_of_results = _column(results.rows, "area", is_finite=False)
    if params.iouType == "bbox":
        boxes = _column(results.rows, "bbox", 4, is_finite=False)
        return BoxShapes(boxes, areas_given=areas_of_results), BoxShapes(_column(truth.rows, "bbox", 4))
    has_keypoints = params.iouType == "keypoints"
    sigmas = tuple(np.asarray(params.kpt_oks_sigmas).tolist()) if has_keypoints else None
    (kind,) = shape_types((params.iouType,), sigmas).values()
    boxes = _column(truth.rows, "bbox", 4) if has_keypoints else areas.new_zeros(len(areas), 4)
    counts = [side.images.bincount(minlength=len(params.imgIds)) for side in (results, truth)]
    parts = [[slice(*ends) for ends in pairwise([0, *each.cumsum(0).tolist()])] for each in counts]

    def shapes(side: CocoSide, rows: list[Row]) -> Any:
        if has_keypoints:
            return _column(rows, "keypoints", len(params.kpt_oks_sigmas), 3)
        return [mask_of(row, side.coco.imgs) for row in rows]

    def overlaps(image: int) -> Tensor:
        name, part, true_part = f"annotations of image {params.imgIds[image]!r}", parts[0][image], parts[1][image]
        found = kind.read(name, shapes(results, results.rows[part]), is_true=False)
        true = kind.read(name, shapes(truth, truth.rows[true_part]), is_true=True)
        if not len(found) or not len(true):
            return areas[:0]
        kind.check_pair(name, found, true)
        columns = ObjectColumns(*(each[true_part] for each in (boxes, areas, crowds)))
        return kind.overlaps(found, true, columns).flatten()

    table = torch.cat([areas[:0], *workers.share(overlaps, range(len(params.imgIds)))])
    if has_keypoints and not params.useCats:  # in pycocotools nothing overlaps then
        table.zero_()
    return TableShapes.of_images(table, areas_of_results, areas, *counts)

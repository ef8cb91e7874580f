"""Annotations and results in COCO's format, converted to the objects to match."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, starmap
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._warnings import warn
from reid_torchmetrics.files import (
    ObjectTable,
    UnreadRowsError,
    are_of_other_sizes,
    counts_although_ignored,
    masks_of_annotations,
    num_without_mask,
    similar_key,
    sizes_of,
)
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection.batches import SMALLEST_AREA, ImageColumns, overlaps_of_masks
from reid_torchmetrics.functional.detection.evaluation import EvaluatedObjects, ShownColumns, ShownImages
from reid_torchmetrics.functional.detection.inputs import (
    BoxShapes,
    CocoGrid,
    Detections,
    GroundTruths,
    KeypointType,
    ObjectColumns,
    RunMasks,
    Shapes,
    TableShapes,
)
from reid_torchmetrics.functional.detection.matching import Matches, match_on_grid
from reid_torchmetrics.functional.world import results_made

from .data_set import COCO, Row

_CPU = torch.device("cpu")
_MOST_SHOWN = 256  # images
_SHOWN_KEYS = {"bbox": "boxes", "score": "scores"}
"""keys of a shown image by the keys of rows, where they differ"""
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
    ids: list[Any]
    images: Tensor
    """place of the image in `imgIds`, for each annotation or result"""
    labels: Tensor
    """place of the category in `catIds`, or 0 if categories do not count, for each annotation or result"""
    columns: Mapping[str, Tensor]
    """numbers by the keys of annotations, float64 [rows, ...]"""
    masks: RunMasks | None
    """masks, or boxes as masks; None if they are not evaluated"""
    dicts: Sequence[Row] = ()
    """the annotations or results, unless they were read as a table"""

    @classmethod
    def of(cls, coco: COCO | None, name: str, params: Any, table: ObjectTable | None) -> CocoSide:
        """Return the annotations of a data set, or of its table, in the images and categories of the parameters.

        Args:
            coco: the data set or the results.
            name: "annotations" or "results".
            params: the parameters.
            table: a table of `coco`; None for its dicts.

        Raises:
            ValueError: a row without a value that is evaluated, or with an invalid one.
            UnreadRowsError: so has a table.
        """
        coco = COCO() if coco is None else coco
        places = {category: place for place, category in enumerate(params.catIds)}
        shapes = _shapes_of_columns(name, params)
        if table is not None:
            return cls._of_table(coco, params, table, places, shapes)
        if name == "annotations" and params.useCats and coco.anns and "categories" not in coco.dataset:
            raise ValueError("`cocoGt` must have `categories` where `params.useCats` is 1; got none in the data set.")
        rows: list[Row] = []
        counts = []
        for image in params.imgIds:
            image_rows = [row for row in coco.imgToAnns.get(image, ()) if row.get("category_id") in places]
            if not params.useCats:  # pycocotools ranks equal scores in the order of the categories
                image_rows.sort(key=lambda row: places[row["category_id"]])
            rows += image_rows
            counts.append(len(image_rows))
        labels = [places[row["category_id"]] if params.useCats else 0 for row in rows]
        has_masks = params.iouType == "segm"
        if has_masks:
            _warn_of_boxes_as_masks(name, rows)
        are_crowds = [bool(row.get("iscrowd")) for row in rows]
        columns = {"iscrowd": torch.tensor(are_crowds, dtype=torch.float64, device=_CPU)}
        for key, shape in shapes.items():
            # Boxes of results may be anything, and overlap nothing then.
            is_finite = name == "annotations" or key not in ("area", "bbox")
            columns[key] = _column(rows, key, *shape, is_finite=is_finite)
        return cls(
            coco=coco,
            ids=[row["id"] for row in rows],
            images=torch.from_numpy(np.arange(len(counts)).repeat(counts)),
            labels=torch.tensor(labels, dtype=torch.int64, device=_CPU),
            columns=columns,
            masks=masks_of_annotations(rows, coco.imgs) if has_masks else None,
            dicts=rows,
        )

    @classmethod
    def _of_table(
        cls, coco: COCO, params: Any, table: ObjectTable, places: Mapping[Any, int], shapes: Mapping[str, Any]
    ) -> CocoSide:
        """Return the objects of a table, see `of`."""
        image_places = {image: place for place, image in enumerate(params.imgIds)}
        images = np.array([image_places.get(image, -1) for image in table.references], dtype=np.int64)[table.images]
        categories, category = np.unique(table.columns["category_id"], return_inverse=True)
        labels = np.array([places.get(label, -1) for label in categories.tolist()], dtype=np.int64)[category]
        rows = np.flatnonzero((images >= 0) & (labels >= 0))
        order = images[rows] if params.useCats else images[rows] * len(places) + labels[rows]
        rows = rows[order.argsort(kind="stable")]
        labels = labels[rows] if params.useCats else np.zeros_like(rows)
        table = table.at(rows)
        columns = {}
        for key in ("iscrowd", *shapes):
            if key in table.columns:
                numbers = torch.from_numpy(table.columns[key].astype(np.float64))
            else:  # of masks alone
                masks: Any = table.masks
                numbers = masks.areas if key == "area" else masks.boxes()
            if not bool(numbers.isfinite().all()):
                raise UnreadRowsError
            columns[key] = numbers
        return cls(
            coco=coco,
            ids=table.columns["id"].tolist(),
            images=torch.from_numpy(images[rows]),
            labels=torch.from_numpy(labels),
            columns=columns,
            masks=table.masks if params.iouType == "segm" else None,
        )

    @property
    def rows(self) -> Sequence[Row]:
        """The dicts of the annotations or results."""
        return self.dicts or self.coco.loadAnns(self.ids)

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

    def shown(self, num_images: int) -> ShownColumns:
        """Return the rows of the first images as a metric shows them."""
        counts = self.images.bincount(minlength=num_images)[:num_images]
        num_rows = int(counts.sum())
        columns = {"labels": self.labels[:num_rows]}
        for key, column in self.columns.items():
            columns[_SHOWN_KEYS.get(key, key)] = column[:num_rows]
        columns["area"] = columns["area"].clamp(min=SMALLEST_AREA)  # 0 stands for none
        if self.masks is not None:
            masks = self.masks[:num_rows]
            columns["boxes"], columns["masks"] = masks.boxes(), masks.areas
        return ShownColumns(counts, columns)


def _shapes_of_columns(name: str, params: Any) -> dict[str, tuple[int, ...]]:
    """Return the axes of a value in each column that is evaluated, for annotations or results."""
    shapes: dict[str, tuple[int, ...]] = {"area": ()}
    if name == "results":
        shapes["score"] = ()
    if params.iouType == "bbox":
        shapes["bbox"] = (4,)
    elif params.iouType == "keypoints":
        shapes["keypoints"] = (len(params.kpt_oks_sigmas), 3)
        if name == "annotations":
            shapes |= {"num_keypoints": (), "bbox": (4,)}
    return shapes


def _column(rows: list[Row], key: str, *shape: int, is_finite: bool = True) -> Tensor:
    """Return the numbers under a key of rows, float64 [rows, *shape].

    Raises:
        ValueError: a row lacks them, or has something else.
    """
    if not rows:
        return torch.zeros(0, *shape, dtype=torch.float64, device=_CPU)
    with suppress(KeyError, TypeError, ValueError, OverflowError):
        values = np.array([row[key] for row in rows])
        # Not strings with digits, nor lists of one number.
        if values.dtype.kind in "iuf" and (shape or values.ndim == 1):
            numbers = values.astype(np.float64).reshape(len(rows), *shape)
            if not is_finite or np.isfinite(numbers).all():
                return torch.from_numpy(numbers)
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
        sides = (cocoGt, "annotations"), (cocoDt, "results")
        try:
            truth, results = (CocoSide.of(coco, name, params, _table_of(coco, params)) for coco, name in sides)
        except UnreadRowsError:
            truth, results = (CocoSide.of(coco, name, params, None) for coco, name in sides)
        _check_ids(truth.ids)
        is_crowd = truth.columns["iscrowd"].bool()
        areas = truth.columns["area"]
        shapes, true_shapes = _shapes(results, truth, params)
        if params.iouType == "keypoints":  # an object without a labeled keypoint counts in no area range
            areas = areas.masked_fill(truth.columns["num_keypoints"] == 0, -math.inf)
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
                scores=results.columns["score"],
            ),
        )

    def matches(self, *, keep_ground_truths: bool = False) -> Matches:
        """Match the objects on the grid; as in pycocotools, a match with annotation 0 does not count."""
        rows_with_id_0 = [place for place, annotation_id in enumerate(self.truth.ids) if annotation_id == 0]
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
            num_ignored=sum(is_ignored(row) for row in self.truth.dicts if "ignore" in row),
        )
        results_made(matches, objects)

    def _shown(self) -> ShownImages:
        """Return the objects in the first images, in the form of metrics."""
        images = list(self.images)[:_MOST_SHOWN]
        preds, target = (side.shown(len(images)) for side in (self.results, self.truth))
        sizes = sizes_of(self.truth.coco.imgs.get(image, {}) for image in images)
        return ShownImages(preds, target, sizes)


def _table_of(coco: COCO | None, params: Any) -> ObjectTable | None:
    """Return the annotations or results of a data set as columns; None if there are dicts, and for keypoints."""
    if not isinstance(coco, COCO) or params.iouType == "keypoints" or len(set(params.imgIds)) < len(params.imgIds):
        return None
    return coco.table(has_masks=params.iouType == "segm")


def _check_ids(ids: list[Any]) -> None:
    """Raise if two annotations have the same id, because ids identify matches; warn about the id 0."""
    counts = Counter(ids)
    for annotation_id, count in counts.items():
        if count > 1:
            raise ValueError(f"`annotations` must have an id of their own; got {annotation_id!r} {count} times.")
    if 0 in counts:
        warn("Annotation 0 counts as missed, and its match as wrong, as in pycocotools: ids must begin with 1.")


def _warn_of_boxes_as_masks(name: str, rows: Sequence[Row]) -> None:
    """Warn about rows without a mask, because their boxes count as masks.

    Raises:
        ValueError: no annotation has a mask.
    """
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


def _shapes(results: CocoSide, truth: CocoSide, params: Any) -> tuple[Shapes, Shapes]:
    """Return the shapes of detections and of ground truths."""
    result_areas = results.columns["area"]
    if params.iouType == "bbox":
        return BoxShapes(results.columns["bbox"], areas_given=result_areas), BoxShapes(truth.columns["bbox"])
    counts = [side.images.bincount(minlength=len(params.imgIds)) for side in (results, truth)]
    if params.iouType == "segm":
        table = _mask_overlaps(results, truth, params.imgIds, counts)
    else:
        table = _keypoint_overlaps(results, truth, params, counts)
    return TableShapes.of_images(table, result_areas, truth.columns["area"], *counts)


def _mask_overlaps(results: CocoSide, truth: CocoSide, image_ids: Sequence[Any], counts: Sequence[Tensor]) -> Tensor:
    """Return the overlaps of masks, image by image."""
    masks: Any = results.masks
    true_masks: Any = truth.masks
    images = np.concatenate([truth.images, results.images])
    sizes = np.concatenate([true_masks.sizes, masks.sizes])
    are_other = are_of_other_sizes(images, sizes)
    if are_other.any():
        image = images[are_other][0]
        got = f"{sizes[are_other][0].tolist()} and {sizes[images == image][0].tolist()} in image {image_ids[image]!r}"
        raise ValueError(f"`annotations` and results must have masks of one size in an image; got {got}.")
    preds = ImageColumns(counts[0], {"masks": masks})
    target = ImageColumns(counts[1], {"masks": true_masks})
    return overlaps_of_masks(preds, target, truth.columns["iscrowd"].bool())


def _keypoint_overlaps(results: CocoSide, truth: CocoSide, params: Any, counts: Sequence[Tensor]) -> Tensor:
    """Return the similarities of keypoints, image by image."""
    kind = KeypointType(tuple(np.asarray(params.kpt_oks_sigmas).tolist()))
    keypoints = results.columns["keypoints"][:, :, :2]
    is_crowd = truth.columns["iscrowd"].bool()

    def compute_overlaps(image: tuple[slice, slice]) -> Tensor:
        """Return the similarities of all detections and ground truths in an image."""
        rows, true_rows = image
        columns = ObjectColumns(truth.columns["bbox"][true_rows], truth.columns["area"][true_rows], is_crowd[true_rows])
        return kind.overlaps(keypoints[rows], truth.columns["keypoints"][true_rows], columns).flatten()

    images = list(zip(_slices(counts[0]), _slices(counts[1]), strict=True))
    table = torch.cat([truth.columns["area"][:0], *workers.share(compute_overlaps, images)])
    return table if params.useCats else torch.zeros_like(table)  # without categories nothing overlaps in pycocotools


def _slices(counts: Tensor) -> list[slice]:
    """Return the rows of each image."""
    return list(starmap(slice, pairwise(segments.edges(counts).tolist())))

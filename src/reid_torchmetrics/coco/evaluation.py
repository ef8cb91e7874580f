"""COCO's evaluation by the names of pycocotools: parameters in, arrays and twelve numbers out."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from reid_torchmetrics import _checks
from reid_torchmetrics._names import CocoIouType
from reid_torchmetrics.functional.detection.evaluators import evaluate_matches
from reid_torchmetrics.functional.detection.inputs import (
    COCO_IOU_THRESHOLDS,
    COCO_RECALL_THRESHOLDS,
    COCO_SIGMAS,
    defaults_of,
)

from .data_set import COCO
from .image_results import ImageResult, accumulate_results, list_overlaps, list_results
from .problem import CocoProblem, grid_of, key_of

_LIMIT_OF_KEYPOINTS = 20
# What `summarize` prints, a row each: precision or recall, the threshold or None for all, the name of the area range,
# and the place of the limit in `maxDets`, or None for the limit that pycocotools asks for whatever `maxDets` is.
_ROWS: dict[bool, tuple[tuple[str, float | None, str, int | None], ...]] = {
    False: (
        ("Precision", None, "all", None),
        *(("Precision", threshold, "all", 2) for threshold in (0.5, 0.75)),
        *(("Precision", None, area, 2) for area in ("small", "medium", "large")),
        *(("Recall", None, "all", place) for place in range(3)),
        *(("Recall", None, area, 2) for area in ("small", "medium", "large")),
    ),
    True: tuple(
        (kind, threshold, area, None)
        for kind in ("Precision", "Recall")
        for threshold, area in ((None, "all"), (0.5, "all"), (0.75, "all"), (None, "medium"), (None, "large"))
    ),
}


class Params:
    """The parameters of `COCOeval`, to be changed as one likes before `evaluate`.

    Args:
        iouType: "bbox", "segm" or "keypoints".

    Raises:
        ValueError: another type.
    """

    def __init__(self, iouType: CocoIouType = "segm") -> None:
        _checks.one_of("iouType", iouType, CocoIouType)
        self.iouType = iouType
        self.useSegm: int | None = None
        self._set(iouType)

    def setDetParams(self) -> None:
        """Give all parameters but the type their defaults of boxes and masks."""
        self._set("bbox")

    def setKpParams(self) -> None:
        """Give all parameters but the type their defaults of keypoints."""
        self._set("keypoints")

    def _set(self, iou_type: str) -> None:
        self.imgIds: Any = []
        self.catIds: Any = []
        self.iouThrs: Any = np.array(COCO_IOU_THRESHOLDS)
        self.recThrs: Any = np.array(COCO_RECALL_THRESHOLDS)
        limits, areas = defaults_of(iou_type)
        self.maxDets: Any = [_LIMIT_OF_KEYPOINTS] if iou_type == "keypoints" else [*limits]
        self.areaRng: Any = [[*ends] for ends in areas.values()]
        self.areaRngLbl: Any = [*areas]
        self.useCats = 1
        self.kpt_oks_sigmas: Any = np.array(COCO_SIGMAS)


class COCOeval:
    """COCO's evaluation, with the methods, attributes and numbers of pycocotools' class of this name.

    `evaluate` reads and checks the annotations, `accumulate` makes the arrays of `eval`, and `summarize` prints and
    stores the numbers of `stats`. `precision` and `scores` [T, R, K, A, M] and `recall` [T, K, A, M] are pycocotools'
    bit for bit, -1 without ground truth. `evalImgs` and `ious` are made when they are asked for. `evalImgs` can be
    assigned, such as the merged ones of several processes, with `params.imgIds` and `_paramsEval`. It differs in:

    - `summarize` takes `maxDets` of any length: where pycocotools asks for a limit that is not there, it is the last.
    - What is printed is only the summary.
    - Arrays inside of `evalImgs` cannot be changed; a change of other values counts only after an assignment.
    - `evaluate` calls neither `computeIoU` nor `evaluateImg`; a subclass with its own is an error, and so is a
      `_prepare` that changes the objects.
    - `params.catIds` stays as it is with `useCats=0`, where pycocotools leaves [-1], so `useCats` can be 1 again.
    - A detected box with a NaN matches nothing; scores that are not finite, ground truths without a value and ids that
      come twice are errors.
    - An annotation of id 0 counts as missed, as in pycocotools, but with a warning.

    Args:
        cocoGt: the data set.
        cocoDt: the results, see `COCO.loadRes`.
        iouType: "bbox", "segm" or "keypoints".

    Raises:
        ValueError: another `iouType`.

    Example:
        >>> from reid_torchmetrics.coco import COCO, COCOeval
        >>> row = {"image_id": 7, "category_id": 1, "bbox": [10, 10, 40, 40]}
        >>> annotation = {"id": 1, "area": 1600, "iscrowd": 0, **row}
        >>> truth = COCO({"images": [{"id": 7}], "categories": [{"id": 1}], "annotations": [annotation]})
        >>> evaluation = COCOeval(truth, truth.loadRes([{"score": 0.9, **row}]), "bbox")
        >>> evaluation.evaluate()
        >>> evaluation.accumulate()
        >>> evaluation.eval["precision"].shape, float(evaluation.eval["recall"].max())
        ((10, 101, 1, 4, 3), 1.0)
    """

    def __init__(self, cocoGt: COCO | None = None, cocoDt: COCO | None = None, iouType: CocoIouType = "segm") -> None:
        self.cocoGt, self.cocoDt, self.params = cocoGt, cocoDt, Params(iouType)
        self.eval: dict[str, Any] = {}
        self.stats: Any = []
        self._paramsEval: Any = self.params
        self._problem: CocoProblem | None = None
        self._assigned: Any = None
        self._made: dict[Any, Any] = {}
        if cocoGt is not None:
            self.params.imgIds, self.params.catIds = sorted(cocoGt.getImgIds()), sorted(cocoGt.getCatIds())

    def evaluate(self) -> None:
        """Read and check the annotations and results of `params.imgIds` and `params.catIds`, and sort the parameters.

        Raises:
            ValueError: a parameter, or an annotation without a value or with one that is not allowed, or ids twice.
            TypeError: a subclass with overlaps, matches or objects of its own.
        """
        for name in ("computeIoU", "computeOks", "evaluateImg"):
            if getattr(type(self), name) is not getattr(COCOeval, name):
                rule = "which computes all images at once"
                raise TypeError(f"`{name}` must be that of `COCOeval`, {rule}; got {type(self).__name__}.{name}.")
        params = self.params
        if params.useSegm is not None:
            params.iouType = "segm" if params.useSegm == 1 else "bbox"
        params.imgIds, params.maxDets = np.unique(params.imgIds).tolist(), sorted(params.maxDets)
        if params.useCats:
            params.catIds = np.unique(params.catIds).tolist()
        self._prepare()
        # A subclass may have changed the objects, which have been read.
        read = {} if self._problem is None else {"_gts": self._problem.truth, "_dts": self._problem.results}
        for name, side in read.items():
            if name in vars(self) and vars(self)[name] != side.prepared(self.params.iouType):
                rule = "must leave the objects as they are; change the annotations of"
                raise TypeError(f"`_prepare` {rule} `cocoGt` and `cocoDt` instead; got another `{name}`.")
        self._assigned = None  # by a subclass
        self._paramsEval = copy.deepcopy(params)  # callers change `params` later, and ask for `accumulate`

    def _prepare(self) -> None:
        for name in ("ious", "_gts", "_dts"):
            vars(self).pop(name, None)
        self.eval, self._assigned, self._made = {}, None, {}
        self._problem = CocoProblem.read(self.cocoGt, self.cocoDt, self.params)

    @property
    def evalImgs(self) -> Any:
        """The matches by category, area range and image, in this order; None where there are no objects."""
        return self._once("evalImgs", list_results) if self._assigned is None else self._assigned

    @evalImgs.setter
    def evalImgs(self, value: Any) -> None:
        self._assigned, self._problem, self._made = value, None, {}

    @cached_property
    def ious(self) -> Any:
        """By image and category, the overlaps [detections by score, ground truths]; an empty list without either."""
        return self._once("ious", list_overlaps)

    _gts = cached_property(lambda self: self._evaluated().truth.prepared(self.params.iouType))
    _dts = cached_property(lambda self: self._evaluated().results.prepared(self.params.iouType))

    def computeIoU(self, imgId: Any, catId: Any) -> Any:
        """The value of `ious` for an image and category."""
        return self._once("ious", list_overlaps).get((imgId, catId), [])

    computeOks = computeIoU  # noqa: N815

    def evaluateImg(self, imgId: Any, catId: Any, aRng: Any, maxDet: int) -> Any:
        """The matches of an image and category in an area range, with at most `maxDet` detections; see `evalImgs`."""
        ends, problem = (float(aRng[0]), float(aRng[1])), self._evaluated()
        ranges = problem.grid.area_ranges if ends in problem.grid.area_ranges.values() else {"": ends}  # all at once

        def by_name(problem: CocoProblem) -> dict[tuple[Any, ...], ImageResult]:
            grid = replace(problem.grid, area_ranges=ranges, max_detection_thresholds=(maxDet,))
            found = list_results(replace(problem, grid=grid))
            return {(row["image_id"], row["category_id"], *row["aRng"]): row for row in found if row is not None}

        return self._once((maxDet, *ranges.values()), by_name).get((imgId, catId, *ends))

    def _once(self, name: Any, make: Callable[[CocoProblem], Any]) -> Any:
        """What is made of the objects, kept until there are others."""
        if name not in self._made:
            self._made[name] = make(self._evaluated())
        return self._made[name]

    def _evaluated(self) -> CocoProblem:
        if self._problem is None:
            if self._assigned is None:
                raise ValueError("`evaluate` must be called first, with `COCOeval._prepare`; got no annotations.")
            self._problem = CocoProblem.read(self.cocoGt, self.cocoDt, self.params)
        return self._problem

    def accumulate(self, p: Params | None = None) -> None:
        """Make the arrays of `eval`, also for parameters that are given, or were changed after `evaluate`.

        If `evalImgs` was assigned, it is from these matches, and `params` must have the images, categories and area
        ranges of `_paramsEval`.

        Raises:
            ValueError: `evaluate` was not called, or parameters or assigned matches that are not allowed.
        """
        params = self.params if p is None else p
        if self._assigned is not None:
            grids = accumulate_results(self._assigned, self._paramsEval, params)
        else:
            problem = self._evaluated()
            if problem.key != key_of(params):
                problem = CocoProblem.read(self.cocoGt, self.cocoDt, params)
            problem = replace(problem, grid=grid_of(params))
            matches = problem.matches()
            grids = [evaluate_matches(matches, problem.grid)]
        names = ("precision", "recall", "scores")
        arrays = {name: torch.cat([getattr(grid, name) for grid in grids], -2).contiguous().numpy() for name in names}
        date = time.strftime("%Y-%m-%d %H:%M:%S")
        self.eval = {"params": params, "counts": [*arrays["precision"].shape], "date": date, **arrays}
        if self._assigned is None:
            self._once("advice", lambda _: problem.advise(matches))

    def summarize(self) -> None:
        """Print the numbers of COCO, and store them in `stats`, float64.

        Raises:
            ValueError: `accumulate` was not called.
        """
        if not self.eval:
            raise ValueError("`summarize` must be called after `accumulate`; got no arrays.")
        params, has_keypoints = self.params, self.params.iouType == "keypoints"
        official, stats = _LIMIT_OF_KEYPOINTS if has_keypoints else 100, []
        for kind, threshold, area, place in _ROWS[has_keypoints]:
            limit = official if place is None else params.maxDets[min(place, len(params.maxDets) - 1)]
            stats.append(self._mean(kind, threshold, area, limit))
            ends = (params.iouThrs[0], params.iouThrs[-1]) if threshold is None else (threshold,)
            iou = ":".join(f"{end:0.2f}" for end in ends)
            where = f"IoU={iou:<9} | area={area:>6s} | maxDets={limit:>3d}"
            print(f" {f'Average {kind}':<18} (A{kind[0]}) @[ {where} ] = {stats[-1]:0.3f}")  # noqa: T201
        self.stats = np.array(stats)

    def _mean(self, kind: str, threshold: float | None, area: str, limit: int) -> float:
        """The mean over thresholds, recalls and categories; -1 if the arrays lack it."""
        params = self.params
        if area not in params.areaRngLbl or limit not in params.maxDets:
            return -1.0
        values = self.eval[kind.lower()][..., [*params.areaRngLbl].index(area), [*params.maxDets].index(limit)]
        if threshold is not None:
            values = values[np.asarray(params.iouThrs) == threshold]
        values = values[values > -1]
        return float(values.mean()) if len(values) else -1.0

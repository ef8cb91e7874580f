"""COCO's evaluation with the names of pycocotools: from parameters to arrays and twelve numbers."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

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

_KEYPOINT_LIMIT = 20


class _SummaryRow(NamedTuple):
    """A number that `summarize` prints."""

    quantity: str
    threshold: float | None = None
    """None for the mean over all thresholds"""
    area: str = "all"
    limit_index: int | None = None
    """index into `maxDets`; None for the limit that pycocotools uses for any `maxDets`"""


_BOX_ROWS = (
    _SummaryRow("Precision"),
    _SummaryRow("Precision", 0.5, limit_index=2),
    _SummaryRow("Precision", 0.75, limit_index=2),
    _SummaryRow("Precision", area="small", limit_index=2),
    _SummaryRow("Precision", area="medium", limit_index=2),
    _SummaryRow("Precision", area="large", limit_index=2),
    _SummaryRow("Recall", limit_index=0),
    _SummaryRow("Recall", limit_index=1),
    _SummaryRow("Recall", limit_index=2),
    _SummaryRow("Recall", area="small", limit_index=2),
    _SummaryRow("Recall", area="medium", limit_index=2),
    _SummaryRow("Recall", area="large", limit_index=2),
)
_KEYPOINT_ROWS = (
    _SummaryRow("Precision"),
    _SummaryRow("Precision", 0.5),
    _SummaryRow("Precision", 0.75),
    _SummaryRow("Precision", area="medium"),
    _SummaryRow("Precision", area="large"),
    _SummaryRow("Recall"),
    _SummaryRow("Recall", 0.5),
    _SummaryRow("Recall", 0.75),
    _SummaryRow("Recall", area="medium"),
    _SummaryRow("Recall", area="large"),
)


class Params:
    """The parameters of `COCOeval`; you may change them before `evaluate`.

    Args:
        iouType: "bbox", "segm" or "keypoints".

    Raises:
        ValueError: another value.
    """

    def __init__(self, iouType: CocoIouType = "segm") -> None:
        _checks.one_of("iouType", iouType, CocoIouType)
        self.iouType = iouType
        self.useSegm: int | None = None
        self._set(iouType)

    def setDetParams(self) -> None:
        """Set all parameters except `iouType` to the defaults for boxes and masks."""
        self._set("bbox")

    def setKpParams(self) -> None:
        """Set all parameters except `iouType` to the defaults for keypoints."""
        self._set("keypoints")

    def _set(self, iou_type: str) -> None:
        self.imgIds: Any = []
        self.catIds: Any = []
        self.iouThrs: Any = np.array(COCO_IOU_THRESHOLDS)
        self.recThrs: Any = np.array(COCO_RECALL_THRESHOLDS)
        limits, areas = defaults_of(iou_type)
        self.maxDets: Any = [_KEYPOINT_LIMIT] if iou_type == "keypoints" else list(limits)
        self.areaRng: Any = [list(ends) for ends in areas.values()]
        self.areaRngLbl: Any = list(areas)
        self.useCats = 1
        self.kpt_oks_sigmas: Any = np.array(COCO_SIGMAS)


class COCOeval:
    """COCO's evaluation, with the methods, attributes and numbers of pycocotools' class of this name.

    `evaluate` reads and checks the annotations, `accumulate` computes the arrays in `eval`, and `summarize` prints the
    numbers and stores them in `stats`. `precision` and `scores` [T, R, K, A, M] and `recall` [T, K, A, M] are equal to
    those of pycocotools bit for bit, and -1 without ground truths. `evalImgs` and `ious` are computed on first access.
    You may assign `evalImgs`, for example merged from several processes, with `params.imgIds` and `_paramsEval`.
    Differences from pycocotools:

    - `summarize` accepts `maxDets` of any length: if pycocotools would use a limit that does not exist, it uses the
      last one.
    - Only the summary is printed.
    - Arrays inside of `evalImgs` are read-only; changes to other values count only after an assignment to `evalImgs`.
    - `evaluate` calls neither `computeIoU` nor `evaluateImg`; a subclass that overrides them is an error, and so is a
      `_prepare` that changes the objects.
    - With `useCats=0`, `params.catIds` does not change (pycocotools sets [-1]), so you may set `useCats` to 1 again.
    - A detected box with a NaN matches nothing. Scores that are not finite, ground truths without a value, and repeated
      ids are errors.
    - An annotation with id 0 counts as missed, as in pycocotools, but with a warning.

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
        self.cocoGt = cocoGt
        self.cocoDt = cocoDt
        self.params = Params(iouType)
        self.eval: dict[str, Any] = {}
        self.stats: Any = []
        self._paramsEval: Any = self.params
        self._problem: CocoProblem | None = None
        self._assigned_results: Any = None
        self._cache: dict[Any, Any] = {}
        if cocoGt is not None:
            self.params.imgIds = sorted(cocoGt.getImgIds())
            self.params.catIds = sorted(cocoGt.getCatIds())

    def evaluate(self) -> None:
        """Read and check the annotations and results of `params.imgIds` and `params.catIds`, and sort the parameters.

        Raises:
            ValueError: an invalid parameter, an annotation with a missing or invalid value, or repeated ids.
            TypeError: a subclass that computes overlaps or matches, or changes objects.
        """
        for name in ("computeIoU", "computeOks", "evaluateImg"):
            if getattr(type(self), name) is not getattr(COCOeval, name):
                rule = "which computes all images at once"
                raise TypeError(f"`{name}` must be that of `COCOeval`, {rule}; got {type(self).__name__}.{name}.")
        params = self.params
        if params.useSegm is not None:
            params.iouType = "segm" if params.useSegm == 1 else "bbox"
        params.imgIds = _ascending(params.imgIds)
        params.maxDets = sorted(params.maxDets)
        if params.useCats:
            params.catIds = _ascending(params.catIds)
        self._prepare()
        self._check_objects()
        self._assigned_results = None  # a subclass may have assigned some
        self._paramsEval = copy.deepcopy(params)  # users change `params` later and call `accumulate`

    def _check_objects(self) -> None:
        """Raise if the `_prepare` of a subclass has changed the objects, because they were read before."""
        if self._problem is None:
            return
        for name, side in (("_gts", self._problem.truth), ("_dts", self._problem.results)):
            if name in vars(self) and vars(self)[name] != side.prepared(self.params.iouType):
                rule = "must leave the objects as they are; change the annotations of"
                raise TypeError(f"`_prepare` {rule} `cocoGt` and `cocoDt` instead; got another `{name}`.")

    def _prepare(self) -> None:
        for name in ("ious", "_gts", "_dts"):
            vars(self).pop(name, None)
        self.eval = {}
        self._assigned_results = None
        self._cache = {}
        self._problem = CocoProblem.read(self.cocoGt, self.cocoDt, self.params)

    @property
    def evalImgs(self) -> Any:
        """The matches by category, area range and image, in this order; None for cells without objects."""
        if self._assigned_results is not None:
            return self._assigned_results
        return self._once("evalImgs", list_results)

    @evalImgs.setter
    def evalImgs(self, value: Any) -> None:
        self._assigned_results = value
        self._problem = None
        self._cache = {}

    @cached_property
    def ious(self) -> Any:
        """Overlaps [detections by score, ground truths] by image and category; an empty list without one of them."""
        return self._once("ious", list_overlaps)

    _gts = cached_property(lambda self: self._evaluated_problem().truth.prepared(self.params.iouType))
    _dts = cached_property(lambda self: self._evaluated_problem().results.prepared(self.params.iouType))

    def computeIoU(self, imgId: Any, catId: Any) -> Any:
        """Return the value of `ious` for an image and category."""
        return self._once("ious", list_overlaps).get((imgId, catId), [])

    computeOks = computeIoU  # noqa: N815

    def evaluateImg(self, imgId: Any, catId: Any, aRng: Any, maxDet: int) -> Any:
        """Return the matches in an image, category and area range, with at most `maxDet` detections; see `evalImgs`."""
        ends = (float(aRng[0]), float(aRng[1]))
        # Callers ask for one range after the other, so compute all ranges of the parameters at once.
        ranges: Mapping[str, Any] = self._evaluated_problem().grid.area_ranges
        if ends not in ranges.values():
            ranges = {"": ends}

        def results_by_cell(problem: CocoProblem) -> dict[tuple[Any, ...], ImageResult]:
            grid = replace(problem.grid, area_ranges=ranges, max_detection_thresholds=(maxDet,))
            results = {}
            for row in list_results(replace(problem, grid=grid)):
                if row is not None:
                    cell = (row["image_id"], row["category_id"], *row["aRng"])
                    results[cell] = row
            return results

        return self._once((maxDet, *ranges.values()), results_by_cell).get((imgId, catId, *ends))

    def _once(self, key: Any, compute: Callable[[CocoProblem], Any]) -> Any:
        """Return a value computed from the objects; it is cached until `evaluate` reads other objects."""
        if key not in self._cache:
            self._cache[key] = compute(self._evaluated_problem())
        return self._cache[key]

    def _evaluated_problem(self) -> CocoProblem:
        """Return the objects that `evaluate` read; read them for assigned results; raise if there are neither."""
        if self._problem is None:
            if self._assigned_results is None:
                raise ValueError("`evaluate` must be called first, with `COCOeval._prepare`; got no annotations.")
            self._problem = CocoProblem.read(self.cocoGt, self.cocoDt, self.params)
        return self._problem

    def accumulate(self, p: Params | None = None) -> None:
        """Compute the arrays in `eval`, for `p` or for parameters that were changed after `evaluate`.

        If `evalImgs` was assigned, the arrays are computed from it, and `params` must have the images, categories and
        area ranges of `_paramsEval`.

        Raises:
            ValueError: `evaluate` was not called, or parameters or assigned matches are invalid.
        """
        params = self.params if p is None else p
        if self._assigned_results is not None:
            grids = accumulate_results(self._assigned_results, self._paramsEval, params)
        else:
            problem = self._evaluated_problem()
            if problem.key != key_of(params):
                problem = CocoProblem.read(self.cocoGt, self.cocoDt, params)
            problem = replace(problem, grid=grid_of(params))
            matches = problem.matches()
            grids = [evaluate_matches(matches, problem.grid)]
        arrays = {}
        for name in ("precision", "recall", "scores"):
            arrays[name] = torch.cat([getattr(grid, name) for grid in grids], -2).contiguous().numpy()
        self.eval = {
            "params": params,
            "counts": list(arrays["precision"].shape),
            "date": time.strftime("%Y-%m-%d %H:%M:%S"),
            **arrays,
        }
        if self._assigned_results is None:
            self._once("shown", lambda _: problem.show(matches))

    def summarize(self) -> None:
        """Print COCO's numbers and store them in `stats`, float64.

        Raises:
            ValueError: `accumulate` was not called.
        """
        if not self.eval:
            raise ValueError("`summarize` must be called after `accumulate`; got no arrays.")
        params = self.params
        rows: Sequence[_SummaryRow] = _BOX_ROWS
        official_limit = 100
        if params.iouType == "keypoints":
            rows = _KEYPOINT_ROWS
            official_limit = _KEYPOINT_LIMIT
        stats = []
        for row in rows:
            limit = official_limit
            if row.limit_index is not None:
                limit = params.maxDets[min(row.limit_index, len(params.maxDets) - 1)]
            value = self._mean(row, limit)
            stats.append(value)

            if row.threshold is None:
                iou = f"{params.iouThrs[0]:0.2f}:{params.iouThrs[-1]:0.2f}"
            else:
                iou = f"{row.threshold:0.2f}"
            title = f"Average {row.quantity}"
            settings = f"IoU={iou:<9} | area={row.area:>6s} | maxDets={limit:>3d}"
            print(f" {title:<18} (A{row.quantity[0]}) @[ {settings} ] = {value:0.3f}")  # noqa: T201
        self.stats = np.array(stats)

    def _mean(self, row: _SummaryRow, limit: int) -> float:
        """Return the mean over thresholds, recalls and categories; -1 if the arrays lack the area range or limit."""
        params = self.params
        if row.area not in params.areaRngLbl or limit not in params.maxDets:
            return -1.0
        area_index = list(params.areaRngLbl).index(row.area)
        limit_index = list(params.maxDets).index(limit)
        values = self.eval[row.quantity.lower()][..., area_index, limit_index]
        if row.threshold is not None:
            values = values[np.asarray(params.iouThrs) == row.threshold]
        values = values[values > -1]
        return float(values.mean()) if len(values) else -1.0


def _ascending(ids: Any) -> list[Any]:
    """Return different ids in ascending order, as `np.unique`, which imports NumPy's masked arrays."""
    return sorted(set(np.ravel(ids).tolist()))

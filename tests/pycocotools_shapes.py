"""Runs pycocotools on masks or keypoints, given as COCO's rows, and says by how much its arrays differ from ours."""

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from reid_torchmetrics.functional.detection.evaluators import PrecisionGrid

ARRAYS = ("precision", "recall", "scores")
Rows = Sequence[Mapping[str, Any]]


def run_coco(
    iou_type: str,
    results: Rows,
    annotations: Rows,
    *,
    images: Rows,
    labels: Sequence[int],
    sigmas: Sequence[float] | None = None,
    thresholds: Sequence[float] | None = None,
    recalls: Sequence[float] | None = None,
    limits: Sequence[int] | None = None,
) -> tuple[dict[str, NDArray[np.float64]], list[float]]:
    """Its arrays on the whole grid, and its stats."""
    truth = COCO()
    truth.dataset = {
        "info": {},
        "images": list(images),
        "categories": [{"id": label} for label in labels],
        "annotations": [{**row, "id": number} for number, row in enumerate(annotations, start=1)],
    }
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        found = truth.loadRes([dict(row) for row in results])
        evaluator = COCOeval(truth, found, iouType=iou_type)
        given = {"kpt_oks_sigmas": sigmas, "iouThrs": thresholds, "recThrs": recalls}
        for name, values in given.items():
            if values is not None:
                setattr(evaluator.params, name, np.array(values))
        if limits is not None:
            evaluator.params.maxDets = list(limits)
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return {name: evaluator.eval[name] for name in ARRAYS}, evaluator.stats.tolist()


def largest_difference(ours: PrecisionGrid, theirs: Mapping[str, NDArray[np.float64]]) -> float:
    """Over all arrays."""
    return float(max(np.abs(getattr(ours, name).numpy() - theirs[name]).max(initial=0) for name in ARRAYS))

"""Runs pycocotools on masks or keypoints, given as COCO's rows, and says by how much its arrays differ from ours."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics.functional.detection.evaluators import PrecisionGrid
from tests import pycocotools_peer

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
    data_set = {
        "images": list(images),
        "categories": [{"id": label} for label in labels],
        "annotations": [{**row, "id": number} for number, row in enumerate(annotations, start=1)],
    }
    params = {"kpt_oks_sigmas": sigmas, "iouThrs": thresholds, "recThrs": recalls, "maxDets": limits and list(limits)}
    given = {name: values for name, values in params.items() if values is not None}
    evaluator, _ = pycocotools_peer.run_coco(data_set, [dict(row) for row in results], iou_type, **given)
    return {name: evaluator.eval[name] for name in ARRAYS}, evaluator.stats.tolist()


def largest_difference(ours: PrecisionGrid, theirs: Mapping[str, NDArray[np.float64]]) -> float:
    """Over all arrays."""
    return float(max(np.abs(getattr(ours, name).numpy() - theirs[name]).max(initial=0) for name in ARRAYS))

"""Runs pycocotools, the evaluator that the package must agree with, on lists of detections and ground truths."""

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from tests.reference.detection import Detection, GroundTruth, Setting, Taken

ARRAYS_OF_PARAMS = ("iouThrs", "recThrs", "kpt_oks_sigmas")


@dataclass(frozen=True)
class PeerEvaluation:
    """What pycocotools returns."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    scores: NDArray[np.float64]
    taken: Taken
    stats: dict[str, float] | None
    """COCO's 12 numbers, or None where its summary would ask for other area ranges or more limits

    It looks for the first at the limit 100 only, so without that limit there are 11.
    """


def run_coco(
    data_set: str | Mapping[str, Any], results: str | Sequence[Mapping[str, Any]], iou_type: str = "bbox", **params: Any
) -> tuple[COCOeval, str]:
    """Evaluate files, or their contents, under some parameters; also what the summary prints.

    The summary is empty where it would ask for further limits. Annotations must be numbered from 1 on, as
    pycocotools takes a ground truth of number 0 for none at all.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(data_set if isinstance(data_set, str) else None)
        if not isinstance(data_set, str):
            truth.dataset = {"info": {}, **data_set}
            truth.createIndex()
        if results:
            found = truth.loadRes(results)
        else:  # it refuses an empty list
            found = COCO()
            found.dataset = {**truth.dataset, "annotations": []}
            found.createIndex()
        evaluator = COCOeval(truth, found, iou_type)
        for name, value in params.items():
            setattr(evaluator.params, name, np.array(value) if name in ARRAYS_OF_PARAMS else value)
        evaluator.evaluate()
        evaluator.accumulate()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if iou_type == "keypoints" or len(evaluator.params.maxDets) > 2:
            evaluator.summarize()
    return evaluator, printed.getvalue()


def run_pycocotools(
    detections: Sequence[Detection], ground_truths: Sequence[GroundTruth], setting: Setting, *, images: Sequence[int]
) -> PeerEvaluation:
    """Evaluate on a data set of the images `images` and the classes of `setting`."""
    annotations = [
        {
            "id": place,
            "image_id": truth.image,
            "category_id": truth.label,
            "bbox": list(truth.box),
            "area": truth.area,
            "iscrowd": int(truth.is_crowd),
        }
        for place, truth in enumerate(ground_truths, start=1)
    ]
    results = [
        {"image_id": row.image, "category_id": row.label, "bbox": list(row.box), "score": row.score}
        for row in detections
    ]
    data_set = {
        "images": [{"id": image} for image in images],
        "categories": [{"id": label} for label in setting.classes],
        "annotations": annotations,
    }
    evaluator, _ = run_coco(
        data_set,
        results,
        iouThrs=setting.iou_thresholds,
        recThrs=setting.rec_thresholds,
        maxDets=list(setting.max_detection_thresholds),
        areaRng=[list(limits) for limits in setting.areas.values()],
        areaRngLbl=list(setting.areas),
    )
    stats = _stats(evaluator, setting)
    arrays = (evaluator.eval[name] for name in ("precision", "recall", "scores"))
    return PeerEvaluation(*arrays, taken=_taken(evaluator, setting), stats=stats)


def _stats(evaluator: COCOeval, setting: Setting) -> dict[str, float] | None:
    if setting.area_ranges is not None or len(setting.max_detection_thresholds) != 3:
        return None
    names = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
    names += tuple(f"mar_{most}" for most in (*setting.max_detection_thresholds, "small", "medium", "large"))
    stats = dict(zip(names, evaluator.stats.tolist(), strict=True))
    if 100 not in setting.max_detection_thresholds:
        del stats["map"]
    return stats


def _taken(evaluator: COCOeval, setting: Setting) -> Taken:
    names = {tuple(limits): name for name, limits in setting.areas.items()}
    found = {}
    for image in filter(None, evaluator.evalImgs):
        for t, matches in enumerate(image["dtMatches"].tolist()):
            key = image["image_id"], image["category_id"], names[tuple(image["aRng"])], t
            found[key] = _rows(image, matches)
    return {key: pairs for key, pairs in found.items() if pairs}


def _rows(image: dict[str, Any], matches: list[float]) -> dict[int, int]:
    """Row of each detection that took a ground truth, and of what it took."""
    return {d - 1: int(g) - 1 for d, g in zip(image["dtIds"], matches, strict=True) if g > 0}

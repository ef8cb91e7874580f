"""Runs pycocotools, the evaluator that the package must agree with, on lists of detections and ground truths."""

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from tests.reference.detection import Detection, GroundTruth, Setting, Taken


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


def run_pycocotools(
    detections: Sequence[Detection], ground_truths: Sequence[GroundTruth], setting: Setting, *, images: Sequence[int]
) -> PeerEvaluation:
    """Evaluate on a data set of the images `images` and the classes of `setting`.

    Annotations are numbered from 1 on: pycocotools takes a ground truth of number 0 for none at all.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        truth = _data_set(ground_truths, images=images, classes=setting.classes)
        evaluator = COCOeval(truth, _results(truth, detections, setting), iouType="bbox")
        evaluator.params.iouThrs = np.array(setting.iou_thresholds, dtype=np.float64)
        evaluator.params.recThrs = np.array(setting.rec_thresholds, dtype=np.float64)
        evaluator.params.maxDets = list(setting.max_detection_thresholds)
        evaluator.params.areaRng = [list(limits) for limits in setting.areas.values()]
        evaluator.params.areaRngLbl = list(setting.areas)
        evaluator.evaluate()
        evaluator.accumulate()
        stats = _stats(evaluator, setting)
    arrays = (evaluator.eval[name] for name in ("precision", "recall", "scores"))
    return PeerEvaluation(*arrays, taken=_taken(evaluator, setting), stats=stats)


def _stats(evaluator: COCOeval, setting: Setting) -> dict[str, float] | None:
    if setting.area_ranges is not None or len(setting.max_detection_thresholds) != 3:
        return None
    evaluator.summarize()
    names = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
    names += tuple(f"mar_{most}" for most in (*setting.max_detection_thresholds, "small", "medium", "large"))
    stats = dict(zip(names, evaluator.stats.tolist(), strict=True))
    if 100 not in setting.max_detection_thresholds:
        del stats["map"]
    return stats


def _data_set(ground_truths: Sequence[GroundTruth], *, images: Sequence[int], classes: Sequence[int]) -> COCO:
    annotations = [
        {
            "id": place + 1,
            "image_id": truth.image,
            "category_id": truth.label,
            "bbox": list(truth.box),
            "area": truth.area,
            "iscrowd": int(truth.is_crowd),
        }
        for place, truth in enumerate(ground_truths)
    ]
    found = COCO()
    found.dataset = {
        "info": {},
        "images": [{"id": image} for image in images],
        "categories": [{"id": label} for label in classes],
        "annotations": annotations,
    }
    found.createIndex()
    return found


def _results(truth: COCO, detections: Sequence[Detection], setting: Setting) -> COCO:
    results = [
        {"image_id": row.image, "category_id": row.label, "bbox": list(row.box), "score": row.score}
        for row in detections
    ]
    if results:
        return truth.loadRes(results)
    return _data_set([], images=truth.getImgIds(), classes=setting.classes)  # it refuses an empty list


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

"""The known evaluators of detection."""

from __future__ import annotations

from typing import Any

from reid_torchmetrics.functional.detection.inputs import COCO_AREA_RANGES, COCO_IOU_THRESHOLDS, COCO_RECALL_THRESHOLDS

from .rows import KnownEvaluator

_COCO: dict[str, Any] = {
    "evaluator": "coco",
    "rule": "coco",
    "iou_thresholds": COCO_IOU_THRESHOLDS,
    "rec_thresholds": COCO_RECALL_THRESHOLDS,
    "max_detection_thresholds": (1, 10, 100),
    "area_ranges": tuple(COCO_AREA_RANGES.items()),
    "average": "macro",
}
_STATS = {
    "AP": "map",
    "AP50": "map_50",
    "AP75": "map_75",
    "APsmall": "map_small",
    "APmedium": "map_medium",
    "APlarge": "map_large",
    "AR1": "mar_1",
    "AR10": "mar_10",
    "AR100": "mar_100",
    "ARsmall": "mar_small",
    "ARmedium": "mar_medium",
    "ARlarge": "mar_large",
}
_TORCHMETRICS = {
    "map": "map",
    "map_50": "map_50",
    "map_75": "map_75",
    "map_small": "map_small",
    "map_medium": "map_medium",
    "map_large": "map_large",
    "mar_1": "mar_1",
    "mar_10": "mar_10",
    "mar_100": "mar_100",
    "mar_small": "mar_small",
    "mar_medium": "mar_medium",
    "mar_large": "mar_large",
}
_IN_FLOAT32: dict[str, Any] = {
    **{name: value for name, value in _COCO.items() if "thresholds" not in name},
    "max_detection_thresholds": (1, 10, 100),
    "thresholds": "torchmetrics",
}
_LVIS = {
    **{f"AP{end}": f"map{name}" for end, name in (("", ""), ("50", "_50"), ("75", "_75"))},
    **{f"AP{name[0]}": f"map_{name}" for name in ("small", "medium", "large", "rare", "common", "frequent")},
    "AR@{k}": "mar_{k}",
    **{f"AR{name[0]}": f"mar_{name}" for name in ("small", "medium", "large")},
}
_VOC_THRESHOLDS = (0.3, 0.5, 0.75)
_VOC_NUMBERS = {f"mAP at an overlap of {at}": f"map_{round(100 * at)}" for at in _VOC_THRESHOLDS}

DETECTION_EVALUATORS = (
    KnownEvaluator(
        "pycocotools",
        "2.0.11",
        "pycocotools/cocoeval.py: COCOeval",
        "the numbers of COCO",
        ("coco/*/pycocotools/map", "val2014/*/pycocotools/map"),
        _STATS,
        _COCO,
    ),
    KnownEvaluator(
        "pycocotools",
        "2.0.11",
        "pycocotools/cocoeval.py: COCOeval with the `params` of this evaluation",
        "the numbers of COCO at other thresholds and limits",
        ("coco/*/pycocotools/params/map",),
        {**_STATS, "AR{k}": "mar_{k}"},
        {"evaluator": "coco", "rule": "coco"},
    ),
    KnownEvaluator(
        "TorchMetrics",
        "1.9.0",
        "torchmetrics.detection.MeanAveragePrecision",
        "COCO's numbers with thresholds that are rounded to float32",
        ("bad_boxes/*/torchmetrics/map",),
        _TORCHMETRICS,
        _IN_FLOAT32,
    ),
    KnownEvaluator(
        "Object-Detection-Metrics of Rafael Padilla",
        "rafaelpadilla/Object-Detection-Metrics dcb285e",
        "lib/Evaluator.py: GetPascalVOCMetrics with EveryPointInterpolation",
        "the rules of PASCAL VOC since 2010, where both edges of a box are pixels of it",
        ("coco/*/padilla/all_point",),
        _VOC_NUMBERS,
        {"evaluator": "voc", "rule": "voc", "iou_thresholds": _VOC_THRESHOLDS, "whole_pixels": True},
    ),
    KnownEvaluator(
        "Object-Detection-Metrics of Rafael Padilla",
        "rafaelpadilla/Object-Detection-Metrics dcb285e",
        "lib/Evaluator.py: GetPascalVOCMetrics with ElevenPointInterpolation",
        "the rules of PASCAL VOC 2007, where both edges of a box are pixels of it; absent classes count 0",
        ("coco/*/padilla/eleven_point",),
        _VOC_NUMBERS,
        {"evaluator": "voc", "rule": "voc07", "iou_thresholds": _VOC_THRESHOLDS, "whole_pixels": True, "absent": "0"},
    ),
    KnownEvaluator(
        "Ultralytics",
        "8.4.190",
        "ultralytics/utils/metrics.py: ap_per_class, Metric",
        "no crowds, areas or limits; precision and recall are at the confidence with the best mean of F1",
        ("ultralytics/*/ultralytics/map",),
        {"mAP50-95": "map", "mAP50": "map_50", "mAP75": "map_75", "P": "precision", "R": "recall"},
        {"evaluator": "ultralytics", "rule": "ultralytics", "confidence": None},
    ),
    KnownEvaluator(
        "LVIS",
        "lvis 0.5.3",
        "lvis/eval.py: LVISEval",
        "only the classes that an image lists count, and the best 300 detections of an image over all classes",
        ("lvis/*/lvis/AP", "lvis/*/lvis_max7/AP"),
        _LVIS,
        {"evaluator": "lvis", "rule": "coco"},
    ),
    KnownEvaluator(
        "LVIS, fixed AP",
        "achalddave/large-vocab-devil 87dcb5e",
        "scripts/evaluate_ap_fixed.py",
        "the best 10,000 detections of a class count, with no limit of an image",
        ("lvis/*/fixed/AP", "lvis/*/fixed3/AP", "lvis/*/fixed20/AP"),
        _LVIS,
        {"evaluator": "lvis_fixed", "rule": "coco"},
    ),
    KnownEvaluator(
        "tidecv",
        "1.0.1",
        "tidecv: TIDE.evaluate",
        "the best 100 detections of an image count, and classes without ground truths count 0",
        ("tide/*/tidecv/AP",),
        {"AP": "map_50"},
        {
            "evaluator": "coco",
            "rule": "coco",
            "iou_thresholds": (0.5,),
            "max_detection_thresholds": (100,),
            "limit_of_images": 100,
            "absent": "0",
        },
    ),
)
"""the registry"""

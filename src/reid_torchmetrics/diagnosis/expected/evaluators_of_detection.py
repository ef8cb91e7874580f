"""The known evaluators of detection."""

from __future__ import annotations

from typing import Any

from reid_torchmetrics.functional.detection.inputs import COCO_AREA_RANGES, COCO_IOU_THRESHOLDS, COCO_RECALL_THRESHOLDS

from .match_measures import MATCH_MEASURES
from .rows import KnownEvaluator

_ANY_THRESHOLDS: dict[str, Any] = {
    "evaluator": "coco",
    "rule": "coco",
    "max_detection_thresholds": (1, 10, 100),
    "area_ranges": tuple(COCO_AREA_RANGES.items()),
    "average": "macro",
}
_COCO = {**_ANY_THRESHOLDS, "iou_thresholds": COCO_IOU_THRESHOLDS, "rec_thresholds": COCO_RECALL_THRESHOLDS}
_IN_FLOAT32 = {**_ANY_THRESHOLDS, "thresholds": "torchmetrics"}
_SIZES = ("small", "medium", "large")
_MEANS = {"mAP": "map", "mAP50": "map_50", "mAP75": "map_75"}
_OF_SIZES = {f"mAP {size}": f"map_{size}" for size in _SIZES}
_RECALLS = {"mAR at {k} detections": "mar_{k}", **{f"mAR {size}": f"mar_{size}" for size in _SIZES}}
_NUMBERS = {**_MEANS, **_OF_SIZES, **_RECALLS}
_VOC_NUMBERS = {f"mAP at an overlap of {at}": f"map_{round(100 * at)}" for at in (0.3, 0.5, 0.75)}
_LVIS = {**_NUMBERS, **{f"AP{name[0]}": f"map_{name}" for name in ("rare", "common", "frequent")}}


def _voc(*, rule: str = "voc", whole_pixels: bool = False, **options: Any) -> dict[str, Any]:
    """Return the options of Pascal VOC's matching."""
    return {"evaluator": "voc", "rule": rule, "whole_pixels": whole_pixels, **options}


_LIKE_COCO = (
    ("pycocotools", "2.0.11", "pycocotools/cocoeval.py: COCOeval", "pycocotools", "the numbers of COCO", _NUMBERS),
    ("faster-coco-eval", "1.8.0", "COCOeval_faster", "faster_coco_eval", "COCO's, compiled", _NUMBERS),
    ("hotcoco", "1.3.0", "COCOeval", "hotcoco", "COCO's, compiled", _NUMBERS),
    ("vernier", "0.5.4", "COCOeval", "vernier", "COCO's, compiled, in its mode 'strict'", _NUMBERS),
    ("od-metrics", "2.2.2", "ODMetrics", "od_metrics", "COCO's", _NUMBERS),
    ("evalsuite", "0.5.1", "evalsuite.vision: detection_report", "evalsuite", "COCO's", _NUMBERS),
    ("globox", "2.9.0", "COCOEvaluator", "globox", "COCO's, without crowds; mAP by size differs", _NUMBERS),
    ("kwcoco", "0.9.1", "DetectionMetrics.score_pycocotools", "kwcoco/score_pycocotools", "COCO's", _MEANS),
    (
        *("supervision", "0.31.2", "supervision.metrics", "supervision"),
        "mAP is COCO's; precision, recall and F1 are of all detections, and classes that are only detected count 0",
        {**_MEANS, **_OF_SIZES, **MATCH_MEASURES},
    ),
)
"""name, version, source, key of a recorded output, words, numbers"""
_IN_TORCHMETRICS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("torchmetrics", "", {}),
    ("torchmetrics_faster", ", backend='faster_coco_eval'", {}),
    ("torchmetrics_micro", ", average='micro': all labels are one class", {"average": "micro"}),
)
_IN_VOC: tuple[tuple[str, str, str, str, str, dict[str, Any]], ...] = tuple(
    (name, version, source, f"{key}{end}", f"{words}{year}", _voc(rule=rule, **options))
    for name, version, source, key, words, options in (
        (
            *("the development kit of PASCAL VOC", "rbgirshick/py-faster-rcnn 781a917", "voc_eval.py: voc_eval"),
            *("peers/*/voc_eval/", "both edges of a box are pixels of it", {"whole_pixels": True}),
        ),
        (
            *("podm", "object-detection-metrics 0.4.post1", "podm/metrics.py: get_pascal_voc_metrics"),
            *("peers/*/podm/", "boxes end between pixels", {}),
        ),
        (
            *("mean-average-precision", "2024.1.5.0", "MetricBuilder: map_2d with mpolicy='greedy'"),
            "peers/*/mean_average_precision/",
            "both edges of a box are pixels of it; absent classes count 0",
            {"whole_pixels": True, "absent": "0"},
        ),
    )
    for end, year, rule in (("voc", "", "voc"), ("voc07", "; 11 recalls, as in 2007", "voc07"))
)
DETECTION_EVALUATORS = (
    *(
        KnownEvaluator(name, version, source, words, (f"peers/*/{key}",), numbers, _COCO)
        for name, version, source, key, words, numbers in _LIKE_COCO
    ),
    KnownEvaluator(
        "pycocotools",
        "2.0.11",
        "pycocotools/cocoeval.py: COCOeval with the `params` of this evaluation",
        "the numbers of COCO at other thresholds and limits",
        ("coco/*/pycocotools/params/map",),
        _NUMBERS,
        {"evaluator": "coco", "rule": "coco"},
    ),
    *(
        KnownEvaluator(
            "TorchMetrics",
            "1.9.0",
            f"torchmetrics.detection.MeanAveragePrecision{words}",
            "COCO's with thresholds that are rounded to float32",
            (f"peers/*/{key}/map",),
            _NUMBERS,
            {**_IN_FLOAT32, **options},
        )
        for key, words, options in _IN_TORCHMETRICS
    ),
    KnownEvaluator(
        "ignite",
        "pytorch-ignite 0.5.5",
        "CommonObjectDetectionMetrics",
        "COCO's with thresholds that are rounded to float32",
        ("peers/*/ignite/map",),
        _NUMBERS,
        _IN_FLOAT32,
    ),
    *(
        KnownEvaluator(name, version, source, words, (key,), _VOC_NUMBERS, options)
        for name, version, source, key, words, options in _IN_VOC
    ),
    *(
        KnownEvaluator(
            "Object-Detection-Metrics of Rafael Padilla",
            "rafaelpadilla/Object-Detection-Metrics dcb285e",
            f"lib/Evaluator.py: GetPascalVOCMetrics with {method}",
            f"both edges of a box are pixels of it{words}",
            (f"coco/*/padilla/{key}",),
            _VOC_NUMBERS,
            _voc(whole_pixels=True, **options),
        )
        for key, method, words, options in (
            ("all_point", "EveryPointInterpolation", "", {}),
            ("eleven_point", "ElevenPointInterpolation", "; absent classes count 0", {"rule": "voc07", "absent": "0"}),
        )
    ),
    KnownEvaluator(
        "kwcoco",
        "0.9.1",
        "DetectionMetrics.score_voc",
        "both edges of a box are pixels of it; classes without detections are left out",
        ("peers/*/kwcoco/voc2012",),
        _VOC_NUMBERS,
        _voc(whole_pixels=True, absent="left out"),
    ),
    KnownEvaluator(
        "kwcoco",
        "0.9.1",
        "DetectionMetrics.score_voc with method='voc2007'",
        "both edges of a box are pixels of it; 11 recalls",
        ("peers/*/kwcoco/voc2007",),
        _VOC_NUMBERS,
        _voc(rule="voc07", whole_pixels=True),
    ),
    KnownEvaluator(
        "mean-average-precision",
        "2024.1.5.0",
        "MetricBuilder: map_2d with COCO's thresholds and mpolicy='soft'",
        "COCO's, but both edges of a box are pixels of it, and absent classes count 0",
        ("peers/*/mean_average_precision/coco",),
        _MEANS,
        {**_COCO, "edges": "whole pixels", "absent": "0"},
    ),
    KnownEvaluator(
        "mapcalc",
        "0.2.2",
        "mapcalc/main.py: calculate_map",
        "scores are not used: detections are ranked in the order of rows; both edges of a box are pixels of it",
        ("peers/*/mapcalc/map_50",),
        _MEANS,
        _voc(whole_pixels=True, scores="order"),
    ),
    KnownEvaluator(
        "Ultralytics",
        "8.4.190",
        "ultralytics/utils/metrics.py: ap_per_class, Metric",
        "no crowds, areas or limits; precision and recall are at the confidence with the best mean of F1",
        ("ultralytics/*/ultralytics/map",),
        {**_MEANS, "P": "precision", "R": "recall"},
        {"evaluator": "ultralytics", "rule": "ultralytics", "confidence": None},
    ),
    KnownEvaluator(
        "ScaledYOLOv4",
        "WongKinYiu/ScaledYOLOv4 6768003",
        "test.py, utils/general.py: ap_per_class",
        "each detection has one ground truth; precision and recall are at the confidence 0.1",
        ("peers/*/scaled_yolov4/map",),
        {**_MEANS, "P": "precision", "R": "recall"},
        {"evaluator": "scaled_yolov4", "rule": "yolo", "confidence": 0.1},
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
        "TIDE.evaluate",
        "the best 100 detections of an image count, and classes without ground truths count 0",
        ("tide/*/tidecv/AP",),
        {"AP": "map_50"},
        {**_COCO, "limit_of_images": 100, "absent": "0"},
    ),
)
"""the registry"""

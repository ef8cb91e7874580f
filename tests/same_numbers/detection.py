"""Problems of detections of each shape, by each evaluator."""

from random import Random
from typing import Any

import torch

from tests.functional.detection.detection_samples import images
from tests.functional.detection.keypoint_samples import SIGMAS, keypoint_images
from tests.functional.detection.mask_samples import compressed, mask_images

from .problems import Made, Problem, Question

Dicts = list[dict[str, Any]]

EVALUATORS = ("coco", "lvis", "voc", "ultralytics", "scaled_yolov4", "yolov4")
THRESHOLDS = (None, None, (0.5,), (0.5, 0.75), (0.3, 0.6, 0.9))
RANGES = (None, None, {"all": (0.0, 1e10), "little": (0.0, 600.0)})
LIMITS = (None, None, (1, 2, 3), (1, 10, 100), (5,))
METRICS: tuple[tuple[str, dict[str, tuple[Any, ...]]], ...] = (
    (
        "DetectionMAP",
        {
            "rule": ("coco", "voc07", "voc", "yolo", "yolov5", "ultralytics"),
            "average": ("macro", "micro"),
            "class_metrics": (True, False),
            "extended_summary": (True, False),
            "thresholds": ("coco", "torchmetrics"),
            "iou_thresholds": THRESHOLDS,
            "area_ranges": RANGES,
            "max_detection_thresholds": LIMITS,
            "rec_thresholds": (None, (0.0, 0.5, 1.0)),
            "backend": ("pycocotools", "faster_coco_eval"),
            "metric": (None, "map", "map_50", "mar_100", "f1_50"),
            "max_bytes": (None, 1, 10_000),
        },
    ),
    (
        "LvisMAP",
        {
            "fixed": (True, False),
            "max_detections": (None, 2, 50),
            "frequencies": (None, {0: "r", 1: "f", 2: "c"}),
            "class_metrics": (True, False),
            "iou_thresholds": THRESHOLDS[2:],
        },
    ),
    (
        "VocMAP",
        {
            "rule": ("voc", "voc07"),
            "whole_pixels": (None, True, False),
            "class_metrics": (True, False),
            "iou_thresholds": THRESHOLDS[2:],
        },
    ),
    (
        "YoloMAP",
        {
            "matching": ("ultralytics", "scaled_yolov4", "yolov4"),
            "rule": (None, "yolo", "yolov5", "ultralytics"),
            "confidence": (None, 0.1, 0.4),
            "class_metrics": (True, False),
        },
    ),
)
SHAPES_OF = {
    "DetectionMAP": ("bbox", "segm", "keypoints", "rotated"),
    "LvisMAP": ("bbox", "segm"),
    "VocMAP": ("bbox", "rotated"),
    "YoloMAP": ("bbox",),
}
ASKED = (
    Question("coco.precision"),
    Question("coco.recall"),
    *(Question(name, {}) for name in ("best_f1", "best_confidences", "class_numbers", "class_table", "to_dict")),
    *(Question(name, {}) for name in ("image_errors", "confusion_matrix", "error_breakdown", "localization_errors")),
    *(Question("confusion_matrix", {"rule": rule}) for rule in ("coco", "ultralytics", "supervision", "hotcoco")),
    Question("at_confidence", {"confidence": 0.4}),
    Question("confusion_matrix", {"confidence": 0.4, "iou_threshold": 0.5}),
    Question("worst_images", {"n": 2}),
    Question("confidence_curve", {}),
    Question("average_precision"),
    Question("ranked"),
    Question("num_positives"),
    Question("precision_recall_curve", {"label": 0}),
)


def shapes(random: Random, shape: str) -> tuple[Dicts, Dicts]:
    """Draw images of one kind of shapes."""
    seed, total = random.getrandbits(20), random.choice((0, 1, 2, 4, 9))
    if shape == "segm":
        preds, target = mask_images(seed, min(total, 4), with_boxes=random.random() < 0.2)
        if random.random() < 0.3:
            for item in (*preds, *target):
                item["masks"] = compressed(item["masks"])
        return preds, target
    if shape == "keypoints":
        preds, target = keypoint_images(seed, total)
        if random.random() < 0.5:
            target = [{name: values for name, values in item.items() if name != "boxes"} for item in target]
        return preds, target
    preds, target = images(seed, total, num_levels=random.choice((3, 12)), with_ids=random.random() < 0.4)
    if shape == "rotated":
        angle = random.choice((0.0, 0.3, 1.2))
        return [rotated(item, angle) for item in preds], [rotated(item, angle) for item in target]
    return preds, target


def rotated(item: dict[str, Any], angle: float) -> dict[str, Any]:
    """Return an image with boxes that are turned by an angle."""
    boxes = item["boxes"]
    turned = torch.full((len(boxes), 1), angle)
    rows = torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2], turned], 1)
    rest = {name: values for name, values in item.items() if name not in ("boxes", "area", "iscrowd")}
    return rest | {"rotated_boxes": rows}


def in_format(items: Dicts, box_format: str) -> Dicts:
    """Return images with boxes in another format."""
    changed = []
    for item in items:
        boxes = item["boxes"]
        corners, sides = boxes[:, :2], boxes[:, 2:] - boxes[:, :2]
        if box_format == "xywh":
            boxes = torch.cat([corners, sides], 1)
        elif box_format == "cxcywh":
            boxes = torch.cat([corners + sides / 2, sides], 1)
        changed.append(item | {"boxes": boxes})
    return changed


def with_lists(random: Random, target: Dicts, name: str) -> Dicts:
    """Return ground truths with the lists of LVIS or with the flags of Pascal VOC."""
    if name in ("LvisMAP", "lvis"):
        return [item | {"neg_category_ids": [0, 3], "not_exhaustive_category_ids": [1]} for item in target]
    if name in ("VocMAP", "voc") and random.random() < 0.5:
        return [item | {"difficult": torch.arange(len(item["labels"])) % 3 == 1} for item in target]
    return target


def drawer(shape: str):
    """Return the function that draws problems of a shape."""

    def draw(random: Random) -> Problem:
        preds, target = shapes(random, shape)
        options: dict[str, Any] = {"iou_type": shape} if shape != "bbox" else {}
        if shape == "keypoints":
            options["sigmas"] = SIGMAS
            if target and "boxes" in target[0]:
                options["box_format"] = "xywh"
        elif shape == "bbox":
            options["box_format"] = random.choice(("xyxy", "xyxy", "xywh", "cxcywh"))
            preds, target = (in_format(items, options["box_format"]) for items in (preds, target))
        if random.random() < 0.4:
            return called(random, preds, target, options)
        return fed(random, preds, target, options, shape)

    return draw


def fed(random: Random, preds: Dicts, target: Dicts, options: dict[str, Any], shape: str) -> Problem:
    """Return a problem of a metric that is given batches."""
    name, choices = random.choice([row for row in METRICS if shape in SHAPES_OF[row[0]]])
    target = with_lists(random, target, name)
    for option, values in choices.items():
        if random.random() < 0.25:
            options[option] = random.choice(values)
    if random.random() < 0.1 and name == "DetectionMAP":
        name = "DetectionMetrics"
        options = {option: value for option, value in options.items() if option != "metric"}
    if options.get("rule") in ("yolo", "yolov5", "ultralytics", "voc07", "voc") and random.random() < 0.9:
        options.pop("rec_thresholds", None)
    if options.get("metric") == "f1_50" and random.random() < 0.5:
        options["confidence"] = 0.3
    if options.get("extended_summary"):
        options.pop("metric", None)
    size = random.choice((1, 3, 20))
    cuts = range(0, len(preds), size)
    batches = [{"preds": preds[cut : cut + size], "target": target[cut : cut + size]} for cut in cuts]
    questions = [Question("compute", {})]
    if random.random() < 0.3:
        held = {option: True for option in ("across_classes", "boxes", "localization") if random.random() < 0.5}
        held = held if name != "DetectionMetrics" else {}
        further = (Question("summary", {}), Question("means"), Question("coco.precision"), random.choice(ASKED))
        questions.append(Question("results", held, (), further))
    return Problem(Made(name, options), questions, batches, {"call": name, **options, "size": size})


YOLO = EVALUATORS[3:]
OPTIONS_OF_IMAGES: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "iou_thresholds": (EVALUATORS, THRESHOLDS[2:]),
    "rule": (("coco", "voc"), ("voc07", "voc")),
    "area_ranges": (("coco",), RANGES[2:]),
    "max_detection_thresholds": (("coco",), LIMITS[2:]),
    "confidence": (YOLO, (0.3,)),
    "class_groups": (("coco",), ({"both": (0, 1)},)),
}
"""options of `evaluate_images`, the evaluators that take each, and the values"""


def called(random: Random, preds: Dicts, target: Dicts, options: dict[str, Any]) -> Problem:
    """Return a problem of `evaluate_images`."""
    choices_of = {"rotated": ("coco", "voc"), "segm": ("coco", "lvis"), "keypoints": ("coco",)}
    evaluator = random.choice(choices_of.get(str(options.get("iou_type")), EVALUATORS))
    target = with_lists(random, target, evaluator)
    options = options | {"evaluator": evaluator}
    for option, (evaluators, values) in OPTIONS_OF_IMAGES.items():
        if random.random() < (0.2 if evaluator in evaluators else 0.01):
            options[option] = random.choice(values)
    options |= {"across_classes": random.random() < 0.8, "boxes": random.random() < 0.2}
    options |= {"localization": random.random() < 0.8 if evaluator == "coco" else False}
    call = Made("evaluate_images", options, (preds, target))
    questions = (Question("summary", {}), Question("means"), random.choice(ASKED), random.choice(ASKED))
    return Problem(call, questions, facts={"call": call.name, **options})


def draw_overlaps(random: Random) -> Problem:
    """Draw a call of a function of shapes alone, or a comparison of two detectors."""
    preds, target = images(random.getrandbits(20), random.choice((1, 3, 6)))
    detections, truths = preds[-1], target[-1]
    crowd = truths.get("iscrowd")
    crowds = {} if crowd is None else {"is_crowd": crowd.bool()}
    ways = [
        Made("pairwise_iou", {"box_format": "xyxy", **crowds}, (detections["boxes"], truths["boxes"])),
        Made("pairwise_iou", {"box_format": "xywh", "whole_pixels": True}, (detections["boxes"], detections["boxes"])),
        Made("rotated_iou", {}, (rotated(detections, 0.4)["rotated_boxes"], rotated(truths, 0.1)["rotated_boxes"])),
        Made(
            "non_maximum_suppression",
            {"iou_threshold": random.choice((0.3, 0.6)), "labels": detections["labels"]},
            (detections["boxes"], detections["scores"]),
        ),
        Made(
            "compute_ap", {"rule": random.choice(("coco", "voc07", "voc", "yolo"))}, ([0.1, 0.4, 0.4], [1.0, 0.7, 0.5])
        ),
    ]
    if random.random() < 0.3:
        other = [item | {"scores": item["scores"].flip(0)} for item in preds]
        options = {"num_resamples": 10, "num_permutations": 10}
        arguments = {"arguments": ((preds, target), (other, target)), "evaluation": {}, "options": options}
        return Problem(Made("steps.detectors", arguments), (Question("differences"),), facts={"call": "compare"})
    call = random.choice(ways)
    return Problem(call, (Question(""),), facts={"call": call.name, **call.arguments})

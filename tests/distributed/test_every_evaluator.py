"""Every evaluator gives all that results are asked for: by metric and by function, on any number of processes."""

import json
import re

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, LvisMAP, VocMAP, YoloMAP
from reid_torchmetrics.functional.detection import DetectionResults, evaluate_images
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from reid_torchmetrics.functional.world import ALONE
from reid_torchmetrics.metrics.base import DistributedWorld
from tests.distributed.detection_shards import at
from tests.distributed.shards import SHARDINGS
from tests.functional.detection.detection_samples import fed, images

NUM_IMAGES = 9
NAMES = {0: "cat", 1: "dog"}
METRICS = {
    "coco": lambda: DetectionMAP(class_names=NAMES),
    "lvis": lambda: LvisMAP(class_names=NAMES, frequencies={0: "r", 1: "f"}),
    "lvis_fixed": lambda: LvisMAP(class_names=NAMES, fixed=True, max_detections=3),
    "voc": lambda: VocMAP(class_names=NAMES, iou_thresholds=(0.5, 0.75)),
    "ultralytics": lambda: YoloMAP(class_names=NAMES),
    "scaled_yolov4": lambda: YoloMAP(class_names=NAMES, matching="scaled_yolov4"),
    "yolov4": lambda: YoloMAP(class_names=NAMES, matching="yolov4"),
}
"""the metric classes of evaluators; others are asked for by `evaluate_images` alone"""
OPTIONS = {
    "lvis": {"class_groups": {"rare": [0], "common": [], "frequent": [1]}},
    "lvis_fixed": {"class_groups": {"rare": [], "common": [], "frequent": []}, "max_detection_thresholds": (3,)},
    "voc": {"iou_thresholds": (0.5, 0.75)},
}


def problem():
    preds, target = images(83, NUM_IMAGES, num_levels=5, with_ids=True)
    for item in target[::2]:
        item["difficult"] = torch.arange(len(item["labels"])) % 3 == 0
        item |= {"neg_category_ids": [0, 3], "not_exhaustive_category_ids": [1]}
    return preds, target


def asked(results: DetectionResults, name: str) -> dict[str, object]:
    """What there is to read of results, as text and numbers that two processes can compare."""
    worst = results.worst_images(3)
    detections, ground_truths = results.boxes_of(worst.image)
    _, all_ground_truths = results.boxes_of(results.images)
    return {
        "printed": str(results),
        "classes": results.class_table(),
        "json": json.dumps(results.to_dict()),
        "worst": [worst.image_ids, worst.num_false_positives.tolist(), worst.num_misses.tolist()],
        "boxes": [[side["boxes"].tolist() for side in sides] for sides in (detections, ground_truths)],
        "difficult": [each.get("difficult", torch.zeros(0)).tolist() for each in all_ground_truths],
        "confusion": results.confusion_matrix().counts.tolist(),
        "detections": results.detections().is_true_positive.tolist(),
        "curve": str(results.ranked.for_class(0)),
        "localization": str(results.localization_errors()),
        "errors": dict(results.error_breakdown().counts) if EVALUATORS[name].has_breakdown else None,
    }


def by_both(process: int, size: int, sharding: str) -> dict[str, list[dict[str, object]]]:
    """By the metric and by the function, of each evaluator, on one of some processes."""
    given = at(problem(), SHARDINGS[sharding](NUM_IMAGES, size)[process])
    world = ALONE if size == 1 else DistributedWorld(None, torch.device("cpu"))
    told = {}
    for name in EVALUATORS:
        held = {"across_classes": True, "boxes": True, "localization": True}
        options = {"evaluator": name, "class_names": NAMES, "world": world, **OPTIONS.get(name, {})}
        by_function = evaluate_images(*given, **options, **held)
        by_metric = fed(METRICS[name](), *given).results(**held) if name in METRICS else by_function
        told[name] = [asked(each, name) for each in (by_metric, by_function)]
    return told


@pytest.mark.parametrize("sharding", ["round_robin", "empty_first"])
def test_two_processes_and_the_function_say_what_one_metric_says(processes, sharding):
    alone = by_both(0, 1, "round_robin")
    for process in [alone, *processes.run(2, by_both, sharding)]:
        for name, (by_metric, by_function) in process.items():
            assert by_metric == by_function == alone[name][0], name


def test_every_evaluator_has_its_own_words():
    told = {name: by_metric for name, (by_metric, _) in by_both(0, 1, "round_robin").items()}
    for name, each in told.items():
        assert "cat" in each["classes"]
        assert ("maxDets" in each["printed"]) == EVALUATORS[name].has_limits
        assert ("area_ranges" in json.loads(each["json"])) == EVALUATORS[name].has_limits
        assert ("confidence=" in each["printed"]) == EVALUATORS[name].reports_confidence
        assert np.array(each["confusion"]).sum() > 0
        assert any(map(any, each["difficult"])) == (name == "voc")


BEST_OF_ALL = "a detection takes the best ground truth of all, whether it is left or not"
WITHOUT_KINDS = {
    "lvis": "LVIS: images are annotated for some classes only",
    "lvis_fixed": "LVIS, fixed AP: images are annotated for some classes only",
    "voc": f"Pascal VOC: {BEST_OF_ALL}",
    "scaled_yolov4": f"ScaledYOLOv4: {BEST_OF_ALL}",
    "yolov4": f"YOLOv4: {BEST_OF_ALL}",
}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("across_classes", [True, False])
def test_a_breakdown_of_errors_that_there_is_not_has_its_reason(name, across_classes):
    results = fed(METRICS[name](), *problem()).results(across_classes=across_classes)
    if name in WITHOUT_KINDS:
        message = "an evaluator that matches greedily and knows all classes of each image, such as COCO; got {}."
        with pytest.raises(ValueError, match=re.escape(message.format(WITHOUT_KINDS[name]))):
            results.error_breakdown()
    elif across_classes:
        assert results.error_breakdown().counts
    else:
        with pytest.raises(ValueError, match=r"^`across_classes` must be True in `results\(...\)` for a breakdown"):
            results.error_breakdown()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"evaluator": "yolo"},
            "`evaluator` must be one of 'coco', 'lvis', 'lvis_fixed', 'voc', 'ultralytics', 'scaled_yolov4', 'yolov4'",
        ),
        (
            {"evaluator": "voc", "max_detection_thresholds": (1,)},
            "`max_detection_thresholds` must be left out with evaluator 'voc'; got",
        ),
        ({"evaluator": "yolov4", "iou_type": "segm"}, "`iou_type` must be left out with evaluator 'yolov4'; got"),
        ({"whole_pixels": True}, "`whole_pixels` must be left out with evaluator 'coco'; got True."),
        ({"confidence": 0.5}, "`confidence` must be None with this evaluator, which reports nothing at one; got 0.5."),
        ({"evaluator": "voc", "rule": "coco"}, "`rule` must be one of 'voc', 'voc07'; got 'coco'."),
    ],
)
def test_an_option_that_an_evaluator_does_not_know_is_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        evaluate_images(*problem(), **options)


def least_errors(process: int, size: int) -> list[float]:
    given = at(problem(), SHARDINGS["round_robin"](NUM_IMAGES, size)[process])
    return [float(fed(DetectionMAP(metric=name), *given).compute()) for name in ("lrp", "lrp_localization", "lrp/1")]


def test_errors_of_localization_are_those_of_one_process(processes):
    alone = least_errors(0, 1)
    assert min(alone) > 0
    assert processes.run(2, least_errors) == [alone] * 2

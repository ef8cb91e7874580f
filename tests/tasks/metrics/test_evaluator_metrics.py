"""Pascal VOC and the YOLO family as metrics: equal to their functions, from the dicts of `DetectionMAP`."""

import math
import re
from typing import get_args

import pytest
import torch

from reid_torchmetrics import DetectionMAP, VocMAP, YoloMAP
from reid_torchmetrics._names import YoloMatching
from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from reid_torchmetrics.functional.detection.inputs import CocoGrid, to_xywh
from reid_torchmetrics.tasks.evaluators import (
    VOC_RULES,
    YOLO_RULES,
    match_best_of_all,
    match_greedily,
    yolo_average_precision,
)
from tests.found_classes import true_positives
from tests.functional.detection.detection_samples import fed, images, is_same
from tests.metrics.held_samples import check_held_samples

THRESHOLDS = (0.5, 0.75)


def with_difficult(seed: int, num_images: int = 12, *, with_ids: bool = True):
    preds, target = images(seed, num_images, with_ids=with_ids)
    generator = torch.Generator().manual_seed(seed)
    for image, item in enumerate(target):
        if image % 4:
            item["difficult"] = torch.rand(len(item["labels"]), generator=generator) < 0.3
    return preds, target


def packed(preds, target) -> tuple[Detections, GroundTruths, torch.Tensor]:
    """The images as the functions take them, in the order of their ids, and which ground truths are difficult."""
    order = sorted(range(len(target)), key=lambda place: target[place].get("image_id", place))
    preds, target = ([side[place] for place in order] for side in (preds, target))

    def joined(side, key, default=None):
        return torch.cat([item.get(key, torch.zeros(len(item["labels"]))) for item in side])

    numbers = [
        torch.arange(len(side)).repeat_interleave(torch.tensor([len(item["labels"]) for item in side]))
        for side in (preds, target)
    ]
    detections = Detections(
        to_xywh(joined(preds, "boxes"), "xyxy"), joined(preds, "scores"), joined(preds, "labels"), numbers[0]
    )
    truths = GroundTruths(
        to_xywh(joined(target, "boxes"), "xyxy"), joined(target, "labels"), numbers[1], joined(target, "iscrowd") != 0
    )
    return detections, truths, joined(target, "difficult") != 0


def right(detections: Detections, truths: GroundTruths, matching: str) -> torch.Tensor:
    if matching == "ultralytics":
        return true_positives(match_greedily(detections, truths, CocoGrid(THRESHOLDS)))
    return true_positives(match_best_of_all(detections, truths, CocoGrid(THRESHOLDS), claim=matching))


def yolo_function(given, *, matching: str, **options):
    detections, truths, _ = packed(*given)
    labels = truths.labels[~truths.is_crowd]
    return yolo_average_precision(
        right(detections, truths, matching), detections.scores, detections.labels, labels, **options
    )


def shuffled(given, seed: int = 3):
    order = torch.randperm(len(given[0]), generator=torch.Generator().manual_seed(seed)).tolist()
    return tuple([side[place] for place in order] for side in given)


@pytest.mark.parametrize("whole_pixels", [True, False])
@pytest.mark.parametrize("rule", VOC_RULES)
@pytest.mark.parametrize("seed", [1, 2])
def test_voc_is_its_function_in_any_order(seed, rule, whole_pixels):
    given = with_difficult(seed)
    detections, truths, is_difficult = packed(*given)
    options = {"rule": rule, "whole_pixels": whole_pixels}
    expected = evaluate_boxes(
        detections, truths, evaluator="voc", iou_thresholds=THRESHOLDS, is_difficult=is_difficult, **options
    )
    for images_in_order, size in ((given, 5), (shuffled(given), 1)):
        metric = fed(VocMAP(iou_thresholds=THRESHOLDS, class_metrics=True, **options), *images_in_order, size=size)
        results, values = metric.results(), metric.compute()
        for name in ("average_precision", "num_positives", "classes"):
            assert torch.equal(getattr(results, name).nan_to_num(-1), getattr(expected, name).nan_to_num(-1))
        assert torch.equal(results.matches.true_positive, expected.matches.true_positive)
        for name in ("map", "map_50", "map_75"):
            assert float(values[name]) == pytest.approx(float(expected.summary()[name]), abs=1e-6)
        per_class = expected.average_precision[0].nan_to_num(-1).float()
        assert torch.equal(values["map_50_per_class"], per_class)
        assert torch.equal(values["classes"], expected.classes)


@pytest.mark.parametrize("matching", get_args(YoloMatching))
@pytest.mark.parametrize("rule", [None, *YOLO_RULES])
def test_the_yolo_family_is_its_functions_in_any_order(matching, rule):
    given = images(3, 12, with_ids=True)
    used = EVALUATORS[matching].rule if rule is None else rule
    expected = yolo_function(given, matching=matching, rule=used, confidence=0.3)
    options = {"matching": matching, "rule": rule, "confidence": 0.3, "class_metrics": True}
    for images_in_order in (given, shuffled(given)):
        metric = fed(YoloMAP(iou_thresholds=THRESHOLDS, **options), *images_in_order)
        results, values = metric.results(), metric.compute()
        has_positives = torch.isin(results.classes, expected.classes)
        assert torch.equal(results.average_precision[:, has_positives], expected.average_precision)
        for name in ("precision", "recall", "f1"):
            assert torch.equal(results.averages.at_confidence[name][has_positives], getattr(expected, name))
        assert float(values["map"]) == pytest.approx(float(expected.average_precision.mean()), abs=1e-6)
        assert float(values["map_75"]) == pytest.approx(float(expected.average_precision[1].mean()), abs=1e-6)
        for name in ("precision", "recall", "f1"):
            assert float(values[name]) == pytest.approx(float(getattr(expected, name).mean()), abs=1e-6)
            assert torch.equal(values[f"{name}_per_class"], getattr(expected, name).float())


def test_boxes_in_every_format_and_images_that_came_twice_are_the_same():
    given = with_difficult(5)
    expected = fed(VocMAP(), *given).compute()
    again = tuple([*side, *side[:4]] for side in given)
    assert fed(VocMAP(), *again).compute() == expected
    preds, target = ([item | {"boxes": to_xywh(item["boxes"], "xyxy")} for item in side] for side in given)
    assert fed(VocMAP(box_format="xywh"), preds, target).compute() == expected


def test_difficult_ground_truths_need_not_be_found():
    boxes = torch.tensor([[0.0, 0.0, 9.0, 9.0], [20.0, 0.0, 29.0, 9.0]])
    found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([1, 1])}
    target = {"boxes": boxes.flip(0), "labels": torch.tensor([1, 1]), "difficult": torch.tensor([0, 1])}
    metric = fed(VocMAP(), [found], [target])
    curve = metric.results().ranked.for_class(1)
    assert (curve.num_positives, curve.is_true_positive.tolist()) == (1, [False, True])
    assert curve.is_ignored.tolist() == [True, False]
    assert float(metric.compute()["map"]) == 1
    assert curve.average_precision() == 1
    assert str(curve).splitlines()[2].split()[:4] == ["1", "0", "0.900", "--"]


def test_results_know_the_image_and_the_place_of_every_detection():
    preds, target = images(4, 8, with_ids=True)
    by_id = {item["image_id"]: each for item, each in zip(target, preds, strict=True)}
    for metric in (VocMAP(), YoloMAP(), YoloMAP(matching="scaled_yolov4")):
        ranked = fed(metric, preds, target).results().ranked
        assert len(ranked) == sum(len(each["labels"]) for each in preds)
        rows = zip(ranked.image.tolist(), ranked.row.tolist(), ranked.class_index, ranked.score, strict=True)
        for image, row, number, score in rows:
            assert by_id[image]["labels"][row] == ranked.classes[number]
            assert by_id[image]["scores"][row] == score


@pytest.mark.parametrize("make", [VocMAP, YoloMAP])
def test_one_number_is_a_tensor_and_a_label_stands_for_a_class(make):
    given = images(8, 9, with_ids=True)
    values = fed(make(class_metrics=True), *given).compute()
    for name in make.VALUES:
        assert fed(make(metric=name), *given).compute() == values[name]
        of_classes = values[f"{name}_per_class"].view(-1)  # TorchMetrics drops the axis of one class
        for label, value in zip(values["classes"].view(-1).tolist(), of_classes, strict=True):
            assert fed(make(metric=f"{name}/{label}"), *given).compute() == value
        assert float(fed(make(metric=f"{name}/99"), *given).compute()) == -1


@pytest.mark.parametrize("make", [VocMAP, YoloMAP])
def test_without_ground_truths_there_is_nothing_to_average(make):
    empty = torch.empty(0)
    nothing = [dict.fromkeys(("boxes", "scores", "labels"), empty)], [dict.fromkeys(("boxes", "labels"), empty)]
    metric = fed(make(class_metrics=True), *nothing)
    values = metric.compute()
    assert {name: float(values[name]) for name in make.VALUES} == dict.fromkeys(make.VALUES, -1)
    assert len(values["classes"]) == len(metric.results().ranked) == 0


def test_an_overlap_of_wholes_of_another_evaluator_is_not_remembered_for_this_one():
    given = images(8, 6)
    first, second = fed(YoloMAP(), *given).compute()["map"], fed(YoloMAP(matching="yolov4"), *given).compute()["map"]
    assert first != second
    assert fed(DetectionMAP(), *given).compute()["map"] != first


def test_images_are_held_until_a_reset():
    preds, target = with_difficult(9)
    given = [{"preds": preds[part], "target": target[part]} for part in (slice(6), slice(6, None))]
    check_held_samples(VocMAP, given, is_same)


def difficult_of(value) -> list[dict]:
    return [{"boxes": torch.ones(2, 4), "labels": torch.ones(2, dtype=torch.int64), "difficult": value}]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([0, None], TypeError, "`target[0]['difficult']` must be a tensor; got list."),
        (torch.ones(2), TypeError, "`target[0]['difficult']` must have an integer or bool dtype; got torch.float32."),
        (
            torch.ones(3, dtype=torch.bool),
            ValueError,
            "`target[0]['difficult']` must have shape [2], one for each box; got [3].",
        ),
    ],
)
def test_bad_flags_are_refused_and_nothing_is_stored(value, error, message):
    metric = VocMAP()
    found = {"boxes": torch.ones(1, 4), "scores": torch.ones(1), "labels": torch.ones(1, dtype=torch.int64)}
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        metric.update([found], difficult_of(value))
    assert metric.detection_boxes == metric.ground_truth_difficult == []


@pytest.mark.parametrize(
    ("make", "options", "error", "message"),
    [
        (VocMAP, {"rule": "coco"}, ValueError, "`rule` must be one of 'voc', 'voc07'; got 'coco'."),
        (VocMAP, {"whole_pixels": 1}, TypeError, "`whole_pixels` must be True or False; got int."),
        (VocMAP, {"metric": "f1"}, ValueError, "`metric` must be one of 'map', 'map_50', 'map_75'; got 'f1'."),
        (VocMAP, {"metric": "map/dog"}, ValueError, "`metric` must have a label behind the slash, as in 'map/3'; got"),
        (
            YoloMAP,
            {"matching": "coco"},
            ValueError,
            "`matching` must be one of 'ultralytics', 'scaled_yolov4', 'yolov4'",
        ),
        (YoloMAP, {"rule": "coco"}, ValueError, "`rule` must be one of 'yolo', 'yolov5', 'ultralytics', 'voc'; got"),
        (YoloMAP, {"confidence": "low"}, TypeError, "`confidence` must be a number; got str."),
        (YoloMAP, {"iou_thresholds": ()}, ValueError, "`iou_thresholds` must not be empty; got ()."),
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_bad_options_are_refused(make, options, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        make(**options)


@pytest.mark.parametrize("make", [VocMAP, YoloMAP])
def test_an_option_of_coco_is_not_one_of_theirs(make):
    with pytest.raises(ValueError, match="`area_ranges`"):
        make(area_ranges={"all": (0, math.inf)})


@pytest.mark.parametrize("metric", [VocMAP(iou_thresholds=(0.5, 0.6, 0.75)), YoloMAP(iou_thresholds=(0.5, 0.6, 0.75))])
def test_average_precision_has_thresholds_first_and_then_classes(metric):
    """As COCO's precision and recall have them: two of three thresholds are met by one of two classes."""
    boxes = torch.tensor([[0.0, 0.0, 100.0, 100.0], [200.0, 0.0, 300.0, 100.0]])
    found = boxes - torch.tensor([[0.0, 0.0, 0.0, 30.0], [0.0, 0.0, 0.0, 90.0]])
    labels = torch.tensor([4, 7])
    metric.update(
        [{"boxes": found, "scores": torch.tensor([0.9, 0.9]), "labels": labels}], [{"boxes": boxes, "labels": labels}]
    )
    results = metric.results()
    assert results.classes.tolist() == [4, 7]
    assert (results.average_precision > 0).tolist() == [[True, False], [True, False], [False, False]]

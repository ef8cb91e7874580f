"""Metrics of detection on a second device: the values of the CPU."""

import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics, LvisMAP, VocMAP, YoloMAP
from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.tasks.detection_errors import CONFUSION_RULES
from tests.device.problems import assert_as_on_the_cpu, moved
from tests.device.test_device_detection import PREDICTED, TRUE
from tests.functional.detection.detection_samples import fed, images, named
from tests.profiles import of_each


@pytest.mark.parametrize(
    "make", [LvisMAP, VocMAP, YoloMAP, lambda **options: YoloMAP(matching="scaled_yolov4", **options)]
)
def test_the_metrics_of_other_evaluators_give_the_values_of_the_cpu(device, deterministic, make):
    true = [each | {"difficult": torch.arange(len(each["labels"])) % 3 == 0} for each in TRUE]
    lists = {"neg_category_ids": [0, 2], "not_exhaustive_category_ids": [1]}
    true = [each | lists for each in true]

    def values(where):
        metric = fed(make(class_metrics=True).to(where), *moved((PREDICTED, true), where))
        results = metric.results()
        curve = results.ranked.for_class(2)
        about = [curve.precision, curve.recall, curve.envelope, *curve.at_recalls(), curve.average_precision("coco")]
        return [metric.compute(), results.average_precision, vars(results.ranked), about]

    assert_as_on_the_cpu(device, values)


def test_arrays_and_lists_go_to_the_first_tensor(device, deterministic):
    true = [{name: each[name].tolist() for name in ("boxes", "labels")} for each in TRUE]

    def values(where):
        predicted = [moved(each, where) | {"scores": each["scores"].numpy()} for each in PREDICTED]
        return fed(DetectionMAP().to(where), predicted, true).compute()

    assert_as_on_the_cpu(device, values)


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("rule", AP_RULES)
def test_the_metric_gives_the_values_of_the_cpu(device, deterministic, rule, average):
    options = {"average": average, "rule": rule, "class_metrics": True, "extended_summary": True}

    def values(where):
        return fed(DetectionMAP(**options).to(where), *moved((PREDICTED, TRUE), where)).compute()

    assert_as_on_the_cpu(device, values)


@pytest.mark.parametrize("confidence", [None, 0.4])
def test_a_collection_gives_the_values_of_the_cpu(device, deterministic, confidence):
    def values(where):
        metrics = DetectionMetrics(classes=(0, 2, 99), class_values=("map", "f1_75"), confidence=confidence).to(where)
        separate = fed(DetectionMAP(metric="map").to(where), *moved((PREDICTED, TRUE), where))
        return [fed(metrics, *moved((PREDICTED, TRUE), where)).compute(), separate.compute()]

    assert_as_on_the_cpu(device, values)


@pytest.mark.parametrize("options", [{}, {"compute_on_cpu": True}])
def test_images_on_the_cpu_give_values_on_the_device_of_the_metric(device, options):
    def value(where):
        return fed(DetectionMAP(metric="map", **options).to(where), PREDICTED, TRUE).compute()

    assert_as_on_the_cpu(device, value)


@pytest.mark.parametrize("ids", [int, str, None])
@pytest.mark.parametrize("average", ["macro", "micro"])
def test_results_answer_as_on_the_cpu(device, deterministic, average, ids):
    given = images(53, 12, with_ids=ids is not None)
    if ids is str:
        given = given[0], named(given[1], [*"abcdefghijkl"])

    def answers(where):
        metric = fed(DetectionMAP(average=average).to(where), *moved(given, where))
        results = metric.results(across_classes=True, boxes=True)
        label = 0 if average == "micro" else 2
        return [
            *(results, results.summary, vars(results.detections()), results.best_confidences()),
            *(results.at_confidence(0.5), results.best_f1(), results.precision_recall_curve(label)),
            *(results.confidence_curve(), results.confidence_curve().best(), results.confidence_curve(label)),
            *(results.image_errors(), results.image_errors(confidence=0.5), results.worst_images(4)),
            *(results.error_breakdown(rule=rule) for rule in of_each(["tidecv", *AP_RULES])),
            *(results.confusion_matrix(rule=rule) for rule in of_each(CONFUSION_RULES)),
            *(results.confusion_matrix(confidence=0.5, rule=rule) for rule in of_each(CONFUSION_RULES)),
            results.class_numbers(),
        ]

    assert_as_on_the_cpu(device, answers)


def test_boxes_of_images_with_names_are_those_of_the_cpu(device):
    given = PREDICTED, named(TRUE, [*"abcdefghijkl"])

    def boxes(where):
        metric = fed(DetectionMAP().to(where), *moved(given, where))
        worst = metric.results().worst_images(3)
        found, true = metric.boxes_of(worst.image_ids)
        return [metric.boxes_of(worst.image)[0], found, [each.pop("image_id") for each in true], true]

    assert_as_on_the_cpu(device, boxes)


def test_metrics_are_merged_there(device):
    first, second = (slice(0, 6), slice(6, 12))

    def value(where):
        metric = fed(DetectionMAP().to(where), *moved((PREDICTED[first], TRUE[first]), where))
        other = fed(DetectionMAP().to(where), *moved((PREDICTED[second], TRUE[second]), where))
        metric.merge_state(other)
        return metric.compute()

    assert_as_on_the_cpu(device, value)


@pytest.mark.parametrize("key", ["iscrowd", "area"])
@pytest.mark.parametrize("others_have", [True, False])
def test_tensors_of_an_image_without_boxes_may_lie_on_any_device(device, key, others_have):
    found, true = images(53, 4)
    true = [{name: value for name, value in item.items() if name in ("boxes", "labels")} for item in true]
    if others_have:
        for item in true:
            item[key] = torch.ones(len(item["labels"]), dtype=torch.int64)
    nothing = torch.empty(0)
    none_found = {"boxes": torch.empty(0, 4), "scores": nothing, "labels": nothing}
    none_true = {"boxes": torch.empty(0, 4), "labels": nothing, key: nothing}

    def value(where):
        metric = DetectionMAP().to(where)
        for place in (0, 2):
            preds, target = moved((found, true), where)
            preds.insert(place, none_found)
            target.insert(place, none_true)
            metric.update(preds, target)
        return metric.compute()

    assert_as_on_the_cpu(device, value)


def test_errors_of_localization_are_those_of_the_cpu(device, deterministic):
    def values(where):
        metric = fed(DetectionMAP(metric="lrp").to(where), *moved((PREDICTED, TRUE), where))
        return [metric.compute(), vars(metric.results(localization=True).localization_errors(area="medium"))]

    assert_as_on_the_cpu(device, values)

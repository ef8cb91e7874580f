"""Macro averages over the confidence: counted class by class and score by score."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.tasks.operating_points import ConfidenceCurve, best_confidence, best_f1, confidence_curve
from tests.detection_strategies import Problem, problems
from tests.found_classes import Found, images_of, match_images
from tests.profiles import examples
from tests.reference import detection_curves as reference

NAN = math.nan


def matches_of(*classes: Found) -> Matches:
    return match_images(*images_of(*classes), classes=torch.arange(len(classes)))


def contents(curve: ConfidenceCurve) -> list[list[float]]:
    return [values.tolist() for values in curve[:4]]


# The first class finds 1 of 2, then errs; the second errs, then finds its only one.
EXAMPLE_CLASSES = ([(0.9, True), (0.5, False)], 2), ([(0.7, False), (0.5, True)], 1)
EXAMPLE = matches_of(*EXAMPLE_CLASSES)


def test_the_example_has_its_means():
    confidence, precision, recall, f1 = contents(confidence_curve(EXAMPLE))
    assert confidence == [0.9, 0.7, 0.5]
    # At 0.9 the second class has no detection, and no precision.
    assert precision == pytest.approx([1, (1 + 0) / 2, (1 / 2 + 1 / 2) / 2])
    assert recall == pytest.approx([(1 / 2 + 0) / 2, (1 / 2 + 0) / 2, (1 / 2 + 1) / 2])
    assert f1 == pytest.approx([(2 / 3 + 0) / 2, (2 / 3 + 0) / 2, (2 / 4 + 2 / 3) / 2])
    assert confidence_curve(EXAMPLE).best() == 2


def test_a_class_without_ground_truths_is_left_out_unless_it_is_asked_for():
    matches = matches_of(([(0.9, True)], 1), ([(0.95, False)], 0))
    assert contents(confidence_curve(matches)) == [[0.9], [1], [1], [1]]
    assert contents(confidence_curve(matches, 1)) == [[0.95], [0], [pytest.approx(NAN, nan_ok=True)], [0]]


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (EXAMPLE_CLASSES, [0.9, 0.5]),
        # Nothing is right in the last class, so it has the confidence of all: at 0.9 the mean F1 is (2/3 + 0) / 2, at
        # 0.6 it is (2/3 + 1) / 2, and at 0.5 it is (2/4 + 1) / 2.
        ((([(0.9, True), (0.5, False)], 2), ([(0.6, True)], 1), ([(0.95, False)], 0)), [0.9, 0.6, 0.6]),
        # Its ground truths are in the mean, which is highest at the same confidence.
        ((([(0.9, True), (0.5, False)], 2), ([(0.6, True)], 1), ([(0.3, False)], 4)), [0.9, 0.6, 0.6]),
        ((([(0.9, False)], 2), ([(0.3, False)], 0), ([], 1)), [-math.inf] * 3),
        ((([(0.9, False)], 0),), [-math.inf]),
        ((), []),
    ],
)
def test_a_class_in_which_nothing_is_right_has_the_best_confidence_of_all_classes(classes, expected):
    assert best_confidence(matches_of(*classes)).tolist() == expected


def verdicts(problem: Problem, label: int, threshold: float, limit: int):
    """Detections of a class with their verdicts in the first area range, and how many ground truths it has."""
    setting = problem.setting
    return reference.coco_verdicts(
        problem.detections,
        problem.ground_truths,
        label=label,
        threshold=threshold,
        area_range=next(iter(setting.areas.values())),
        max_detection_thresholds=(setting.max_detection_thresholds[-1], setting.max_detection_thresholds[limit]),
    )


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


@examples(50)
@given(problems(), st.integers(0, 2), st.integers(0, 20))
def test_means_are_those_of_loops_over_classes_and_scores(problem, limit, threshold):
    limit = min(limit, len(problem.setting.max_detection_thresholds) - 1)
    threshold %= len(problem.setting.iou_thresholds)
    iou = problem.setting.iou_thresholds[threshold]
    classes = [verdicts(problem, label, iou, limit) for label in problem.setting.classes]
    classes = [(found, num_positives) for found, num_positives in classes if num_positives]
    scores = sorted({row.score for found, _ in classes for row in found if row.verdict is not None}, reverse=True)
    curve = confidence_curve(problem.matched().within(limit), threshold=threshold)
    assert curve.confidence.tolist() == scores
    for place, score in enumerate(scores):
        counts = [(reference.counts_at(found, score), number) for found, number in classes]
        precision = [each.num_true_positives / each.num_detections for each, _ in counts if each.num_detections]
        assert float(curve.precision[place]) == pytest.approx(mean(precision), abs=1e-12)
        recall = mean([each.num_true_positives / number for each, number in counts])
        assert float(curve.recall[place]) == pytest.approx(recall, abs=1e-12)
        f1 = mean([reference.f1(each, number) for each, number in counts])
        assert float(curve.f1[place]) == pytest.approx(f1, abs=1e-12)


@examples(50)
@given(problems(default_setting=True))
def test_the_best_f1_of_one_class_is_that_of_best_f1(problem):
    matches = problem.matched()
    points = best_f1(matches)
    for number, label in enumerate(matches.classes.tolist()):
        curve = confidence_curve(matches, label, threshold=3)
        place = curve.best()
        confidence = math.inf if place is None else float(curve.confidence[place])
        assert confidence == float(points.confidence[3, number])
        if place is not None:
            assert float(curve.f1[place]) == pytest.approx(float(points.f1[3, number]), abs=1e-12)

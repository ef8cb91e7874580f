"""The package against pycocotools, live: the same arrays, numbers and matches on problems biased to what is hard."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.functional.detection.curves import first_reaching
from tests.detection_strategies import Problem, as_many_proposals, problems, taken_of
from tests.golden.coco_cases import val2014
from tests.profiles import examples
from tests.pycocotools_peer import PeerEvaluation
from tests.reference.detection import RECALL_THRESHOLDS, Detection, GroundTruth, Setting

ARRAYS = ("precision", "recall", "scores")


def assert_agreement(ours: DetectionResults, theirs: PeerEvaluation) -> None:
    """Every array and number to 1e-12."""
    coco = ours.coco
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(coco, name).numpy(), getattr(theirs, name), rtol=0, atol=1e-12)
    if theirs.stats is not None:
        numbers = {name: float(value) for name, value in ours.summary().items()}
        assert numbers.keys() - theirs.stats.keys() <= {"map"}
        assert max(abs(numbers[name] - value) for name, value in theirs.stats.items()) <= 1e-12


@examples(100)
@given(problems())
@pytest.mark.slow
def test_matches_arrays_and_numbers_are_those_of_pycocotools(problem):
    theirs = problem.pycocotools()
    matches = problem.matched()
    assert taken_of(matches, problem.setting) == theirs.taken
    assert_agreement(problem.evaluated(), theirs)
    with as_many_proposals():
        assert problem.taken() == theirs.taken


@pytest.mark.slow
def test_the_problems_have_what_they_are_meant_to_have():
    """A strategy that draws nothing but empty problems would prove nothing."""
    drawn: list[Problem] = []

    @settings(max_examples=200)
    @given(problems())
    def draw(problem):
        drawn.append(problem)

    draw()
    theirs = [problem.pycocotools() for problem in drawn]
    scores = [[row.score for row in problem.detections] for problem in drawn]
    between = [((evaluation.precision > 0) & (evaluation.precision < 0.99)).any() for evaluation in theirs]
    assert len(drawn) >= 200
    assert sum(len(set(each)) < len(each) for each in scores) > 60
    assert sum(any(row.is_crowd for row in problem.ground_truths) for problem in drawn) > 40
    assert sum(bool(evaluation.taken) for evaluation in theirs) > 80
    assert sum(map(bool, between)) > 30
    assert sum(bool((evaluation.precision == -1).all()) for evaluation in theirs) > 10


def val2014_as_problem() -> Problem:
    real = val2014()
    found = zip(
        real.detection_images.tolist(),
        real.detection_labels.tolist(),
        map(tuple, real.detection_boxes.tolist()),
        real.detection_scores.tolist(),
        strict=True,
    )
    truths = zip(
        real.ground_truth_images.tolist(),
        real.ground_truth_labels.tolist(),
        map(tuple, real.ground_truth_boxes.tolist()),
        real.is_crowd.tolist(),
        real.areas.tolist(),
        strict=True,
    )
    setting = Setting(classes=real.classes.tolist())
    return Problem(
        [Detection(*row) for row in found], [GroundTruth(*row) for row in truths], real.images.tolist(), setting
    )


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.slow
def test_boxes_of_val2014_are_evaluated_as_by_pycocotools(step):
    """In the order of the files, and backwards."""
    problem = val2014_as_problem()
    problem = replace(problem, ground_truths=problem.ground_truths[::step], detections=problem.detections[::step])
    theirs = problem.pycocotools()
    assert problem.taken() == theirs.taken
    assert_agreement(problem.evaluated(), theirs)


@pytest.mark.parametrize("limits", [(1, 10, 100), (10, 100, 200), (1, 50, 239)])
def test_more_detections_than_a_limit_are_evaluated_as_by_pycocotools(limits):
    """240 detections of one image and class; with (10, 100, 200) the first number is at 100, the others at 200."""
    truths = [GroundTruth(0, 1, (10.0 * row, 0.0, 10.0, 10.0), False, 100.0) for row in range(12)]
    found = [Detection(0, 1, (10.0 * (row % 12), float(row % 5), 10.0, 10.0), row / 300) for row in range(240)]
    problem = Problem(found, truths, [0], Setting(classes=[1], max_detection_thresholds=limits))
    assert_agreement(problem.evaluated(), problem.pycocotools())


@pytest.mark.parametrize("num_truths", [20, 25, 50, 100, 300])
@pytest.mark.slow
def test_recalls_that_miss_a_threshold_by_a_rounding_are_those_of_pycocotools(num_truths):
    """19 / 20 does not reach 0.9500000000000001, as COCO's threshold of 0.95 is in float64, though 20 * 0.95 is 19.

    Of 25 positives 7 reach 0.28, though 25 * 0.28 is 7.000000000000001. After each true positive there is a false
    one, so that no two of them have the same precision.
    """
    truths = [GroundTruth(0, 1, (20.0 * row, 0.0, 10.0, 10.0), False, 100.0) for row in range(num_truths)]
    boxes = [(20.0 * row, top, 10.0, 10.0) for row in range(num_truths) for top in (0.0, 50.0)]
    found = [Detection(0, 1, box, 1 - row / 1000) for row, box in enumerate(boxes)]
    problem = Problem(found, truths, [0], Setting(classes=[1], max_detection_thresholds=(1, 100, 600)))
    assert_agreement(problem.evaluated(), problem.pycocotools())


def test_the_point_that_reaches_a_recall_is_the_one_that_a_search_finds():
    thresholds = [*RECALL_THRESHOLDS, 1 / 3, 2 / 3, 0.7]
    thresholds += [math.nextafter(threshold, end) for threshold in thresholds for end in (0, 1)]
    found = first_reaching(torch.arange(1, 400), torch.tensor(thresholds, dtype=torch.float64))
    for num_positives, points in enumerate(found.tolist(), 1):
        recalls = np.arange(1, num_positives + 1) / num_positives
        assert points == (np.searchsorted(recalls, thresholds) + 1).tolist()

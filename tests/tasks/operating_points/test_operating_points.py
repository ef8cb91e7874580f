"""Precision, recall and F1 at a confidence: counted detection by detection, for one class and threshold at a time."""

import math
import re
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection.inputs.images import Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching.matches import Matches, merge_matches
from reid_torchmetrics.tasks.operating_points.operating_points import (
    OperatingPoints,
    at_confidence,
    best_f1,
    precision_recall_curve,
)
from tests.detection_strategies import Problem, problems
from tests.found_classes import match_images
from tests.profiles import examples
from tests.reference import detection_curves as reference

NAN = pytest.approx(math.nan, nan_ok=True)
INF = math.inf
CONFIDENCES = (-1.0, -0.125, 0.0, 0.25, 0.3, 1.0, INF)


def matches_of(scores: list[float], are_right: list[bool], num_missed: int = 0, dtype=torch.float64) -> Matches:
    """Matches of one class, with one image for each detection, which is on the image's ground truth or beside it."""
    num = len(scores)
    boxes = torch.tensor([[0, 0, 9, 9]], dtype=torch.float64)
    beside = torch.tensor([[0, 0, 0, 0] if right else [20, 0, 0, 0] for right in are_right]).view(-1, 4)
    images, truths = torch.arange(num), [image for image in range(num) if are_right[image]]
    truth_images = torch.tensor([*truths, *range(num, num + num_missed)], dtype=torch.int64)
    ones = torch.ones(num + num_missed, dtype=torch.int64)
    detections = Detections(boxes + beside, torch.tensor(scores, dtype=dtype), ones[:num], images)
    return match_images(
        detections,
        GroundTruths(boxes.expand(len(truth_images), 4), ones[: len(truth_images)], truth_images),
        iou_thresholds=(0.5,),
        area_ranges={"all": (0.0, INF)},
    )


def contents(points: OperatingPoints) -> list[float]:
    """Of one class and threshold: confidence, precision, recall, F1 and the two counts."""
    values = (points.confidence, points.precision, points.recall, points.f1)
    return [float(value) for value in (*values, points.num_true_positives, points.num_detections)]


# Right, wrong, right, wrong; one ground truth of three is missed.
EXAMPLE = matches_of([0.9, 0.7, 0.5, 0.3], [True, False, True, False], num_missed=1)


@pytest.mark.parametrize(
    ("confidence", "num_right", "num_detections"),
    [(1.0, 0, 0), (0.9, 1, 1), (0.8, 1, 1), (0.7, 1, 2), (0.5, 2, 3), (0.1, 2, 4), (-5.0, 2, 4)],
)
def test_the_example_has_its_counts_at_a_confidence(confidence, num_right, num_detections):
    found = at_confidence(EXAMPLE, confidence)
    precision = num_right / num_detections if num_detections else NAN
    f1 = 2 * num_right / (num_detections + 3)
    assert contents(found) == [confidence, precision, num_right / 3, f1, num_right, num_detections]
    assert found.num_positives.tolist() == [3]


def test_a_confidence_is_reached_by_the_score_that_is_written_the_same():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert int(at_confidence(matches_of([0.7], [True], dtype=dtype), 0.7).num_detections) == 1


def cells(problem: Problem, limit: int):
    """Class, area range and threshold by number, with the verdicts of the slow reference and its ground truths."""
    setting = problem.setting
    numbers = (list(enumerate(each)) for each in (setting.classes, setting.areas.values(), setting.iou_thresholds))
    for (k, label), (a, area_range), (t, threshold) in product(*numbers):
        found, num_positives = reference.coco_verdicts(
            problem.detections,
            problem.ground_truths,
            label=label,
            threshold=threshold,
            area_range=area_range,
            max_detection_thresholds=(setting.max_detection_thresholds[-1], setting.max_detection_thresholds[limit]),
        )
        yield (k, a, t), found, num_positives


def of_area(matches: Matches, area: int) -> Matches:
    """The matches with this area range as their first."""
    some = slice(area, None)
    others = {"num_positives": matches.num_positives[some], "area_bits": matches.area_bits >> area}
    return matches.map_columns(lambda values: values[some], **others)


def check_points(points: OperatingPoints, place: tuple[int, int], counts: reference.Counts, num_positives: int) -> None:
    t, k = place
    num_right, num_detections = counts
    assert (int(points.num_true_positives[t, k]), int(points.num_detections[t, k])) == counts
    assert int(points.num_positives[k]) == num_positives
    assert float(points.precision[t, k]) == (num_right / num_detections if num_detections else NAN)
    assert float(points.recall[t, k]) == (num_right / num_positives if num_positives else NAN)
    assert float(points.f1[t, k]) == pytest.approx(reference.f1(counts, num_positives), nan_ok=True)


@examples(60)
@given(problems(), st.integers(0, 2), st.sampled_from(CONFIDENCES))
def test_counts_are_those_of_loops_over_detections(problem, limit, confidence):
    limit = min(limit, len(problem.setting.max_detection_thresholds) - 1)
    of_areas = [of_area(problem.matched().within(limit), area) for area in range(len(problem.setting.areas))]
    at, best = [at_confidence(matches, confidence) for matches in of_areas], [best_f1(matches) for matches in of_areas]
    for (k, a, t), found, num_positives in cells(problem, limit):
        check_points(at[a], (t, k), reference.counts_at(found, confidence), num_positives)
        value = reference.best_confidence(found, num_positives)
        assert float(best[a].confidence[t, k]) == value
        check_points(best[a], (t, k), reference.counts_at(found, value), num_positives)


@examples(40)
@given(problems(), st.integers(0, 2), st.data())
def test_curves_are_those_of_loops_over_scores(problem, limit, data):
    limit = min(limit, len(problem.setting.max_detection_thresholds) - 1)
    (k, a, t), found, num_positives = data.draw(st.sampled_from([*cells(problem, limit)]))
    label = problem.setting.classes[k]
    curve = precision_recall_curve(of_area(problem.matched().within(limit), a), label, threshold=t)
    scores = sorted({row.score for row in found if row.verdict is not None}, reverse=True)
    counts = [reference.counts_at(found, score) for score in scores]
    assert curve.scores.tolist() == scores
    assert curve.precision.tolist() == [right / number for right, number in counts]
    assert curve.recall.tolist() == [right / num_positives if num_positives else NAN for right, _ in counts]


@examples(30)
@given(problems(default_setting=True))
def test_images_in_parts_have_the_same_numbers(problem):
    halves = [{*problem.images[0::2]}, {*problem.images[1::2]}]
    merged = merge_matches([problem.with_images(images).matched() for images in halves])
    whole = problem.matched()
    for measure in (lambda matches: at_confidence(matches, 0.2), best_f1):
        for found, expected in zip(*(vars(measure(matches)).values() for matches in (merged, whole)), strict=True):
            assert torch.equal(found, expected)


BAD = [
    (lambda: at_confidence(EXAMPLE, None), TypeError, "`confidence` must be a number; got NoneType."),
    (
        lambda: precision_recall_curve(EXAMPLE, 2),
        ValueError,
        "`label` must be the label of a class that occurs; got 2.",
    ),
    (lambda: precision_recall_curve(EXAMPLE, "cat"), TypeError, "`label` must be an int; got str."),
]


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("call", "error", "message"), BAD)
def test_bad_options_are_refused(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()

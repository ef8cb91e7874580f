"""Errors of each image: counted by hand, by a loop, and summed over images."""

import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given

from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.tasks.operating_points import ImageErrors, at_confidence, best_f1, image_errors
from tests.detection_strategies import Problem, problems
from tests.found_classes import match_images
from tests.profiles import examples

BOX = [0.0, 0.0, 10.0, 10.0]
BESIDE = [50.0, 0.0, 10.0, 10.0]


def example() -> Matches:
    """Image 0: one right, one wrong at 0.6. Image 1: a wrong label, so a miss, too. Image 2: nothing found. Image 3: a
    detection in a crowd. Image 4: empty."""
    detections = Detections(
        torch.tensor([BOX, BESIDE, BOX, BOX]),
        torch.tensor([0.9, 0.6, 0.8, 0.7]),
        torch.tensor([1, 1, 2, 1]),
        torch.tensor([0, 0, 1, 3]),
    )
    truths = GroundTruths(
        torch.tensor([BOX, BOX, BOX, BESIDE, BOX]),
        torch.tensor([1, 1, 1, 2, 1]),
        torch.tensor([0, 1, 2, 2, 3]),
        is_crowd=torch.tensor([False, False, False, False, True]),
    )
    return match_images(detections, truths, iou_thresholds=(0.5,))


NUM_POSITIVES = torch.tensor([1, 1, 2, 0, 0])


def errors(confidence: float) -> ImageErrors:
    return image_errors(example(), NUM_POSITIVES, torch.full((2,), confidence, dtype=torch.float64))


@pytest.mark.parametrize(
    ("confidence", "right", "wrong", "missed"),
    [
        (0.0, [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 2, 0, 0]),
        (0.6, [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 2, 0, 0]),  # 0.6 as a float32 reaches 0.6
        (0.65, [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 2, 0, 0]),
        (0.85, [1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 2, 0, 0]),
        (torch.inf, [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 2, 0, 0]),
    ],
)
def test_the_example_has_its_counts_at_a_confidence(confidence, right, wrong, missed):
    counted = errors(confidence)
    assert counted.image.tolist() == [0, 1, 2, 3, 4]
    assert counted.num_true_positives.tolist() == right
    assert counted.num_false_positives.tolist() == wrong
    assert counted.num_misses.tolist() == missed
    assert counted.num_errors.tolist() == [a + b for a, b in zip(wrong, missed, strict=True)]


def test_the_worst_images_have_the_most_errors_and_among_equals_the_most_misses():
    """Image 1 has a miss and a wrong one, image 2 two misses, image 0 a wrong one, and the others no errors."""
    worst = errors(0.0).worst(10)
    assert len(worst) == 3
    assert worst.image.tolist() == [2, 1, 0]
    assert worst.num_errors.tolist() == [2, 2, 1]
    assert worst.num_misses.tolist() == [2, 1, 0]
    assert errors(0.0).worst(1).image.tolist() == [2]


def test_without_images_there_is_nothing_to_count():
    nothing = torch.zeros(0, dtype=torch.int64)
    matches = match_images(
        Detections(torch.zeros(0, 4), torch.zeros(0), nothing, nothing),
        GroundTruths(torch.zeros(0, 4), nothing, nothing),
    )
    counted = image_errors(matches, nothing, torch.zeros(0, dtype=torch.float64))
    assert len(counted) == len(counted.worst(3)) == 0


def numbered(problem: Problem) -> tuple[Matches, torch.Tensor]:
    """Matches of images that are numbered from 0, and the ground truths of each that count."""
    images, setting = sorted(problem.images), problem.setting
    matches = problem.matched()
    places = torch.tensor([images.index(image) for image in matches.images.tolist()], dtype=torch.int64)
    least, most = next(iter(problem.grid.area_ranges.values()))
    counts = [
        sum(
            row.image == image and row.label in setting.classes and not row.is_crowd and least <= row.area <= most
            for row in problem.ground_truths
        )
        for image in images
    ]
    return replace(matches, images=places), torch.tensor(counts)


@given(problems())
@examples(30)
def test_summed_over_images_the_counts_are_those_of_operating_points(problem):
    matches, num_positives = numbered(problem)
    for points in (best_f1(matches), at_confidence(matches, 0.25)):
        for threshold, confidence in enumerate(points.confidence):
            counted = image_errors(matches, num_positives, confidence, threshold=threshold)
            num_right = points.num_true_positives[threshold].sum()
            assert counted.num_true_positives.sum() == num_right
            assert counted.num_false_positives.sum() == points.num_detections[threshold].sum() - num_right
            assert counted.num_misses.sum() == points.num_positives.sum() - num_right
            assert (counted.num_misses >= 0).all()


@given(problems())
@examples(30)
def test_the_counts_of_an_image_are_those_of_its_boxes_alone(problem):
    matches, num_positives = numbered(problem)
    confidence = torch.full((len(matches.classes),), 0.25, dtype=torch.float64)
    counted = image_errors(matches, num_positives, confidence)
    for place, image in enumerate(sorted(problem.images)):
        own = at_confidence(problem.with_images({image}).matched(), 0.25)
        assert counted.num_true_positives[place] == own.num_true_positives[0].sum()
        assert counted.num_false_positives[place] == (own.num_detections - own.num_true_positives)[0].sum()
        assert num_positives[place] == own.num_positives.sum()


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: errors(0.0).worst(0), ValueError, "`n` must be at least 1; got 0."),
        (lambda: errors(0.0).worst(1.5), TypeError, "`n` must be an int; got float."),
    ],
)
def test_a_wrong_argument_is_named(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()

"""Numbers and arrays that pycocotools returned, on random problems and on images of COCO val2014."""

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.detection import DetectionResults, Detections, GroundTruths, evaluate_boxes
from tests.golden.coco_cases import Problem, RealProblem, options, problems, val2014

ARRAYS = ("precision", "recall", "scores")
NAMES = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
SIZES = ("mar_small", "mar_medium", "mar_large")
PROBLEMS = problems()


def packed(problem: Problem | RealProblem) -> tuple[Detections, GroundTruths]:
    """The recorded arrays as they are, float32 or float64."""
    of_detections = (getattr(problem, f"detection_{name}") for name in ("boxes", "scores", "labels", "images"))
    of_truths = (getattr(problem, f"ground_truth_{name}") for name in ("boxes", "labels", "images"))
    crowds_and_areas = (problem.is_crowd, problem.areas)
    return (
        Detections(*map(torch.from_numpy, of_detections)),
        GroundTruths(*map(torch.from_numpy, (*of_truths, *crowds_and_areas))),
    )


def numbers(results: DetectionResults) -> list[float]:
    """The 12 numbers in the order of pycocotools."""
    summary, limits = results.summary(), [f"mar_{limit}" for limit in results.averages.grid.max_detection_thresholds]
    return [float(summary[name]) for name in (*NAMES, *limits, *SIZES)]


def assert_recorded(results: DetectionResults, expected: dict[str, np.ndarray], evaluator: str) -> None:
    for name in ARRAYS:
        np.testing.assert_allclose(
            getattr(results.coco, name).numpy(), expected[f"{evaluator}/{name}"], rtol=0, atol=1e-12
        )
    assert numbers(results) == pytest.approx(expected[f"{evaluator}/stats"].tolist(), rel=0, abs=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_recorded_arrays_of_a_problem_come_out(name):
    problem = PROBLEMS[name]
    results = evaluate_boxes(*packed(problem), classes=torch.tensor(problem.classes))
    assert_recorded(results, problem.expected, "coco")


def test_the_recorded_arrays_of_other_thresholds_and_limits_come_out():
    asked = [name for name, problem in PROBLEMS.items() if "coco_custom/stats" in problem.expected]
    assert asked == ["dense_overlaps"]
    problem = PROBLEMS["dense_overlaps"]
    results = evaluate_boxes(*packed(problem), **options("coco_custom"), classes=torch.tensor(problem.classes))
    assert_recorded(results, problem.expected, "coco_custom")


def test_there_are_14_recorded_problems_in_both_precisions():
    assert len(PROBLEMS) == 14
    assert {problem.detection_boxes.dtype.name for problem in PROBLEMS.values()} == {"float32", "float64"}


def test_classes_that_occur_need_not_be_named_and_one_that_does_not_is_undefined():
    """Class 0 of this problem has no detections and class 2 no ground truth, so each occurs on one side only."""
    problem = PROBLEMS["small_random"]
    unnamed = evaluate_boxes(*packed(problem))
    assert unnamed.classes.tolist() == problem.classes
    assert_recorded(unnamed, problem.expected, "coco")
    more = evaluate_boxes(*packed(problem), classes=torch.tensor([99, *problem.classes]))
    assert more.classes.tolist() == [*problem.classes, 99]
    assert torch.equal(more.coco.precision[:, :, :-1], unnamed.coco.precision)
    assert (more.coco.precision[:, :, -1] == -1).all()
    assert numbers(more) == pytest.approx(numbers(unnamed), rel=0, abs=1e-15)


def in_order(problem: RealProblem, images: list[int]) -> tuple[Detections, GroundTruths]:
    """The boxes image by image, as they come from a data loader that goes through the images in some order."""
    rank = {image: rank for rank, image in enumerate(images)}
    rows = [
        torch.tensor(sorted(range(len(numbers)), key=lambda row, numbers=numbers: rank[numbers[row]]))
        for numbers in (problem.detection_images.tolist(), problem.ground_truth_images.tolist())
    ]
    found, truths = (
        type(boxes)(**{name: values[of_boxes] for name, values in vars(boxes).items()})
        for boxes, of_boxes in zip(packed(problem), rows, strict=True)
    )
    return found, truths


@pytest.mark.parametrize("order", ["as given", "ascending", "descending", "shuffled", "shuffled again"])
def test_the_numbers_of_val2014_come_out_in_any_order_of_the_images(order):
    problem = val2014()
    images = problem.images.tolist()
    shuffled = [images[place] for place in torch.randperm(len(images)).tolist()]
    again = [images[place] for place in torch.randperm(len(images)).tolist()]
    orders = {"ascending": images, "descending": images[::-1], "shuffled": shuffled, "shuffled again": again}
    boxes = packed(problem) if order == "as given" else in_order(problem, orders[order])
    assert numbers(evaluate_boxes(*boxes)) == pytest.approx(problem.stats.tolist(), rel=0, abs=1e-12)


def test_scores_of_val2014_tie_across_images():
    """The image number decides such ties, so the test above would fail with the order of the boxes in its place."""
    problem = val2014()
    rows = set(zip(problem.detection_labels, problem.detection_scores, problem.detection_images, strict=True))
    assert len(rows) > len({row[:2] for row in rows})

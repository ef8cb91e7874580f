"""The slow reference: equal to what pycocotools returns, and cases that can be checked by hand.

What a case says must come from the reference, from pycocotools and from the package alike.
"""

import numpy as np
import pytest
from hypothesis import given

from tests.detection_strategies import Problem, as_many_proposals, problems
from tests.profiles import examples
from tests.reference.detection import IOU_THRESHOLDS, Detection, GroundTruth, Setting

ARRAYS = ("precision", "recall", "scores")
ALMOST_1 = 1 / (1 + 2.0**-52)
"""COCO's precision of a first true positive"""


@examples(50)
@given(problems())
def test_the_reference_agrees_with_pycocotools(problem):
    ours, theirs = problem.reference(), problem.pycocotools()
    assert ours.taken == theirs.taken
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    if theirs.stats is not None:
        numbers = ours.summary()
        assert max(abs(numbers[name] - value) for name, value in theirs.stats.items()) <= 1e-12


# Cases by hand: one class, 1, and one image, 0, where nothing else is said.


def truth(*box: float, crowd: bool = False, area: float | None = None, image: int = 0, label: int = 1) -> GroundTruth:
    return GroundTruth(image, label, box, crowd, box[2] * box[3] if area is None else area)


def detections(*boxes: tuple[float, ...], images: tuple[int, ...] = ()) -> list[Detection]:
    """By descending score: 0.9, 0.8 and so on."""
    images = images or (0,) * len(boxes)
    return [
        Detection(image, 1, box, (9 - row) / 10) for row, (image, box) in enumerate(zip(images, boxes, strict=True))
    ]


def case(found: list[Detection], truths: list[GroundTruth], **options: object) -> Problem:
    images = sorted({row.image for row in (*found, *truths)})
    return Problem(found, truths, images, Setting(**{"classes": [1]} | options))


def taken(problem: Problem, area: str = "all", *, image: int = 0, label: int = 1) -> list[dict[int, int]]:
    """What each detection took, for each threshold; the same from all three."""
    everyone = [problem.taken(), problem.reference().taken, problem.pycocotools().taken]
    with as_many_proposals():
        everyone.append(problem.taken())
    num_thresholds = len(problem.setting.iou_thresholds)
    found = [[each.get((image, label, area, t), {}) for t in range(num_thresholds)] for each in everyone]
    assert found[0] == found[1] == found[2] == found[3]
    return found[0]


def curve(problem: Problem, area: str = "all", *, limit: int = -1) -> tuple[list[float], float]:
    """Precision at the recall thresholds and the recall, at the first threshold; the same from all three."""
    everyone = (problem.evaluated().coco, problem.reference(), problem.pycocotools())
    a = list(problem.setting.areas).index(area)
    found = [(each.precision[0, :, 0, a, limit].tolist(), float(each.recall[0, 0, a, limit])) for each in everyone]
    assert found[0] == found[1] == found[2]
    return found[0]


HALVES = {"iou_thresholds": (0.5,), "rec_thresholds": (0.5, 1.0)}


@pytest.mark.parametrize("twentieths", range(9, 21))
def test_an_overlap_equal_to_a_threshold_reaches_it(twentieths):
    """A box of width k on one of width 20 overlaps by k / 20, and the thresholds are 10 / 20, 11 / 20, ... 19 / 20."""
    problem = case(detections((0.0, 0.0, float(twentieths), 1.0)), [truth(0.0, 0.0, 20.0, 1.0)])
    num_reached = sum(threshold <= twentieths / 20 for threshold in IOU_THRESHOLDS)
    assert taken(problem) == [{0: 0}] * num_reached + [{}] * (10 - num_reached)
    assert num_reached == min(max(twentieths - 9, 0), 10)


def test_a_crowd_takes_any_number_of_detections_and_none_of_them_counts():
    """Three detections lie in the crowd; the last one, on a ground truth, is the only one that counts."""
    truths = [truth(0.0, 0.0, 100.0, 100.0, crowd=True), truth(200.0, 0.0, 10.0, 10.0)]
    inside = [(float(x), 0.0, 10.0, 10.0) for x in (0, 20, 40)]
    problem = case(detections(*inside, (200.0, 0.0, 10.0, 10.0)), truths, **HALVES)
    assert taken(problem) == [{0: 0, 1: 0, 2: 0, 3: 1}]
    assert curve(problem) == ([ALMOST_1, ALMOST_1], 1.0)


def test_a_ground_truth_outside_the_area_range_takes_one_detection():
    """Boxes are large, the area of the first ground truth is not: of two detections there one is a false positive."""
    truths = [truth(0.0, 0.0, 100.0, 100.0, area=50.0), truth(200.0, 0.0, 100.0, 100.0)]
    found = detections((0.0, 0.0, 100.0, 100.0), (0.0, 0.0, 100.0, 100.0), (200.0, 0.0, 100.0, 100.0))
    problem = case(found, truths, **HALVES)
    assert taken(problem, "large") == [{0: 0, 2: 1}]
    assert curve(problem, "large") == ([1 / 2, 1 / 2], 1.0)
    assert curve(problem) == ([ALMOST_1, 2 / 3], 1.0)


def test_detections_are_not_matched_anew_for_a_smaller_limit():
    """With one detection, the first takes the ground truth; the limit only counts fewer."""
    box = (0.0, 0.0, 10.0, 10.0)
    problem = case(detections((50.0, 0.0, 10.0, 10.0), box), [truth(*box)], **HALVES, max_detection_thresholds=(1, 2))
    assert curve(problem, limit=0) == ([0.0, 0.0], 0.0)
    assert curve(problem, limit=1) == ([1 / 2, 1 / 2], 1.0)


def test_the_score_at_recall_0_is_the_highest_of_the_class():
    """Of a false positive, too, while the score at a later recall is that of the true positive that reaches it."""
    found = detections((50.0, 0.0, 10.0, 10.0), (0.0, 0.0, 10.0, 10.0))
    problem = case(found, [truth(0.0, 0.0, 10.0, 10.0)], iou_thresholds=(0.5,), rec_thresholds=(0.0, 0.5, 1.0))
    for results in (problem.evaluated().coco, problem.reference(), problem.pycocotools()):
        assert results.scores[0, :, 0, 0, -1].tolist() == [0.9, 0.8, 0.8]
        assert results.precision[0, :, 0, 0, -1].tolist() == [1 / 2, 1 / 2, 1 / 2]

"""The slow reference: equal to what pycocotools returned and returns, and cases that can be checked by hand.

What a case says must come from the reference, from pycocotools and from the package alike.
"""

import numpy as np
import pytest
from hypothesis import given

from tests.detection_strategies import Problem, as_many_proposals, problems
from tests.golden import coco_cases
from tests.profiles import examples
from tests.reference.detection import IOU_THRESHOLDS, Detection, Evaluation, GroundTruth, Setting, evaluate, iou

ARRAYS = ("precision", "recall", "scores")
GOLDEN = coco_cases.problems()
ALMOST_1 = 1 / (1 + 2.0**-52)
"""COCO's precision of a first true positive"""


def rows_of(problem: coco_cases.Problem) -> tuple[list[Detection], list[GroundTruth]]:
    found = (problem.detection_images, problem.detection_labels, problem.detection_boxes, problem.detection_scores)
    truths = (problem.ground_truth_images, problem.ground_truth_labels, problem.ground_truth_boxes)
    return (
        [Detection(i, k, tuple(box), score) for i, k, box, score in zip(*(a.tolist() for a in found), strict=True)],
        [
            GroundTruth(i, k, tuple(box), crowd, area)
            for i, k, box, crowd, area in zip(
                *(a.tolist() for a in (*truths, problem.is_crowd, problem.areas)), strict=True
            )
        ],
    )


def assert_recorded(found: Evaluation, expected: dict[str, np.ndarray], evaluator: str) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), expected[f"{evaluator}/{name}"])
    assert list(found.summary().values()) == pytest.approx(expected[f"{evaluator}/stats"].tolist(), rel=0, abs=1e-12)


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.slow
def test_the_reference_returns_the_recorded_arrays(name):
    found = evaluate(*rows_of(GOLDEN[name]), Setting(GOLDEN[name].classes))
    assert_recorded(found, GOLDEN[name].expected, "coco")


@pytest.mark.slow
def test_the_reference_returns_the_recorded_arrays_of_other_thresholds():
    problem = GOLDEN["dense_overlaps"]
    found = evaluate(*rows_of(problem), Setting(problem.classes, **coco_cases.options("coco_custom")))
    assert_recorded(found, problem.expected, "coco_custom")


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


@examples(60)
@given(problems())
def test_the_package_agrees_with_the_reference(problem):
    ours, slow = problem.evaluated().coco, problem.reference()
    assert problem.taken() == slow.taken
    for name in ARRAYS:
        np.testing.assert_allclose(getattr(ours, name).numpy(), getattr(slow, name), rtol=0, atol=1e-12)


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


def test_a_threshold_of_1_is_reached_by_a_box_on_itself():
    """The far edge is 0.4 + 0.1, and 0.4 + 0.1 - 0.4 is a little less than 0.1."""
    box = (0.4, 0.4, 0.1, 0.1)
    assert iou(box, box) == 0.9999999999999987
    assert taken(case(detections(box), [truth(*box)], iou_thresholds=(1.0,))) == [{0: 0}]


def test_the_last_ground_truth_of_equal_overlaps_is_matched():
    box = (0.0, 0.0, 8.0, 8.0)
    problem = case(detections(box, box, box), [truth(*box), truth(*box)], iou_thresholds=(0.5,))
    assert taken(problem) == [{0: 1, 1: 0}]


def test_a_detection_whose_best_ground_truth_is_gone_takes_the_next():
    """Both overlap the first one by 8 / 10 or more; the second detection overlaps the other by 6 / 10."""
    truths = [truth(0.0, 0.0, 10.0, 1.0), truth(0.0, 0.0, 6.0, 1.0)]
    found = detections((0.0, 0.0, 10.0, 1.0), (0.0, 0.0, 9.0, 1.0))
    assert taken(case(found, truths, iou_thresholds=(0.5, 0.65, 0.7))) == [{0: 0, 1: 1}, {0: 0, 1: 1}, {0: 0}]


def test_a_crowd_takes_any_number_of_detections_and_none_of_them_counts():
    """Three detections lie in the crowd; the last one, on a ground truth, is the only one that counts."""
    truths = [truth(0.0, 0.0, 100.0, 100.0, crowd=True), truth(200.0, 0.0, 10.0, 10.0)]
    inside = [(float(x), 0.0, 10.0, 10.0) for x in (0, 20, 40)]
    problem = case(detections(*inside, (200.0, 0.0, 10.0, 10.0)), truths, **HALVES)
    assert taken(problem) == [{0: 0, 1: 0, 2: 0, 3: 1}]
    assert curve(problem) == ([ALMOST_1, ALMOST_1], 1.0)


def test_crowds_alone_leave_everything_undefined():
    problem = case(detections((0.0, 0.0, 10.0, 10.0)), [truth(0.0, 0.0, 100.0, 100.0, crowd=True)], **HALVES)
    assert curve(problem) == ([-1.0, -1.0], -1.0)


def test_a_ground_truth_that_counts_goes_before_an_ignored_one_that_overlaps_more():
    """The box is the crowd itself, and overlaps the other ground truth by 6 / 10."""
    truths = [truth(0.0, 0.0, 6.0, 1.0), truth(0.0, 0.0, 10.0, 1.0, crowd=True)]
    problem = case(detections((0.0, 0.0, 10.0, 1.0)), truths, iou_thresholds=(0.5, 0.6, 0.65))
    assert taken(problem) == [{0: 0}, {0: 0}, {0: 1}]


def test_the_ignored_ground_truth_that_overlaps_more_is_matched_crowd_or_not():
    """Both are ignored among the large ones: a box of 64 square pixels, and a crowd that holds 7 / 8 of it."""
    truths = [truth(0.0, 0.0, 8.0, 8.0), truth(1.0, 0.0, 50.0, 50.0, crowd=True)]
    problem = case(detections((0.0, 0.0, 8.0, 8.0), (0.0, 0.0, 8.0, 8.0)), truths, iou_thresholds=(0.5,))
    assert taken(problem, "large") == [{0: 0, 1: 1}]


def test_a_ground_truth_outside_the_area_range_takes_one_detection():
    """Boxes are large, the area of the first ground truth is not: of two detections there one is a false positive."""
    truths = [truth(0.0, 0.0, 100.0, 100.0, area=50.0), truth(200.0, 0.0, 100.0, 100.0)]
    found = detections((0.0, 0.0, 100.0, 100.0), (0.0, 0.0, 100.0, 100.0), (200.0, 0.0, 100.0, 100.0))
    problem = case(found, truths, **HALVES)
    assert taken(problem, "large") == [{0: 0, 2: 1}]
    assert curve(problem, "large") == ([1 / 2, 1 / 2], 1.0)
    assert curve(problem) == ([ALMOST_1, 2 / 3], 1.0)


def test_a_true_positive_counts_though_its_own_area_is_outside_the_range():
    """The box has 1600 square pixels; the ground truth has 1000 by its mask and is small."""
    problem = case(detections((0.0, 0.0, 40.0, 40.0)), [truth(0.0, 0.0, 40.0, 40.0, area=1000.0)], **HALVES)
    assert curve(problem, "small") == ([ALMOST_1, ALMOST_1], 1.0)
    assert curve(problem, "medium") == ([-1.0, -1.0], -1.0)


def test_a_detection_without_a_match_counts_only_inside_the_range():
    """A false positive of 32 x 32 pixels is small and medium, but not large."""
    boxes = [(0.0, 0.0, side, side) for side in (10.0, 50.0, 100.0)]
    false = (500.0, 500.0, 32.0, 32.0)
    problem = case(detections(false, *boxes), [truth(*box) for box in boxes], **HALVES)
    assert curve(problem, "small") == ([1 / 2, 1 / 2], 1.0)
    assert curve(problem, "medium") == ([1 / 2, 1 / 2], 1.0)
    assert curve(problem, "large") == ([ALMOST_1, ALMOST_1], 1.0)


@pytest.mark.parametrize(("side", "ranges"), [(32.0, ("small", "medium")), (96.0, ("medium", "large"))])
def test_both_ends_belong_to_an_area_range(side, ranges):
    problem = case(detections((0.0, 0.0, side, side)), [truth(0.0, 0.0, side, side)], **HALVES)
    defined = [area for area in ("small", "medium", "large") if curve(problem, area)[1] >= 0]
    assert tuple(defined) == ranges


def test_a_limit_holds_for_every_image_and_class():
    """One detection of each image and class counts, so the second ones, which would be true positives, do not.

    The first of two true positives has COCO's precision of almost 1, the second of exactly 1.
    """
    boxes = [(10.0 * place, 0.0, 10.0, 10.0) for place in range(2)]
    truths = [truth(*box, image=image, label=label) for image in (0, 1) for label in (1, 2) for box in boxes]
    found = [
        Detection(image, label, box, score)
        for image in (0, 1)
        for label in (1, 2)
        for box, score in zip(boxes, (0.9, 0.8), strict=True)
    ]
    problem = case(found, truths, **HALVES, classes=[1, 2], max_detection_thresholds=(1, 2))
    assert curve(problem, limit=0) == ([1.0, 0.0], 0.5)
    assert curve(problem, limit=1) == ([1.0, 1.0], 1.0)


def test_detections_are_not_matched_anew_for_a_smaller_limit():
    """With one detection, the first takes the ground truth; the limit only counts fewer."""
    box = (0.0, 0.0, 10.0, 10.0)
    problem = case(detections((50.0, 0.0, 10.0, 10.0), box), [truth(*box)], **HALVES, max_detection_thresholds=(1, 2))
    assert curve(problem, limit=0) == ([0.0, 0.0], 0.0)
    assert curve(problem, limit=1) == ([1 / 2, 1 / 2], 1.0)


@pytest.mark.parametrize(("images", "precision"), [((0, 1), ALMOST_1), ((1, 0), 1 / 2)])
def test_equal_scores_of_different_images_go_by_the_number_of_the_image(images, precision):
    """The true positive is in the first of `images`, the false one in the second; both have one score."""
    found = [Detection(image, 1, (0.0, 0.0, 10.0, 10.0), 0.5) for image in images]
    problem = case(found, [truth(0.0, 0.0, 10.0, 10.0, image=images[0])], **HALVES)
    assert curve(problem) == ([precision, precision], 1.0)


@pytest.mark.parametrize(("true_first", "precision"), [(True, ALMOST_1), (False, 1 / 2)])
def test_equal_scores_of_one_image_go_by_row(true_first, precision):
    boxes = [(0.0, 0.0, 10.0, 10.0), (50.0, 0.0, 10.0, 10.0)][:: 1 if true_first else -1]
    found = [Detection(0, 1, box, 0.5) for box in boxes]
    assert curve(case(found, [truth(0.0, 0.0, 10.0, 10.0)], **HALVES)) == ([precision, precision], 1.0)


def test_a_class_without_ground_truth_is_undefined_and_one_without_detections_is_0():
    found = detections((0.0, 0.0, 10.0, 10.0))
    assert curve(case(found, [], **HALVES)) == ([-1.0, -1.0], -1.0)
    assert curve(case([], [truth(0.0, 0.0, 10.0, 10.0)], **HALVES)) == ([0.0, 0.0], 0.0)


def test_undefined_classes_stay_out_of_the_means():
    """Class 1 is found, class 2 is not, class 3 does not occur: the mean is over two classes."""
    box = (0.0, 0.0, 10.0, 10.0)
    problem = case(detections(box), [truth(*box), truth(*box, label=2)], classes=[1, 2, 3])
    for summary in (problem.evaluated().summary(), problem.reference().summary(), problem.pycocotools().stats):
        assert float(summary["map"]) == pytest.approx(1 / 2)
        assert float(summary["mar_100"]) == 1 / 2
        assert float(summary["map_large"]) == -1


def test_the_score_at_recall_0_is_the_highest_of_the_class():
    """Of a false positive, too, while the score at a later recall is that of the true positive that reaches it."""
    found = detections((50.0, 0.0, 10.0, 10.0), (0.0, 0.0, 10.0, 10.0))
    problem = case(found, [truth(0.0, 0.0, 10.0, 10.0)], iou_thresholds=(0.5,), rec_thresholds=(0.0, 0.5, 1.0))
    for results in (problem.evaluated().coco, problem.reference(), problem.pycocotools()):
        assert results.scores[0, :, 0, 0, -1].tolist() == [0.9, 0.8, 0.8]
        assert results.precision[0, :, 0, 0, -1].tolist() == [1 / 2, 1 / 2, 1 / 2]


def test_boxes_that_touch_or_have_no_area_do_not_overlap():
    truths = [truth(0.0, 0.0, 10.0, 10.0), truth(30.0, 0.0, 0.0, 10.0)]
    found = detections((10.0, 0.0, 10.0, 10.0), (30.0, 0.0, 0.0, 10.0), (2.0, 2.0, 0.0, 0.0))
    assert taken(case(found, truths, iou_thresholds=(0.01,))) == [{}]

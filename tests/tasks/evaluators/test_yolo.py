"""The evaluation of the YOLO family: equal to recorded numbers, and to loops over detections."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection.inputs.grid import CocoGrid
from reid_torchmetrics.functional.detection.inputs.images import Detections, GroundTruths
from reid_torchmetrics.tasks.evaluators.yolo import YOLO_RULES, match_greedily, yolo_average_precision
from tests.detection_strategies import problems
from tests.found_classes import true_positives
from tests.golden import coco_cases
from tests.profiles import examples
from tests.reference import detection_curves as reference

RECORDED = {name: problem for name, problem in coco_cases.problems().items() if problem.yolo}
TUTORIAL = {"end": 1e-5, "epsilon": 1e-5}
INPUTS = ("true_positive", "scores", "labels", "ground_truth_labels")


def inputs_of(problem: coco_cases.Problem) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(problem.yolo[name]) for name in INPUTS)


def ranked_verdicts(problem: coco_cases.Problem, label: int, threshold: int) -> tuple[list[bool], int]:
    """Verdicts of a class by descending score, and the number of its ground truths."""
    is_right, scores, labels, targets = (problem.yolo[name].tolist() for name in INPUTS)
    rows = sorted((row for row, value in enumerate(labels) if value == label), key=lambda row: -scores[row])
    return [is_right[row][threshold] for row in rows], targets.count(label)


# Scores 0.9, 0.5, 0.1 of one class of 2 ground truths; the first and the last are right.
EXAMPLE = (
    torch.tensor([[True], [False], [True]]),
    torch.tensor([0.9, 0.5, 0.1], dtype=torch.float64),
    torch.tensor([4, 4, 4]),
    torch.tensor([4, 4]),
)


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize(("evaluator", "options"), [("yolo", {}), ("yolo_tutorial", TUTORIAL)])
def test_recorded_values_are_equal(name, evaluator, options):
    problem = RECORDED[name]
    found = yolo_average_precision(*inputs_of(problem), **options)
    expected = {
        output: problem.expected[f"{evaluator}/{output}"]
        for output in ("average_precision", "precision", "recall", "f1")
    }
    assert found.average_precision.numpy() == pytest.approx(expected["average_precision"].T, abs=1e-12)
    for output in ("precision", "recall", "f1"):
        (column, *others) = expected[output].T
        assert getattr(found, output).numpy() == pytest.approx(column, abs=1e-12)
        assert all((other == column).all() for other in others)  # the first threshold, repeated
    assert found.classes.tolist() == problem.expected["yolo/classes"].tolist()


@pytest.mark.parametrize("name", RECORDED)
def test_the_continuous_area_of_the_family_is_that_of_all_points(name):
    problem = RECORDED[name]
    found = yolo_average_precision(*inputs_of(problem), rule="voc")
    expected = problem.expected["yolo/average_precision_continuous"]
    assert found.average_precision.numpy() == pytest.approx(expected.T, abs=1e-12)


@pytest.mark.parametrize("name", RECORDED)
def test_the_tutorial_has_a_sum_of_left_steps_that_the_package_has_not(name):
    problem = RECORDED[name]
    expected = problem.expected["yolo_tutorial/average_precision_continuous"]
    for k, label in enumerate(problem.expected["yolo/classes"].tolist()):
        for t in range(expected.shape[1]):
            verdicts, num_positives = ranked_verdicts(problem, label, t)
            if verdicts:
                value = reference.area_of_left_steps(verdicts, num_positives, reference.ENDS["tutorial"])
                assert value == pytest.approx(expected[k, t], abs=1e-12)


def test_every_recorded_problem_with_both_kinds_of_boxes_was_compared():
    without = set(coco_cases.problems()) - set(RECORDED)
    assert without == {"no_detections", "no_ground_truth"}
    # An unstable sort decides nothing in them.
    assert all(
        len(set(problem.yolo["scores"].tolist())) == len(problem.yolo["scores"]) for problem in RECORDED.values()
    )


judged = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.sampled_from([0, 1 / 8, 0.5, 0.9, 1]), st.sampled_from([3, 0, 7])),
    max_size=20,
)


@examples(60)
@given(judged, st.lists(st.sampled_from([0, 3, 5]), max_size=8), st.sampled_from([0.0, 0.1, 0.125, 0.6, 1.0]))
def test_numbers_are_those_of_loops_over_detections(rows, extra, confidence):
    targets = sorted(extra + [label for *flags, _, label in rows if any(flags)])  # as many as may be found
    is_right = torch.tensor([row[:2] for row in rows], dtype=torch.bool).view(-1, 2)
    scores, labels = (
        torch.tensor([row[2] for row in rows], dtype=torch.float64),
        torch.tensor([row[3] for row in rows], dtype=torch.int64),
    )
    tensors = is_right, scores, labels, torch.tensor(targets, dtype=torch.int64)
    found = {rule: yolo_average_precision(*tensors, rule=rule, confidence=confidence) for rule in YOLO_RULES}
    assert found["yolo"].classes.tolist() == sorted(set(targets))
    for k, label in enumerate(sorted(set(targets))):
        ranked = sorted((row for row in rows if row[3] == label), key=lambda row: -row[2])
        size = targets.count(label)
        for t in range(2):
            for rule, results in found.items():
                expected = reference.average_precision([row[t] for row in ranked], size, rule)
                assert float(results.average_precision[t, k]) == pytest.approx(expected, abs=1e-12)
        points = reference.precision_and_recall([row[0] for row in ranked], size)
        expected = [
            reference.at_confidence_on_lines([row[2] for row in ranked], values, confidence) if ranked else 0
            for values in points
        ]
        assert [float(found["yolo"].precision[k]), float(found["yolo"].recall[k])] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rule", YOLO_RULES)
def test_a_class_without_detections_has_zeros_and_one_without_ground_truths_is_left_out(rule):
    is_right, scores, labels, _ = EXAMPLE
    found = yolo_average_precision(is_right, scores, labels, torch.tensor([9, 9, 1]), rule=rule)
    assert found.classes.tolist() == [1, 9]
    assert [value.tolist() for value in found[:4]] == [[[0, 0]], [0, 0], [0, 0], [0, 0]]
    none = yolo_average_precision(is_right, scores, labels, torch.zeros(0, dtype=torch.int64), rule=rule)
    assert none.average_precision.shape == (1, 0)


@examples(60)
@given(problems(), st.sampled_from([(0.5,), (0.75, 0.3), (0.5, 1 / 3, 1.0)]))
def test_detections_take_the_best_ground_truth_that_is_left(problem, thresholds):
    found = true_positives(match_greedily(*problem.tensors, CocoGrid(thresholds)))
    for t, threshold in enumerate(thresholds):
        rows = set(reference.greedy_rows(problem.detections, problem.ground_truths, threshold))
        assert found[:, t].tolist() == [row in rows for row in range(len(problem.detections))]


@pytest.mark.parametrize("name", RECORDED)
def test_precision_goes_from_boxes_to_areas(name):
    problem = RECORDED[name]
    columns = (problem.detection_boxes, problem.detection_scores, problem.detection_labels, problem.detection_images)
    detections = Detections(*map(torch.from_numpy, columns))
    truths = GroundTruths(
        *map(torch.from_numpy, (problem.ground_truth_boxes, problem.ground_truth_labels, problem.ground_truth_images)),
        is_crowd=torch.from_numpy(problem.is_crowd),
    )
    is_right = true_positives(match_greedily(detections, truths, CocoGrid((0.5, 0.75))))
    targets = truths.labels[~truths.is_crowd]
    found = yolo_average_precision(is_right, detections.scores, detections.labels, targets, rule="ultralytics")
    assert (found.average_precision[0] >= found.average_precision[1]).all()


BAD = [
    ({"is_true_positive": torch.ones(3, 1)}, TypeError, "`is_true_positive` must be a bool tensor; got torch.float32."),
    (
        {"is_true_positive": EXAMPLE[0][:, 0]},
        ValueError,
        "`is_true_positive` must have shape [N, T] with T >= 1; got [3].",
    ),
    (
        {"is_true_positive": EXAMPLE[0][:, :0]},
        ValueError,
        "`is_true_positive` must have shape [N, T] with T >= 1; got [3, 0].",
    ),
    ({"scores": EXAMPLE[1] * math.nan}, ValueError, "`scores` must be finite; got nan."),
    ({"labels": EXAMPLE[2][:2]}, ValueError, "`labels` must have shape [3]; got [2]."),
    (
        {"target_labels": EXAMPLE[3].double()},
        TypeError,
        "`target_labels` must have an integer dtype; got torch.float64.",
    ),
    ({"rule": "coco"}, ValueError, "`rule` must be one of 'yolo', 'yolov5', 'ultralytics', 'voc'; got 'coco'."),
    ({"confidence": "0.1"}, TypeError, "`confidence` must be a number; got str."),
    ({"end": -1.0}, ValueError, "`end` must lie in [0, 1]; got -1.0."),
    ({"epsilon": -1.0}, ValueError, "`epsilon` must be finite and at least 0; got -1.0."),
]


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_bad_input_is_refused(change, error, message):
    names = ("is_true_positive", "scores", "labels", "target_labels")
    with pytest.raises(error) as raised:
        yolo_average_precision(**(dict(zip(names, EXAMPLE, strict=True)) | change))
    assert str(raised.value) == message

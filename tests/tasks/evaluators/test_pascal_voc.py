"""Pascal VOC's evaluation: equal to the recorded numbers of its tools, and to loops over boxes."""

import math
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection import evaluate_boxes
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from reid_torchmetrics.functional.detection.inputs.images import Detections, GroundTruths
from reid_torchmetrics.tasks.evaluators import VOC_RULES
from tests.detection_strategies import problems
from tests.golden import coco_cases
from tests.profiles import examples
from tests.reference import detection_curves as reference
from tests.reference.detection import iou

NAN = pytest.approx(math.nan, nan_ok=True)
LEFT_OUT = "`{}` must be left out with evaluator 'voc'; got {}."
RECORDED = {name: problem for name, problem in coco_cases.problems().items() if "voc/all_point" in problem.expected}
THRESHOLDS = tuple(coco_cases.options("voc")["iou_thresholds"])
OUTPUTS = {"voc": "voc/all_point", "voc07": "voc/eleven_point"}


def of_recorded(problem: coco_cases.Problem, order: torch.Tensor | None = None) -> tuple[Detections, GroundTruths]:
    """The boxes that the tools were given: without crowds."""
    kept = ~problem.is_crowd
    columns = (problem.detection_boxes, problem.detection_scores, problem.detection_labels, problem.detection_images)
    detections = [torch.from_numpy(column) for column in columns]
    columns = (problem.ground_truth_boxes, problem.ground_truth_labels, problem.ground_truth_images)
    truths = [torch.from_numpy(column[kept]) for column in columns]
    if order is not None:
        detections = [column[order] for column in detections]
    return Detections(*detections), GroundTruths(*truths)


def boxes_of(*rows: tuple) -> tuple[torch.Tensor, ...]:
    """Columns of rows of a box with what else it has."""
    boxes, *others = zip(*rows, strict=True)
    return torch.tensor(boxes, dtype=torch.float64), *(torch.tensor(column) for column in others)


class VocNumbers(NamedTuple):
    """What VOC reports, of each threshold and class."""

    average_precision: torch.Tensor
    num_true_positives: torch.Tensor
    num_false_positives: torch.Tensor
    num_positives: torch.Tensor
    classes: torch.Tensor

    @property
    def mean(self) -> torch.Tensor:
        return self.average_precision.nanmean(1)


def evaluated(*boxes, **options) -> VocNumbers:
    results = evaluate_boxes(*boxes, evaluator="voc", **options)
    counts = results.at_confidence(-1.0)
    true_positives, num_positives = counts.num_true_positives, counts.num_positives
    false_positives = counts.num_detections - true_positives
    precision = results.averages.average_precision[0][0]
    return VocNumbers(precision, true_positives, false_positives, num_positives, results.classes)


# One image, one class, three ground truths of 10 x 10 pixels side by side.
TRUTHS = GroundTruths(*boxes_of(*(((x, 0, 9, 9), 1, 0) for x in (0, 20, 40))))
EXAMPLE = Detections(
    *boxes_of(
        ((0, 0, 9, 9), 0.9, 1, 0),  # the first
        ((0, 0, 9, 8), 0.8, 1, 0),  # the first again: 90 of 100 pixels
        ((20, 0, 9, 9), 0.7, 1, 0),  # the second
        ((60, 0, 9, 9), 0.6, 1, 0),  # nothing
    )
)


@pytest.mark.parametrize(("whole_pixels", "overlap"), [(True, 5 / 15), (False, 4 / 14)])
def test_whole_pixels_count_both_edges(whole_pixels, overlap):
    truths = GroundTruths(*boxes_of(((0, 0, 9, 9), 1, 0)))
    detections = Detections(*boxes_of(((5, 0, 9, 9), 0.9, 1, 0)))
    thresholds = (math.nextafter(overlap, 0), overlap, math.nextafter(overlap, 1))
    found = evaluated(detections, truths, iou_thresholds=thresholds, whole_pixels=whole_pixels)
    assert found.num_true_positives.tolist() == [[1], [1], [0]]


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("rule", VOC_RULES)
def test_recorded_values_are_equal(name, rule):
    problem = RECORDED[name]
    found = evaluated(*of_recorded(problem), iou_thresholds=THRESHOLDS, rule=rule)
    expected = problem.expected[OUTPUTS[rule]]
    for t, rows in enumerate(expected.tolist()):
        assert found.classes.tolist() == [row[0] for row in rows]
        # The tool says 0 by eleven points of a class without ground truths.
        values = [value if size else math.nan for _, value, size, *_ in rows]
        assert found.average_precision[t].tolist() == pytest.approx(values, abs=1e-12, nan_ok=True)
        assert found.num_positives.tolist() == [row[2] for row in rows]
        assert found.num_true_positives[t].tolist() == [row[3] for row in rows]
        assert found.num_false_positives[t].tolist() == [row[4] for row in rows]


def test_every_recorded_problem_was_compared():
    assert len(RECORDED) == len(coco_cases.problems()) == 14
    assert THRESHOLDS == (0.3, 0.5, 0.75)


@examples(50)
@given(problems(), st.sampled_from([(0.5,), (0.3, 0.75), (0.5, 1 / 3, 1.0), (0.6, 0.0)]), st.booleans(), st.randoms())
def test_verdicts_are_those_of_loops_over_boxes(problem, thresholds, whole_pixels, random):
    is_difficult = [random.random() < 0.3 for _ in problem.ground_truths]
    options = {
        "iou_thresholds": thresholds,
        "whole_pixels": whole_pixels,
        "is_difficult": torch.tensor(is_difficult, dtype=torch.bool),
    }
    found = {rule: evaluated(*problem.tensors, rule=rule, **options) for rule in VOC_RULES}
    labels = sorted({row.label for row in (*problem.detections, *problem.ground_truths)})
    assert found["voc"].classes.tolist() == labels
    for k, label in enumerate(labels):
        counting = [
            truth.label == label and not truth.is_crowd and not difficult
            for truth, difficult in zip(problem.ground_truths, is_difficult, strict=True)
        ]
        for t, threshold in enumerate(thresholds):
            verdicts = reference.voc_verdicts(
                problem.detections,
                problem.ground_truths,
                is_difficult,
                label,
                threshold,
                reference.pixel_iou if whole_pixels else iou,
            )
            for rule, results in found.items():
                assert int(results.num_positives[k]) == sum(counting)
                assert int(results.num_true_positives[t, k]) == verdicts.count(True)
                assert int(results.num_false_positives[t, k]) == verdicts.count(False)
                expected = reference.average_precision(verdicts, sum(counting), rule)
                assert float(results.average_precision[t, k]) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_a_class_without_ground_truths_is_not_defined_and_not_in_the_mean():
    detections = replace(EXAMPLE, labels=torch.tensor([1, 1, 1, 2]))
    for rule, expected in (("voc", 5 / 9), ("voc07", 6 / 11)):
        found = evaluated(detections, TRUTHS, rule=rule)
        assert found.average_precision.tolist() == [[pytest.approx(expected), NAN]]
        assert found.mean.tolist() == [pytest.approx(expected)]


@pytest.mark.parametrize("num_truths", [0, 2])
@pytest.mark.parametrize("num_detections", [0, 2])
def test_there_may_be_no_boxes(num_truths, num_detections):
    detections = Detections(*(column[:num_detections] for column in vars(EXAMPLE).values()))
    truths = GroundTruths(TRUTHS.boxes[:num_truths], TRUTHS.labels[:num_truths], TRUTHS.images[:num_truths])
    found = evaluated(detections, truths, iou_thresholds=(0.5, 0.75))
    assert found.average_precision.shape == (2, 1 if num_truths or num_detections else 0)
    expected = (0.5 if num_detections else 0) if num_truths else NAN
    assert found.mean.tolist() == [expected] * 2


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rule": "coco"}, ValueError, "`rule` must be one of 'voc', 'voc07'; got 'coco'."),
        ({"iou_thresholds": ()}, ValueError, "`iou_thresholds` must not be empty; got ()."),
        ({"iou_thresholds": (50,)}, ValueError, "`iou_thresholds` must hold shares from 0 to 1; got 50: 50 % is 0.5."),
        ({"iou_thresholds": 0.5}, TypeError, "`iou_thresholds` must be a tuple or list of floats; got float."),
        ({"is_difficult": torch.ones(2, dtype=torch.bool)}, ValueError, "`is_difficult` must have shape [3]; got [2]."),
        ({"is_difficult": [True]}, ValueError, "`is_difficult` must have shape [3]; got [1]."),
        ({"max_bytes": 0}, ValueError, "`max_bytes` must be at least 1; got 0."),
        ({"whole_pixels": 1}, TypeError, "`whole_pixels` must be True or False; got int."),
        ({"classes": [1]}, ValueError, LEFT_OUT.format("classes", "[1]")),
        ({"rec_thresholds": (0.5,)}, ValueError, LEFT_OUT.format("rec_thresholds", "(0.5,)")),
        ({"max_detection_thresholds": (9,)}, ValueError, LEFT_OUT.format("max_detection_thresholds", "(9,)")),
        ({"area_ranges": {"all": (0, 9)}}, ValueError, LEFT_OUT.format("area_ranges", "{'all': (0, 9)}")),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error) as raised:
        evaluated(EXAMPLE, TRUTHS, **options)
    assert str(raised.value) == message


@pytest.mark.parametrize("evaluator", ["lvis", "lvis_fixed"])
def test_lvis_needs_lists_of_images(evaluator):
    message = f"^`evaluator` must be one without lists of classes for each image; got {evaluator!r}.$"
    with pytest.raises(ValueError, match=message):
        evaluate_boxes(EXAMPLE, TRUTHS, evaluator=evaluator)


def test_a_rule_is_no_evaluator():
    message = f"^`evaluator` must be one of {', '.join(map(repr, EVALUATORS))}; got 'voc07'.$"
    with pytest.raises(ValueError, match=message):
        evaluate_boxes(EXAMPLE, TRUTHS, evaluator="voc07")


@pytest.mark.parametrize(
    "evaluator", [name for name, row in EVALUATORS.items() if not (row.has_difficult or row.is_federated)]
)
@pytest.mark.parametrize("options", [{"is_difficult": [True]}, {"whole_pixels": False}])
def test_other_evaluators_know_neither_difficult_ground_truths_nor_whole_pixels(evaluator, options):
    (name,) = options
    with pytest.raises(ValueError, match=f"`{name}` must be left out with evaluator '{evaluator}'; got "):
        evaluate_boxes(EXAMPLE, TRUTHS, evaluator=evaluator, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("whole_pixels", [True, False])
def test_equal_boxes_overlap_wholly_whatever_their_fractions(whole_pixels, dtype):
    # 0.1 + 0.2 - 0.1 is not 0.2: a width that is read off the edges differs from the one that was given.
    generator = torch.Generator().manual_seed(1)
    boxes = 100 * torch.rand(500, 4, generator=generator, dtype=dtype) + 0.1
    images = torch.arange(500)
    truths = GroundTruths(boxes, torch.zeros_like(images), images)
    found = Detections(boxes.clone(), torch.rand(500, generator=generator), torch.zeros_like(images), images)
    results = evaluated(found, truths, iou_thresholds=(1.0,), whole_pixels=whole_pixels)
    assert results.num_true_positives.tolist() == [[500]]
    assert results.mean.tolist() == [1.0]

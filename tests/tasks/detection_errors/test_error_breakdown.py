"""What each kind of error costs: by hand, from the definition in loops, and as other tools have it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.functional.detection.evaluators import average_matches
from reid_torchmetrics.tasks.detection_errors import ERROR_KINDS, ErrorBreakdown, error_breakdown, pair_objects
from tests.detection_strategies import problems
from tests.found_classes import match_images
from tests.profiles import examples
from tests.reference import detection_errors as reference
from tests.reference.detection_curves import average_precision

BOX = [0.0, 0.0, 10.0, 10.0]
PART = [0.0, 0.0, 10.0, 3.0]  # overlaps it by 0.3
CORNER = [8.0, 8.0, 10.0, 10.0]  # by 4/196
BESIDE = [50.0, 0.0, 10.0, 10.0]
FAR = [0.0, 90.0, 10.0, 10.0]


def breakdown_of(found: list[tuple], true: list[tuple], **options: object) -> ErrorBreakdown:
    """Of an image, given labels, boxes and scores."""
    labels, boxes, scores = (list(column) for column in zip(*found, strict=True)) if found else ([], [], [])
    true_labels, true_boxes = (list(column) for column in zip(*true, strict=True)) if true else ([], [])
    zeros = [torch.zeros(len(each), dtype=torch.int64) for each in (found, true)]
    return error_breakdown(
        pair_objects(
            Detections(
                torch.tensor(boxes).reshape(-1, 4),
                torch.tensor(scores, dtype=torch.float64),
                torch.tensor(labels, dtype=torch.int64),
                zeros[0],
            ),
            GroundTruths(
                torch.tensor(true_boxes).reshape(-1, 4), torch.tensor(true_labels, dtype=torch.int64), zeros[1]
            ),
        ),
        **({"rule": "voc"} | options),
    )


@pytest.mark.parametrize(
    ("found", "kind", "gain"),
    [
        # the class of the box has average precision 0, and 1 when it has the detection; one class of one
        ((2, BOX), "classification", 1.0),
        ((1, PART), "localization", 1.0),
        # nothing is found by dropping what is wrong; the box is missed, and no class has another
        ((2, PART), "both", 0.0),
        ((1, CORNER), "background", 0.0),
        ((1, FAR), "background", 0.0),
    ],
)
def test_a_false_positive_alone_is_of_its_kind(found, kind, gain):
    told = breakdown_of([(*found, 0.9)], [(1, BOX)])
    is_missed = kind in ("both", "background")
    assert told.counts == dict.fromkeys(ERROR_KINDS, 0) | {kind: 1, "miss": int(is_missed)}
    assert told.kind.tolist() == [[*ERROR_KINDS].index(kind)]
    assert told.is_missed.tolist() == [is_missed]
    assert told.average_precision == 0
    assert told.gains == dict.fromkeys(ERROR_KINDS, 0.0) | {kind: gain}


def test_the_best_of_several_repaired_detections_matches_the_ground_truth():
    """Class 2 as 1 at 0.9 and 0.8: the first becomes right, the second goes. Class 1 is right at 0.7: 1/3, then 1."""
    told = breakdown_of([(1, BESIDE, 0.9), (1, BESIDE, 0.8), (1, BOX, 0.7)], [(1, BOX), (2, BESIDE)])
    assert told.counts["classification"] == 2
    assert told.average_precision == pytest.approx((1 / 3 + 0) / 2)
    assert told.gains["classification"] == pytest.approx(1 - (1 / 3) / 2)
    assert told.counts["miss"] == 0  # its repair is that of the class
    assert told.false_negative_gain == 0  # class 2 has nothing left to be found


def test_without_ground_truths_nothing_is_defined():
    told = breakdown_of([(1, BOX, 0.9)], [])
    assert math.isnan(told.average_precision)
    assert all(math.isnan(gain) for gain in (*told.gains.values(), told.false_positive_gain, told.false_negative_gain))
    assert told.counts == dict.fromkeys(ERROR_KINDS, 0) | {"background": 1}
    assert math.isnan(breakdown_of([], []).average_precision)


@pytest.mark.parametrize("rule", ["coco", "voc"])
@given(problem=problems(), thresholds=st.sampled_from([(0.5, 0.1), (0.5, 0.1), (0.75, 0.25), (1.0, 1.0), (0.3, 0.3)]))
@examples(20)
def test_repairs_are_those_of_the_loops(rule, problem, thresholds):
    area_range = next(iter(problem.setting.areas.values()))
    found = error_breakdown(
        pair_objects(*problem.tensors, area_range=area_range),
        iou_threshold=thresholds[0],
        background_threshold=thresholds[1],
        rule=rule,
    )
    if math.isnan(found.average_precision):
        return
    expected = reference.break_down(
        problem.detections,
        problem.ground_truths,
        threshold=thresholds[0],
        background=thresholds[1],
        area_range=area_range,
        average_precision=lambda verdicts, size: average_precision(verdicts, size, rule) if verdicts else 0.0,
    )
    assert found.average_precision == pytest.approx(expected.base, abs=1e-12)
    assert {name: count for name, count in found.counts.items() if count} == {
        name: count for name, count in expected.counts.items() if count
    }
    gains = {**found.gains, "false positives": found.false_positive_gain, "false negatives": found.false_negative_gain}
    assert gains == pytest.approx({name: value - expected.base for name, value in expected.repaired.items()}, abs=1e-12)
    assert min(gains.values()) >= -1e-12  # no repair does harm


@given(problem=problems(default_setting=True))
@examples(12)
def test_average_precision_is_that_of_coco(problem):
    matches = match_images(*problem.tensors, iou_thresholds=(0.5,), max_detection_thresholds=(1000,))
    grid = problem.grid.__class__((0.5,), max_detection_thresholds=(1000,))
    expected = average_matches(matches, grid).summary()["map_50"]
    found = error_breakdown(pair_objects(*problem.tensors, area_range=(0.0, 1e10))).average_precision
    assert found == pytest.approx(float(expected), abs=1e-12) or (math.isnan(found) and expected == -1)


def test_options_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"`rule` must be one of 'coco', .*; got 'mean'\."):
        breakdown_of([], [], rule="mean")
    with pytest.raises(ValueError, match=r"`background_threshold` must be at least 0\.1, .*; got 0\.05\."):
        breakdown_of([], [], background_threshold=0.05)
    with pytest.raises(ValueError, match=r"`background_threshold` must be at most `iou_threshold`, 0\.5; got 0\.6\."):
        breakdown_of([], [], background_threshold=0.6)

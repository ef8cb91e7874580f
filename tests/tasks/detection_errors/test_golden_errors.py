"""Kinds of errors and what they cost, as hotcoco and tidecv have them, recorded in `tests/golden`."""

from typing import Any

import pytest

from reid_torchmetrics.tasks.detection_errors import ErrorBreakdown, error_breakdown, pair_objects
from tests.reference.detection import Detection, GroundTruth
from tests.reference.detection_curves import HUNDREDTHS, mean_at_recalls
from tests.reference.detection_errors import Breakdown, break_down
from tests.tasks.detection_errors.test_golden_confusion import CASES, SCORES, packed

SHARED = 4
"""the case where an error of classification and one of localization would take the same ground truth"""


def found_in(case: dict[str, Any]) -> ErrorBreakdown:
    return error_breakdown(pair_objects(*packed(case)))


def gains_of(told: ErrorBreakdown) -> dict[str, float]:
    others = {"false positives": told.false_positive_gain, "false negatives": told.false_negative_gain}
    return {**told.gains, **others}


@pytest.mark.parametrize("number", range(len(CASES)))
def test_gains_are_those_of_hotcoco_but_where_two_kinds_share_a_ground_truth(number):
    told, recorded = found_in(CASES[number]), CASES[number]["hotcoco_errors"]
    assert told.average_precision == pytest.approx(recorded["average_precision"], abs=1e-12)
    assert told.counts == recorded["counts"]
    differing = {
        name: (gain, recorded["gains"][name])
        for name, gain in gains_of(told).items()
        if gain != pytest.approx(recorded["gains"][name], abs=1e-12)
    }
    assert [*differing] == (["localization"] if number == SHARED else [])
    assert all(gain > theirs for gain, theirs in differing.values())


def broken_down(case: dict[str, Any]) -> Breakdown:
    """By the loops, with ground truths that are shared by two kinds."""
    images = list(enumerate(case["images"]))
    return break_down(
        [
            Detection(image, label, (x, y, right - x, bottom - y), float(SCORES[place]))
            for image, each in images
            for label, x, y, right, bottom, place in each["detections"]
        ],
        [
            GroundTruth(image, label, (x, y, right - x, bottom - y), is_crowd=False, area=1.0)
            for image, each in images
            for label, x, y, right, bottom in each["ground_truths"]
        ],
        threshold=0.5,
        background=0.1,
        area_range=(0.0, 1e10),
        average_precision=lambda verdicts, size: mean_at_recalls(verdicts, size, HUNDREDTHS),
        is_shared=True,
    )


def assert_recorded(told: Breakdown, recorded: dict[str, Any]) -> None:
    assert told.base == pytest.approx(recorded["average_precision"], abs=1e-12)
    gains = {name: value - told.base for name, value in told.repaired.items()}
    assert gains == pytest.approx(recorded["gains"], abs=1e-12)
    assert {name: told.counts.get(name, 0) for name in recorded["counts"]} == recorded["counts"]


@pytest.mark.parametrize("case", CASES)
def test_nothing_else_differs_from_hotcoco(case):
    assert_recorded(broken_down(case), case["hotcoco_errors"])


@pytest.mark.parametrize("case", CASES)
def test_nothing_differs_from_tidecv_by_its_rule(case):
    """It was given the images that have ground truths, without the class that has none."""
    images = [
        {**each, "detections": [row for row in each["detections"] if row[0] != 3]}
        for each in case["images"]
        if each["ground_truths"]
    ]
    told, recorded = error_breakdown(pair_objects(*packed({"images": images})), rule="tidecv"), case["tidecv_errors"]
    assert told.average_precision == pytest.approx(recorded["average_precision"], abs=1e-12)
    assert gains_of(told) == pytest.approx(recorded["gains"], abs=1e-12)
    assert told.counts == recorded["counts"]

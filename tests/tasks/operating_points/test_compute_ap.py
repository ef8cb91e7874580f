"""Average precision of two arrays: equal to that from matches, and to loops over detections."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.tasks.operating_points import compute_ap
from tests.reference import detection_curves as reference


@pytest.mark.slow
@pytest.mark.parametrize("rule", AP_RULES)
@given(verdicts=st.lists(st.booleans(), max_size=30), missed=st.integers(0, 12))
def test_the_area_is_that_of_loops_over_detections(rule, verdicts, missed):
    size = sum(verdicts) + missed
    if size:
        precision, recall = reference.precision_and_recall(verdicts, size, 2.0**-52 if rule == "coco" else 0.0)
        expected = reference.average_precision(verdicts, size, rule)
        assert float(compute_ap(recall, precision, rule)) == pytest.approx(expected, abs=1e-12)


def test_one_of_two_objects_that_is_found_has_the_area_of_each_rule():
    # Precision 1 up to recall 1/2: 51 of 101 recalls, 6 of 11, and 50 steps and a half of 100 under straight lines,
    # which YOLO's rule draws from (1/2, 1) to (501/1000, 0), so that the value at 0.51 is 0.
    areas = {"coco": 51 / 101, "voc07": 6 / 11, "voc": 1 / 2, "yolo": 50.5 / 100}
    for rule, expected in areas.items():
        assert float(compute_ap([0.5], [1.0], rule)) == pytest.approx(expected, abs=1e-12), rule


@pytest.mark.parametrize("as_array", [list, np.array, torch.tensor, lambda v: torch.tensor(v, dtype=torch.float32)])
def test_any_kind_of_array_will_do(as_array):
    # Right, wrong, right, of 4: the envelope is 1 up to recall 1/4, and 2/3 up to 2/4.
    value = compute_ap(as_array([0.25, 0.25, 0.5]), as_array([1.0, 0.5, 2 / 3]), "voc")
    assert value.dtype == torch.float64
    assert float(value) == pytest.approx((1 + 2 / 3) / 4, abs=1e-7)


@pytest.mark.parametrize("rule", AP_RULES)
def test_nothing_found_is_zero_and_nothing_to_find_is_not_defined(rule):
    assert float(compute_ap([], [], rule)) == 0
    assert math.isnan(float(compute_ap([math.nan], [0.0], rule)))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.5], [1.0], "coco11"), ValueError, "`rule` must be one of 'coco', 'voc07', 'voc', 'yolo', 'yolov5',"),
        (([0.5], [1.0, 1.0]), ValueError, "`recall` and `precision` must have the same shape [N]; got [1] and [2]."),
        (([0.5, 0.25], [1.0, 1.0]), ValueError, "`recall` must not fall; got [0.5, 0.25]."),
        ((0.5, [1.0]), TypeError, "`recall` must be a tensor, an array or a list; got float."),
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_bad_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        compute_ap(*arguments)

"""Average precision of detections: equal to evaluators that look at every detection, from the true positives alone."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection.curves import (
    AP_RULES,
    Curves,
    average_precision,
    best_from_here_on,
    precision_at_points,
)
from tests.paths import taking
from tests.profiles import examples
from tests.reference import detection_curves as reference

RIGHT, WRONG, IGNORED = True, False, None

EXAMPLE = [RIGHT, WRONG, RIGHT]
"""of 4 ground truths: precision 1 at recall 1/4, 2/3 at 1/2"""

verdicts = st.lists(st.sampled_from([RIGHT, WRONG, WRONG, IGNORED]), max_size=30)
missed = st.sampled_from([0, 0, 1, 2, 5, 40])
"""ground truths that no detection finds"""
drawn_curves = st.lists(st.tuples(verdicts, missed), min_size=1, max_size=6)


def curves_of(rows: list[tuple[list, int]]) -> Curves:
    """Curves of lists of verdicts, each with its number of ground truths."""
    counts, places = [], []
    for row, _ in rows:
        counting = [verdict for verdict in row if verdict is not IGNORED]
        counts += [count for count, verdict in enumerate(counting, start=1) if verdict]
        places += [place for place, verdict in enumerate(row) if verdict]
    columns = [
        [sum(verdict is RIGHT for verdict in row) for row, _ in rows],
        [num_positives for _, num_positives in rows],
        [sum(verdict is not IGNORED for verdict in row) for row, _ in rows],
    ]
    return Curves(*(torch.tensor(column, dtype=torch.int64) for column in (*columns, counts, places)))


def with_missed(rows: list[tuple[list, int]]) -> list[tuple[list, int]]:
    return [(row, sum(verdict is RIGHT for verdict in row) + more) for row, more in rows]


def values_of(rows: list[tuple[list, int]], rule: str, recalls=None) -> list[float]:
    recalls = None if recalls is None else torch.tensor(recalls, dtype=torch.float64)
    return average_precision(curves_of(rows), AP_RULES[rule], recalls).tolist()


def value_of(row: list, num_positives: int, rule: str, recalls=None) -> float:
    (value,) = values_of([(row, num_positives)], rule, recalls)
    return value


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("coco", Fraction(26 * 3 + 25 * 2, 3 * 101)),  # recalls 0 to 0.25 and 0.26 to 0.5
        ("voc07", Fraction(3 * 3 + 3 * 2, 3 * 11)),  # 0 to 0.2 and 0.3 to 0.5
        ("voc", Fraction(3 + 2, 3 * 4)),
        # Half of the value at 0 is left out; at 0.25 the staircase is already down.
        ("yolo", (Fraction(25) - Fraction(1, 2) + 26 * Fraction(2, 3)) / 100),
        ("ultralytics", (Fraction(25) - Fraction(1, 2) + 25 * Fraction(2, 3)) / 100),
        # From 2/3 at 0.5 down to 0 at 1: 51 values with mean 1/3.
        ("yolov5", (Fraction(25) - Fraction(1, 2) + 25 * Fraction(2, 3) + 51 * Fraction(1, 3)) / 100),
    ],
)
def test_the_example_has_its_area_by_every_rule(rule, expected):
    assert value_of(EXAMPLE, 4, rule) == pytest.approx(float(expected), abs=1e-12)


@examples(75)
@given(drawn_curves)
def test_areas_are_those_of_all_detections(rows):
    rows = with_missed(rows)
    for rule in AP_RULES:
        expected = [reference.average_precision(row, num_positives, rule) for row, num_positives in rows]
        assert values_of(rows, rule) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("rule", AP_RULES)
def test_recalls_that_are_read_are_reached_as_float64_says(rule):
    # Such as 3/10 beside 0.30000000000000004, the fourth of eleven, and 7/100 beside 0.07.
    rows = [
        ([RIGHT, WRONG, WRONG] * num_found, num_positives)
        for num_positives in [*range(1, 30), 50, 100, 101, 200, 300]
        for num_found in {1, num_positives // 3, num_positives // 2, num_positives - 1, num_positives}
    ]
    expected = [reference.average_precision(row, num_positives, rule) for row, num_positives in rows]
    assert values_of(rows, rule) == pytest.approx(expected, abs=1e-12)


@examples(75)
@given(verdicts, missed, st.lists(st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 2 / 3, 1.0]), min_size=1, unique=True))
def test_other_recalls_are_read_as_well(row, more, recalls):
    ((row, num_positives),) = with_missed([(row, more)])
    if not num_positives:
        return
    recalls = sorted(recalls)
    for rule in set(AP_RULES) - {"voc"}:
        if rule in reference.ENDS:
            expected = reference.trapezoids(row, num_positives, reference.ENDS[rule], recalls)
        else:
            expected = reference.mean_at_recalls(row, num_positives, recalls, 2.0**-52 if rule == "coco" else 0)
        found = value_of(row, num_positives, rule, recalls=recalls)
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rule", sorted(set(AP_RULES) - {"voc"}))
@pytest.mark.parametrize("num_positives", range(1, 13))
def test_recalls_next_to_those_of_true_positives_are_told_apart(rule, num_positives):
    row = [RIGHT, WRONG] * num_positives
    reached = [order / num_positives for order in range(1, num_positives)]
    recalls = [0.0, *(math.nextafter(recall, end) for recall in reached for end in (0, recall, 1)), 1.0]
    if rule in reference.ENDS:
        expected = reference.trapezoids(row, num_positives, reference.ENDS[rule], recalls)
    else:
        expected = reference.mean_at_recalls(row, num_positives, recalls)
    assert value_of(row, num_positives, rule, recalls=recalls) == pytest.approx(expected, abs=1e-12)


@examples(25)
@given(drawn_curves)
def test_curves_in_blocks_have_the_same_areas(rows):
    rows = with_missed(rows)
    for rule in AP_RULES:
        with taking(curve_values=202, trapezoid_values=202):  # 2 curves, 101 recalls
            in_blocks = values_of(rows, rule)
        assert in_blocks == pytest.approx(values_of(rows, rule), abs=0, nan_ok=True)


@pytest.mark.parametrize("bound", ["few_positives_at_recall", "most_curves", "most_counted"])
@examples(25)
@given(rows=drawn_curves)
def test_more_positives_or_curves_than_the_fast_ways_take_have_the_same_areas(bound, rows):
    rows = with_missed(rows)
    for rule in ("coco", "voc", "yolo"):
        with taking(**{bound: 0}):
            found = values_of(rows, rule)
        assert found == pytest.approx(values_of(rows, rule), abs=0, nan_ok=True)


@pytest.mark.parametrize("num_before", [2**20, 4_000_000, 2**22, 2**30])
def test_precisions_of_millions_of_detections_are_told_apart(num_before):
    """One of n is right, then two of 2 n - 1: that is more by 1 / (n (2 n - 1)), from n = 2^22 on less than 2^-44."""
    counts = torch.tensor([num_before, 2 * num_before - 1])
    two = torch.tensor([2])
    found = best_from_here_on(curves := Curves(two, two, counts[1:], counts, counts - 1), precision_at_points(curves))
    assert found.tolist() == [2 / (2 * num_before - 1)] * 2


def test_more_than_two_to_the_18_curves_are_kept_apart():
    """Of each the second and the third detection are right, 2/3; of the first one the third and the fourth, 1/2."""
    num_curves = 2**18 + 3
    counts = torch.tensor([2, 3]).repeat(num_curves)
    counts[:2] = torch.tensor([3, 4])
    two = torch.full((num_curves,), 2)
    areas = average_precision(Curves(two, two, two + 2, counts, counts - 1), AP_RULES["voc"])
    assert areas[:2].tolist() == [1 / 2, 2 / 3]
    assert bool((areas[1:] == 2 / 3).all())


@pytest.mark.parametrize("rule", AP_RULES)
def test_the_shape_of_curves_is_that_of_the_areas(rule):
    rows = [([RIGHT], 1), ([WRONG, RIGHT], 2), ([], 1), ([WRONG], 0), ([RIGHT, RIGHT], 3), ([WRONG], 1)]
    flat = curves_of(rows)
    shaped = Curves(
        *(column.view(2, 1, 3) for column in (flat.num_true_positives, flat.num_positives, flat.num_detections)),
        flat.counts,
        flat.places,
    )
    found = average_precision(shaped, AP_RULES[rule])
    assert found.shape == (2, 1, 3)
    assert found.dtype == torch.float64
    assert found.flatten().tolist() == pytest.approx(values_of(rows, rule), abs=0, nan_ok=True)


@pytest.mark.parametrize("rule", AP_RULES)
def test_no_curves_have_no_areas(rule):
    none = torch.zeros((3, 0), dtype=torch.int64)
    empty = torch.zeros(0, dtype=torch.int64)
    assert average_precision(Curves(none, none, none, empty, empty), AP_RULES[rule]).shape == (3, 0)


def test_coco_divides_by_a_little_more_than_the_number_of_detections():
    assert value_of([RIGHT], 1, "coco", recalls=[0.5]) == 1 / (1 + 2**-52) == 0.9999999999999998
    assert value_of([RIGHT], 1, "voc07", recalls=[0.5]) == 1

"""Tied distances against recorded outputs of other evaluators, see `tests/golden/README.md`."""

import pytest

from tests.golden.cases import PROBLEMS, RECORDINGS
from tests.golden.peers import assert_equal, assert_equal_where_sound, is_cython_curve, ours

RECORDS = RECORDINGS["ties"].records

# Every recorded array of the theme is in exactly one of these four groups; a test below counts them.
ORDER_DEPENDENT = [key for key, record in RECORDS.items() if record.about["order_dependent"]]
GROUPED = [f"{problem}/{peer}/mAP" for problem in PROBLEMS if problem.startswith("b") for peer in ("openreid", "cc")]
BACKWARDS = [
    key for key, record in RECORDS.items() if record.variant == "reverse_index_order" and not is_cython_curve(key)
]
CYTHON_CURVES = [
    key for key, record in RECORDS.items() if record.variant == "reverse_index_order" and is_cython_curve(key)
]


def test_every_recorded_array_is_asserted_once_or_left_out_because_an_unstable_sort_decided() -> None:
    assert sorted([*ORDER_DEPENDENT, *GROUPED, *BACKWARDS, *CYTHON_CURVES]) == sorted(RECORDS)
    assert (len(ORDER_DEPENDENT), len(GROUPED), len(BACKWARDS), len(CYTHON_CURVES)) == (87, 6, 87, 6)


def test_equals_the_recorded_outputs_where_ties_break_in_reversed_order() -> None:
    for key in BACKWARDS:
        assert_equal(ours(RECORDS[key]), RECORDS[key])


@pytest.mark.parametrize("key", CYTHON_CURVES)
def test_equals_the_cython_curve_where_ties_break_in_reversed_order(key: str) -> None:
    assert_equal_where_sound(RECORDS[key])


@pytest.mark.parametrize("key", GROUPED)
def test_grouped_ties_are_those_of_the_average_precision_of_scikit_learn(key: str) -> None:
    assert_equal(ours(RECORDS[key], ties="grouped"), RECORDS[key])


def test_grouped_ties_lie_between_a_pessimistic_and_an_optimistic_order() -> None:
    record = RECORDS["b01_ties8/openreid/mAP"]
    rounded = {ties: round(float(ours(record, ties=ties)), 3) for ties in ("pessimistic", "grouped", "optimistic")}
    assert rounded == {"pessimistic": 0.195, "grouped": 0.252, "optimistic": 0.624}

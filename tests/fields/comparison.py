"""Recorded arrays of a field, each compared with a documented call, or left out by name with the reason."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from tests.golden.field_cases import FieldCase, load_field

LeftOut = Mapping[tuple[str, str], str]
"""reasons by an evaluator and a pattern of "case/output" """


def problems(field: str, left_out: LeftOut) -> list[tuple[FieldCase, str]]:
    """The cases with each evaluator of which an array is compared."""
    cases = ((case, evaluator) for case in load_field(field) for evaluator in case.outputs)
    return [(case, evaluator) for case, evaluator in cases if compared(case, evaluator, left_out)]


def names_of(problem: tuple[FieldCase, str]) -> str:
    """What a test of a problem is called."""
    return f"{problem[0].name}-{problem[1]}"


def compared(case: FieldCase, evaluator: str, left_out: LeftOut) -> list[str]:
    """The outputs that are compared."""
    patterns = [pattern for who, pattern in left_out if who == evaluator]
    outputs = case.outputs[evaluator]
    return [each for each in outputs if not any(fnmatchcase(f"{case.name}/{each}", pattern) for pattern in patterns)]


def check(case: FieldCase, evaluator: str, call: Callable[[FieldCase], Mapping[str, Any]], left_out: LeftOut) -> None:
    """Compare to 1e-9, numbers that are printed with five digits to those."""
    ours = call(case)
    for output in compared(case, evaluator, left_out):
        expected = np.asarray(case.outputs[evaluator][output], dtype=np.float64)
        few = 6e-6 if np.abs(expected * 1e5 - np.round(expected * 1e5)).max() < 1e-9 else 1e-9
        value = np.asarray(ours[output], dtype=np.float64)
        np.testing.assert_allclose(value, expected, rtol=0, atol=few, err_msg=f"{case.name}/{evaluator}/{output}")


def num_arrays(field: str, left_out: LeftOut) -> tuple[int, int]:
    """How many arrays are compared, and how many are left out."""
    cases = load_field(field)
    total = sum(len(outputs) for case in cases for outputs in case.outputs.values())
    num_compared = sum(len(compared(case, evaluator, left_out)) for case, evaluator in problems(field, left_out))
    return num_compared, total - num_compared

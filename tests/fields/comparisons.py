"""Recorded outputs of the evaluators of a field beside ours: each is compared, or left out for a reason."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from tests.golden.field_cases import FieldCase

LeftOut = Mapping[tuple[str, str], str]
"""By patterns of the evaluator, and of the case, the output, or "case/output": why nothing is compared."""
EXACT, SINGLE = 1e-9, 1e-6
"""tolerances, of references in float64, and in float32"""


def reason(left_out: LeftOut, case: str, evaluator: str, output: str) -> str | None:
    """Why an output is left out; None where it is compared."""
    for (of_evaluator, pattern), why in left_out.items():
        names = (case, output, f"{case}/{output}")
        if fnmatchcase(evaluator, of_evaluator) and any(fnmatchcase(name, pattern) for name in names):
            return why
    return None


def compared(case: FieldCase, left_out: LeftOut) -> list[tuple[str, str]]:
    """The evaluators and outputs of a case that are compared."""
    recorded = [(evaluator, output) for evaluator, outputs in case.outputs.items() for output in outputs]
    return [key for key in recorded if reason(left_out, case.name, *key) is None]


def assert_equal(
    case: FieldCase,
    ours: Mapping[tuple[str, str], Any],
    left_out: LeftOut,
    tolerances: Mapping[str, float] | None = None,
) -> None:
    """Compare all outputs of a case that are not left out; `tolerances` are by evaluator or output."""
    for evaluator, output in compared(case, left_out):
        theirs = case.outputs[evaluator][output]
        in_their_precision = SINGLE if theirs.dtype == np.float32 else EXACT
        tolerance = (tolerances or {}).get(evaluator, (tolerances or {}).get(output, in_their_precision))
        found, scale = (
            np.asarray(ours[evaluator, output], dtype=np.float64),
            np.nan_to_num(abs(theirs)).max(initial=1.0),
        )
        np.testing.assert_allclose(found, theirs, rtol=0, atol=tolerance * scale, err_msg=f"{evaluator} {output}")

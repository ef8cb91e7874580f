"""Recorded outputs of the evaluators of a field beside ours: each is compared, or left out for a reason."""

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from tests.golden.field_cases import FieldCase, load_field

LeftOut = Mapping[tuple[str, str], str]
"""By patterns of the evaluator, and of the case, the output, or "case/output": why nothing is compared."""
EXACT, SINGLE = 1e-9, 1e-6
"""tolerances, of references in float64, and in float32 or printed with few digits"""


def reason(left_out: LeftOut, case: str, evaluator: str, output: str) -> str | None:
    """Why an output is left out; None where it is compared."""
    for (of_evaluator, pattern), why in left_out.items():
        names = (case, output, f"{case}/{output}")
        if fnmatchcase(evaluator, of_evaluator) and any(fnmatchcase(name, pattern) for name in names):
            return why
    return None


def assert_equal(
    case: FieldCase, ours: Mapping[tuple[str, str], Any], left_out: LeftOut, single: Collection[str] = ()
) -> None:
    """Compare all outputs of a case that are not left out; evaluators in `single` compute in float32 or print."""
    compared = {
        (evaluator, output): array
        for evaluator, outputs in case.outputs.items()
        for output, array in outputs.items()
        if reason(left_out, case.name, evaluator, output) is None
    }
    for key, theirs in compared.items():
        tolerance = SINGLE if key[0] in single or theirs.dtype == np.float32 else EXACT
        found = np.asarray(ours[key], dtype=np.float64)
        np.testing.assert_allclose(
            found, theirs, rtol=0, atol=tolerance * np.nanmax(abs(theirs), initial=1.0), err_msg=str(key)
        )


def check_left_out(field: str, left_out: LeftOut) -> None:
    """Raise unless each reason leaves something out."""
    said = {
        reason(left_out, case.name, evaluator, output)
        for case in load_field(field)
        for evaluator, outputs in case.outputs.items()
        for output in outputs
    }
    assert said - {None} == {*left_out.values()}

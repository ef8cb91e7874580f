"""The table of the recorded problems of neighboring fields says how many outputs are compared."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.fields.comparisons import compared, reason
from tests.golden.field_cases import index, load_field

README = Path(__file__).parents[1] / "golden" / "README.md"
ROWS = re.findall(r"^\| `(\w+)` \|[^|]*\| (\d+) \| (\d+) of (\d+) \|", README.read_text(encoding="utf-8"), re.MULTILINE)


def left_out_of(field):
    return getattr(import_module(f"tests.fields.test_{field.removesuffix('_real')}"), "LEFT_OUT", {})


def test_every_field_has_a_row():
    assert {field for field, *_ in ROWS} == set(index())


@pytest.mark.parametrize(("field", "problems", "equal", "recorded"), ROWS)
def test_as_many_outputs_are_compared_as_the_row_says(field, problems, equal, recorded):
    cases, left_out = load_field(field), left_out_of(field)
    num_recorded = sum(len(outputs) for case in cases for outputs in case.outputs.values())
    num_compared = sum(len(compared(case, left_out)) for case in cases)
    assert (len(cases), num_compared, num_recorded) == (int(problems), int(equal), int(recorded))
    assert num_compared > 0


def test_the_front_page_has_the_sum():
    total = sum(int(equal) for _, _, equal, _ in ROWS)
    numbers = (README.parents[2] / "docs" / "numbers.md").read_text(encoding="utf-8")
    assert f"{total:,} arrays" in numbers
    others = int(re.search(r"([\d,]+) arrays and \d+ errors", numbers)[1].replace(",", ""))
    front = (README.parents[2] / "README.md").read_text(encoding="utf-8")
    assert f"| {total + others:,} outputs, " in front


@pytest.mark.parametrize("field", index())
def test_each_reason_leaves_something_out(field):
    outputs = [(case.name, *key) for case in load_field(field) for key in compared(case, {})]
    assert {reason(left_out_of(field), *output) for output in outputs} - {None} == {*left_out_of(field).values()}

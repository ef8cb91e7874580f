"""The line that an answer prints computes its number, whatever options the user changed."""

import re

import pytest

from reid_torchmetrics.diagnosis.expected import KINDS
from reid_torchmetrics.diagnosis.expected.rows import NO_OPTION
from tests.diagnosis.expected.line_problems import ways
from tests.profiles import PROFILE, each_row

CLOSE = 1e-6
"""of a value in float32"""


def covering(lines: dict[str, float]) -> dict[str, float]:
    """All lines in a nightly run, else those with a word, such as `rule='voc'` or `['map_5']`, that none before has."""
    if PROFILE == "nightly":
        return lines
    seen: set[str] = set()
    kept = {}
    for line, value in lines.items():
        words = set(re.findall(r"\w+=(?:\([^)]*\)|[^,()]+)|\['\w+'\]|\.\w+", line))
        if not words <= seen:
            kept[line] = value
        seen |= words
    return kept


@pytest.mark.filterwarnings("ignore")
@each_row("name", ways())
def test_the_line_of_each_convention_computes_its_number(name: str):
    way = ways()[name]
    conventions = map(way.search.with_line, way.search.conventions)
    lines = {convention.call: convention.value for convention in conventions}
    lines = {line: value for line, value in lines.items() if not line.startswith(NO_OPTION)}
    assert lines
    for line, value in covering(lines).items():
        assert way.number(line) == pytest.approx(value, abs=CLOSE), line


@pytest.mark.filterwarnings("ignore")
def test_the_lines_of_all_evaluators_are_computed():
    named = set()
    for way in ways().values():
        for convention in way.search.conventions:
            named |= {str(evaluator) for _, evaluator in convention.evaluators}
    rows = {str(row) for _, evaluators in KINDS.values() for row in evaluators}
    assert rows == named

"""Each decision in DECISIONS.md names tests that guard it, and what would overturn it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_, *SECTIONS = (ROOT / "DECISIONS.md").read_text(encoding="utf-8").split("\n## ")
DECISIONS = dict(section.split("\n", 1) for section in SECTIONS)


def guards_of(text: str) -> list[str]:
    """The tests in the list of a decision."""
    return re.findall(r"^- `(tests/.*)`$", text.partition("\nIt is guarded by:\n")[2], flags=re.MULTILINE)


@pytest.mark.parametrize("title", DECISIONS)
def test_a_decision_has_tests_that_exist(title):
    guards = guards_of(DECISIONS[title])
    assert guards, "add a list of tests behind 'It is guarded by:'"
    for guard in guards:
        path, _, name = guard.partition("::")
        assert (ROOT / path).is_file(), f"{path} does not exist: was it moved?"
        is_there = re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert not name or is_there, f"{path} has no {name}"


@pytest.mark.parametrize("title", DECISIONS)
def test_a_decision_ends_with_what_would_overturn_it(title):
    *_, last = DECISIONS[title].strip().split("\n\n")
    assert " would be overturned by " in last.replace("\n", " ")

"""A quick run has all rows of registries, and one parameter of everything else; a suite run has a third in places."""

from pathlib import PurePosixPath
from typing import Any

import pytest

from reid_torchmetrics.functional.retrieval import MEASURES
from tests.profiles import each_row, of_quick_run, of_suite_run


class Item:
    """A test with an id and with marks, as far as the profiles read it."""

    def __init__(self, nodeid: str, *marks: pytest.Mark) -> None:
        self.nodeid = nodeid
        self.path = PurePosixPath(nodeid.partition("::")[0])
        self.marks = marks

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [mark for mark in self.marks if mark.name == name]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next(iter(self.iter_markers(name)), None)


def item(nodeid: str, *marks: pytest.Mark) -> Any:
    return Item(nodeid, *marks)


def row(name: str) -> pytest.Mark:
    return pytest.mark.row(name).mark


def test_all_rows_are_kept_and_one_parameter_of_everything_else():
    items = [
        item("a.py::test_one[1]"),
        item("a.py::test_one[2]"),
        item("a.py::test_rows[1-map]", row("map")),
        item("a.py::test_rows[2-map]", row("map")),
        item("a.py::test_rows[1-mrr]", row("mrr")),
        item("a.py::test_slow[map]", row("map"), pytest.mark.slow.mark),
        item("a.py::test_both[map-stable]", row("map"), row("stable")),
        item("a.py::test_both[map-expected]", row("map"), row("expected")),
    ]
    kept = [each.nodeid.removeprefix("a.py::test_") for each in of_quick_run(items)]
    assert kept == ["one[1]", "rows[1-map]", "rows[1-mrr]", "both[map-stable]", "both[map-expected]"]


def test_a_suite_run_leaves_out_parameters_of_some_packages_alone():
    rows = [item(f"tests/plot/a.py::test_rows[{name}]", row(name)) for name in ("map", "mrr")]
    slow = [item("tests/plot/a.py::test_slow", pytest.mark.slow.mark)]
    sampled = [item(f"tests/plot/a.py::test_one[{number}]") for number in range(14)]
    marked = [item(f"tests/data/a.py::test_two[{number}]", pytest.mark.sampled.mark) for number in range(7)]
    others = [item(f"tests/data/a.py::test_one[{number}]") for number in range(8)]
    nightly = [item("tests/data/a.py::test_three", pytest.mark.nightly.mark)]
    kept = of_suite_run([*rows, *slow, *sampled, *marked, *others, *nightly])
    assert kept == [*rows, *slow, sampled[0], sampled[6], sampled[12], marked[0], marked[6], *others]


def test_a_parametrization_has_a_row_for_each_name_and_for_functions():
    def mine() -> None:
        """A function of a user."""

    argument, parameters = each_row("name", [*MEASURES, mine]).args
    assert argument == "name"
    assert [parameter.id for parameter in parameters] == [*MEASURES, "mine"]
    assert all([mark.name for mark in parameter.marks] == ["row"] for parameter in parameters)

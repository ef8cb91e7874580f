"""A quick run has all rows of registries, and one parameter of everything else."""

from types import SimpleNamespace
from typing import Any

import pytest

from reid_torchmetrics.functional.retrieval import MEASURES
from tests.profiles import each_row, of_quick_run


def item(nodeid: str, *marks: pytest.Mark) -> Any:
    """A test with an id and with marks."""

    def of_name(name: str) -> list[pytest.Mark]:
        return [mark for mark in marks if mark.name == name]

    def closest(name: str) -> pytest.Mark | None:
        return of_name(name)[0] if of_name(name) else None

    return SimpleNamespace(nodeid=nodeid, iter_markers=of_name, get_closest_marker=closest)


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


def test_a_parametrization_has_a_row_for_each_name_and_for_functions():
    def mine() -> None:
        """A function of a user."""

    argument, parameters = each_row("name", [*MEASURES, mine]).args
    assert argument == "name"
    assert [parameter.id for parameter in parameters] == [*MEASURES, "mine"]
    assert all([mark.name for mark in parameter.marks] == ["row"] for parameter in parameters)

"""What every row of a registry of advice must satisfy, whatever it looks at."""

import re
import string
import sys
import warnings
from collections.abc import Mapping
from typing import Any
from unittest import mock

from reid_torchmetrics import AdviceWarning
from reid_torchmetrics.functional.advice import Advice, advise
from reid_torchmetrics.functional.world import WarningLog


def names_read(row: Advice, evidence: Any) -> set[str]:
    """Names of the attributes of evidence that a row reads, but for those that the evidence itself reads for it."""
    names, kind = set(), type(evidence)

    def read(self: Any, name: str) -> Any:
        if sys._getframe(1).f_globals["__name__"] != kind.__module__:
            names.add(name)
        return object.__getattribute__(self, name)

    with mock.patch.object(kind, "__getattribute__", read, create=True):
        assert row.find(evidence) is not None
    return {name for name in names if not name.startswith("__")}


def given_on(
    rows: Mapping[str, Advice], evidence: Any, warning_log: WarningLog | None = None
) -> list[warnings.WarningMessage]:
    """The advice of all rows on evidence."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        advise(rows.values(), evidence, warning_log or WarningLog())
    return caught


def check_row(rows: Mapping[str, Advice], name: str) -> None:
    """Raise an AssertionError unless a row fires on its example alone, once, and is described in full."""
    row, evidence = rows[name], rows[name].example()
    assert row.name == name
    (warning,) = given_on(rows, evidence)
    assert warning.category is AdviceWarning
    assert _matches(row.message, str(warning.message)), str(warning.message)
    assert names_read(row, evidence) <= set(row.inputs)
    # Once for each metric.
    warning_log = WarningLog(set())
    assert [len(given_on(rows, row.example(), warning_log)) for _ in range(2)] == [1, 0]
    # What the page says.
    assert row.condition().endswith(".")
    assert str(warning.message).endswith((".", "?"))
    used = {field for _, field, _, _ in string.Formatter().parse(row.fires) if field is not None}
    assert used == set(row.thresholds)
    # Rows that explain this one are asked before.
    names = list(rows)
    assert all(names.index(other) < names.index(name) for other in row.explained_by)


def _matches(message: str, text: str) -> bool:
    """Whether a text is a message with values in the place of its braces."""
    parts = [re.escape(part) for part, *_ in string.Formatter().parse(message)]
    return re.fullmatch("(.*)".join(parts) + "(.*)", text) is not None

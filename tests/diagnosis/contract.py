"""What every row of a registry of causes must satisfy, whatever it looks at."""

import re
import string
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from reid_torchmetrics import AdviceWarning
from reid_torchmetrics.diagnosis.causes import Cause


def told_by(call: Callable[[], object]) -> list[str]:
    """The advice that is given during a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught if warning.category is AdviceWarning]


def check_cause(rows: Mapping[str, Cause[Any]], name: str, example: Callable[[], object]) -> None:
    """Raise an AssertionError unless a row alone is found in its example, once in each call, and described in full."""
    row = rows[name]
    assert row.name == name
    for _ in range(2):
        (text,) = told_by(example)
        assert _matches(row.message, text), text
    # What the page says.
    assert row.condition().endswith(".")
    assert text.endswith((".", "?"))
    assert set(row.explained_by) <= set(rows)


def _matches(message: str, text: str) -> bool:
    """Whether a text is a message with values in the place of its braces."""
    parts = [re.escape(part) for part, *_ in string.Formatter().parse(message)]
    return re.fullmatch("(.*)".join(parts) + "(.*)", text) is not None

"""The record of a number, which texts, tables, pages, files and the command read."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .displays import UNDEFINED

NEVER = "never"
"""text for an infinite number, such as a mean of ranks where a positive is never retrieved"""


class Number(NamedTuple):
    """A number of a model, with what is printed beside it."""

    name: str
    title: str
    """title in tables and legends, such as "mAP" """
    value: float
    """NaN where it is undefined"""
    convention: str = ""
    """the definition of the number, in words"""
    is_share: bool = True
    """whether the unit is 1, so that the number may be written in percent; ranks and other amounts have no unit"""
    lower_is_better: bool = False

    @property
    def heading(self) -> str:
        """The title, with the unit of numbers that are written in percent without the sign."""
        return f"{self.title} (%)" if self.is_share else self.title

    def text(self, form: str = ".4f") -> str:
        """Return the value as a text, see `in_words`."""
        return in_words(self.value, form, is_share=self.is_share)

    def to_dict(self) -> dict[str, Any]:
        """Return value and convention, JSON-safe; an infinite value also has the key "said", with "never"."""
        row: dict[str, Any] = {"value": json_safe(self.value), "convention": self.convention}
        if math.isinf(self.value):
            row["said"] = NEVER
        return row


def in_words(value: float, form: str = ".4f", *, is_share: bool = True) -> str:
    """Return the text for a number: "n/a" if it is undefined, "never" if it is infinite.

    Only a share is printed as a percentage.
    """
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return NEVER
    return format(value, form if is_share else form.replace("%", "f"))


def json_safe(value: float) -> float | None:
    """Return a number for JSON: None instead of a number that is undefined or infinite."""
    return value if math.isfinite(value) else None

"""Advice: warnings about input that is probably not what the user meant, after the numbers are computed.

    numbers, samples --> evidence --> rows of a registry, in order --> one warning for each row that fires

No number depends on advice. Detection and retrieval each have a registry of rows and a class of evidence in their
packages `advice`. The page `docs/advice.md` is generated from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from reid_torchmetrics._warnings import AdviceWarning

from .world import WarningLog

Evidence = TypeVar("Evidence")
Values = Mapping[str, object]
"""values of a message by the names in its braces"""


@dataclass(frozen=True)
class Advice(Generic[Evidence]):
    """A row of a registry: one likely mistake, and the condition that recognizes it."""

    name: str
    checks: str
    """the mistake, in a few words"""
    fires: str
    """the condition in words, with the names of `thresholds` in braces"""
    message: str
    """the warning, with names of values in braces"""
    inputs: tuple[str, ...]
    """attributes of the evidence that the condition reads"""
    find: Callable[[Evidence], Values | None]
    """returns the values of the message, or None if the condition does not hold"""
    example: Callable[[], Evidence]
    """returns evidence for which this row fires, and no other row"""
    thresholds: Mapping[str, float | int] = field(default_factory=dict)
    explained_by: tuple[str, ...] = ()
    """names of rows with mistakes that may look like this one; if one of them has fired, this row is silent"""

    def text(self, values: Values) -> str:
        """Return the warning."""
        return self.message.format(**values)

    def condition(self) -> str:
        """Return the condition in words, with the thresholds."""
        return self.fires.format(**self.thresholds)


def advise(rows: Iterable[Advice[Evidence]], evidence: Evidence, warning_log: WarningLog) -> None:
    """Warn about each row that fires, unless the user was warned about it before.

    Args:
        rows: rows of a registry, in order.
        evidence: the evidence that the rows read.
        warning_log: topics that the user was warned about.
    """
    fired: set[str] = set()
    for row in rows:
        if warning_log.has(row.name):
            fired.add(row.name)
            continue
        if not fired.isdisjoint(row.explained_by):
            continue
        values = row.find(evidence)
        if values is not None:
            fired.add(row.name)
            warning_log.warn_once(row.name, row.text(values), AdviceWarning)

"""Advice: guesses that input is not what the user meant, given after the numbers are computed.

    numbers, samples --> evidence --> rows of a registry, in order --> a warning of each row that fires, once

No number depends on advice. Detection and retrieval each have a registry of rows and a kind of evidence of their own,
in their packages `advice`. The page `docs/advice.md` is made from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from reid_torchmetrics._warnings import AdviceWarning

from .world import WarningLog

Evidence = TypeVar("Evidence")
Values = Mapping[str, object]
"""what a message says, by the names in its braces"""


@dataclass(frozen=True)
class Advice(Generic[Evidence]):
    """A row of a registry: one likely mistake, and how it is recognized."""

    name: str
    checks: str
    """the mistake, in a few words"""
    fires: str
    """when the advice is given, with the names of `thresholds` in braces"""
    message: str
    """the warning, with names of values in braces"""
    inputs: tuple[str, ...]
    """attributes of the evidence that decide"""
    find: Callable[[Evidence], Values | None]
    """the values of the message, or None where all is well"""
    example: Callable[[], Evidence]
    """gives evidence that makes this row fire, and no other"""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    explained_by: tuple[str, ...] = ()
    """rows of mistakes that may look like this one: if one of them has fired, this one is silent"""

    def text(self, values: Values) -> str:
        """Return the warning."""
        return self.message.format(**values)

    def condition(self) -> str:
        """Return when the advice is given, with the thresholds."""
        return self.fires.format(**self.thresholds)


def advise(rows: Iterable[Advice[Evidence]], evidence: Evidence, warning_log: WarningLog) -> None:
    """Warn of each row that fires on the evidence, unless the user has heard of it.

    Args:
        rows: of a registry, in the order in which they are asked.
        evidence: what the rows look at.
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

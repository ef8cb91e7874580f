"""Answers about all causes, which are collected while an evaluation runs in the place of warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from reid_torchmetrics._warnings import asking
from reid_torchmetrics.functional.displays import Display, Displayed, counted

from .causes import Cause, CauseName, Finding


class NotHeldError(Exception):
    """Raised for an attribute of a case that the results alone do not tell."""


class Answer(NamedTuple):
    """Whether a cause was found."""

    name: CauseName
    checks: str
    """the mistake, in a few words"""
    text: str | None = None
    """one or two sentences with the cause and the remedy; None if the cause was not found"""
    lacks: str | None = None
    """name of the values that an answer needs; None for an answer"""

    @property
    def state(self) -> str:
        """The answer in a few words."""
        if self.text is not None:
            return "found"
        return "not found" if self.lacks is None else f"not looked at: no {self.lacks.replace('_', ' ')}"


class Diagnosis(Displayed, list[Answer]):
    """The answers about all causes that were looked for, one for each cause; it prints as a table."""

    @property
    def found(self) -> list[Answer]:
        """The causes that were found."""
        return [answer for answer in self if answer.text is not None]

    def _display(self) -> Display:
        rows = [(answer.name, answer.state) for answer in self]
        notes = [f"{answer.name}: {answer.text}" for answer in self.found]
        title = f"Diagnosis: {len(notes)} of {counted(len(self), 'cause')} found"
        return Display(title, rows=rows, notes=notes, num_left=2)

    def ask(self, causes: Iterable[Cause[Any]], case: object) -> list[Finding]:
        """Try all causes, whether they are suspected or not, and return those that are found."""
        findings: list[Finding] = []
        for cause in causes:
            seen = _SeenCase(case)
            values = None
            if not any(answer.name in cause.explained_by for answer in self.found):
                with suppress(NotHeldError):
                    values = cause.find(seen)
            if values is None:
                self._merge(Answer(cause.name, cause.checks, lacks=seen.lacks))
                continue
            findings.append(Finding(cause.name, cause.text(values), cause.explained_by))
            self._merge(Answer(cause.name, cause.checks, cause.text(values)))
        return findings

    def add(self, texts: Mapping[CauseName, str]) -> None:
        """Add what was found, on any process, by the names of the causes."""
        for place, answer in enumerate(self):
            if answer.text is None and answer.name in texts:
                self[place] = answer._replace(text=texts[answer.name], lacks=None)

    def _merge(self, answer: Answer) -> None:
        """Add an answer, or let it replace one that knows less about the same cause."""
        for place, earlier in enumerate(self):
            if (earlier.name, earlier.checks) == (answer.name, answer.checks):
                self[place] = max(earlier, answer, key=lambda each: (each.text is not None, each.lacks is None))
                return
        self.append(answer)


class _SeenCase:
    """A case that remembers what a row asked for in vain."""

    def __init__(self, case: object) -> None:
        self._case = case
        self.lacks: str | None = None

    def __getattr__(self, name: str) -> Any:
        try:
            value = getattr(self._case, name)
        except NotHeldError:
            self.lacks = name
            raise
        if value is None or (isinstance(value, (list, tuple)) and not value):
            self.lacks = self.lacks or name
        return value


@contextmanager
def collecting() -> Iterator[Diagnosis]:
    """Collect answers about all evaluations inside, and let none of them warn."""
    diagnosis = Diagnosis()
    token = asking.set(diagnosis)
    try:
        yield diagnosis
    finally:
        asking.reset(token)

"""Answers about all causes, which are collected while an evaluation runs in the place of warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from reid_torchmetrics._warnings import asking
from reid_torchmetrics.functional.displays import Display, Displayed, counted
from reid_torchmetrics.functional.world import World

from .causes import Cause, CauseName

Kind = TypeVar("Kind", "Diagnosis", "Evaluations")


class Answer(NamedTuple):
    """Whether a cause was found."""

    name: CauseName
    checks: str
    """the mistake, in a few words"""
    text: str | None = None
    """one or two sentences with the cause and the remedy; None if the cause was not found"""
    lacks: str | None = None
    """name of the things that an answer needs, such as "samples"; None for an answer"""

    @property
    def state(self) -> str:
        """The answer in a few words."""
        if self.text is not None:
            return "found"
        return "not found" if self.lacks is None else f"not looked at: no {self.lacks}"


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

    def note(self, cause: Cause[Any], lacks: str | None) -> None:
        """Note that a cause was tried, and what was lacking; `add` notes what was found."""
        for place, earlier in enumerate(self):
            if earlier.checks == cause.checks:
                if lacks is None:
                    self[place] = earlier._replace(lacks=None)
                return
        self.append(Answer(cause.name, cause.checks, lacks=lacks))

    def add(self, texts: Mapping[CauseName, str]) -> None:
        """Add what was found, on any process, by the names of the causes."""
        for place, answer in enumerate(self):
            if answer.text is None and answer.name in texts:
                self[place] = answer._replace(text=texts[answer.name], lacks=None)


class Evaluations(list[tuple[Any, Any, World]]):
    """The arguments of `results_made` of all evaluations, for a search of their conventions; no cause is looked for."""


@contextmanager
def collecting(diagnosis: Kind) -> Iterator[Kind]:
    """Collect in `diagnosis` what all evaluations inside give, answers or the evaluations themselves; none warns."""
    token = asking.set(diagnosis)
    try:
        yield diagnosis
    finally:
        asking.reset(token)

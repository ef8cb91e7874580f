"""The rows of the registries of known evaluators and of conventions, and what a kind of results must answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

CUTOFFS = (1, 3, 5, 10, 20, 100)
"""the cutoffs at which evaluators are asked, besides those of the user's numbers"""
FARS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
TARGETS = (0.001, 0.01, 0.05)
"""the false accept rates, and the `p_target` of minDCF, at which evaluators are asked"""
_PLACEHOLDERS = {"far": FARS, "target": TARGETS, "all": (1 << 40,)}
"""values of placeholders in names; "{all}" stands for a cutoff beyond all lists"""
NO_OPTION = "no option gives it"
"""the text in the place of a line that computes a number"""


@dataclass(frozen=True)
class KnownEvaluator:
    """A function of another evaluator, and the options with which ours gives its numbers."""

    name: str
    version: str
    """the release, or the repository and the commit, that was recorded"""
    source: str
    """the file and the function, with the repository where the name does not say it"""
    words: str
    """the difference from other evaluators, in a sentence without a full stop"""
    proofs: tuple[str, ...]
    """the keys of recorded outputs in the tests, "theme/case/evaluator/output", where "*" stands for any text"""
    measures: Mapping[str, Any]
    """our numbers by its names; "{k}" stands for a cutoff, see `_PLACEHOLDERS` for others. What no option gives is a
    measure of its own"""
    options: Mapping[str, Any] = field(default_factory=dict)
    """the options that give its numbers; those that are not here are up to its caller, and so are the user's"""

    def numbers(self, cutoffs: Iterable[int]) -> list[tuple[str, Any]]:
        """Return its names and ours at all cutoffs."""
        pairs: list[tuple[str, Any]] = []
        placeholders = {"k": cutoffs, **_PLACEHOLDERS}
        for title, report in self.measures.items():
            match = re.search(r"{(\w+)}", str(report))
            if match is None:
                pairs.append((title, report))
                continue
            values = [{match[1]: value} for value in placeholders[match[1]]]
            pairs.extend((title.format(**value), report.format(**value)) for value in values)
        return pairs


@dataclass(frozen=True)
class ConventionChange:
    """A convention that differs from the user's: another value of one option, and what differs in words."""

    option: str
    value: Any
    words: str


class Numbers(Protocol):
    """Results of one kind, such as ranks, which have numbers under other options than the user's."""

    changes: Sequence[ConventionChange]
    """the conventions that can be changed here; those without an effect may be among them"""
    reports: Sequence[str]
    """the numbers that the user reports"""
    tries_pairs: bool = True
    """whether pairs of changes take a reasonable time"""
    cutoffs: Sequence[int] = ()
    """further cutoffs of the user's numbers, besides those in their names"""

    def check_report(self, name: str) -> None:
        """Raise a ValueError about `measure` unless there is a number with a name."""

    def other_reports(self) -> Iterable[str]:
        """Return further numbers, one of which may be the expected one."""

    def differing(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of an evaluator that differ from the user's and have an effect here, unless all have."""
        return dict(options)

    def value(self, report: Any, options: Mapping[str, Any]) -> float:
        """Return a number under other options.

        Raises:
            NotHeldError: what it needs is not there.
            ValueError: options that do not fit each other.
        """

    def is_share(self, _: Any) -> bool:
        """Return whether a number is a share of 1, which may be written in percent; True unless there are others."""
        return True

    def title(self, report: Any) -> str:
        """Return the title of a number, its name unless there are others."""
        return str(report)

    def call(self, report: Any, options: Mapping[str, Any]) -> str:
        """Return the line that computes a number here."""

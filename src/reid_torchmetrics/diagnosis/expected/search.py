"""The search for the conventions that give a number, and its answer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from operator import attrgetter
from typing import Any

from reid_torchmetrics._progress import steps
from reid_torchmetrics.diagnosis.causes import NotHeldError
from reid_torchmetrics.functional.displays import Display, Displayed, counted

from .rows import CUTOFFS, ConventionChange, KnownEvaluator, Numbers

_MOST_DECIMALS = 6  # of a share, as evaluators compute in float32
_ROUNDING = 1e-9  # of a number that lies between two texts
_NUM_NEAREST = 3
_NUM_SHOWN = 10
_NUM_DESCRIBED = 3  # evaluators with one convention; others are named
_SAME = 1e-12  # difference of a number from itself under an option without effect


@dataclass(frozen=True)
class Expected:
    """A number as somebody wrote it."""

    text: str
    value: float
    tolerance: float
    """half a unit of its last digit"""

    @classmethod
    def of(cls, number: float | str) -> Expected:
        """Read a float with the digits of its `repr`, or a text such as "0.5630", "56.3" and "56.3 %".

        Raises:
            TypeError: it is neither.
            ValueError: it is not a finite number of at least 0.
        """
        if isinstance(number, bool) or not isinstance(number, (int, float, str)):
            raise TypeError(f"`expected` must be a float or a text with its digits; got {type(number).__name__}.")
        text = str(number).strip()
        match = re.fullmatch(r"(\d*)(?:\.(\d*))?(?:e([+-]?\d{1,3}))?\s*(%?)", text.lower())
        if match is None or not (match[1] or match[2]):
            rule = "must be a number of at least 0, such as 0.563, '0.5630' or '56.3 %'"
            raise ValueError(f"`expected` {rule}; got {text!r}.")
        value = float(text.rstrip("% "))
        num_decimals = len(match[2] or "") - int(match[3] or 0)
        tolerance = float(f"0.5e{-num_decimals}")
        if not (math.isfinite(value) and math.isfinite(tolerance)):
            raise ValueError(f"`expected` must be a finite number; got {text!r}.")
        return cls(text, value, tolerance=tolerance)

    def read(self, *, is_share: bool) -> Expected:
        """Return the number as a share of 1, in percent if it is above 1; other numbers as they are."""
        if not is_share:
            return self
        factor = 100 if self.value > 1 or self.text.endswith("%") else 1
        least = 0.5 * 10**-_MOST_DECIMALS
        return replace(self, value=self.value / factor, tolerance=max(self.tolerance / factor, least))

    def equals(self, value: float) -> bool:
        """Return whether a value would be written as this number."""
        return abs(value - self.value) <= self.tolerance * (1 + _ROUNDING) + _ROUNDING


@dataclass(frozen=True)
class Convention:
    """A number under other options than the user's, and the evaluators that compute it."""

    report: Any
    """its name here, or the row of a measure that no option gives"""
    options: Mapping[str, Any]
    value: float
    words: tuple[str, ...]
    """the differences from the user's options"""
    evaluators: tuple[tuple[str, KnownEvaluator], ...] = ()
    """with their names for the number"""
    title: str = ""
    call: str = ""
    """the line that computes it here; both are there in an answer"""

    def lines(self) -> Iterator[str]:
        """Return the number and what differs, the line that computes it, and who computes it so."""
        yield f"{self.title} {self.value:.4f}: {'; '.join(self.words) or 'the options of this evaluation'}"
        yield f"    {self.call}"
        for name, evaluator in self.evaluators[:_NUM_DESCRIBED]:
            yield f"    {name} of {evaluator.name} ({evaluator.version}, {evaluator.source}): {evaluator.words}"
        names = [f"{name} of {evaluator.name}" for name, evaluator in self.evaluators[_NUM_DESCRIBED:]]
        if names:
            yield f"    and {', '.join(dict.fromkeys(names))}"


@dataclass(frozen=True, repr=False)
class Explanation(Displayed):
    """The conventions that give a number, the most plain first; it prints as text."""

    expected: Expected
    conventions: tuple[Convention, ...]
    """evaluators that give the number, and single changes of the user's options"""
    pairs: tuple[Convention, ...]
    """two changes together that give it, where no evaluator and no single change does"""
    chance: float
    """the chance that some pair of changes gives a random number of the range"""
    nearest: tuple[Convention, ...]
    """the nearest numbers, where no evaluator and no single change gives it"""
    num_conventions: int
    """number of evaluators' numbers and single changes that were compared"""
    lowest: float
    """lowest share of 1 among them"""
    highest: float
    lacks: tuple[str, ...]
    """names of the things without which some conventions could not be tried"""

    @property
    def evaluators(self) -> tuple[str, ...]:
        """Names of the evaluators that give the number."""
        names = [evaluator.name for convention in self.conventions for _, evaluator in convention.evaluators]
        return tuple(dict.fromkeys(names))

    def _display(self) -> Display:
        notes: list[str] = []
        chance = f"Possible by chance, two changes together; they give a random number in {self.chance:.0%} of cases:"
        for title, conventions in (("", self.conventions), (chance, self.pairs), ("Nearest:", self.nearest)):
            notes += [title] if title and conventions else []
            for convention in conventions[:_NUM_SHOWN]:
                notes += convention.lines()
        if self.lacks:
            notes.append(f"Conventions that need {' or '.join(self.lacks)} were not tried.")
        num = len(self.conventions)
        verb = "give" if num > 1 else "gives"
        span = f"{num or 'none'} of {counted(self.num_conventions, 'convention')} {verb} it"
        title = f"Expected {self.expected.text}: {span}, from {self.lowest:.4f} to {self.highest:.4f}"
        return Display(title, notes=notes)


class Search:
    """Numbers under all conventions, each of which is computed once."""

    def __init__(self, numbers: Numbers, evaluators: Sequence[KnownEvaluator], measure: str | None = None) -> None:
        """Take results under the user's options, the known evaluators, and the only measure to look at, if any.

        Raises:
            ValueError: there is no such measure.
        """
        if measure is not None:
            numbers.check_report(measure)
        self.numbers = numbers
        self.evaluators = evaluators
        self.are_all = measure is None
        self.reports = tuple(numbers.reports) if measure is None else (measure,)
        ks = [int(digits) for report in self.reports for digits in re.findall(r"_(\d+)$", str(report))]
        self.cutoffs = sorted({*CUTOFFS, *ks, *numbers.cutoffs})
        self.in_words: Callable[[Convention], str] = attrgetter("call")
        self.lacks: dict[str, None] = {}
        self._values: dict[Any, float | None] = {}

    def explain(self, number: float | str) -> Explanation:
        """Return the conventions that give a number.

        Raises:
            TypeError: it is neither a float nor a text.
            ValueError: it is no number of at least 0.
        """
        expected = Expected.of(number)
        matching = self.matching(expected, self.conventions)
        pairs: Sequence[Convention] = ()
        nearest: Sequence[Convention] = ()
        values = [convention.value for convention in self.conventions if self.numbers.is_share(convention.report)]
        lowest, highest = min(values, default=math.nan), max(values, default=math.nan)
        chance = 0.0
        if not matching:
            pairs = self.matching(expected, self.pairs)
            nearest = sorted(self.conventions, key=lambda convention: self._distance(expected, convention))
            tolerance = expected.read(is_share=True).tolerance
            chance = _share_covered([pair.value for pair in self.pairs], tolerance, lowest, highest)
        return Explanation(
            expected=expected,
            conventions=tuple(map(self.with_line, matching)),
            pairs=tuple(map(self.with_line, pairs)),
            chance=chance,
            nearest=tuple(map(self.with_line, nearest[:_NUM_NEAREST])),
            num_conventions=len(self.conventions),
            lowest=lowest,
            highest=highest,
            lacks=tuple(self.lacks),
        )

    def with_line(self, convention: Convention) -> Convention:
        """Return a convention with the title of its number, and the line that computes it."""
        report = convention.report
        call = self.numbers.call(report, convention.options)
        convention = replace(convention, title=self.numbers.title(report), call=call)
        return replace(convention, call=self.in_words(convention))

    def matching(self, expected: Expected, conventions: Iterable[Convention]) -> list[Convention]:
        """Return the conventions that give a number, the most plain first."""

        def plainness(convention: Convention) -> tuple[Any, ...]:
            is_reported = convention.report in self.reports
            is_known = not convention.options or bool(convention.evaluators)
            return not is_reported, not is_known, len(convention.options)

        equal = [convention for convention in conventions if self._distance(expected, convention) == 0]
        return sorted(equal, key=plainness)

    def _distance(self, expected: Expected, convention: Convention) -> float:
        """Return the distance of a number from the expected one, 0 within its tolerance."""
        reading = expected.read(is_share=self.numbers.is_share(convention.report))
        return 0 if reading.equals(convention.value) else abs(reading.value - convention.value)

    @cached_property
    def conventions(self) -> list[Convention]:
        """The user's numbers, those of evaluators and those under single changes, each once with its evaluators."""
        by_key: dict[Any, Convention] = {}
        for convention in (*self._of_user(), *self._of_evaluators(), *self._single_changes()):
            key = _key(convention.report, convention.options)
            known = by_key.get(key, replace(convention, evaluators=()))
            by_key[key] = replace(known, evaluators=(*known.evaluators, *convention.evaluators))
        return list(by_key.values())

    @cached_property
    def pairs(self) -> list[Convention]:
        """The user's numbers under two changes, where both have an effect."""
        pairs: list[Convention] = []
        if not self.numbers.tries_pairs:
            self.lacks["fewer samples"] = None
            return pairs
        changes = combinations(self._effective_changes, 2)
        for first, second in steps([pair for pair in changes if pair[0].option != pair[1].option], "Trying pairs"):
            options = {first.option: first.value, second.option: second.value}
            fewer: tuple[dict[str, Any], ...] = ({first.option: first.value}, {second.option: second.value}, {})
            for report in self.reports:
                if not any(self._is_same(report, options, others) for others in fewer):
                    pairs += self._conventions(report, options, (first.words, second.words))
        return pairs

    def _of_user(self) -> Iterator[Convention]:
        """Yield the user's numbers, and others under the user's options."""
        for report in self.reports:
            yield from self._conventions(report, {}, ())
        for report in self.numbers.other_reports() if self.are_all else ():
            if report not in self.reports:
                yield from self._conventions(report, {}, ("another measure",))

    def _of_evaluators(self) -> Iterator[Convention]:
        words = {(change.option, change.value): change.words for change in self.numbers.changes}
        for evaluator in steps(self.evaluators, "Trying evaluators"):
            all_options = self.numbers.differing(evaluator.options)
            for name, report in evaluator.numbers(self.cutoffs):
                if self._is_asked(report):
                    options = self._plainest(report, all_options)
                    differences = [words.get(item, "{}={!r}".format(*item)) for item in options.items()]
                    yield from self._conventions(report, options, differences, (name, evaluator))

    def _is_asked(self, report: Any) -> bool:
        """Return whether a number may be the expected one: it has the measure, at any cutoff."""
        without_cutoff = re.sub(r"_\d+$", "", str(report))
        return self.are_all or report in self.reports or without_cutoff in self.reports

    def _single_changes(self) -> Iterator[Convention]:
        for change in self._effective_changes:
            options = {change.option: change.value}
            for report in self.reports:
                if not self._is_same(report, options, {}):
                    yield from self._conventions(report, options, (change.words,))

    @cached_property
    def _effective_changes(self) -> list[ConventionChange]:
        return [change for change in self.numbers.changes if self.numbers.differing({change.option: change.value})]

    def _conventions(
        self, report: Any, options: Mapping[str, Any], words: Iterable[str], *evaluators: tuple[str, KnownEvaluator]
    ) -> Iterator[Convention]:
        """Yield the number under some options, if it can be computed and is finite."""
        value = self._value(report, options)
        if value is not None:
            yield Convention(report, options, value, tuple(words), evaluators)

    def _plainest(self, report: Any, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options without those that do not change a number."""
        for name in options:
            fewer = {other: value for other, value in options.items() if other != name}
            if self._is_same(report, options, fewer):
                return self._plainest(report, fewer)
        return options

    def _is_same(self, report: Any, options: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
        """Return whether a number is the same under other options."""
        value, other = self._value(report, options), self._value(report, others)
        return value is not None and other is not None and abs(value - other) <= _SAME

    def _value(self, report: Any, options: Mapping[str, Any]) -> float | None:
        key = _key(report, options)
        if key not in self._values:
            self._values[key] = self._compute(report, options)
        return self._values[key]

    def _compute(self, report: Any, options: Mapping[str, Any]) -> float | None:
        value = math.nan
        try:
            with suppress(ValueError):  # options that do not fit each other
                value = self.numbers.value(report, options)
        except NotHeldError as error:
            self.lacks[str(error)] = None
        return value if math.isfinite(value) else None


def _key(report: Any, options: Mapping[str, Any]) -> Any:
    return str(report), tuple(sorted(options.items()))


def _share_covered(values: Iterable[float], tolerance: float, lowest: float, highest: float) -> float:
    """Return the share of a range that lies within a tolerance of some value."""
    covered, reached = 0.0, lowest
    for value in sorted(values):
        start = max(value - tolerance, reached)
        stop = min(value + tolerance, highest)
        covered += max(0.0, stop - start)
        reached = max(reached, stop)
    return covered / (highest - lowest) if highest > lowest else 0.0

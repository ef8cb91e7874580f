"""The rows of the registries, and the order of suspicions and trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from reid_torchmetrics._warnings import AdviceWarning, asking
from reid_torchmetrics.functional.world import WarningLog

Case = TypeVar("Case")
Value = TypeVar("Value")
Trial = TypeVar("Trial", bound=Callable[[Any], "Values | None"])
CauseName: TypeAlias = str
Values: TypeAlias = Mapping[str, object]
"""values of a message by the names in its braces"""
_LEAST_SURPRISE = 15  # logarithm of the odds against luck


@dataclass(frozen=True)
class Cause(Generic[Case]):
    """A likely mistake of a user, the results that raise the suspicion, and the trial that confirms it."""

    name: CauseName
    message: str
    """one or two sentences with the cause and the remedy, with names of values in braces"""
    find: Callable[[Case], Values | None]
    """returns the values of the message, or None; a trial takes at most 256 images or queries"""
    suspect: Callable[[Case], bool] | None = None
    """whether the finished results let one think of it: cheap, and without any new matching; rows may share it; None
    for facts that `find` reads without a trial"""
    explained_by: tuple[CauseName, ...] = ()
    """rows with mistakes that may look like this one; if one of them was found, this row is not told"""

    @property
    def checks(self) -> str:
        """The mistake, in a few words: the summary of the trial."""
        summary, *_ = (self.find.__doc__ or self.name).split("\n\n")
        return summary.removeprefix("Look for ").removesuffix(".")


class Causes(dict[CauseName, Cause[Case]]):
    """A registry: causes by name, in the order in which they are tried."""

    def add(self, find: Trial, **options: Any) -> Trial:
        """Add a cause with the name of the trial; the options are the other arguments of `Cause`.

        The summary of the trial is "Look for" and the mistake in a few words. The rest of its docstring is the
        condition; names in braces are those of constants in its module.
        """
        self[find.__name__] = Cause(name=find.__name__, find=find, **options)
        return find

    @property
    def decorator(self) -> Callable[..., Callable[[Trial], Trial]]:
        """A decorator that adds a trial, with the options of `add`."""
        return partial(partial, self.add)  # given options, it returns partial(self.add, **options), which takes a trial


class NotHeldError(Exception):
    """Raised by a case for something that it does not know, with its name: a trial that needs it finds nothing."""


def held(name: str, value: Value | None) -> Value:
    """Return a value that a case may know."""
    if value is None:
        raise NotHeldError(name)
    return value


class Finding(NamedTuple):
    """A cause that was found, and the warning that tells of it."""

    name: CauseName
    text: str
    explained_by: Sequence[CauseName] = ()
    """as in `Cause`: another process may have found one of them"""


def find_causes(causes: Iterable[Cause[Case]], case: Case, warning_log: WarningLog) -> list[Finding]:
    """Try the causes that are suspected, and return those that are found.

    A metric object tries and tells each cause once until `reset`, and then asks for no suspicion of it any more. A
    suspicion that several causes share is asked for once. While `diagnose` asks, all causes are tried.
    """
    findings: list[Finding] = []
    topics = set() if warning_log.topics is None else warning_log.topics
    diagnosis = asking.get()
    is_suspected = cache(lambda suspect: suspect is None or suspect(case))
    for cause in causes:
        topic = f"tried {cause.name}"
        if diagnosis is None and (topic in topics or not is_suspected(cause.suspect)):
            continue
        values = lacks = None
        try:
            values = cause.find(case)
        except NotHeldError as error:
            lacks = str(error)
        if diagnosis is not None:
            diagnosis.note(cause, lacks)
        elif cause.suspect is not None or values is not None:
            topics.add(topic)
        if values is not None:
            findings.append(Finding(cause.name, cause.message.format(**values), cause.explained_by))
    return findings


def warn_of(findings: Sequence[Any], warning_log: WarningLog) -> None:
    """Warn of causes that were found, each once, or answer `diagnose`: several processes may have found the same."""
    found = {name for name, *_ in findings}
    first_texts: dict[CauseName, str] = {}
    for name, text, explained_by in findings:
        if not any(other in found or warning_log.has(other) for other in explained_by):
            first_texts.setdefault(name, text)
    if asking.get() is not None:
        asking.get().add(first_texts)
        return
    for name, text in first_texts.items():
        warning_log.warn_once(name, text, AdviceWarning)


def is_beyond_chance(num_right: float, number: int, chance: float) -> bool:
    """Return whether luck gives this number of right answers, or more, in one of exp(15) cases at most.

    This is Chernoff's bound, for answers that are right by luck with the probability `chance` each.
    """
    share = num_right / max(1, number)
    chance = max(chance, 1e-9)
    if share <= chance:
        return False
    surprise = share * math.log(share / chance)
    if share < 1:
        surprise += (1 - share) * math.log((1 - share) / (1 - chance))
    return number * surprise >= _LEAST_SURPRISE

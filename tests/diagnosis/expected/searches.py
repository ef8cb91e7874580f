"""Recorded numbers, and searches of the calls that a user would make."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from reid_torchmetrics.diagnosis import Evaluations, collecting
from reid_torchmetrics.diagnosis.expected import Search, search_of
from tests.profiles import PROFILE

CURVE = (1, 5, 10, 20)
"""the ranks at which a curve is printed"""


class Number(NamedTuple):
    """A number that an evaluator returned, and the search of its problem."""

    key: str
    """theme, case, evaluator and output"""
    value: float
    search: Callable[[], Search]

    @property
    def evaluator(self) -> str:
        return self.key.split("/")[2]

    @property
    def text(self) -> str:
        """The number to four digits, in percent if it was recorded so."""
        return f"{self.value:.2f}" if self.value > 1 else f"{self.value:.4f}"


def search_in(function: Callable[..., Any], *args: Any, **options: Any) -> Search:
    """The search among the conventions of a call."""
    evaluations = Evaluations()
    with collecting(evaluations):
        function(*args, **options)
    return search_of(evaluations)


def numbers_of_profile(numbers: Iterable[Number]) -> list[Number]:
    """All recorded numbers in a nightly run, else those of the first case of each evaluator and theme."""
    if PROFILE == "nightly":
        return list(numbers)
    kept: list[Number] = []
    case_of: dict[tuple[str, str], str] = {}
    for number in numbers:
        theme, case, evaluator, *_ = number.key.split("/")
        if case_of.setdefault((theme, evaluator), case) == case:
            kept.append(number)
    return kept

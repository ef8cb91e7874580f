"""Questions from the trackers of other tools: who asks what, our answer, and a function that computes its numbers.

`docs/numbers/questions.md` shows them. What is **bold** in an answer is a number, or a part of a message, that the
function returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Computed = Sequence[float | str]


@dataclass(frozen=True)
class Question:
    """A row of the page."""

    sources: tuple[str, ...]
    """such as `owner/name#7`"""
    question: str
    answer: str
    compute: Callable[[], Computed]
    """returns what is bold in the answer, in its order"""

    @property
    def links(self) -> str:
        """Links to the sources, as the page has them: without the owner, so that the column is narrow."""
        links = []
        for source in self.sources:
            name = source.split("/")[1]
            address = source.replace("#", "/issues/")
            links.append(f"[{name}](https://github.com/{address})")
        return ", ".join(links)


class Section:
    """Questions of one table of the page."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.questions: list[Question] = []

    def asks(
        self, *sources: str, question: str, answer: str
    ) -> Callable[[Callable[[], Computed]], Callable[[], Computed]]:
        """Add a question that the decorated function answers."""

        def add(compute: Callable[[], Computed]) -> Callable[[], Computed]:
            self.questions.append(Question(sources, question, answer, compute))
            return compute

        return add


def message_of(call: Callable[[], object]) -> str:
    """Return the message of the error that a call raises."""
    try:
        call()
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError("no error was raised")

"""What a problem consists of, all of it plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Made(NamedTuple):
    """An object of the package, such as an option of another call, by the name of its class or function."""

    name: str
    arguments: Mapping[str, Any]
    positional: Sequence[Any] = ()


class Question(NamedTuple):
    """A value that is asked of a result: an attribute, or a method if there are arguments."""

    path: str
    """names of attributes, with dots between them; "" stands for the result itself"""
    arguments: Mapping[str, Any] | None = None
    positional: Sequence[Any] = ()
    further: Sequence[Any] = ()
    """questions to the returned object, in the place of everything that it holds"""

    @property
    def name(self) -> str:
        """The path, and arguments that are numbers or texts."""
        arguments = [*self.positional, *(self.arguments or {}).values()]
        words = [str(value) for value in arguments if isinstance(value, (bool, int, float, str, list))]
        return (self.path or "result") + (f"({', '.join(words)})" if words else "")


@dataclass(frozen=True)
class Problem:
    """A call, batches for the object that it returns, and questions."""

    call: Made
    questions: Sequence[Question]
    batches: Sequence[Mapping[str, Any]] = ()
    """keyword arguments of `update`"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """options that a reader of a difference wants to know"""
    files: Mapping[str, Any] = field(default_factory=dict)
    """name and content of each file in the folder in which the problem is solved"""

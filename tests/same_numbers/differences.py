"""Compares the values of both checkouts, and counts what differs."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from .answers import Values, readable

ABSENT = "(no such value)"


@dataclass
class Summary:
    """Counts over the problems of one kind."""

    kind: str
    num_problems: int = 0
    num_values: int = 0
    num_different: int = 0
    """problems with a difference"""
    num_lacking: int = 0
    """problems that differ only in that one checkout lacks values, such as those of a new attribute"""
    num_raised: int = 0
    """problems in which both checkouts raise the same error"""
    num_raised_once: int = 0
    """problems in which only one checkout raises at some place"""
    names: Counter[str] = field(default_factory=Counter)
    """problems that differ in a value, by its name without numbers"""

    def count(self, earlier: Values, current: Values, different: list[str]) -> None:
        """Count a problem."""
        self.num_problems += 1
        self.num_values += len(earlier.keys() | current.keys())
        self.num_different += bool(different)
        raising = [{name for name, value in values.items() if is_error(value)} for values in (earlier, current)]
        comparable = (earlier.keys() & current.keys()) | raising[0] | raising[1]
        self.num_lacking += bool(different) and comparable.isdisjoint(different)
        self.num_raised += any(earlier[name] == current[name] for name in raising[0] & raising[1])
        self.num_raised_once += raising[0] != raising[1]
        self.names.update({re.sub(r"\d+", "N", name) for name in different})

    def line(self) -> str:
        """Return the row of the table."""
        counts = (self.num_problems, self.num_values, self.num_different, self.num_lacking)
        counts += (self.num_raised, self.num_raised_once)
        return f"{self.kind:<12}" + "".join(f"{count:>14,}" for count in counts)


HEADER = f"{'kind':<12}" + "".join(
    f"{title:>14}" for title in ("problems", "values", "differ", "only lacking", "raised alike", "raised once")
)


def is_error(value: object) -> bool:
    """Return whether a value stands for an error."""
    return isinstance(value, str) and value.startswith("raises ")


def numbers_of(values: Values) -> Values:
    """Return the values without texts, and of errors the type alone."""
    numbers: Values = {}
    for name, value in values.items():
        is_text = isinstance(value, str) or (isinstance(value, tuple) and "U" in value[0])
        if is_error(value):
            numbers[name] = str(value).partition(":")[0]
        elif not is_text:
            numbers[name] = value
    return numbers


def differing_names(earlier: Values, current: Values) -> list[str]:
    """Return the names of all values that differ or that only one checkout has, errors first."""
    names = list(earlier) + [name for name in current if name not in earlier]
    names.sort(key=lambda name: not (is_error(earlier.get(name)) or is_error(current.get(name))))
    return [name for name in names if earlier.get(name, ABSENT) != current.get(name, ABSENT)]


def description(
    kind: str, seed: int, facts: Mapping[str, object], values: tuple[Values, Values], different: list[str], most: int
) -> str:
    """Return the kind, the seed and the options of a problem, and up to `most` values that differ."""
    options = ", ".join(f"{name}={value!r}" for name, value in facts.items())
    lines = [f"{kind} --seed {seed}: {options}"]
    for name in different[:most]:
        earlier, current = (readable(side.get(name, ABSENT)) for side in values)
        lines += [f"    {name}", f"        earlier  {earlier[:600]}", f"        current  {current[:600]}"]
    if len(different) > most:
        lines.append(f"    and {len(different) - most} further values")
    return "\n".join(lines)

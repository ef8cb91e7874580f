"""Kinds of values: how a word of a command line, or a value in a file of options, becomes the value of an option.

    kind               command line                file of options               value
    "N"                --max-rank 7                max_rank: 7                   7
    "N?"               --k null                    k: null                       None
    "LABEL+"           --search-cameras 1 cam2     search_cameras: [1, cam2]     [1, "cam2"]
    "ApRule"           --rule trapezoid            rule: trapezoid               "trapezoid", of the names in `_names`
    "NAME TieName"     --ties stable               ties: stable                  "stable"; the function knows the names
    "MAP"              --camera-map '{3: 2}'       camera_map: {3: 2}            {3: 2}
    "RANGES"           --area-ranges.all [0,9]     area_ranges: {all: [0, 9]}    {"all": (0.0, 9.0)}

"+" stands for several values, "?" for a value that may be null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, get_args

from reid_torchmetrics import _hints, _names

from .configs import parse_yaml

NULLS = ("null", "Null", "NULL", "~")
"""null, as YAML spells it"""
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_INFINITE = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}
"""floats as YAML spells them, by Python's spelling"""
_PREFIXED = re.compile(r"\s*[+-]?0[xXbB]")
"""a whole number as hexadecimal or binary digits"""
_VALUE_WIDTH = 80


class Digits(int):
    """A whole number in an option about labels; where labels are names, the name of the same digits."""

    text: str
    """the number as it was written, such as "01" """

    def __eq__(self, other: object) -> bool:
        """Return whether two texts are equal, so that 1 and 01 are two keys; or two numbers, for another number."""
        return self.text == other.text if isinstance(other, Digits) else int(self) == other

    __hash__ = int.__hash__


class WrongValueError(ValueError):
    """A value that is not of the kind of its option."""

    def __init__(self, rule: str, value: object, *, hint: str = "", field: str = "") -> None:
        """Take the rule, the value that breaks it, and the field of an option that has several."""
        super().__init__(rule)
        self.rule = rule
        self.value = value
        self.hint = hint
        self.field = field

    def message(self, name: str) -> str:
        """Return the message about the option of a name."""
        option = f"{name}.{self.field}" if self.field else name
        return f"`{option}` must be {self.rule}; got {self.value!r:.{_VALUE_WIDTH}}{self.hint}."


class Kind(NamedTuple):
    """A kind of values, such as a whole number or a list of labels."""

    base: str
    names: tuple[str, ...]
    """words behind the base: the name of a type in `_names`, or of classes"""
    is_list: bool
    is_nullable: bool

    @property
    def is_mapping(self) -> bool:
        """True if a value is a mapping with any keys."""
        return self.base in ("MAP", "RANGES")

    @property
    def choices(self) -> tuple[str, ...]:
        """The names that a value may have; empty if it may be anything."""
        if "|" in self.base:
            return tuple(self.base.split("|"))
        type_name = self.names[0] if self.base in ("TYPE", "REPORT") else self.base
        return get_args(getattr(_names, type_name, None))

    @property
    def suggestions(self) -> tuple[str, ...]:
        """The names that a shell suggests; the function itself refuses other names."""
        if self.base == "NAME" and self.names:
            return get_args(getattr(_names, self.names[0]))
        return self.choices

    @property
    def rule(self) -> str:
        """The rule for a single value, such as "a whole number or null"."""
        return self._rule_for(None)

    def _rule_for(self, value: object) -> str:
        """Return the rule, with the names like `value` first."""
        rule, _ = _KINDS.get(self.base, _TEXT)
        if self.choices:
            rule = f"one of {_hints.listed(self.choices, near=value)}"
        return f"{rule} or null" if self.is_nullable else rule

    def convert(self, value: Any, *, is_null_allowed: bool = False) -> Any:
        """Convert a word, several words, or a value from a file of options.

        Raises:
            WrongValueError: The value is not of this kind.
        """
        if value is None and is_null_allowed:
            return None
        if self.is_nullable and value in (None, *NULLS):
            return None
        if not self.is_list:
            return self._convert_single(value)
        if not isinstance(value, list):
            raise WrongValueError("a list", value)
        try:
            return [self._convert_single(element) for element in value]
        except WrongValueError as error:
            if self.choices:
                raise
            rule = "a list of strings" if error.rule == "a string" else f"a list, each {error.rule}"
            raise WrongValueError(rule, value) from error

    def _convert_single(self, value: Any) -> Any:
        """Convert a value that is not a list, or one element of a list."""
        if self.is_mapping and isinstance(value, str):
            value = value_in_yaml(value, self.rule, keeps_digits=self.base == "MAP")
        _, converter = _KINDS.get(self.base, _TEXT)
        try:
            converted = converter(value)
        except (ValueError, TypeError) as error:
            raise WrongValueError(self.rule, value) from error
        if self.choices and converted not in self.choices:
            raise WrongValueError(self._rule_for(value), value, hint=_hints.value_meant(value, self.choices))
        return converted


@cache
def read_kind(text: str) -> Kind:
    """Return the kind that a row of the table names."""
    base, *names = text.rstrip("+*?").split()
    is_file = base == "@"  # "@?" is a file that may be left out
    return Kind(base, tuple(names), is_list=text[-1] in "+*", is_nullable=text[-1] == "?" and not is_file)


def value_in_yaml(word: str, rule: str, *, keeps_digits: bool = False) -> Any:
    """Parse a word of a command line as YAML; with `keeps_digits`, whole numbers in a mapping are texts, such as "01".

    Raises:
        WrongValueError: The word is no YAML, or not plain; `rule` is the one for its value.
    """
    try:
        return parse_yaml("", word, keeps_digits=keeps_digits)
    except ValueError as error:
        raise WrongValueError(rule, word) from error


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _to_whole_number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError
    if isinstance(value, str) and _PREFIXED.match(value):
        return int(value, base=0)
    return int(value)


def _to_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError
    if isinstance(value, str) and _PREFIXED.match(value):
        return float(int(value, base=0))
    if isinstance(value, str):
        return float(_INFINITE.get(value.lower(), value))
    return float(value)


def _to_label(value: Any) -> int | str:
    text = value if isinstance(value, str) else str(_to_whole_number(value))
    try:
        digits = Digits(_to_whole_number(text))
    except ValueError:
        return text
    digits.text = text
    return digits


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = _to_text(value).lower()
    if word not in _BOOLEANS:
        raise ValueError
    return _BOOLEANS[word]


def _to_number_or_file(value: Any) -> str:
    """Return the text of a whole number, or of the path of a file."""
    return value if isinstance(value, str) else str(_to_whole_number(value))


def _to_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _to_camera_map(value: Any) -> dict[int | str, int | str]:
    if not isinstance(value, dict):
        raise TypeError
    return {_to_label(camera): _to_label(counted_as) for camera, counted_as in value.items()}


def _to_ranges(value: Any) -> dict[int | str, tuple[float, float]]:
    if not isinstance(value, dict):
        raise TypeError
    ranges: dict[int | str, tuple[float, float]] = {}
    for name, bounds in value.items():
        low, high = parse_yaml("", bounds) if isinstance(bounds, str) else bounds
        ranges[_to_label(name)] = (_to_number(low), _to_number(high))
    return ranges


_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "N": ("a whole number", _to_whole_number),
    "X": ("a number", _to_number),
    "LABEL": ("a whole number or a name", _to_label),
    "BOOL": ("true or false", _to_boolean),
    "flag": ("true or false", _to_flag),
    "NUMBER": ("a whole number or a file", _to_number_or_file),
    "MAP": ("cameras by cameras, such as {3: 2}", _to_camera_map),
    "RANGES": ("two numbers for each name, such as {small: [0, 1024]}", _to_ranges),
}
"""the rule for the values of each kind, and the function that converts them"""
_TEXT: tuple[str, Callable[[Any], Any]] = ("a string", _to_text)
"""that of any other kind"""


def rules_as_names(options: Mapping[str, Any], rules: Collection[str]) -> dict[str, Any]:
    """Return options in which some rules list names, as their labels are names, and not numbers of the same digits."""
    as_names = dict(options)
    for option in rules:
        value = options.get(option)
        if isinstance(value, dict):
            as_names[option] = {_name_of(key): _name_of(counted_as) for key, counted_as in value.items()}
        elif value is not None:
            as_names[option] = [_name_of(element) for element in value]
    return as_names


def _name_of(label: int | str) -> int | str:
    """Return a label in the spelling of the user."""
    return label.text if isinstance(label, Digits) else label


def named_values(option: str, words: Sequence[str], kind: Callable[[str], Any] = str) -> dict[str, Any]:
    """Return values by name, from words such as "map=0.85".

    Raises:
        ValueError: a word of another form, or a name twice.
    """
    values: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if name in values:
            raise ValueError(f"`{option}` must give each name once; got {name!r} twice.")
        with suppress(ValueError):  # a value of another kind is refused below
            values[name] = kind(value)
        if not (name and sign and name in values):
            raise ValueError(f"`{option}` must be words such as NAME=VALUE; got {word!r}.")
    return values

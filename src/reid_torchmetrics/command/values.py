"""Values of options: how a word of a command line, or a value in a file of options, becomes the value of an option.

    kind               command line                file of options               value
    "N"                --max-rank 7                max_rank: 7                   7
    "N?"               --k null                    k: null                       None
    "LABEL+"           --search-cameras 1 cam2     search_cameras: [1, cam2]     [1, "cam2"]
    "ApRule"           --rule trapezoid            rule: trapezoid               "trapezoid", of the names in `_names`
    "NAME TieName"     --ties stable               ties: stable                  "stable"; the function knows the names
    "MAP"              --camera-map '{3: 2}'       camera_map: {3: 2}            {3: 2}
    "RANGES"           --area-ranges.all [0,9]     area_ranges: {all: [0, 9]}    {"all": (0.0, 9.0)}
    "CLASS A B"        --rerank.k1 20              rerank: {k1: 20}              an object, see `read_instance`

"+" stands for several values, "?" for a value that may be null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias, get_args

from reid_torchmetrics import _hints, _names

from .configs import parse_yaml

TABLE = json.loads(files(__package__).joinpath("options.json").read_text(encoding="utf-8"))
NULLS = ("null", "Null", "NULL", "~")
"""null, as YAML spells it"""
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_INFINITE = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}
"""floats as YAML spells them, by Python's spelling"""
_PREFIXED = re.compile(r"\s*[+-]?0[xXbB]")
"""a whole number as hexadecimal or binary digits"""
_VALUE_WIDTH = 80
_CLASS, _FIELDS = "class_path", "init_args"


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


class Digits(int):
    """A whole number in an option about labels; where labels are names, the name of the same digits."""

    text: str
    """the number as it was written, such as "01" """

    def __eq__(self, other: object) -> bool:
        """Return whether two texts are equal, so that 1 and 01 are two keys; or two numbers, for another number."""
        return self.text == other.text if isinstance(other, Digits) else int(self) == other

    __hash__ = int.__hash__


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
    def classes(self) -> Classes:
        """The kinds of the fields of the objects that a value describes, by the name of their class."""
        if self.base != "CLASS":
            return {}
        rows = TABLE["classes"]
        return {name: {field: read_kind(kind) for field, (kind, *_) in rows[name].items()} for name in self.names}

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
        return self.choices or tuple(self.classes)

    def convert(self, value: Any) -> Any:
        """Convert a word, several words, or a value from a file of options.

        Raises:
            WrongValueError: The value is not of this kind.
        """
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
            rule = "a list of strings" if error.rule == _TEXT else f"a list, each {error.rule}"
            raise WrongValueError(rule, value) from error

    def _convert_single(self, value: Any) -> Any:
        """Convert a value that is not a list, or one element of a list."""
        choices = self.choices
        rule, converter = _KINDS.get(self.base, (_TEXT, _to_text))
        if choices:
            rule = f"one of {_hints.listed(choices, near=value)}"
        if self.is_nullable:
            rule = f"{rule} or null"
        if self.is_mapping and isinstance(value, str):
            value = _value_in_yaml(value, rule, keeps_digits=self.base == "MAP")
        try:
            converted = converter(value)
        except (ValueError, TypeError) as error:
            raise WrongValueError(rule, value) from error
        if choices and converted not in choices:
            raise WrongValueError(rule, value, hint=_hints.value_meant(value, choices))
        return converted


Classes: TypeAlias = Mapping[str, Mapping[str, Kind]]
"""the kinds of the fields of each class, by name"""


@cache
def read_kind(text: str) -> Kind:
    """Return the kind that a row of the table names."""
    base, *names = text.rstrip("+*?").split()
    is_file = base == "@"  # "@?" is a file that may be left out
    return Kind(base, tuple(names), is_list=text[-1] in "+*", is_nullable=text[-1] == "?" and not is_file)


class Instance(NamedTuple):
    """The class and the fields of an object, which is built when all words are understood; that needs torch."""

    class_name: str
    fields: dict[str, Any]
    is_named: bool
    """True if the user named the class; else it is the first one with all fields"""

    def make(self) -> Any:
        """Construct the object.

        Raises:
            TypeError: A field has a value of another type.
            ValueError: A field has a value that its class refuses.
        """
        package: Any = import_module("reid_torchmetrics")
        return getattr(package, self.class_name)(**self.fields)


def read_instance(classes: Classes, value: Any, earlier: Instance | None = None) -> Instance | None:
    """Read the description of an object from a word, or from a value in a file; None for null.

        --rerank QueryExpansion
        --rerank.k1 20                                             rerank.k1: 20
        --rerank '{k1: 20}'                                        rerank: {k1: 20}
        --rerank '{class_path: KReciprocal, init_args: {k1: 20}}'  the form of LightningCLI

    Args:
        classes: Classes that the object may have.
        value: The name of a class, or a mapping of fields.
        earlier: The object so far, if the value adds fields to it.

    Raises:
        WrongValueError: No class has all fields, or a field has a value of another kind.
    """
    if value is None or value in NULLS:
        return None
    rule = _rule_of(classes)
    description = {_CLASS: value} if isinstance(value, str) and _short_name(value) in classes else value
    others = _as_mapping(description, rule)
    fields = {} if earlier is None else dict(earlier.fields)
    fields |= _as_mapping(others.pop(_FIELDS, {}), rule, value)
    class_name = earlier.class_name if earlier is not None and earlier.is_named else None
    if _CLASS in others:
        path = others.pop(_CLASS)
        class_name = _short_name(str(path))
        if class_name not in classes:
            raise WrongValueError(rule, path)
    for name, field_value in others.items():
        fields[str(name).removeprefix(f"{_FIELDS}.")] = field_value

    candidates = classes if class_name is None else {class_name: classes[class_name]}
    for candidate, kinds in candidates.items():
        if fields.keys() <= kinds.keys():
            return Instance(candidate, _convert_fields(kinds, fields), is_named=class_name is not None)
    possible = {field for kinds in candidates.values() for field in kinds}
    wrong = [str(field) for field in fields if field not in possible] or list(fields)
    hint = _hints.argument_meant(wrong[0], possible)
    raise WrongValueError(_rule_of(candidates), _hints.listed(wrong, str), hint=hint)


def _as_mapping(value: Any, rule: str, described: Any = None) -> dict[Any, Any]:
    """Return a mapping, or the one that a word describes in YAML; an error shows all that was described."""
    mapping = _value_in_yaml(value, rule) if isinstance(value, str) else value
    if not isinstance(mapping, dict):
        raise WrongValueError(rule, value if described is None else described)
    return dict(mapping)


def _convert_fields(kinds: Mapping[str, Kind], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values of fields by their kinds; an error names the field."""
    converted: dict[str, Any] = {}
    name = ""
    try:
        for name, value in fields.items():
            converted[name] = kinds[name].convert(value)
    except WrongValueError as error:
        error.field = name
        raise
    return converted


def _short_name(path: str) -> str:
    """Return the name of a class from its path in this package; other paths stay as they are."""
    package, _, name = path.rpartition(".")
    return name if package.partition(".")[0] in ("", "reid_torchmetrics") else path


def _rule_of(classes: Classes) -> str:
    """Return the rule for the description of an object, with the classes and their fields."""
    described = [f"{name} with options among {', '.join(fields)}" for name, fields in classes.items()]
    return f"null or {' or '.join(described)}"


def _value_in_yaml(word: str, rule: str, *, keeps_digits: bool = False) -> Any:
    """Parse a word of a command line as YAML; with `keeps_digits`, whole numbers in a mapping are texts, such as "01".

    Raises:
        WrongValueError: The word is no YAML, or not plain; `rule` is the one for its value.
    """
    try:
        value, _ = parse_yaml("", word, keeps_digits=keeps_digits)
    except ValueError as error:
        raise WrongValueError(rule, word) from error
    return value


def _to_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _to_whole_number(value: Any) -> int:
    if isinstance(value, str):
        return int(value, base=0 if _PREFIXED.match(value) else 10)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _to_number(value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and not _PREFIXED.match(value):
        return float(_INFINITE.get(value.lower(), value))
    return float(_to_whole_number(value))


def _to_label(value: Any) -> int | str:
    text = _to_text_of_number(value)
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


def _to_text_of_number(value: Any) -> str:
    """Return the text of a whole number, and any other text as it is."""
    return value if isinstance(value, str) else str(_to_whole_number(value))


def _to_camera_map(value: Any) -> dict[int | str, int | str]:
    if not isinstance(value, dict):
        raise TypeError
    return {_to_label(camera): _to_label(counted_as) for camera, counted_as in value.items()}


def _to_ranges(value: Any) -> dict[int | str, tuple[float, float]]:
    if not isinstance(value, dict):
        raise TypeError
    ranges: dict[int | str, tuple[float, float]] = {}
    for name, bounds in value.items():
        if isinstance(bounds, str):
            bounds, _ = parse_yaml("", bounds)  # noqa: PLW2901 - the same bounds, parsed
        low, high = bounds
        ranges[_to_label(name)] = (_to_number(low), _to_number(high))
    return ranges


_TEXT = "a string"
_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "N": ("a whole number", _to_whole_number),
    "X": ("a number", _to_number),
    "LABEL": ("a whole number or a name", _to_label),
    "BOOL": ("true or false", _to_boolean),
    "flag": ("true or false", _to_boolean),
    "NUMBER": ("a whole number or a file", _to_text_of_number),
    "MAP": ("cameras by cameras, such as {3: 2}", _to_camera_map),
    "RANGES": ("two numbers for each name, such as {small: [0, 1024]}", _to_ranges),
}
"""the rule for the values of each kind, and the function that converts them; any other kind is a text"""


def to_plain(value: Any) -> Any:
    """Return a value of an option in the types of YAML."""
    if isinstance(value, Instance):
        return {_CLASS: value.class_name, _FIELDS: value.fields}
    if isinstance(value, dict):
        return {to_plain(key): to_plain(element) for key, element in value.items()}
    if isinstance(value, Digits):
        return int(value) if str(int(value)) == value.text else value.text
    return [to_plain(element) for element in value] if isinstance(value, (list, tuple)) else value


def name_of(label: int | str) -> int | str:
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

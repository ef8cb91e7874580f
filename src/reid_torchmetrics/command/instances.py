"""Objects that options describe, such as `KReciprocal`: by fields, by the name of a class, or by both.

    --rerank QueryExpansion
    --rerank.k1 20                                             rerank.k1: 20
    --rerank '{k1: 20}'                                        rerank: {k1: 20}
    --rerank '{class_path: KReciprocal, init_args: {k1: 20}}'  the form of LightningCLI

Nothing is built before all words are understood, so that help and errors need no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from reid_torchmetrics import _hints

from .kinds import NULLS, Kind, WrongValueError, value_in_yaml

Classes: TypeAlias = Mapping[str, Mapping[str, Kind]]
"""the kinds of the fields of each class, by name"""
CLASS, FIELDS = "class_path", "init_args"


class Instance(NamedTuple):
    """The class and the fields of an object."""

    class_name: str
    fields: dict[str, Any]
    is_named: bool
    """whether the class was named; otherwise it is the first one with all fields"""

    def make(self) -> Any:
        """Make the object.

        Raises:
            TypeError: A field has a value of another type.
            ValueError: A field has a value that its class refuses.
        """
        package: Any = import_module("reid_torchmetrics")
        return getattr(package, self.class_name)(**self.fields)


def read_instance(classes: Classes, value: Any, earlier: Instance | None = None) -> Instance | None:
    """Return the object that a word, or a value in a file, describes; None for null.

    Args:
        classes: Classes to choose from.
        value: The name of a class, or a mapping of fields.
        earlier: The object so far, if the value adds fields to it.

    Raises:
        WrongValueError: No class has all fields, or a field has a value of another kind.
    """
    if value is None or value in NULLS:
        return None
    description = value
    if isinstance(value, str):
        is_name = _short_name(value) in classes
        description = {CLASS: value} if is_name else value_in_yaml(value, _rule(classes))
    if not isinstance(description, dict):
        raise WrongValueError(_rule(classes), value)
    described_fields = description.get(FIELDS, {})
    if isinstance(described_fields, str):
        described_fields = value_in_yaml(described_fields, _rule(classes))
    if not isinstance(described_fields, dict):
        raise WrongValueError(_rule(classes), value)
    fields = {} if earlier is None else dict(earlier.fields)
    fields |= described_fields
    for name, field_value in description.items():
        if name not in (CLASS, FIELDS):
            fields[str(name).removeprefix(f"{FIELDS}.")] = field_value
    named = None if earlier is None or not earlier.is_named else earlier.class_name
    if CLASS in description:
        named = _short_name(str(description[CLASS]))
        if named not in classes:
            raise WrongValueError(_rule(classes), description[CLASS])
    class_name = _find_class(classes, named, fields)
    return Instance(class_name, _convert_fields(classes[class_name], fields), is_named=named is not None)


def _find_class(classes: Classes, name: str | None, fields: Mapping[Any, Any]) -> str:
    """Return the class of a name, or the first one with some fields."""
    candidates = classes if name is None else {name: classes[name]}
    fitting = [candidate for candidate, kinds in candidates.items() if fields.keys() <= kinds.keys()]
    if fitting:
        return fitting[0]
    known = {field for kinds in candidates.values() for field in kinds}
    wrong = [str(field) for field in fields if field not in known] or list(fields)
    raise WrongValueError(_rule(candidates), ", ".join(wrong), hint=_hints.argument_meant(wrong[0], known))


def _convert_fields(kinds: Mapping[str, Kind], fields: Mapping[str, Any]) -> dict[str, Any]:
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
    """Return the name of a class of this package by its path."""
    package, _, name = path.rpartition(".")
    return name if package.partition(".")[0] in ("", "reid_torchmetrics") else path


def _rule(classes: Classes) -> str:
    described = [f"{name} with options among {', '.join(fields)}" for name, fields in classes.items()]
    return f"null or {' or '.join(described)}"

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

    Args:
        classes: Classes that the object may have.
        value: The name of a class, or a mapping of fields.
        earlier: The object so far, if the value adds fields to it.

    Raises:
        WrongValueError: No class has all fields, or a field has a value of another kind.
    """
    if value is None or value in NULLS:
        return None
    description = _describe(classes, value)
    fields = {} if earlier is None else dict(earlier.fields)
    fields |= _read_fields(classes, value, description)
    user_class = None
    if CLASS in description:
        user_class = _short_name(str(description[CLASS]))
        if user_class not in classes:
            raise WrongValueError(_rule(classes), description[CLASS])
    elif earlier is not None and earlier.is_named:
        user_class = earlier.class_name
    candidates = classes if user_class is None else {user_class: classes[user_class]}
    class_name = _find_class(candidates, fields)
    return Instance(class_name, _convert_fields(classes[class_name], fields), is_named=user_class is not None)


def _describe(classes: Classes, value: Any) -> dict[Any, Any]:
    """Return the mapping that describes an object, from a mapping, its text in YAML, or the name of a class."""
    if isinstance(value, str) and _short_name(value) in classes:
        return {CLASS: value}
    description = value_in_yaml(value, _rule(classes)) if isinstance(value, str) else value
    if not isinstance(description, dict):
        raise WrongValueError(_rule(classes), value)
    return description


def _read_fields(classes: Classes, value: Any, description: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the fields in a description: those under `init_args`, and those beside the class."""
    init_fields = description.get(FIELDS, {})
    if isinstance(init_fields, str):
        init_fields = value_in_yaml(init_fields, _rule(classes))
    if not isinstance(init_fields, dict):
        raise WrongValueError(_rule(classes), value)
    fields = dict(init_fields)
    for name, field_value in description.items():
        if name not in (CLASS, FIELDS):
            fields[str(name).removeprefix(f"{FIELDS}.")] = field_value
    return fields


def _find_class(classes: Classes, fields: Mapping[Any, Any]) -> str:
    """Return the first class that has all the fields.

    Raises:
        WrongValueError: No class has all of them.
    """
    for class_name, kinds in classes.items():
        if fields.keys() <= kinds.keys():
            return class_name
    possible = {field for kinds in classes.values() for field in kinds}
    wrong = [str(field) for field in fields if field not in possible] or list(fields)
    raise WrongValueError(_rule(classes), _hints.listed(wrong, str), hint=_hints.argument_meant(wrong[0], possible))


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


def _rule(classes: Classes) -> str:
    """Return the rule for a value, with the classes and their fields."""
    described = [f"{name} with options among {', '.join(fields)}" for name, fields in classes.items()]
    return f"null or {' or '.join(described)}"

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
_CLASS, _FIELDS = "class_path", "init_args"


class Instance(NamedTuple):
    """The fields of an object, and the name of its class; "" until something names or tells it."""

    class_name: str
    fields: dict[str, Any]
    classes: Classes
    """classes to choose from"""

    @property
    def resolved_name(self) -> str:
        """The class that was named, or the first one with all fields."""
        return self.class_name or _with_fields(self.classes, self.fields)[0]

    def make(self) -> Any:
        """Make the object.

        Raises:
            TypeError: A field has a value of another type.
            ValueError: A field has a value that its class refuses.
        """
        package: Any = import_module("reid_torchmetrics")
        return getattr(package, self.resolved_name)(**self.fields)


def read_instance(classes: Classes, value: Any) -> Instance | None:
    """Return the object that a word, or a value in a file, describes; None for null.

    Raises:
        WrongValueError: It describes none.
    """
    if value is None or value in NULLS:
        return None
    if isinstance(value, str) and _short_name(value) in classes:
        return Instance(_short_name(value), {}, classes)
    described = value_in_yaml(value, _rule(classes)) if isinstance(value, str) else value
    if not isinstance(described, dict):
        raise WrongValueError(_rule(classes), value)
    instance = Instance("", {}, classes)
    for name, field_value in described.items():
        instance = with_field(classes, instance, str(name), field_value)
    return instance


def with_field(classes: Classes, instance: Instance | None, name: str, value: Any) -> Instance:
    """Return an object with one more field, or of a class that is named.

    Raises:
        WrongValueError: No class has all fields, or the value is of another kind.
    """
    class_name, fields = ("", {}) if instance is None else (instance.class_name, instance.fields)
    if name == _CLASS:
        class_name = _short_name(str(value))
        if class_name not in classes:
            raise WrongValueError(_rule(classes), value)
        _check_fields(classes, class_name, fields)
        return Instance(class_name, fields, classes)
    if name == _FIELDS:
        if not isinstance(value, dict):
            raise WrongValueError(_rule(classes), value)
        instance = Instance(class_name, fields, classes)
        for field, field_value in value.items():
            instance = with_field(classes, instance, str(field), field_value)
        return instance
    name = name.removeprefix(f"{_FIELDS}.")
    fitting = _check_fields(classes, class_name, [*fields, name])
    kind = classes[fitting][name]
    try:
        is_null = kind.is_nullable and (value is None or value in NULLS)
        converted = None if is_null else kind.from_file(value, is_null_allowed=False)
    except WrongValueError as error:
        error.field = name
        raise
    return Instance(class_name, fields | {name: converted}, classes)


def _check_fields(classes: Classes, class_name: str, fields: Any) -> str:
    """Return the first class with some fields.

    Raises:
        WrongValueError: There is none.
    """
    named = {class_name: classes[class_name]} if class_name else classes
    fitting = _with_fields(named, fields)
    if fitting:
        return fitting[0]
    known = {name for class_fields in named.values() for name in class_fields}
    unknown = [name for name in fields if name not in known]
    hint = _hints.argument_meant(unknown[0], known) if unknown else ""
    raise WrongValueError(_rule(named), ", ".join(unknown or fields), hint=hint)


def _with_fields(classes: Classes, fields: Any) -> list[str]:
    return [name for name, class_fields in classes.items() if set(fields) <= class_fields.keys()]


def _short_name(path: str) -> str:
    """Return the name of a class of this package by its path."""
    package, _, name = path.rpartition(".")
    return name if package.partition(".")[0] in ("", "reid_torchmetrics") else path


def _rule(classes: Classes) -> str:
    described = [f"{name} with options among {', '.join(fields)}" for name, fields in classes.items()]
    return f"null or {' or '.join(described)}"

"""Names of classes by label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def named_classes(class_names: Mapping[int, str] | Sequence[str] | None) -> dict[int, str]:
    """Names by label; those of a list belong to 0, 1, 2 and so on.

    Raises:
        TypeError: it is neither, or has something else than names by ints.
        ValueError: two classes have one name, so that it says nothing.
    """
    if class_names is None:
        return {}
    if isinstance(class_names, str) or not isinstance(class_names, (Mapping, Sequence)):
        came = type(class_names).__name__
        raise TypeError(f"`class_names` must be a mapping of labels to names or a sequence of names; got {came}.")
    named = dict(class_names if isinstance(class_names, Mapping) else enumerate(class_names))
    for label, name in named.items():
        if isinstance(label, bool) or not isinstance(label, int) or not isinstance(name, str):
            raise TypeError(f"`class_names` must have ints as labels and strings as names; got {label!r}: {name!r}.")
    seen: set[str] = set()
    for name in named.values():
        if name in seen:
            raise ValueError(f"`class_names` must give every class a name of its own; got {name!r} twice.")
        seen.add(name)
    return named


def name_of(label: int, class_names: Mapping[int, str]) -> str:
    """The name of a class, or words with its label."""
    return class_names.get(label, f"class {label}")

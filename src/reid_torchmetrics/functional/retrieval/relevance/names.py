"""Names as labels: strings become numbers, the same on all sides of a problem."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from reid_torchmetrics._arrays import Array, number_identities

from .labels import LABELS, SIDES

_BY_NUMBER = {"junk_identities": "identities", "camera_map": "cameras", "search_cameras": "cameras"}
"""the options that list labels, by number"""


def number_names(given: Mapping[str, Any], rules: Mapping[str, Any], sides: Sequence[str] = SIDES) -> dict[str, Any]:
    """Labels with numbers in the place of names, where all sides have names; all else as it is.

    Args:
        given: labels that are called by their side and name, such as `query_identities`, and others.
        rules: the options of `find_relevance`.
        sides: what the labels of samples are called by.

    Raises:
        TypeError: names beside something else.
        ValueError: an empty name, or a rule that lists numbers of labels that are names.
    """
    numbered = dict(given)
    for label in (name for name, label in LABELS.items() if not label.dtype.is_floating_point):
        arguments = [name for side in sides if given.get(name := f"{side}_{label}") is not None]
        names = {name: texts for name in arguments if (texts := _as_names(name, given[name])) is not None}
        if names and all(name in names or _is_empty(given[name]) for name in arguments):
            _check_rules(label, rules)
            numbered |= zip(names, number_identities(*names.values()), strict=True)
    return numbered


def _as_names(argument: str, value: Any) -> Array | None:
    """An array of strings; None for labels without any."""
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.ndim):
        if not any(isinstance(each, str) for each in value):
            return None
        for each in value:
            if not isinstance(each, str):
                raise TypeError(f"`{argument}` must hold integers only, or names only; got {each!r} beside names.")
    elif not isinstance(value, np.ndarray) or value.dtype.kind != "U":
        return None
    names = np.array(value, dtype=str)
    if (names == "").any():
        raise ValueError(f"`{argument}` must hold no empty name; got one for sample {int((names == '').argmax())}.")
    return names


def _check_rules(label: str, rules: Mapping[str, Any]) -> None:
    """Raise if a rule lists numbers of labels that are names: the names' own are not known before."""
    for option in (option for option, of in _BY_NUMBER.items() if of == label):
        rule = rules.get(option) or ()
        listed = [*rule, *rule.values()] if isinstance(rule, Mapping) else rule
        if isinstance(listed, Collection) and any(each != -1 for each in listed):
            raise ValueError(f"`{option}` must list nothing but -1 where {label} are names; got {rule!r}.")


def _is_empty(value: Any) -> bool:
    return (isinstance(value, (list, tuple)) and not value) or getattr(value, "shape", None) == (0,)

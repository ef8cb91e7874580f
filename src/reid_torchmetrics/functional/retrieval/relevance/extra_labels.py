"""Labels that users name, such as "side" or "batch", and the rules `must_agree` and `must_differ` about them.

    must_agree=("side",)      a gallery item of another side is junk for a query
    must_differ=("batch",)    a gallery item of the query's batch is junk for a query

The labels are given as a mapping of names to values, and stored as one matrix [samples, labels] of integers. Its
columns are in the order of the sorted names in the rules, which is the same on all processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks

AGREEMENT_RULES = ("must_agree", "must_differ")
"""options that list labels with equal, or with different, values for a query and its candidates"""
EXTRA = "labels"
"""the row of `LABELS` that holds the matrix of all labels that users name"""
_MAX_LABELS = 15  # processes compare the numbers of columns in four bits
COMPARED_LABELS = {"must_agree": ("cameras", "clothes"), "must_differ": ("cameras", "clothes", "sequences")}
"""labels with an argument of their own that the rules may name, too"""
_REASONS = {
    "identities": "they decide which items are positives",
    "positions": "they are compared by a `radius`",
    "groups": "they are of the gallery alone",
    "index": "it numbers the samples",
    "sequences": "items of the query's sequence are dropped",
    EXTRA: "it is the argument that holds labels by name",
}
"""reasons why the rules cannot name these labels"""
_CONTRADICTIONS = {
    ("must_agree", "cameras"): ("same_camera", ("keep", "only")),
    ("must_differ", "cameras"): ("same_camera", ("keep", "same_identity", "all")),
    ("must_agree", "clothes"): ("clothes", ("keep", "drop_other")),
    ("must_differ", "clothes"): ("clothes", ("keep", "drop_same")),
}
"""for a label in a rule: an option, and the values of it that do not contradict the rule"""


def names_in_rules(rules: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the extra labels in `must_agree` and `must_differ`, in the order of the columns."""
    names: set[str] = set()
    for rule in AGREEMENT_RULES:
        names.update(rules.get(rule) or ())
    names.difference_update(_REASONS, COMPARED_LABELS["must_agree"])
    return tuple(sorted(names))


def check_agreement(rules: Mapping[str, Any]) -> None:
    """Raise unless `must_agree` and `must_differ` name labels that can be compared, and positives may remain.

    Args:
        rules: both rules, and optionally `same_camera` and `clothes`.

    Raises:
        TypeError: a rule is not a collection of names.
        ValueError: a label cannot be compared or is in both rules, there are too many labels, or another option leaves
            no positive.
    """
    for rule in AGREEMENT_RULES:
        names = rules.get(rule, ())
        _checks.collection_of_names(rule, names)
        for name in names:
            _check_name(rule, name)
    for name in rules.get("must_agree", ()):
        if name in rules.get("must_differ", ()):
            raise ValueError(f"`must_agree` and `must_differ` must name different labels; got {name!r} in both.")
    num_labels = len(names_in_rules(rules))
    if num_labels > _MAX_LABELS:
        raise ValueError(
            f"`must_agree` and `must_differ` must name at most {_MAX_LABELS} labels of your own; got {num_labels}."
        )
    for (rule, name), (option, allowed) in _CONTRADICTIONS.items():
        value = rules.get(option)
        if name in rules.get(rule, ()) and value is not None and value not in allowed:
            listed = " or ".join(map(repr, allowed))
            raise ValueError(
                f"`{option}` must be {listed} where `{rule}` names {name!r}, as no positive would remain; got"
                f" {value!r}."
            )


def _check_name(rule: str, name: str) -> None:
    """Raise unless a rule may name a label."""
    if name == "":
        raise ValueError(f"`{rule}` must hold no empty name; got ''.")
    if name in _REASONS and name not in COMPARED_LABELS[rule]:
        listed = _checks.listed(COMPARED_LABELS[rule])
        raise ValueError(f"`{rule}` must name {listed} or labels of your own; got {name!r}: {_REASONS[name]}.")


def reasons_of_rules(options: Any) -> dict[str, str]:
    """Return the reason for each row of `LABELS` that `must_agree` and `must_differ` need."""
    reasons: dict[str, str] = {}
    for rule in AGREEMENT_RULES:
        names = tuple(getattr(options, rule, ()))
        for name in names:
            label = EXTRA if names_in_rules({rule: (name,)}) else name
            reasons.setdefault(label, f"for `{rule}` {names!r}")
    return reasons


def check_mapping(argument: str, value: object, rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels of a mapping in the order of the columns; raise unless the rules name exactly these.

    Raises:
        TypeError: the value is not a mapping.
        ValueError: a label that a rule names is missing, or no rule names a label.
    """
    if not isinstance(value, Mapping):
        # Other libraries call identities labels.
        identities = argument.removesuffix(EXTRA) + "identities"
        raise TypeError(
            f"`{argument}` must be a mapping of names to labels, such as {{'side': [...]}}; got {type(value).__name__},"
            f" which may be `{identities}`."
        )
    names = names_in_rules(rules)
    for rule in AGREEMENT_RULES:
        for name in rules.get(rule) or ():
            if name in names and value.get(name) is None:
                got = _checks.listed(value) or "no label"
                raise ValueError(f"`{argument}` must hold {name!r}, which `{rule}` names; got {got}.")
    for name in value:
        has_argument = name in _REASONS or name in COMPARED_LABELS["must_agree"]
        if name not in names and has_argument:
            raise ValueError(f"`{argument}` must hold labels without an argument of their own; got {name!r}.")
        if name not in names:
            listed = _checks.listed(names) or "none"
            raise ValueError(
                f"`{argument}` must hold no label but those that `must_agree` or `must_differ` names, {listed}; got"
                f" {name!r}."
            )
    return {name: value[name] for name in names}


def argument_of(argument: str, name: str) -> str:
    """Return the text for a label of an argument in messages, such as "query_labels['side']"."""
    return f"{argument}[{name!r}]"


def join_columns(argument: str, columns: Mapping[str, Any]) -> Tensor | _arrays.Array:
    """Stack labels as the columns of a matrix [samples, labels]: a tensor if a label is a tensor, else an array.

    Raises:
        TypeError: a label does not hold integers.
        ValueError: labels of different lengths or devices, or numbers that are not whole.
    """
    device = next((value.device for value in columns.values() if isinstance(value, Tensor)), None)
    numbers: list[Tensor] = []
    length = None
    for name, value in columns.items():
        checked = _checks.whole_labels(argument_of(argument, name), value, length, device, may_be_names=True)
        numbers.append(checked.long())
        length = len(checked)
    if device is None:  # an array goes to the device of the embeddings
        return np.stack([values.numpy() for values in numbers], axis=1)
    return torch.stack(numbers, dim=1)


def check_matrix(argument: str, value: Any, length: int | None, device: Any) -> Int[Tensor, "samples labels"]:
    """Return a matrix of `join_columns` as a tensor; raise unless it has `length` samples and is on `device`."""
    (matrix,) = _arrays.as_tensors(value, device=device)
    if not isinstance(matrix, Tensor) or matrix.ndim != 2 or matrix.dtype != torch.int64:
        check_mapping(argument, value, {})
    if length not in (None, len(matrix)):
        raise ValueError(f"`{argument}` must hold labels of {length} samples; got {len(matrix)}.")
    if device not in (None, matrix.device):
        raise ValueError(f"`{argument}` must be on the device of its companions, {device}; got {matrix.device}.")
    return matrix


def as_mapping(matrix: Int[Tensor, "samples labels"], rules: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the columns of a matrix by the names in the rules."""
    names = names_in_rules(rules)
    if not len(matrix):  # without samples the matrix may have another number of columns
        return dict.fromkeys(names, matrix.new_empty(0))
    return dict(zip(names, matrix.unbind(1), strict=True))


def as_arguments(labels: Mapping[str, Tensor], prefix: str, rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return labels by the names of arguments of `find_relevance`, such as `query_cameras`."""
    arguments: dict[str, Any] = {f"{prefix}{name}": values for name, values in labels.items()}
    if EXTRA in labels:
        arguments[f"{prefix}{EXTRA}"] = as_mapping(labels[EXTRA], rules)
    return arguments

"""Labels that users name, such as "side" or "batch", and the rules `must_agree` and `must_differ` about them.

    must_agree=("side",)      a gallery item of another side is junk for a query
    must_differ=("batch",)    a gallery item of the query's batch is junk for a query

The labels come as a mapping of names to values. They are kept as one matrix [samples, labels] of integers. Its columns
are in the order of the sorted names of the rules. The rules are the same on all processes, and so is the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks

AGREEMENT_RULES = ("must_agree", "must_differ")
"""the options for labels with equal, or with different, values for a query and its candidates"""
EXTRA = "labels"
"""the row of `LABELS` that holds the matrix of all labels that users name"""
_MAX_LABELS = 15  # processes compare the numbers of columns in four bits
COMPARED_LABELS = {"must_agree": ("cameras", "clothes"), "must_differ": ("cameras", "clothes", "sequences")}
"""the labels with rules of their own that may be named, too"""
_REASONS = {
    "identities": "they decide which items are positives",
    "positions": "they are compared by a `radius`",
    "groups": "they are of the gallery alone",
    "index": "it numbers the samples",
    "sequences": "items of the query's sequence are dropped",
    EXTRA: "it is the argument that holds labels by name",
}
"""why other labels cannot be named"""
_CONTRADICTIONS = {
    ("must_agree", "cameras"): ("same_camera", ("keep", "only")),
    ("must_differ", "cameras"): ("same_camera", ("keep", "same_identity", "all")),
    ("must_agree", "clothes"): ("clothes", ("keep", "drop_other")),
    ("must_differ", "clothes"): ("clothes", ("keep", "drop_same")),
}
"""for a label in a rule an option, and its values without a contradiction"""


def names_in_rules(rules: Mapping[str, Any]) -> tuple[str, ...]:
    """The extra labels in `must_agree` and `must_differ`, in the order of the columns."""
    names: set[str] = set()
    for rule in AGREEMENT_RULES:
        names.update(rules.get(rule) or ())
    known = {*_REASONS, *COMPARED_LABELS["must_agree"]}
    return tuple(sorted(names - known))


def check_agreement(rules: Mapping[str, Any]) -> None:
    """Raise unless `must_agree` and `must_differ` name labels that can be compared, and positives may remain.

    Args:
        rules: both rules, and perhaps `same_camera` and `clothes`.

    Raises:
        TypeError: a rule is no collection of names.
        ValueError: a label that cannot be compared, one in both rules, too many of them, or another rule that leaves no
            positive.
    """
    for rule in AGREEMENT_RULES:
        names = rules.get(rule, ())
        _checks.collection_of_names(rule, names)
        for name in names:
            _check_name(rule, name)
    must_agree, must_differ = (rules.get(rule, ()) for rule in AGREEMENT_RULES)
    in_both = [name for name in must_agree if name in must_differ]
    if in_both:
        raise ValueError(f"`must_agree` and `must_differ` must name different labels; got {in_both[0]!r} in both.")
    num_labels = len(names_in_rules(rules))
    if num_labels > _MAX_LABELS:
        raise ValueError(
            f"`must_agree` and `must_differ` must name at most {_MAX_LABELS} labels of your own; got {num_labels}."
        )
    for (rule, name), (option, fitting) in _CONTRADICTIONS.items():
        value = rules.get(option)
        if name in rules.get(rule, ()) and value is not None and value not in fitting:
            listed = " or ".join(map(repr, fitting))
            raise ValueError(
                f"`{option}` must be {listed} where `{rule}` names {name!r}, as no positive would remain; got"
                f" {value!r}."
            )


def _check_name(rule: str, name: str) -> None:
    """Raise unless a rule may name a label."""
    if name == "":
        raise ValueError(f"`{rule}` must hold no empty name; got ''.")
    if name in _REASONS and name not in COMPARED_LABELS[rule]:
        listed = ", ".join(map(repr, COMPARED_LABELS[rule]))
        raise ValueError(f"`{rule}` must name {listed} or labels of your own; got {name!r}: {_REASONS[name]}.")


def reasons_of_rules(options: Any) -> dict[str, str]:
    """The rows of `LABELS` that `must_agree` and `must_differ` need, with the reason."""
    reasons: dict[str, str] = {}
    for rule in AGREEMENT_RULES:
        names = tuple(getattr(options, rule, ()))
        for name in names:
            label = EXTRA if names_in_rules({rule: (name,)}) else name
            reasons.setdefault(label, f"for `{rule}` {names!r}")
    return reasons


def check_mapping(argument: str, value: object, rules: Mapping[str, Any]) -> dict[str, Any]:
    """The labels of a mapping by name, in the order of the columns; raise unless the rules name exactly these.

    Raises:
        TypeError: no mapping.
        ValueError: a label of the rules is missing, or one that no rule names.
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
        missing = [name for name in rules.get(rule) or () if name in names and value.get(name) is None]
        if missing:
            came = ", ".join(map(repr, value)) or "no label"
            raise ValueError(f"`{argument}` must hold {missing[0]!r}, which `{rule}` names; got {came}.")
    for name in value:
        if name in names:
            continue
        if name in _REASONS or name in COMPARED_LABELS["must_agree"]:
            raise ValueError(f"`{argument}` must hold labels without an argument of their own; got {name!r}.")
        listed = ", ".join(map(repr, names)) or "none"
        raise ValueError(
            f"`{argument}` must hold no label but those that `must_agree` or `must_differ` names, {listed}; got"
            f" {name!r}."
        )
    return {name: value[name] for name in names}


def argument_of(argument: str, name: str) -> str:
    """The argument and the name of a label, as messages show it."""
    return f"{argument}[{name!r}]"


def join_columns(argument: str, columns: Mapping[str, Any]) -> Tensor | _arrays.Array:
    """Numbers of labels side by side, [samples, labels]; a tensor where some are tensors, else an array.

    Raises:
        TypeError: a label without integers.
        ValueError: labels of different lengths or devices, or numbers that are not whole.
    """
    device = next((value.device for value in columns.values() if isinstance(value, Tensor)), None)
    numbers: list[Tensor] = []
    length = None
    for name, value in columns.items():
        checked = _checks.whole_labels(argument_of(argument, name), value, length, device)
        numbers.append(checked.long())
        length = len(checked)
    if device is None:  # an array goes to the device of the embeddings
        return np.stack([values.numpy() for values in numbers], axis=1)
    return torch.stack(numbers, dim=1)


def check_matrix(argument: str, value: Any, length: int | None, device: Any) -> Int[Tensor, "samples labels"]:
    """The matrix of `join_columns` as a tensor; raise unless it is one, of `length` samples and on `device`."""
    (matrix,) = _arrays.as_tensors(value, device=device)
    if not isinstance(matrix, Tensor) or matrix.ndim != 2 or matrix.dtype != torch.int64:
        check_mapping(argument, value, {})
    if length not in (None, len(matrix)):
        raise ValueError(f"`{argument}` must hold labels of {length} samples; got {len(matrix)}.")
    if device not in (None, matrix.device):
        raise ValueError(f"`{argument}` must be on the device of its companions, {device}; got {matrix.device}.")
    return matrix


def as_mapping(matrix: Int[Tensor, "samples labels"], rules: Mapping[str, Any]) -> dict[str, Tensor]:
    """The columns of a matrix by the names that the rules name."""
    names = names_in_rules(rules)
    if not len(matrix):  # nobody told how many labels no sample has
        return dict.fromkeys(names, matrix.new_empty(0))
    return dict(zip(names, matrix.unbind(1), strict=True))


def as_arguments(labels: Mapping[str, Tensor], prefix: str, rules: Mapping[str, Any]) -> dict[str, Any]:
    """Labels by the names of arguments, such as `query_cameras`, as `find_relevance` takes them."""
    arguments: dict[str, Any] = {f"{prefix}{name}": values for name, values in labels.items()}
    if EXTRA in labels:
        arguments[f"{prefix}{EXTRA}"] = as_mapping(labels[EXTRA], rules)
    return arguments


def number_rows(query: Sequence[Tensor], gallery: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """One number for each combination of several labels, the same on both sides."""
    if len(query) == 1:
        return query[0], gallery[0]
    num_queries = len(query[0])
    rows = torch.cat([torch.stack(list(query), dim=1), torch.stack(list(gallery), dim=1)])
    numbers = rows.unique(dim=0, return_inverse=True)[1]
    return numbers[:num_queries], numbers[num_queries:]

"""The table of all labels of samples; states, checks, joins, exchanges, caches and arguments read it.

A new label is a row of `LABELS`, a field of `SampleLabels` or `BatchLabels`, one of `QueryLabels` and `SideLabels`
each, and a rule of `find_relevance` that reads it. Identities and cameras are rows as well, but explicit parameters in
signatures.

Several labels for each sample are a matrix [samples, labels] of bools, which travels as packed bits. Two samples with
the labels 0 1 1 0 and 0 1 0 1 share one, so they are relevant for each other.

Users may name further labels, such as "side" or "batch", in two rules:

    must_agree=("side",)      a gallery item of another side is junk for a query
    must_differ=("batch",)    a gallery item of the query's batch is junk for a query

They are given as a mapping of names to values, and stored as one matrix [samples, labels] of integers. Its columns are
in the order of the sorted names in the rules, which is the same on all processes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypedDict, get_args

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics._registries import Registry

Integers: TypeAlias = Tensor | _arrays.Integers
IntegersOrNames: TypeAlias = Tensor | _arrays.IntegersOrNames
Positions: TypeAlias = Tensor | _arrays.Numbers | Sequence[Sequence[float]]
SIDES: tuple[_names.Role, ...] = get_args(_names.Role)
ExtraLabels: TypeAlias = Mapping[str, IntegersOrNames]
"""labels by the names that users give them in `must_agree` and `must_differ`"""
AGREEMENT_RULES = ("must_agree", "must_differ")
"""options that list labels with equal, or with different, values for a query and its candidates"""
EXTRA = "labels"
"""the row of `LABELS` that holds the matrix of all labels that users name"""
_MAX_LABELS = 15  # that users name: processes compare the numbers of columns in four bits
_CONTRADICTIONS = {
    ("must_agree", "cameras"): ("same_camera", ("keep", "only")),
    ("must_differ", "cameras"): ("same_camera", ("keep", "same_identity", "all")),
    ("must_agree", "clothes"): ("clothes", ("keep", "drop_other")),
    ("must_differ", "clothes"): ("clothes", ("keep", "drop_same")),
}
"""for a label in a rule: an option, and the values of it that do not contradict the rule"""
LabelValues: TypeAlias = Mapping[str, Tensor]
"""the labels of some samples by their names in `LABELS`; labels that are not given are left out"""


class SampleLabels(TypedDict, total=False):
    """The labels of samples without groups, besides identities and cameras."""

    sequences: IntegersOrNames | None
    clothes: IntegersOrNames | None
    positions: Positions | None
    labels: ExtraLabels | None


class BatchLabels(SampleLabels, total=False):
    """The labels of a batch besides identities and cameras."""

    groups: IntegersOrNames | None


class QueryLabels(TypedDict, total=False):
    """The labels of queries besides identities and cameras."""

    query_sequences: IntegersOrNames | None
    query_clothes: IntegersOrNames | None
    query_positions: Positions | None
    query_labels: ExtraLabels | None


class SideLabels(QueryLabels, total=False):
    """The labels of queries and of gallery items besides identities and cameras."""

    gallery_sequences: IntegersOrNames | None
    gallery_clothes: IntegersOrNames | None
    gallery_positions: Positions | None
    gallery_labels: ExtraLabels | None


CLOTHES_RULES = {
    "keep": "drop nothing",
    "drop_same": "drop the gallery items with the query's identity and clothes (changed clothes)",
    "drop_other": "drop the gallery items with the query's identity and other clothes (same clothes)",
}
SEVERAL_LABELS: Registry[Any] = Registry("SEVERAL_LABELS", {})
"""rows for samples with several labels:
`check_matrix`, which returns a matrix of labels as bools or raises, `SharedLabels`, which finds the items that share a
label with a query, `to_words` and `from_words`, which pack the bools of a sample into integers"""
BITS_OF_A_WORD = 63  # the sign stays free


@dataclass(frozen=True, eq=False)
class Label:
    """A kind of label that samples may have."""

    name: str
    singular: str
    """the name of a single value, for messages"""
    dtype: torch.dtype = torch.int64
    """dtype of the tensor; positions are columns of float64, `labels` columns of int64, other labels one number"""
    rules: Mapping[str, str] = field(default_factory=dict)
    """values of the option with this name, and their meaning; "keep" is first, others drop items of the identity"""
    decides: bool = True
    """whether relevance depends on it, so that samples with one `index` must agree in it"""
    sides: tuple[str, ...] = SIDES
    """the roles of samples that have it; batches of another role may lack it"""
    may_be_several: bool = False
    """whether a sample may have several values; the label is then a matrix [samples, labels] of bools"""
    is_extra: bool = False
    """whether it holds all labels that users name, one column for each"""
    compared_by: tuple[str, ...] = ()
    """those of `AGREEMENT_RULES` that may name it"""
    why_not_compared: str = "it has an option of its own"
    """the reason why others may not name it"""

    @property
    def has_columns(self) -> bool:
        """Return whether the label is always a matrix, with a row for each sample."""
        return self.is_extra or self.dtype.is_floating_point

    def check(self, argument: str, value: object, length: int | None = None, device: Any = None) -> Tensor:
        """Return `value` as a tensor; raise unless it is such a label, of `length` samples and on `device` if given."""
        if self.is_extra:
            return _check_columns(argument, value, length, device)
        if self.may_be_several and is_matrix(value):
            checked: Tensor = SEVERAL_LABELS["check_matrix"](argument, value, length, device)
            return checked
        if self.dtype.is_floating_point:
            checked = _checks.positions(argument, value, length, device)
        else:
            checked = _checks.whole_labels(argument, value, length, device, may_be_names=self.decides)
        if checked.dtype == self.dtype:  # `update` is called often, and a call of `to` takes a microsecond
            return checked
        return checked.to(self.dtype)

    def empty(self, width: int = 1, *, length: int = 0, device: torch.device, num_labels: int = 0) -> Tensor:
        """Return fill values for `length` samples without this label; a matrix if `num_labels` is not 0."""
        if num_labels:
            return torch.zeros((length, num_labels), dtype=torch.bool, device=device)
        shape = (length, width) if self.has_columns else (length,)
        return torch.full(shape, NO_GROUP, dtype=self.dtype, device=device)


_ROWS = (
    Label(
        "identities",
        "identity",
        may_be_several=True,
        why_not_compared="they decide which items are positives",
    ),
    Label("cameras", "camera", compared_by=AGREEMENT_RULES),
    Label(
        "sequences",
        "sequence",
        compared_by=("must_differ",),
        why_not_compared="items of the query's sequence are dropped",
    ),
    Label("clothes", "clothes", rules=CLOTHES_RULES, compared_by=AGREEMENT_RULES),
    Label("positions", "position", torch.float64, why_not_compared="they are compared by a `radius`"),
    Label(EXTRA, "label", is_extra=True, why_not_compared="it is the argument that holds labels by name"),
    Label("groups", "group", sides=("gallery",), why_not_compared="they are of the gallery alone"),
    Label("index", "index", decides=False, why_not_compared="it numbers the samples"),
)
LABELS = {label.name: label for label in _ROWS}
"""the labels by name; `index`, the sample's number in its data set, is a label of metrics only"""
RELEVANCE_LABELS = tuple(label.name for label in _ROWS if label.decides)
"""names of the labels that decide relevance"""
LABEL_RULES = {label.name: label.rules for label in _ROWS if label.rules}
"""rules by the name of the option and of its label"""
OPTION_OF_LABEL = {"positions": "radius", **{name: name for name in LABEL_RULES}}
"""the option by the name of a label that acts only with it"""
_LABEL_OF_OPTION = {
    "same_camera": "cameras",
    "cmc_same_camera": "cameras",
    "camera_map": "cameras",
    "search_cameras": "cameras",
    "junk_identities": "identities",
    "missing_identities": "identities",
    **{option: label for label, option in OPTION_OF_LABEL.items()},
}
"""the label that an option acts on"""
NO_GROUP = torch.iinfo(torch.int64).min
"""the group of samples without a group"""


def why_needed(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the reason for each label that some options need; an option that is not given drops nothing."""
    reasons: dict[str, str] = {}
    for rule in AGREEMENT_RULES:
        names = tuple(options.get(rule, ()))
        for name in names:
            reasons.setdefault(name if name in LABELS else EXTRA, f"for `{rule}` {names!r}")
    radius = options.get("radius")
    if radius is None:
        reasons["identities"] = "unless relevance is by `radius` or by lists"
    for name in LABEL_RULES:
        value = options.get(name, "keep")
        if value != "keep":
            reasons[name] = f"for `{name}` {value!r}"
    if radius is not None:
        reasons["positions"] = f"for `radius` {radius}"
    if options.get("needs_groups"):
        reasons["groups"] = "under a protocol that ranks groups"
    return reasons


def needed_by_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the reason for each label without which some options have no effect."""
    reasons = {}
    for option, label in _LABEL_OF_OPTION.items():
        value = options.get(option)
        has_effect = value is not None and value != "keep" and not (isinstance(value, Collection) and not value)
        if has_effect:
            reasons[label] = f"for `{option}` {value!r}"
    return reasons


def names_in_rules(rules: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the extra labels in `must_agree` and `must_differ`, in the order of the columns."""
    names: set[str] = set()
    for rule in AGREEMENT_RULES:
        names.update(rules.get(rule) or ())
    return tuple(sorted(names - LABELS.keys()))


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
    label = LABELS.get(name)
    if label is not None and rule not in label.compared_by:
        listed = _checks.listed(sorted(row.name for row in LABELS.values() if rule in row.compared_by))
        raise ValueError(f"`{rule}` must name {listed} or labels of your own; got {name!r}: {label.why_not_compared}.")


def check_needed(
    reasons: Mapping[str, str], given: Mapping[str, object], *prefixes: str, sides: Sequence[str] = SIDES
) -> None:
    """Raise unless all labels that `why_needed` returned are given.

    Args:
        reasons: the result of `why_needed`.
        given: values by the names of arguments.
        prefixes: what the names of arguments begin with, such as "query_"; nothing by default.
        sides: the roles of the samples; labels that none of these has are not needed.

    Raises:
        ValueError: a label is missing.
    """
    for label, reason in reasons.items():
        if set(LABELS[label].sides).isdisjoint(sides):
            continue
        arguments = [f"{prefix}{label}" for prefix in prefixes or ("",)]
        present = [argument for argument in arguments if given.get(argument) is not None]
        if len(present) < len(arguments):
            got = f"only `{present[0]}`" if present else "none"
            quoted = [f"`{argument}`" for argument in arguments]
            raise ValueError(f"{' and '.join(quoted)} must be given {reason}; got {got}.")


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
        if name not in names and name in LABELS:
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


def _check_columns(argument: str, value: Any, length: int | None, device: Any) -> Int[Tensor, "samples labels"]:
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


def pack_columns(labels: LabelValues, positions: Tensor | slice) -> Int[Tensor, "samples columns"]:
    """Join the labels at some positions to a matrix of integers, to send or to compare them at once.

    Each label is one column, or several: coordinates become the integers with the same bits, and several labels of a
    sample become words of bits.
    """
    columns = []
    for values in labels.values():
        selected = values[positions]
        if selected.dtype == torch.bool:
            columns.append(SEVERAL_LABELS["to_words"](selected))
        else:
            columns.append(selected.contiguous().view(torch.int64).view(len(selected), width_of(selected)))
    return torch.cat(columns, dim=1)


def unpack_columns(columns: Int[Tensor, "samples columns"], like: LabelValues) -> dict[str, Tensor]:
    """Split a matrix of `pack_columns` into its labels; `like` has labels with the same names and widths."""
    widths = [width_of(values) for values in like.values()]
    labels: dict[str, Tensor] = {}
    for (name, values), part in zip(like.items(), columns.split(widths, dim=1), strict=True):
        if values.dtype == torch.bool:
            labels[name] = SEVERAL_LABELS["from_words"](part, values.shape[1])
        else:
            labels[name] = part.contiguous().view(values.dtype).view(len(part), *values.shape[1:])
    return labels


def width_of(values: Tensor) -> int:
    """Return the number of columns of a label in `pack_columns`."""
    if values.dtype == torch.bool:
        return -(-values.shape[1] // BITS_OF_A_WORD)
    return values.shape[1] if values.ndim > 1 else 1


def select_samples(labels: LabelValues, positions: Tensor | slice) -> dict[str, Tensor]:
    """Return the labels of some samples."""
    return {name: values[positions] for name, values in labels.items()}


def relevance_labels(labels: LabelValues, *sides: str) -> dict[str, Tensor]:
    """Return the labels that decide relevance, and that samples of all these sides have."""
    selected = {}
    for name in RELEVANCE_LABELS:
        if name in labels and set(sides).issubset(LABELS[name].sides):
            selected[name] = labels[name]
    return selected


def num_labels_of(labels: LabelValues) -> int:
    """Return the number of labels that a sample may have; 0 where each has one identity, or none."""
    identities = labels.get("identities")
    if identities is None or identities.ndim == 1:
        return 0
    return identities.shape[1]


def names_of_labels(labels: LabelValues) -> tuple[str, ...]:
    """Return the names of labels, with "several_labels" where identities are a matrix of labels."""
    return (*labels, "several_labels") if num_labels_of(labels) else tuple(labels)


def one_number_each(labels: LabelValues) -> dict[str, Tensor]:
    """Return the labels that are one number for each sample."""
    return {name: values for name, values in labels.items() if values.ndim == 1}


def length_of(labels: LabelValues) -> int:
    """Return the number of samples with these labels."""
    values, *_ = labels.values()
    return len(values)


def is_matrix(value: object) -> bool:
    """Return whether a value has two dimensions, or is a list of lists."""
    if isinstance(value, Tensor):  # at once: `update` is called often
        return value.ndim == 2
    if not isinstance(value, (list, tuple)):
        return getattr(value, "ndim", None) == 2
    first = value[0] if value else None
    return isinstance(first, (list, tuple, set, frozenset)) or getattr(first, "ndim", None) == 1


def check_alike(argument: str, values: Tensor, other_argument: str, other_values: Tensor) -> None:
    """Raise unless both are one number for each sample, or both are matrices with as many labels.

    Raises:
        ValueError: they differ.
    """
    if values.shape[1:] != other_values.shape[1:]:
        raise ValueError(
            f"`{argument}` must have the labels of {other_argument}; got {_describe(values)} for"
            f" {_describe(other_values)}."
        )


def _describe(values: Tensor) -> str:
    return "one number for each sample" if values.ndim == 1 else f"a matrix of {values.shape[1]} labels"

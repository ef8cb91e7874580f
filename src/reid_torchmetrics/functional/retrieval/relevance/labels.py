"""The table of all labels of samples; states, checks, joins, exchanges, caches and arguments read it.

A new label is a row of `LABELS`, a field of `BatchLabels`, two fields of `SideLabels`, and a rule of `find_relevance`
that reads it. Identities and cameras are rows as well, but explicit parameters in signatures.

Several labels for each sample are a matrix [samples, labels] of bools, which travels as packed bits. Two samples with
the labels 0 1 1 0 and 0 1 0 1 share one, so they are relevant for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeAlias, TypedDict, get_args

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics._registries import Registry

from . import extra_labels

Integers: TypeAlias = Tensor | _arrays.Integers
IntegersOrNames: TypeAlias = Tensor | _arrays.IntegersOrNames
Positions: TypeAlias = Tensor | _arrays.Numbers | Sequence[Sequence[float]]
SIDES: tuple[_names.Role, ...] = get_args(_names.Role)
ExtraLabels: TypeAlias = Mapping[str, IntegersOrNames]
"""labels by the names that users give them in `must_agree` and `must_differ`"""
LabelValues: TypeAlias = Mapping[str, Tensor]
"""the labels of some samples by their names in `LABELS`; labels that are not given are left out"""


class StreamLabels(TypedDict, total=False):
    """The labels of a block of a stream besides identities and cameras."""

    sequences: IntegersOrNames | None
    clothes: IntegersOrNames | None
    positions: Positions | None
    labels: ExtraLabels | None


class BatchLabels(StreamLabels, total=False):
    """The labels of a batch besides identities and cameras."""

    groups: IntegersOrNames | None


class SideLabels(TypedDict, total=False):
    """The labels of queries and of gallery items besides identities and cameras."""

    query_sequences: IntegersOrNames | None
    gallery_sequences: IntegersOrNames | None
    query_clothes: IntegersOrNames | None
    gallery_clothes: IntegersOrNames | None
    query_positions: Positions | None
    gallery_positions: Positions | None
    query_labels: ExtraLabels | None
    gallery_labels: ExtraLabels | None


CLOTHES_RULES = {
    "keep": "drop nothing",
    "drop_same": "drop the gallery items with the query's identity and clothes (changed clothes)",
    "drop_other": "drop the gallery items with the query's identity and other clothes (same clothes)",
}


@dataclass(frozen=True, eq=False)
class Label:
    """A kind of label that samples may have."""

    name: str
    singular: str
    """the name of a single value, for messages"""
    dtype: torch.dtype = torch.int64
    """dtype of the tensor; positions are columns of float64, `labels` columns of int64, other labels one number"""
    needed: Callable[[Any], str | None] = lambda _: None
    """returns the reason why options need the label; None if they do not"""
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

    @property
    def has_columns(self) -> bool:
        """Return whether the label is always a matrix, with a row for each sample."""
        return self.is_extra or self.dtype.is_floating_point

    def check(self, argument: str, value: object, length: int | None = None, device: Any = None) -> Tensor:
        """Return `value` as a tensor; raise unless it is such a label, of `length` samples and on `device` if given."""
        if self.is_extra:
            return extra_labels.check_matrix(argument, value, length, device)
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

    def why_needed(self, options: Any) -> str | None:
        """Return the reason why options need the label, by `needed` or by the option of its name; None if not."""
        if self.rules:
            rule = getattr(options, self.name)
            if rule != "keep":
                return f"for `{self.name}` {rule!r}"
        return self.needed(options)

    def empty(self, width: int = 1, *, length: int = 0, device: torch.device, num_labels: int = 0) -> Tensor:
        """Return fill values for `length` samples without this label; a matrix if `num_labels` is not 0."""
        if num_labels:
            return torch.zeros((length, num_labels), dtype=torch.bool, device=device)
        shape = (length, width) if self.has_columns else (length,)
        return torch.full(shape, NO_GROUP, dtype=self.dtype, device=device)


def _needs_identities(options: Any) -> str | None:
    return "unless relevance is by `radius` or by lists" if options.radius is None else None


def _needs_positions(options: Any) -> str | None:
    return None if options.radius is None else f"for `radius` {options.radius}"


def _needs_groups(options: Any) -> str | None:
    return "under a protocol that ranks groups" if getattr(options, "needs_groups", False) else None


_ROWS = (
    Label("identities", "identity", needed=_needs_identities, may_be_several=True),
    Label("cameras", "camera"),
    Label("sequences", "sequence"),
    Label("clothes", "clothes", rules=CLOTHES_RULES),
    Label("positions", "position", torch.float64, needed=_needs_positions),
    Label(extra_labels.EXTRA, "label", is_extra=True),
    Label("groups", "group", needed=_needs_groups, sides=("gallery",)),
    Label("index", "index", decides=False),
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


def with_default_rules(options: Mapping[str, Any]) -> SimpleNamespace:
    """Return options as `why_needed` reads them: `radius` is None and each rule "keep" unless given."""
    namespace = SimpleNamespace(radius=None)
    for name, rules in LABEL_RULES.items():
        default, *_ = rules
        setattr(namespace, name, default)
    vars(namespace).update(options)
    return namespace


def why_needed(options: Any) -> dict[str, str]:
    """Return the reason for each label that some options need."""
    reasons = extra_labels.reasons_of_rules(options)
    for name, label in LABELS.items():
        reason = label.why_needed(options)
        if reason:
            reasons[name] = reason
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


def pack_columns(labels: LabelValues, positions: Tensor | slice) -> Int[Tensor, "samples columns"]:
    """Join the labels at some positions to a matrix of integers, to send or to compare them at once.

    Each label is one column, or several: coordinates become the integers with the same bits, and several labels of a
    sample become words of bits.
    """
    columns = [_as_integers(values[positions]) for values in labels.values()]
    return torch.cat(columns, dim=1)


def _as_integers(values: Tensor) -> Int[Tensor, "samples columns"]:
    if values.dtype == torch.bool:
        return to_words(values)
    return values.contiguous().view(torch.int64).view(len(values), width_of(values))


def unpack_columns(columns: Int[Tensor, "samples columns"], like: LabelValues) -> dict[str, Tensor]:
    """Split a matrix of `pack_columns` into its labels; `like` has labels with the same names and widths."""
    widths = [width_of(values) for values in like.values()]
    parts = columns.split(widths, dim=1)
    return {name: _from_integers(part, like[name]) for name, part in zip(like, parts, strict=True)}


def _from_integers(columns: Int[Tensor, "samples columns"], like: Tensor) -> Tensor:
    if like.dtype == torch.bool:
        return from_words(columns, like.shape[1])
    return columns.contiguous().view(like.dtype).view(len(columns), *like.shape[1:])


def width_of(values: Tensor) -> int:
    """Return the number of columns of a label in `pack_columns`."""
    if values.dtype == torch.bool:
        return num_words(values.shape[1])
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


SEVERAL_LABELS: Registry[Any] = Registry("SEVERAL_LABELS", {})
"""`check_matrix`, which returns a matrix of labels as bools or raises; and `SharedLabels`, which finds the items that
share a label with a query"""
_BITS = 63  # bits of a word that are used: the sign stays free


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


def num_words(num_labels: int) -> int:
    """Return the number of words of 64 bits for the labels of a sample."""
    return -(-num_labels // _BITS)


def to_words(matrix: Bool[Tensor, "samples labels"]) -> Int[Tensor, "samples words"]:
    """Pack the labels of each sample into words of bits: label 64 is bit 1 of word 1."""
    words = torch.zeros((len(matrix), num_words(matrix.shape[1])), dtype=torch.int64, device=matrix.device)
    for bit in range(min(_BITS, matrix.shape[1])):
        columns = matrix[:, bit::_BITS].long()
        words[:, : columns.shape[1]] |= columns << bit
    return words


def from_words(words: Int[Tensor, "samples words"], num_labels: int) -> Bool[Tensor, "samples labels"]:
    """Return the matrix that `to_words` has packed."""
    matrix = torch.zeros((len(words), num_labels), dtype=torch.bool, device=words.device)
    for bit in range(min(_BITS, num_labels)):
        columns = matrix[:, bit::_BITS]
        columns.copy_((words[:, : columns.shape[1]] >> bit & 1).bool())
    return matrix

"""The labels of samples, as one table: states, checks, joins, gathering, caches and arguments read it.

A label is a row of `LABELS`, its names in `BatchLabels` and `SideLabels`, and the rule of `find_relevance` that reads
it. Identities and cameras, which have places of their own in signatures, are rows like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeAlias, TypedDict, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names

from . import extra_labels, several_labels

Integers: TypeAlias = Tensor | _arrays.Integers
IntegersOrNames: TypeAlias = Tensor | _arrays.IntegersOrNames
Numbers: TypeAlias = Tensor | _arrays.Numbers
SIDES: tuple[_names.Role, ...] = get_args(_names.Role)
ExtraLabels: TypeAlias = Mapping[str, IntegersOrNames]
"""labels by the names that `must_agree` and `must_differ` name"""
LabelValues: TypeAlias = Mapping[str, Tensor]
"""the labels of some samples that are given, by their names in `LABELS`"""


class StreamLabels(TypedDict, total=False):
    """The labels of a block of a stream besides identities and cameras."""

    sequences: IntegersOrNames | None
    clothes: IntegersOrNames | None
    positions: Numbers | None
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
    query_positions: Numbers | None
    gallery_positions: Numbers | None
    query_labels: ExtraLabels | None
    gallery_labels: ExtraLabels | None


CLOTHES_RULES = {
    "keep": "drop nothing",
    "drop_same": "drop the gallery items with the query's identity and clothes (changed clothes)",
    "drop_other": "drop the gallery items with the query's identity and other clothes (same clothes)",
}


@dataclass(frozen=True, eq=False)
class Label:
    """What samples may be given besides embeddings."""

    name: str
    singular: str
    """the name of one sample's label, in messages"""
    dtype: torch.dtype = torch.int64
    """of what is kept; positions are columns of float64, `labels` columns of int64, other labels one number"""
    needed: Callable[[Any], str | None] = lambda _: None
    """why options, with the field `radius`, cannot do without it; None where they can"""
    rules: Mapping[str, str] = field(default_factory=dict)
    """where an option of its name drops gallery items of the query's identity: its values, in words; "keep" is first"""
    decides: bool = True
    """whether relevance depends on it, so that samples with one `index` must agree in it"""
    sides: tuple[str, ...] = SIDES
    """the sides that have it: batches of others may lack it"""
    may_be_several: bool = False
    """whether a sample may have several: the label is a matrix [samples, labels] of bools then"""
    is_extra: bool = False
    """whether it holds all labels that users name, a column for each"""

    @property
    def has_columns(self) -> bool:
        """Whether it is always a matrix, with a row for each sample."""
        return self.is_extra or self.dtype.is_floating_point

    def check(self, argument: str, value: object, length: int | None = None, device: Any = None) -> Tensor:
        """Raise unless `value` is such a label, of `length` samples and on `device` where they are given."""
        if self.dtype.is_floating_point:
            checked = _checks.positions(argument, value, length, device)
        elif self.is_extra:
            return extra_labels.check_matrix(argument, value, length, device)
        elif self.may_be_several and several_labels.is_matrix(value):
            return several_labels.check_matrix(argument, value, length, device)
        else:
            checked = _checks.integer_labels(argument, value, length, device, or_whole=True)
        return checked if checked.dtype == self.dtype else checked.to(self.dtype)  # a call of `to` takes a microsecond

    def why_needed(self, options: Any) -> str | None:
        """Why options cannot do without it, as `needed`, also by the option of its name; None where they can."""
        rule = getattr(options, self.name) if self.rules else "keep"
        return self.needed(options) if rule == "keep" else f"for `{self.name}` {rule!r}"

    def empty(self, width: int = 1, *, length: int = 0, device: torch.device, num_labels: int = 0) -> Tensor:
        """Of samples that lack it: none, or some without a group; a matrix of `num_labels` if there are any."""
        if num_labels:
            return torch.zeros((length, num_labels), dtype=torch.bool, device=device)
        shape = (length, width) if self.has_columns else (length,)
        return torch.full(shape, NO_GROUP, dtype=self.dtype, device=device)


def _for_groups(by: Any) -> str | None:
    return "under a protocol that ranks groups" if getattr(by, "needs_groups", False) else None


_UNLESS = "unless relevance is by `radius` or by lists"
_ROWS = (
    Label("identities", "identity", needed=lambda by: _UNLESS if by.radius is None else None, may_be_several=True),
    Label("cameras", "camera"),
    Label("sequences", "sequence"),
    Label("clothes", "clothes", rules=CLOTHES_RULES),
    Label(
        "positions", "position", torch.float64, lambda by: None if by.radius is None else f"for `radius` {by.radius}"
    ),
    Label(extra_labels.EXTRA, "label", is_extra=True),
    Label("groups", "group", needed=_for_groups, sides=("gallery",)),
    Label("index", "index", decides=False),
)
LABELS = {label.name: label for label in _ROWS}
"""the labels by name; `index`, the sample's number in its data set, is one of samples only"""
DECIDING = tuple(label.name for label in _ROWS if label.decides)
LABEL_RULES = {label.name: label.rules for label in _ROWS if label.rules}
_OF_OPTIONS = {
    "same_camera": "cameras",
    "cmc_same_camera": "cameras",
    "camera_map": "cameras",
    "search_cameras": "cameras",
    "junk_identities": "identities",
    "missing": "identities",
    "radius": "positions",
    **{name: name for name in LABEL_RULES},
}
"""the label that an option acts on"""
NO_GROUP = torch.iinfo(torch.int64).min
"""the group of samples that were given none"""


def with_default_rules(options: Mapping[str, Any]) -> SimpleNamespace:
    """Options as `why_needed` reads them: without a radius, and with the first value of each rule, if not given."""
    defaults: dict[str, Any] = {"radius": None}
    for name, rules in LABEL_RULES.items():
        defaults[name], *_ = rules
    return SimpleNamespace(**defaults | dict(options))


def why_needed(options: Any) -> dict[str, str]:
    """The labels that some options need, by name, with the reason."""
    reasons = {label.name: label.why_needed(options) for label in LABELS.values()}
    needed = {name: reason for name, reason in reasons.items() if reason}
    return extra_labels.reasons_of_rules(options) | needed


def needed_by_options(options: Mapping[str, Any]) -> dict[str, str]:
    """The labels that options need to have an effect, by name, with the reason."""
    reasons = {}
    for option, label in _OF_OPTIONS.items():
        value = options.get(option)
        has_effect = value is not None and value != "keep" and not (isinstance(value, Collection) and not value)
        if has_effect:
            reasons[label] = f"for `{option}` {value!r}"
    return reasons


def check_needed(
    reasons: Mapping[str, str], given: Mapping[str, object], *prefixes: str, sides: Sequence[str] = SIDES
) -> None:
    """Raise unless all labels of `why_needed` are given; names of `given` begin with `prefixes`.

    Labels of other `sides` are not needed.

    Raises:
        ValueError: one is missing.
    """
    for label, reason in reasons.items():
        names = [f"{prefix}{label}" for prefix in prefixes or ("",)]
        if set(LABELS[label].sides) & set(sides) and any(given.get(name) is None for name in names):
            listed = [f"`{name}`" for name in names if given.get(name) is not None]
            came = f"only {listed[0]}" if listed else "none"
            raise ValueError(f"{' and '.join(f'`{name}`' for name in names)} must be given {reason}; got {came}.")


def packed(labels: LabelValues, positions: Tensor | slice) -> Int[Tensor, "chosen columns"]:
    """The labels at some positions side by side; positions, and several labels of a sample, as their bits."""
    return torch.cat([_as_integers(values[positions]) for values in labels.values()], dim=1)


def _as_integers(values: Tensor) -> Int[Tensor, "samples columns"]:
    if values.dtype == torch.bool:
        return several_labels.to_words(values)
    return values.contiguous().view(torch.int64).view(len(values), width_of(values))


def unpacked(columns: Int[Tensor, "samples columns"], like: LabelValues) -> dict[str, Tensor]:
    """The labels that `packed` has put side by side; `like` has labels of the same names and widths."""
    widths = [width_of(values) for values in like.values()]
    parts = zip(like.items(), columns.split(widths, dim=1), strict=True)
    return {name: _from_integers(part, values) for (name, values), part in parts}


def _from_integers(columns: Int[Tensor, "samples columns"], like: Tensor) -> Tensor:
    if like.dtype == torch.bool:
        return several_labels.from_words(columns, like.shape[1])
    return columns.contiguous().view(like.dtype).view(len(columns), *like.shape[1:])


def width_of(values: Tensor) -> int:
    """The number of columns of a label, side by side with others."""
    if values.dtype == torch.bool:
        return several_labels.num_words(values.shape[1])
    return values.shape[1] if values.ndim > 1 else 1


def at(labels: LabelValues, positions: Tensor | slice) -> dict[str, Tensor]:
    """The labels of some samples."""
    return {name: values[positions] for name, values in labels.items()}


def deciding(labels: LabelValues, *sides: str) -> dict[str, Tensor]:
    """The labels that decide relevance, of some sides."""
    return {name: labels[name] for name in DECIDING if name in labels and {*sides} <= {*LABELS[name].sides}}


def num_labels_of(labels: LabelValues) -> int:
    """The number of labels that a sample may have; 0 where each has one identity, or none."""
    identities = labels.get("identities")
    return 0 if identities is None or identities.ndim == 1 else identities.shape[1]


def one_number_each(labels: LabelValues) -> dict[str, Tensor]:
    """The labels that are one number for each sample."""
    return {name: values for name, values in labels.items() if values.ndim == 1}


def length_of(labels: LabelValues) -> int:
    """The number of samples that have these labels."""
    values, *_ = labels.values()
    return len(values)

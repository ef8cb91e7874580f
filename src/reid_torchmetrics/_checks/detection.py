"""Checks of what measures of detection are asked for."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from reid_torchmetrics._checks.kinds import kind
from reid_torchmetrics._checks.options import rates, some


def recalls_of_rule(argument: str, values: object, rule: str, *, reads_recalls: bool) -> None:
    """Raise unless `values` holds ascending recalls and the rule reads a curve at recalls."""
    overlap_thresholds(argument, values)
    if not reads_recalls:
        raise ValueError(f"`{argument}` must be None with rule {rule!r}, which reads the whole curve; got {values!r}.")
    if isinstance(values, (tuple, list)) and any(second <= first for first, second in pairwise(values)):
        raise ValueError(f"`{argument}` must ascend; got {values!r}.")


def overlap_thresholds(argument: str, values: object) -> None:
    """Raise unless `values` is a sequence of at least one number from 0 to 1."""
    rates(argument, values)
    if isinstance(values, (tuple, list)):
        some(argument, values)


def flags_by_threshold(argument: str, value: object) -> None:
    """Raise unless `value` is a bool tensor [N, T]."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        came = str(value.dtype) if isinstance(value, Tensor) else kind(value)
        raise TypeError(f"`{argument}` must be a bool tensor; got {came}.")
    if value.ndim != 2 or not value.shape[1]:
        raise ValueError(f"`{argument}` must have shape [N, T] with T >= 1; got {list(value.shape)}.")


def one_of_many(argument: str, value: object, size: int, what: str) -> None:
    """Raise unless `value` is the number of one of `size` things."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{argument}` must be an int; got {kind(value)}.")
    if not 0 <= value < size:
        raise ValueError(f"`{argument}` must be the number of one of {size} {what}; got {value}.")


def known_label(argument: str, value: object, classes: Tensor) -> None:
    """Raise unless `value` is one of the labels of some classes."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{argument}` must be an int; got {kind(value)}.")
    if not bool((classes == value).any()):
        raise ValueError(f"`{argument}` must be the label of a class that occurs; got {value}.")

"""Checks of the options of `DetectionMAP`; for the beginnings of some texts see `batches`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from reid_torchmetrics._checks.images import limits_of_detections
from reid_torchmetrics._checks.kinds import kind

_NUM_LIMITS = 3


def boxes_only(argument: str, value: object) -> None:
    """Raise unless `value` asks for boxes, as "bbox" or as a sequence of it: masks are not evaluated."""
    listed = (value,) if isinstance(value, str) else value
    if not isinstance(listed, (tuple, list)):
        raise TypeError(f"`{argument}` must be 'bbox'; got {kind(value)}.")
    if "segm" in listed:
        raise ValueError(f"`{argument}` must be 'bbox', masks are not evaluated here; got {value!r}.")
    if set(listed) != {"bbox"}:
        raise ValueError(f"`{argument}` must be 'bbox'; got {value!r}.")


def no_recalls(argument: str, value: object, interpolation: str) -> None:
    """Raise if recalls are given to an interpolation that has its own."""
    if value is not None:
        raise ValueError(f"`{argument}` must be None with interpolation {interpolation!r}; got {value!r}.")


def distinct_names(argument: str, names: Sequence[str]) -> None:
    """Raise if a name of an area range makes two values of a metric have the same name."""
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise ValueError(f"`{argument}` must give every value a name of its own; got {twice[0]!r} twice.")


def one_threshold(argument: str, value: float, thresholds: Collection[float], *, known: bool) -> None:
    """Raise unless a threshold is one of those that boxes were matched with."""
    if not known:
        listed = ", ".join(f"{threshold:g}" for threshold in thresholds)
        raise ValueError(f"`{argument}` must be one of {listed}; got {value}.")


def three_limits(argument: str, values: object) -> None:
    """Raise unless `values` is a sequence of three ints of at least 1."""
    if len(limits_of_detections(argument, values)) != _NUM_LIMITS:
        raise ValueError(
            f"When providing a list of max detection thresholds it should have length {_NUM_LIMITS};"
            f" got {values!r} for `{argument}`."
        )


def boolean(argument: str, value: object) -> bool:
    """The value as Python's own bool; raise unless it is True or False, NumPy's among them."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"Expected argument `{argument}` to be a boolean; got {kind(value)}.")  # noqa: TRY004
    return bool(value)


def images_of_their_own(argument: str, shared: Sequence[int]) -> None:
    """Raise if images that are not the same share a number; `shared` are such numbers."""
    if shared:
        more = f", and {len(shared) - 1} more such numbers" if len(shared) > 1 else ""
        raise ValueError(
            f"`{argument}` must be the same only for repetitions of an image; got {shared[0]} for images whose ground"
            f" truths differ{more}."
        )

"""Checks of options: names, numbers and functions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._checks.kinds import kind


def one_of(argument: str, value: object, options: Collection[str]) -> None:
    """Raise unless `value` is one of the names in `options`."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"`{argument}` must be one of {listed}; got {value!r}.")


def positive_int(argument: str, value: object, least: int = 1, *, fits_int64: bool = True) -> None:
    """Raise unless `value` is an int of at least `least`, that fits int64 unless any limit may be asked for."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{argument}` must be an int; got {kind(value)}.")
    if value < least:
        raise ValueError(f"`{argument}` must be at least {least}; got {value}.")
    if fits_int64 and value >= 2**63:
        raise ValueError(f"`{argument}` must fit int64; got {value}.")


def place(argument: str, value: object, size: int) -> None:
    """Raise unless `value` is the number of one of `size` queries."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{argument}` must be an int; got {kind(value)}.")
    if not 0 <= value < size:
        raise ValueError(f"`{argument}` must be the number of one of {size} queries; got {value}.")


def number(argument: str, value: object) -> None:
    """Raise unless `value` is an int or a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{argument}` must be a number; got {kind(value)}.")


def share(argument: str, value: float) -> None:
    """Raise unless `value` is a number from 0 to 1."""
    number(argument, value)
    if not 0 <= value <= 1:
        raise ValueError(f"`{argument}` must lie in [0, 1]; got {value}.")


def confidence(argument: str, value: float) -> None:
    """Raise unless `value` is a number between 0 and 1, neither of them."""
    number(argument, value)
    if not 0 < value < 1:
        raise ValueError(f"`{argument}` must lie between 0 and 1; got {value}.")


def power(argument: str, value: float) -> None:
    """Raise unless `value` is a finite number of at least 0."""
    number(argument, value)
    if not 0 <= value < math.inf:
        raise ValueError(f"`{argument}` must be finite and at least 0; got {value}.")


def rates(argument: str, values: object) -> None:
    """Raise unless `values` is a sequence of numbers from 0 to 1."""
    if not isinstance(values, (tuple, list)):
        raise TypeError(f"`{argument}` must be a tuple or list of floats; got {kind(values)}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"`{argument}` must hold floats only; got {value!r}.")
        if not 0 <= value <= 1:
            raise ValueError(f"`{argument}` must hold rates from 0 to 1; got {value!r}.")


def flag(argument: str, value: object) -> None:
    """Raise unless `value` is True or False, of Python or of NumPy."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"`{argument}` must be True or False; got {kind(value)}.")


def generator(argument: str, value: object) -> None:
    """Raise unless `value` is a random number generator."""
    if not isinstance(value, torch.Generator):
        raise TypeError(f"`{argument}` must be a torch.Generator; got {kind(value)}.")


def positive_ints(argument: str, values: object) -> None:
    """Raise unless `values` is a non-empty sequence of distinct ints of at least 1."""
    if not isinstance(values, (tuple, list)):
        raise TypeError(f"`{argument}` must be a tuple or list of ints; got {kind(values)}.")
    for value in values:
        positive_int(argument, value)
    if not values or len(set(values)) != len(values):
        raise ValueError(f"`{argument}` must hold at least one int and none twice; got {values!r}.")


def integers(argument: str, values: object) -> None:
    """Raise unless `values` is a collection of ints (possibly empty) that fit int64."""
    if isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Collection):
        raise TypeError(f"`{argument}` must be a collection of ints; got {kind(values)}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"`{argument}` must hold ints only; got {value!r}.")
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"`{argument}` must hold ints that fit int64; got {value}.")


def camera_map(argument: str, value: object) -> None:
    """Raise unless `value` is None or a mapping of ints to ints none of which is mapped again."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"`{argument}` must be a mapping of ints to ints or None; got {kind(value)}.")
    integers(argument, [*value.keys(), *value.values()])
    chained = sorted(set(value) & {other for label, other in value.items() if other != label})
    if chained:
        raise ValueError(
            f"`{argument}` must map to cameras that are not mapped themselves; got {chained} on both sides."
        )


def pairs_of_ints(argument: str, value: object) -> None:
    """Raise unless `value` is a tuple of pairs of ints that `camera_map` would take."""
    if not isinstance(value, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        raise TypeError(f"`{argument}` must be a mapping of ints to ints, or a tuple of pairs; got {value!r}.")
    camera_map(argument, dict(value))


def some(argument: str, values: Collection[object]) -> None:
    """Raise if `values` is empty."""
    if not values:
        raise ValueError(f"`{argument}` must not be empty; got {values!r}.")


def function(argument: str, value: object) -> None:
    """Raise unless `value` is None or can be called."""
    if value is not None and not callable(value):
        raise TypeError(f"`{argument}` must be a function or None; got {kind(value)}.")


def known(argument: str, values: Collection[str], names: Collection[str]) -> None:
    """Raise if `values` has a name that is not in `names`."""
    unknown = [value for value in values if value not in names]
    if unknown:
        raise ValueError(f"`{argument}` must be some of {', '.join(names)}; got {unknown[0]!r}.")


def has_expectation(argument: str, value: str) -> None:
    """Raise because something has no expectation over the orders of tied candidates."""
    raise ValueError(f"`{argument}` must have an expectation under ties 'expected'; got {value}.")


def plain_normalizer(rule: str, normalizer: str) -> None:
    """Raise if an interpolated rule comes with a normalizer that it does not use."""
    if normalizer != "positives":
        raise ValueError(f"`normalizer` must be 'positives' with rule {rule!r}; got {normalizer!r}.")


def drawn_cmc(argument: str, *, given: bool, is_plain: bool) -> None:
    """Raise if a CMC over drawn galleries is asked for in another mode than the first match."""
    if given and not is_plain:
        raise ValueError(f"`{argument}` needs mode 'first_match'; got another.")


def weighs(argument: str, *, weighs: bool, draws: bool) -> None:
    """Raise if images take turns as the gallery image although no gallery is drawn."""
    if weighs and not draws:
        raise ValueError(f"`{argument}` needs a drawn gallery; got no `draw`.")


def no_draw(argument: str, *, draws: bool) -> None:
    """Raise if something is asked for that has no expectation over drawn galleries."""
    if draws:
        raise ValueError(f"`{argument}` must come with a protocol that draws no gallery; got one that does.")


def can_draw(name: str, *, can: bool) -> None:
    """Raise if a metric has no expectation over the galleries that its protocol draws."""
    if not can:
        raise ValueError(f"`protocol` must not draw galleries for {name}; got one that does.")


def instance(argument: str, value: object, kinds: tuple[type, ...]) -> None:
    """Raise unless `value` is None or of one of some classes."""
    if value is not None and not isinstance(value, kinds):
        named = ", ".join(one.__name__ for one in kinds)
        raise TypeError(f"`{argument}` must be one of {named} or None; got {kind(value)}.")


def metric_similarity(argument: str, value: object) -> None:
    """Raise unless a similarity belongs to a Euclidean distance, which re-ranking starts from."""
    if value not in ("cosine", "euclidean"):
        came = repr(value) if isinstance(value, str) else kind(value)
        raise ValueError(f"`{argument}` must be 'cosine' or 'euclidean' for k-reciprocal re-ranking; got {came}.")

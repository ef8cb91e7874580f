"""Pictures of data sets that return them normalized: what `torchvision.transforms.Normalize` did is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from reid_torchmetrics import _checks

if TYPE_CHECKING:
    from reid_torchmetrics.plot import Pictures

Channels: TypeAlias = float | Sequence[float]
"""of all channels, or of each"""


def without_normalization(pictures: Pictures | None, mean: Channels | None, std: Channels | None) -> Pictures | None:
    """The same pictures, of which those that are tensors of floats are multiplied by `std`, and `mean` is added.

    Raises:
        TypeError: `mean` or `std` is neither a number nor a sequence of them.
        ValueError: one of them without the other.
    """
    if mean is None and std is None:
        return pictures
    if mean is None or std is None:
        raise ValueError(f"`mean` and `std` must be given together; got `{'std' if mean is None else 'mean'}` alone.")
    undo = _Undo(_per_channel("mean", mean), _per_channel("std", std))
    if pictures is None:
        return None
    return (lambda number: undo(pictures(number))) if callable(pictures) else _Undone(pictures, undo)


def _per_channel(argument: str, given: Channels) -> Tensor:
    values = [*given] if isinstance(given, (Sequence, Tensor)) else [given]
    for value in values:
        _checks.number(argument, float(value) if isinstance(value, Tensor) else value)
    return torch.tensor([float(value) for value in values], dtype=torch.float64, device="cpu").view(-1, 1, 1)


class _Undo:
    """What is done to a picture, or to the picture in an item of a data set."""

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        self._mean, self._std = mean, std

    def __call__(self, item: Any) -> Any:
        """A picture, or an item, which begins with it or has it as "image"."""
        if isinstance(item, Mapping) and "image" in item:
            return self(item["image"])
        if isinstance(item, (tuple, list)) and item:
            return self(item[0])
        if isinstance(item, Tensor) and item.is_floating_point():
            return item.detach().cpu().double() * self._std + self._mean
        return item


class _Undone:
    """Pictures by number or name, each of them as it was before."""

    def __init__(self, pictures: Any, undo: _Undo) -> None:
        self._pictures, self._undo = pictures, undo

    def __getitem__(self, number: Any) -> Any:
        return self._undo(self._pictures[number])

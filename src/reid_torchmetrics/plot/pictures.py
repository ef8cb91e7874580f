"""Pictures as users have them: of Pillow, NumPy or torch, normalized or not, alone or in an item of a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _checks

from .canvas import Image, pillow

_CHANNELS = (1, 3, 4)  # gray, RGB, RGB with opacity
_ROUNDING = 1e-3  # what resizing may leave outside of [0, 1]
_WANTED = "an image of Pillow, an array or a tensor, or an item of a data set that has one first or as 'image'"


class Indexed(Protocol):
    """A sequence, a mapping, a data set or a batch of pictures."""

    def __getitem__(self, number: Any, /) -> Any:
        """The picture with a number or a name."""


Pictures: TypeAlias = Callable[[Any], Any] | Indexed
"""a function of the number or the name of an image, or something indexed by it, that gives the picture"""
Channels: TypeAlias = float | Sequence[float]
"""a number for all channels, or one for each"""


def check_pictures(name: str, pictures: object) -> None:
    """Raise a TypeError unless pictures are a function, an indexed object or None."""
    if pictures is not None and not callable(pictures) and not hasattr(pictures, "__getitem__"):
        raise TypeError(f"`{name}` must be a function of a number or be indexed by it; got {type(pictures).__name__}.")


def picture_at(argument: str, pictures: Pictures, number: int | str) -> Image:
    """The picture with a number or name, in RGB.

    Raises:
        TypeError: `pictures` is neither a function nor indexed, is indexed by numbers where images have names, or gives
            no picture.
        ValueError: there is none with this number, or its shape or values are not those of a picture.
    """
    if callable(pictures):
        return as_image(f"{argument}({number!r})", pictures(number))
    check_pictures(argument, pictures)
    kind = "name" if isinstance(number, str) else "number"
    try:
        item = pictures[number]
    except (IndexError, KeyError) as error:
        raise ValueError(f"`{argument}` must have a picture for each {kind}; got none for {number!r}.") from error
    except TypeError as error:
        if kind == "number":
            raise
        raise TypeError(
            f"`{argument}` must be a function of a name or be indexed by it, as images have names; got"
            f" {type(pictures).__name__}."
        ) from error
    return as_image(f"{argument}[{number!r}]", item)


def as_image(name: str, item: object) -> Image:
    """A picture or an item of a data set as an image of Pillow in RGB, on white where it is transparent.

    Raises:
        TypeError: no picture, or one of a dtype that pictures do not have.
        ValueError: another shape, no pixels, or values outside of [0, 1].
    """
    picture = _picture_in(item)
    if isinstance(item, Mapping) and picture is item:
        keys = ", ".join(map(repr, item)) or "an empty dict"
        raise ValueError(f"`{name}` must have the key 'image'; got {keys}.")
    image_of = pillow().Image
    image: Image = picture
    if isinstance(picture, (Tensor, np.ndarray)):
        image = image_of.fromarray(_pixels(name, picture))
    elif not isinstance(picture, image_of.Image):
        raise TypeError(f"`{name}` must be {_WANTED}; got {type(picture).__name__}.")
    if 0 in image.size:
        raise ValueError(f"`{name}` must have at least one pixel; got {image.width} x {image.height}.")
    if image.mode in {"RGBA", "LA", "PA"} or "transparency" in image.info:
        above = image.convert("RGBA")
        image = image_of.alpha_composite(image_of.new("RGBA", above.size, "white"), above)
    return image.convert("RGB")


def _picture_in(item: Any) -> Any:
    """The picture in an item of a data set; what holds none is taken for a picture."""
    if isinstance(item, Mapping):
        return item.get("image", item)
    return item[0] if isinstance(item, (tuple, list)) and item else item


def _pixels(name: str, picture: Tensor | NDArray[Any]) -> NDArray[np.uint8]:
    """An array or a tensor, its channels first, as an array [H, W] or [H, W, 3 or 4], as Pillow takes it."""
    shape, wanted = [*picture.shape], "[H, W, 3]"
    if isinstance(picture, Tensor):
        picture, wanted = _as_bytes(name, picture.detach().cpu()), "[3, H, W]"
        picture = (picture.permute(1, 2, 0) if picture.ndim == 3 else picture).numpy()
    elif picture.dtype != np.uint8:
        raise TypeError(f"`{name}` must have the dtype uint8 as an array; got {picture.dtype}.")
    if picture.ndim != 2 and (picture.ndim != 3 or picture.shape[2] not in _CHANNELS):
        raise ValueError(f"`{name}` must have shape {wanted}, or 1 or 4 channels, or [H, W]; got {shape}.")
    if 0 in shape:
        raise ValueError(f"`{name}` must have at least one pixel; got {shape}.")
    return np.ascontiguousarray(picture[..., 0] if picture.ndim == 3 and picture.shape[2] == 1 else picture)


def _as_bytes(name: str, picture: Tensor) -> Tensor:
    if not picture.is_floating_point():
        if picture.dtype != torch.uint8:
            raise TypeError(f"`{name}` must have the dtype uint8 or a floating point dtype; got {picture.dtype}.")
        return picture
    picture = picture.double()
    low, high = (float(bound) for bound in picture.aminmax()) if picture.numel() else (0.0, 0.0)
    if not -_ROUNDING <= low <= high <= 1 + _ROUNDING:  # also where one of them is NaN
        remedy = ": undo a normalization, as `EvaluationPictures(..., mean=mean, std=std)` does" if low < 0 else ""
        raise ValueError(f"`{name}` must lie in [0, 1] as floats; got values from {low:.3g} to {high:.3g}{remedy}.")
    return (255 * picture.clamp(0, 1)).round().byte()


def without_normalization(pictures: Pictures | None, mean: Channels | None, std: Channels | None) -> Pictures | None:
    """Undo `torchvision.transforms.Normalize`: tensors of floats are multiplied by `std`, and `mean` is added.

    Raises:
        TypeError: `mean` or `std` is neither a number nor a sequence of them.
        ValueError: one of them without the other.
    """
    if mean is None and std is None:
        return pictures
    if mean is None or std is None:
        raise ValueError(f"`mean` and `std` must be given together; got `{'std' if mean is None else 'mean'}` alone.")
    undo = partial(_denormalized, mean=_per_channel("mean", mean), std=_per_channel("std", std))
    if pictures is None:
        return None
    return (lambda number: undo(pictures(number))) if callable(pictures) else _Denormalized(pictures, undo)


def _per_channel(argument: str, given: Channels) -> Tensor:
    values = [*given] if isinstance(given, (Sequence, Tensor)) else [given]
    for value in values:
        _checks.number(argument, float(value) if isinstance(value, Tensor) else value)
    return torch.tensor([float(value) for value in values], dtype=torch.float64, device="cpu").view(-1, 1, 1)


def _denormalized(item: Any, mean: Tensor, std: Tensor) -> Any:
    """A picture, or the picture in an item of a data set, before its normalization."""
    picture = _picture_in(item)
    is_normalized = isinstance(picture, Tensor) and picture.is_floating_point()
    return picture.detach().cpu().double() * std + mean if is_normalized else picture


@dataclass(frozen=True)
class _Denormalized:
    """Pictures by number or name, before their normalization."""

    pictures: Any
    undo: Callable[[Any], Any]

    def __getitem__(self, number: Any) -> Any:
        return self.undo(self.pictures[number])

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
_WHITE = 255
_WHITE_IN_16_BITS = 65535
_ALLOWED = "an image of Pillow, an array or a tensor, or an item of a data set that has one first or as 'image'"


class Indexed(Protocol):
    """A sequence, a mapping, a data set or a batch of pictures."""

    def __getitem__(self, number: Any, /) -> Any:
        """Return the picture with a number or a name."""


Pictures: TypeAlias = Callable[[Any], Any] | Indexed
"""a function of the number or the name of an image that returns the picture, or something indexed by it"""
Channels: TypeAlias = float | Sequence[float]
"""a number for all channels, or a number per channel"""


def check_pictures(name: str, pictures: object) -> None:
    """Raise a TypeError unless pictures are a function, an indexed object or None."""
    if pictures is not None and not callable(pictures) and not hasattr(pictures, "__getitem__"):
        raise TypeError(f"`{name}` must be a function of a number or be indexed by it; got {type(pictures).__name__}.")


def picture_at(argument: str, pictures: Pictures, number: int | str) -> Image:
    """Return the picture with a number or name, in RGB.

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
    """Convert a picture or an item of a data set to an image of Pillow in RGB, on white where it is transparent.

    Raises:
        TypeError: no picture, or one of a dtype that pictures do not have.
        ValueError: another shape, no pixels, or values outside of [0, 1].
    """
    picture = _find_picture(item)
    if isinstance(item, Mapping) and picture is item:
        keys = _checks.listed(item) or "an empty dict"
        raise ValueError(f"`{name}` must have the key 'image'; got {keys}.")
    image_module = pillow().Image
    image: Image = picture
    if isinstance(picture, (Tensor, np.ndarray)):
        image = image_module.fromarray(_pixels_of(name, picture))
    elif not isinstance(picture, image_module.Image):
        raise TypeError(f"`{name}` must be {_ALLOWED}; got {type(picture).__name__}.")
    if 0 in image.size:
        raise ValueError(f"`{name}` must have at least one pixel; got {image.width} x {image.height}.")
    if image.mode.startswith("I") and np.asarray(image).max() > _WHITE:  # 16 bits, which Pillow would clip
        levels = np.asarray(image).clip(0, _WHITE_IN_16_BITS) * (_WHITE / _WHITE_IN_16_BITS)
        image = image_module.fromarray(levels.round().astype(np.uint8))
    if image.mode in {"RGBA", "LA", "PA"} or "transparency" in image.info:
        transparent = image.convert("RGBA")
        white = image_module.new("RGBA", transparent.size, "white")
        image = image_module.alpha_composite(white, transparent)
    return image.convert("RGB")


def _find_picture(item: Any) -> Any:
    """Return the picture in an item of a data set; any other item is the picture itself."""
    if isinstance(item, Mapping):
        return item.get("image", item)
    if isinstance(item, (tuple, list)) and item:
        return item[0]
    return item


def _pixels_of(name: str, picture: Tensor | NDArray[Any]) -> NDArray[np.uint8]:
    """Return a tensor, channels first, or an array, channels last, as an array [H, W] or [H, W, 3 or 4] for Pillow."""
    shape = list(picture.shape)
    color_shape = "[H, W, 3]"
    if isinstance(picture, Tensor):
        color_shape = "[3, H, W]"
        picture = _to_bytes(name, picture.detach().cpu())
        if picture.ndim == 3:
            picture = picture.permute(1, 2, 0)
        picture = picture.numpy()
    elif picture.dtype != np.uint8:
        raise TypeError(f"`{name}` must have the dtype uint8 as an array; got {picture.dtype}.")
    has_channels = picture.ndim == 3
    if picture.ndim != 2 and not (has_channels and picture.shape[2] in _CHANNELS):
        raise ValueError(f"`{name}` must have shape {color_shape}, or 1 or 4 channels, or [H, W]; got {shape}.")
    if 0 in shape:
        raise ValueError(f"`{name}` must have at least one pixel; got {shape}.")
    if has_channels and picture.shape[2] == 1:
        picture = picture[..., 0]
    return np.ascontiguousarray(picture)


def _to_bytes(name: str, picture: Tensor) -> Tensor:
    """Convert floats in [0, 1] to uint8; uint8 stays."""
    if not picture.is_floating_point():
        if picture.dtype != torch.uint8:
            raise TypeError(f"`{name}` must have the dtype uint8 or a floating point dtype; got {picture.dtype}.")
        return picture
    picture = picture.double()
    if picture.numel():
        low, high = (float(bound) for bound in picture.aminmax())
        is_within = low >= -_ROUNDING and high <= 1 + _ROUNDING  # NaN is not
        if not is_within:
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
    undo = partial(_denormalize, mean=_to_channels("mean", mean), std=_to_channels("std", std))
    if pictures is None:
        return None
    if callable(pictures):
        function = pictures
        return lambda number: undo(function(number))
    return _DenormalizedPictures(pictures, undo)


def _to_channels(argument: str, values: Channels) -> Tensor:
    """Return a number for all channels, or a number per channel, as a tensor [channels, 1, 1]."""
    numbers = list(values) if isinstance(values, (Sequence, Tensor)) else [values]
    for number in numbers:
        _checks.number(argument, float(number) if isinstance(number, Tensor) else number)
    return torch.tensor([float(number) for number in numbers], dtype=torch.float64, device="cpu").view(-1, 1, 1)


def _denormalize(item: Any, mean: Tensor, std: Tensor) -> Any:
    """Return the picture in an item of a data set as before its normalization; only floats are normalized."""
    picture = _find_picture(item)
    if isinstance(picture, Tensor) and picture.is_floating_point():
        return picture.detach().cpu().double() * std + mean
    return picture


@dataclass(frozen=True)
class _DenormalizedPictures:
    """Pictures by number or name, before their normalization."""

    pictures: Any
    undo: Callable[[Any], Any]

    def __getitem__(self, number: Any) -> Any:
        return self.undo(self.pictures[number])

"""What images are called."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor


def name_images(image: Int[Tensor, " images"], names: Sequence[str] | None) -> list[int | str]:
    """The names of images by their numbers; the numbers or ids themselves where there are no names."""
    numbers = image.tolist()
    return numbers if names is None else [names[number] for number in numbers]

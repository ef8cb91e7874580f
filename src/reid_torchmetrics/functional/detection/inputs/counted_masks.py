"""What is asked of masks of one image, in whatever form they are counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Float
from torch import Tensor


class CountedMasks(ABC):
    """Masks of one image in a form in which pixels are counted fast; made by `count_masks`."""

    size: tuple[int, int]

    @abstractmethod
    def __len__(self) -> int:
        """Number of masks."""

    @abstractmethod
    def areas(self) -> Float[Tensor, " masks"]:
        """Numbers of pixels, float64."""

    @abstractmethod
    def boxes(self) -> Float[Tensor, "masks 4"]:
        """The boxes [x, y, width, height] that hold all pixels, float64; all 0 for a mask without any."""

    @abstractmethod
    def intersections(self, others: Any) -> Float[Tensor, "masks others"]:
        """Number of pixels that each mask has in common with each of others of the same class, float64."""

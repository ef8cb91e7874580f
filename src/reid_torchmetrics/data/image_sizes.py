"""Sizes of images, one for all of them or one by name, and shares of their width and height."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from reid_torchmetrics import _checks
from reid_torchmetrics.files import bare_name

Size: TypeAlias = tuple[int, int]
Sizes: TypeAlias = Size | Mapping[str, Size] | None

_ROUNDING = 0.01  # tolerance of shares, as in Ultralytics
LEAST_SHARE = -_ROUNDING
"""least share of the image, up to rounding"""
MOST_SHARE = 1 + _ROUNDING
"""largest share of the image, up to rounding"""


def are_shares(numbers: Float[NDArray[np.float64], ...]) -> Bool[NDArray[np.bool_], ...]:
    """Return which numbers lie within the image, up to rounding; NaN does not."""
    is_share: NDArray[np.bool_] = (numbers >= LEAST_SHARE) & (numbers <= MOST_SHARE)
    return is_share


class ImageSizes:
    """Width and height of images in pixels.

    Args:
        sizes: One size for all images, or sizes by name; None if coordinates are not scaled.
    """

    def __init__(self, sizes: Sizes = None) -> None:
        self.sizes = sizes
        self.by_bare_name: dict[str, list[str]] = {}
        if isinstance(sizes, Mapping):
            for name in sizes:
                self.by_bare_name.setdefault(bare_name(str(name)), []).append(name)

    def find(self, name: str) -> Size:
        """Return the size of an image, or (1, 1) if coordinates are not scaled.

        Raises:
            TypeError: Sizes that are neither a pair nor pairs by name.
            ValueError: There is no size for the image, or names that differ in their suffix have several.
        """
        sizes = self.sizes
        if sizes is None:
            return 1, 1
        if isinstance(sizes, Mapping):
            names = [name] if name in sizes else self.by_bare_name.get(bare_name(name), [])
            if len({tuple(sizes[key]) for key in names}) != 1:
                got = _checks.listed(names) or "none"
                raise ValueError(f"`image_sizes` must have the size of each image; got {got} of {name!r}.")
            sizes = sizes[names[0]]
        _checks.positive_ints("image_sizes", sizes, distinct=False)
        if len(sizes) != 2:
            raise ValueError(f"`image_sizes` must be width and height; got {sizes!r}.")
        return sizes

    def of_lines(self, files: Mapping[str, slice]) -> Float[NDArray[np.float64], "lines 2"]:
        """Return the size of the image of each line, given the lines of each image in the order of all lines."""
        lengths = [lines.stop - lines.start for lines in files.values()]
        sizes = np.array([self.find(name) for name in files], np.float64).reshape(-1, 2)
        return np.repeat(sizes, lengths, axis=0)

"""Whether boxes seem to be shares of an image where pixels are read."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

LEAST_BOXES = 10
"""fewer say nothing"""
ROUNDING, _BEYOND = 0.01, 0.1
"""that shares may be beyond an image: points, and boxes of networks that do not clip"""
MOST = 0.9
"""the share of boxes that are most of them"""


def are_within(boxes: Float[Tensor, "boxes 4"]) -> bool:
    """Whether all numbers of most boxes are from 0 to 1, give or take."""
    is_share = ((boxes - 0.5).abs() <= 0.5 + _BEYOND).all(1)
    return float(is_share.double().mean()) >= MOST


def are_shares(boxes: Float[Tensor, "boxes 4"], sides: Float[Tensor, "boxes 2"]) -> bool:
    """Whether boxes that are within [0, 1] must be shares: they have more than one size, and not only whole numbers."""
    return bool((sides != sides[0]).any() & (boxes != boxes.floor()).any())

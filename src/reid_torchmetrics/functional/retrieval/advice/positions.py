"""Positions that can hardly be meant under a radius: they have gone through float32, or are degrees."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

MOST_POSITIONS = 4096
"""positions of each side that are looked at"""
LATITUDE, LONGITUDE = 90, 180
"""the largest degrees"""
_PART_OF_RADIUS = 100  # that rounding may be, without a word


def find_rounding(
    query: Float[Tensor, "queries axes"], gallery: Float[Tensor, "gallery axes"], radius: float
) -> tuple[float, float] | None:
    """Return by how much positions were rounded, and the largest position, if they have gone through float32.

    Whole numbers, such as those of frames, and few positions say nothing.
    """
    values = _joined(query, gallery)
    if values is None:
        return None
    largest = values.abs().amax(0)
    rounding = torch.finfo(torch.float32).eps * largest / 2
    if bool((values == values.float()).all()) and bool((rounding > radius / _PART_OF_RADIUS).any()):
        return float(rounding.max()), float(largest.max())
    return None


def seem_degrees(query: Float[Tensor, "queries axes"], gallery: Float[Tensor, "gallery axes"], radius: float) -> bool:
    """Whether positions are degrees beside a radius of 1 or more.

    Meters of so small a plan begin near 0 or lie around it; degrees of a region lie far from it along some axis.
    Degrees of the whole world cannot be told from a plan.
    """
    values = _joined(query, gallery)
    if values is None or radius < 1 or values.shape[1] != 2:
        return False
    ends = sorted(values.abs().amax(0).tolist())
    spread = values.amax(0) - values.amin(0)
    are_far = (values.abs().amin(0) > spread) & (spread > 0)
    return ends[0] <= LATITUDE and ends[1] <= LONGITUDE and bool(are_far.any())


def _joined(query: Tensor, gallery: Tensor) -> Tensor | None:
    """Return the first positions of both sides; None for whole numbers, or for none."""
    values = torch.cat([query[:MOST_POSITIONS], gallery[:MOST_POSITIONS]])
    if not len(values) or bool((values == values.round()).all()):
        return None
    return values

"""Checks for positions that do not fit a radius: rounded to float32, or in degrees."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values

from .case import RetrievalCase

MOST_POSITIONS = 4096
"""number of positions of queries, and of gallery items, that are checked"""
LATITUDE, LONGITUDE = 90, 180
"""the largest values in degrees"""
_PART_OF_RADIUS = 100  # rounding by less than the radius divided by this is accepted


def has_radius(case: RetrievalCase) -> bool:
    """Return whether positions within a radius are positives."""
    return case.protocol.radius is not None


def find_rounded(case: RetrievalCase) -> Values | None:
    """Return the error of positions that were rounded to float32."""
    rounding = None if case.positions is None else find_rounding(*case.positions)
    if rounding is None:
        return None
    error, largest = rounding
    return {"error": f"{error:.2g}", "largest": f"{largest:,.0f}", "radius": f"{case.protocol.radius:g}"}


def find_degrees(case: RetrievalCase) -> Values | None:
    """Return the radius of positions in degrees that seems to be in meters."""
    if case.positions is None or not seem_degrees(*case.positions):
        return None
    return {"radius": f"{case.protocol.radius:g}"}


def find_rounding(
    query: Float[Tensor, "queries axes"], gallery: Float[Tensor, "gallery axes"], radius: float
) -> tuple[float, float] | None:
    """Return the rounding error of positions that were rounded to float32, and the largest position; None if not.

    Whole numbers, such as numbers of frames, are exact in float32, so they show nothing.
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
    """Return whether positions seem to be degrees, although the radius is 1 or more.

    On a plan of this size meters usually begin near 0 or lie around it; degrees of a region are far from 0 on some
    axis. Degrees of the whole world look like meters on a plan, and are not detected.
    """
    values = _joined(query, gallery)
    if values is None or radius < 1 or values.shape[1] != 2:
        return False
    smaller, larger = sorted(values.abs().amax(0).tolist())
    spread = values.amax(0) - values.amin(0)
    are_far = (values.abs().amin(0) > spread) & (spread > 0)
    return smaller <= LATITUDE and larger <= LONGITUDE and bool(are_far.any())


def _joined(query: Tensor, gallery: Tensor) -> Tensor | None:
    """Return the first positions of queries and gallery; None if all are whole numbers, or there are none."""
    values = torch.cat([query[:MOST_POSITIONS], gallery[:MOST_POSITIONS]])
    if not len(values) or bool((values == values.round()).all()):
        return None
    return values

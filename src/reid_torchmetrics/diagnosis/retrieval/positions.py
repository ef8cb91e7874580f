"""Checks for positions that do not fit a radius: rounded to float32, or in degrees."""

from __future__ import annotations

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values, values_if

from .case import RetrievalCase, fact

MOST_POSITIONS = 4096
"""number of positions of queries, and of gallery items, that are checked"""
LATITUDE, LONGITUDE = 90, 180
"""the largest values in degrees"""
_PART_OF_RADIUS = 100  # rounding by less than the radius divided by this is accepted


def has_radius(case: RetrievalCase) -> bool:
    """Return whether positions within a radius are positives."""
    return case.protocol.radius is not None


@fact(
    message="`positions` seem to be rounded to float32: the error is up to {error} at {largest}, and the `radius`"
    " is {radius}. Pass positions that were float64 from the start.",
    suspect=has_radius,
)
def rounded_positions(case: RetrievalCase) -> Values | None:
    """Look for positions that were rounded to float32.

    Positions are not whole numbers, all are exact in float32, and float32 rounds by more than a hundredth of the
    radius.
    """
    # Whole numbers, such as numbers of frames, are exact in float32, so they show nothing.
    values, radius = _values_and_radius(case)
    if values is None:
        return None
    largest = values.abs().amax(0)
    rounding = torch.finfo(torch.float32).eps * largest / 2
    are_rounded = bool((values == values.float()).all()) and bool((rounding > radius / _PART_OF_RADIUS).any())
    error, position = float(rounding.max()), float(largest.max())
    return values_if(are_rounded, error=f"{error:.2g}", largest=f"{position:,.0f}", radius=f"{radius:g}")


@fact(
    message="`positions` seem to be degrees, as they are within 90 and 180, but the `radius` is {radius}. Pass both"
    " in one unit, such as meters of UTM.",
    suspect=has_radius,
    explained_by=("rounded_positions",),
)
def positions_in_degrees(case: RetrievalCase) -> Values | None:
    """Look for positions in degrees with a radius in meters.

    The radius is at least 1, and positions have two axes with values up to {LATITUDE} and {LONGITUDE}, which are far
    from 0 on one axis.
    """
    # On a plan of this size meters usually begin near 0 or lie around it; degrees of a region are far from 0 on some
    # axis. Degrees of the whole world look like meters on a plan, and are not detected.
    values, radius = _values_and_radius(case)
    if values is None or radius < 1 or values.shape[1] != 2:
        return None
    smaller, larger = sorted(values.abs().amax(0).tolist())
    spread = values.amax(0) - values.amin(0)
    are_far = (values.abs().amin(0) > spread) & (spread > 0)
    are_degrees = smaller <= LATITUDE and larger <= LONGITUDE and bool(are_far.any())
    return values_if(are_degrees, radius=f"{radius:g}")


def _values_and_radius(case: RetrievalCase) -> tuple[Tensor | None, float]:
    """Return the first positions of queries and gallery, None if all are whole numbers, and the radius."""
    query, gallery, radius = case.positions
    values = torch.cat([query[:MOST_POSITIONS], gallery[:MOST_POSITIONS]])
    return None if bool((values == values.round()).all()) else values, radius

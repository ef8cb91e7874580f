"""Object keypoint similarity, from its definition: nothing here may come from the package."""

import math
from collections.abc import Sequence

Point = tuple[float, float, float]
"""x, y, visibility"""
LEAST_AREA = 2.0**-52


def similarity(
    points: Sequence[Sequence[float]], true: Sequence[Point], area: float, box: Sequence[float], sigmas: Sequence[float]
) -> float:
    """Mean of exp(-d^2 / (8 sigma^2 area)) over labeled points; without any, d is the way to a box thrice as large."""
    labeled = [place for place, (_, _, visibility) in enumerate(true) if visibility > 0]
    terms = []
    for place in labeled or range(len(true)):
        x, y = points[place][:2]
        if labeled:
            dx, dy = x - true[place][0], y - true[place][1]
        else:
            left, top, width, height = box
            dx = max(0.0, left - width - x, x - (left + 2 * width))
            dy = max(0.0, top - height - y, y - (top + 2 * height))
        terms.append(math.exp(-(dx**2 + dy**2) / (2 * sigmas[place]) ** 2 / (area + LEAST_AREA) / 2))
    return sum(terms) / len(terms)

"""What each kind of error costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reid_torchmetrics.functional.detection.errors import ErrorBreakdown
from reid_torchmetrics.plot.axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_ALL_TOGETHER = ("all false positives", "all misses")
_ROOM = 1.25  # for the number beside the longest bar
_LEAST_WIDTH = 1.0  # percentage points, so that bars of almost nothing are not seen as long ones


def plot_error_breakdown(breakdown: ErrorBreakdown, *, ax: Axes | None = None) -> tuple[Figure | SubFigure, Axes]:
    """Draw the percentage points of average precision that the repair of each kind of error adds, with their counts.

    Below them is what is added if all false positives, or all misses, are dropped. What is added by one repair is not
    added to that of another: the sum of the bars is no number. Drawn into `ax` if given. Returns the figure and its
    axes.

    Args:
        breakdown: `results.error_breakdown()`, or what `error_breakdown` gives.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    names = [*breakdown.gains, *_ALL_TOGETHER]
    gains = [*breakdown.gains.values(), breakdown.false_positive_gain, breakdown.false_negative_gain]
    points = [0.0 if math.isnan(gain) else 100 * gain for gain in gains]
    ax = new_axes() if ax is None else ax
    places = [*range(len(breakdown.gains)), *(len(breakdown.gains) + 0.5 + place for place in range(2))]
    colors = ["tab:blue"] * len(breakdown.gains) + ["tab:gray"] * len(_ALL_TOGETHER)
    ax.barh(places, points, color=colors)
    for place, point, gain in zip(places, points, gains, strict=True):
        text = "–" if math.isnan(gain) else f"{point:.1f}"  # noqa: RUF001 - a dash that is as wide as a digit
        ax.text(max(point, 0.0), place, f" {text}", va="center", fontsize="small")
    counts = [f" ({count:,})" for count in breakdown.counts.values()]
    ax.set_yticks(places, [f"{name}{count}" for name, count in zip(names, [*counts, "", ""], strict=True)])
    ax.invert_yaxis()
    base = breakdown.average_precision
    said = "undefined: no ground truths" if math.isnan(base) else f"AP is {100 * base:.1f} %"
    ax.set(
        xlim=(0, max(_LEAST_WIDTH, _ROOM * max(points))),
        xlabel="AP gained by repairing it (percentage points)",
        title=f"Kinds of errors; {said}",
    )
    return ax.figure, ax

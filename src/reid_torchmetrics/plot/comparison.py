"""What two models differ by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from reid_torchmetrics.functional.retrieval.evaluation import Comparison, Difference

from .axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_IN_USUAL_FIGURE = 10
_ROW_HEIGHT = 0.32  # inches


def plot_comparison(comparison: Comparison, *, ax: Axes | None = None) -> tuple[Figure | SubFigure, Axes]:
    """Draw the differences of two models with their confidence intervals, a row for each number.

    In percentage points, b - a, so b is better to the right of 0. At the right are the differences and their p-values;
    the point is filled where p is at most 1 - `level`. The mean rank is no share: its difference is written but
    not drawn. Nor is a difference drawn that is undefined. Drawn into `ax` if given. Returns the figure and its axes;
    the figure is higher where more than ten numbers were compared.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    differences = comparison.differences
    ax = _axes_for(len(differences)) if ax is None else ax
    ax.axvline(0, color="black", linewidth=0.8)
    for row, difference in enumerate(differences.values()):
        if _is_drawn(difference):
            _draw_interval(ax, row, difference, is_filled=difference.p_value <= 1 - comparison.level)
        ax.text(1.02, row, _words(difference), transform=ax.get_yaxis_transform(), va="center", fontsize="small")
    ax.set(yticks=range(len(differences)), yticklabels=list(differences))
    ax.set_ylim(len(differences) - 0.5, -0.5)  # the first on top
    if not any(each.low or each.high for each in differences.values() if _is_drawn(each)):
        ax.set_xlim(-1, 1)  # nothing differs
    ax.set_xlabel("b - a (percentage points); b is better to the right of 0")
    drawn = ", identities drawn" if comparison.per_identity else ""
    compared = f"{comparison.num_valid} of {comparison.num_queries} queries"
    ax.set_title(f"{compared}, {100 * comparison.level:g} % intervals{drawn}")
    ax.grid(alpha=0.3, axis="x")
    return ax.figure, ax


def _axes_for(num_rows: int) -> Axes:
    ax = new_axes()
    more = max(0, num_rows - _MOST_IN_USUAL_FIGURE)
    figure = cast("Figure", ax.figure)
    figure.set_figheight(figure.get_figheight() + _ROW_HEIGHT * more)
    return ax


def _is_drawn(difference: Difference) -> bool:
    return not (difference.is_rank or math.isnan(difference.difference))


def _draw_interval(ax: Axes, row: int, difference: Difference, *, is_filled: bool) -> None:
    low, middle, high = (100 * value for value in (difference.low, difference.difference, difference.high))
    ax.plot([low, high], [row, row], color="tab:blue", linewidth=2, solid_capstyle="butt")
    ax.plot([middle], [row], marker="o", color="tab:blue", markerfacecolor="tab:blue" if is_filled else "white")


def _words(difference: Difference) -> str:
    if math.isnan(difference.difference):
        return "undefined"
    said = f"{difference.difference:+.2f} ranks" if difference.is_rank else f"{100 * difference.difference:+.2f}"
    return f"{said}  p = {difference.p_value:.4f}"

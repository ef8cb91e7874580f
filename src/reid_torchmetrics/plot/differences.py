"""Differences in percentage points: between two models, and by the repair of each kind of error."""

from __future__ import annotations

import math

from reid_torchmetrics.functional.displays import UNDEFINED, counted
from reid_torchmetrics.tasks import Comparison, Difference
from reid_torchmetrics.tasks.detection_errors import ErrorBreakdown

from .axes import USUAL_SIZE, Axes, Plotted, new_axes, short_name

_MOST_IN_USUAL_FIGURE = 10
_ROW_HEIGHT = 0.32  # inches
_MOST_CHARACTERS = 16  # of the name of a model: more of two have no room below the axis

_ALL_TOGETHER = ("all false positives", "all misses")
_ROOM = 1.25  # for the number beside the longest bar
_LEAST_WIDTH = 1.0  # percentage points, so that bars of almost nothing are not seen as long ones


def plot_comparison(comparison: Comparison, *, ax: Axes | None = None) -> Plotted:
    """Draw the differences of two models with their confidence intervals, a row for each number.

    Differences are in percentage points; the label of the axis says on which side of 0 each model is better. At the
    right are the differences and their p-values, with those by Holm's correction if more than two models were compared.
    A point is filled if its last p-value is at most 1 - `level`. If more than two models were compared, the second one
    is drawn; `comparison.by_name` has all of them. The difference of the mean rank, which is no share, is written but
    not drawn, and neither is an undefined one. The plot is drawn into `ax` if it is given. Returns the figure and its
    axes; a figure of more than ten numbers is higher.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    differences = list(comparison.differences.values())
    num_rows = len(differences)
    ax = ax or new_axes(size_for_differences(USUAL_SIZE, num_rows))
    ax.axvline(0, color="black", linewidth=0.8)
    ends: list[float] = []
    for row, difference in enumerate(differences):
        is_undefined = math.isnan(difference.difference)
        if not (is_undefined or difference.is_rank or difference.lower_is_better):
            ends.extend(_draw_interval(ax, row, difference, significance=1 - comparison.level))
        text = UNDEFINED if is_undefined else _difference_text(difference)
        ax.text(1.02, row, text, transform=ax.get_yaxis_transform(), va="center", fontsize="small")
    # The first row is on top.
    titles = [difference.title for difference in differences]
    ax.set(yticks=range(num_rows), yticklabels=titles, ylim=(num_rows - 0.5, -0.5))
    if not any(ends):
        ax.set_xlim(-1, 1)  # nothing differs
    a, b = (short_name(name, _MOST_CHARACTERS) for name in comparison.names)
    xlabel = f"← {a} is better | {b} is better →\ndifference (percentage points)"
    ax.set(xlabel=xlabel, title=_comparison_title(comparison))
    ax.xaxis.label.set_fontsize("small")
    ax.grid(alpha=0.3, axis="x")
    return ax.figure, ax


def size_for_differences(size: tuple[float, float], num_rows: int) -> tuple[float, float]:
    """Return the size of a figure of differences: `size`, or higher for many rows."""
    width, height = size
    num_more_rows = max(0, num_rows - _MOST_IN_USUAL_FIGURE)
    return width, height + _ROW_HEIGHT * num_more_rows


def _draw_interval(ax: Axes, row: int, difference: Difference, *, significance: float) -> tuple[float, float]:
    """Draw a difference with its interval, with a filled point if it is significant; return the ends in percent."""
    low = 100 * difference.low
    high = 100 * difference.high
    ax.plot([low, high], [row, row], color="tab:blue", linewidth=2, solid_capstyle="butt")
    face = "tab:blue" if last_p_value(difference) <= significance else "white"
    ax.plot([100 * difference.difference], [row], marker="o", color="tab:blue", markerfacecolor=face)
    return low, high


def last_p_value(difference: Difference) -> float:
    """Return the p-value that decides: the one by Holm's correction if there is one."""
    return difference.p_holm if difference.p_holm >= 0 else difference.p_value


def _difference_text(difference: Difference) -> str:
    """Return a difference with its p-values."""
    factor = 1 if difference.is_rank else 100
    text = f"{factor * difference.difference:+.2f}"
    if difference.is_rank and difference.lower_is_better:
        text += " ranks"
    text += f"  p = {difference.p_value:.4f}"
    if difference.p_holm >= 0:
        text += f", Holm {difference.p_holm:.4f}"
    return text


def _comparison_title(comparison: Comparison) -> str:
    """Return the number of images or queries, and the level of the intervals."""
    samples = f"{comparison.num_valid:,} of {counted(comparison.num_queries, 'query')}"
    if comparison.protocol is None:
        samples = counted(comparison.num_queries, "image")
    drawn = ", identities drawn" if comparison.per_identity else ""
    return f"{samples}, {100 * comparison.level:g} % intervals{drawn}"


def plot_error_breakdown(breakdown: ErrorBreakdown, *, ax: Axes | None = None) -> Plotted:
    """Draw the percentage points of average precision that the repair of each kind of error adds, with their counts.

    Below the kinds of errors are the gains if all false positives, or all misses, are dropped. The gains of two repairs
    do not add up, so the sum of the bars means nothing. Returns the figure and its axes.

    Args:
        breakdown: `results.error_breakdown()`, or the result of `error_breakdown`.
        ax: axes to draw into; None for those of a new figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    names = [f"{name} ({breakdown.counts[name]:,})" for name in breakdown.gains]
    names.extend(_ALL_TOGETHER)
    gains = [*breakdown.gains.values(), breakdown.false_positive_gain, breakdown.false_negative_gain]
    points = [0.0 if math.isnan(gain) else 100 * gain for gain in gains]
    # The last two bars are set apart from the kinds of errors.
    num_kinds = len(breakdown.gains)
    positions = [*range(num_kinds), num_kinds + 0.5, num_kinds + 1.5]
    colors = ["tab:blue"] * num_kinds + ["tab:gray"] * len(_ALL_TOGETHER)
    ax = ax or new_axes()
    ax.barh(positions, points, color=colors)
    for position, point, gain in zip(positions, points, gains, strict=True):
        text = UNDEFINED if math.isnan(gain) else f"{point:.1f}"
        ax.text(max(point, 0.0), position, f" {text}", va="center", fontsize="small")
    ax.set_yticks(positions, names)
    ax.invert_yaxis()
    base = breakdown.average_precision
    base_text = f"{UNDEFINED}: no ground truths" if math.isnan(base) else f"AP is {100 * base:.1f} %"
    ax.set(xlabel="AP gained (percentage points)", title=f"Kinds of errors; {base_text}")
    ax.set_xlim(0, max(_LEAST_WIDTH, _ROOM * max(points)))
    return ax.figure, ax

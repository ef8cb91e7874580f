"""Differences in percentage points: between two models, and by the repair of each kind of error."""

from __future__ import annotations

import math

from reid_torchmetrics.functional.detection.errors import ErrorBreakdown
from reid_torchmetrics.functional.retrieval.evaluation import Comparison

from .axes import USUAL_SIZE, Axes, Plotted, new_axes, shown

_MOST_IN_USUAL_FIGURE = 10
_ROW_HEIGHT = 0.32  # inches
_MOST_CHARACTERS = 16  # of the name of a model: more of two have no room below the axis

_ALL_TOGETHER = ("all false positives", "all misses")
_ROOM = 1.25  # for the number beside the longest bar
_LEAST_WIDTH = 1.0  # percentage points, so that bars of almost nothing are not seen as long ones


def plot_comparison(comparison: Comparison, *, ax: Axes | None = None) -> Plotted:
    """Draw the differences of two models with their confidence intervals, a row for each number.

    In percentage points; the label says on which side of 0 each model is better. At the right are the differences and
    their p-values, with those by Holm's correction where more than two models were compared; the point is filled where
    the last one is at most 1 - `level`. Of more than two models it draws the second; `comparison.by_name` has all. The
    mean rank is no share: its difference is written but not drawn. Nor is an undefined difference drawn. Drawn into
    `ax` if given. Returns the figure and its axes; the figure is higher where more than ten numbers were compared.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    differences = comparison.differences
    if ax is None:
        more_rows = max(0, len(differences) - _MOST_IN_USUAL_FIGURE)
        ax = new_axes((USUAL_SIZE[0], USUAL_SIZE[1] + _ROW_HEIGHT * more_rows))
    ax.axvline(0, color="black", linewidth=0.8)
    drawn = []
    for row, each in enumerate(differences.values()):
        p_values = [each.p_value, *([each.p_holm] if each.p_holm >= 0 else [])]
        unit = " ranks" if each.lower_is_better else ""
        said = f"{each.difference:+.2f}{unit}" if each.is_rank else f"{100 * each.difference:+.2f}"
        said += f"  p = {', Holm '.join(f'{p_value:.4f}' for p_value in p_values)}"
        if math.isnan(each.difference):
            said = "undefined"
        elif not (each.is_rank or each.lower_is_better):
            low, middle, high = (100 * value for value in (each.low, each.difference, each.high))
            ax.plot([low, high], [row, row], color="tab:blue", linewidth=2, solid_capstyle="butt")
            face = "tab:blue" if p_values[-1] <= 1 - comparison.level else "white"
            ax.plot([middle], [row], marker="o", color="tab:blue", markerfacecolor=face)
            drawn += [low, high]
        ax.text(1.02, row, said, transform=ax.get_yaxis_transform(), va="center", fontsize="small")
    # The first on top.
    names = [each.title for each in differences.values()]
    ax.set(yticks=range(len(differences)), yticklabels=names, ylim=(len(differences) - 0.5, -0.5))
    if not any(drawn):
        ax.set_xlim(-1, 1)  # nothing differs
    (a, b), identities = comparison.names, ", identities drawn" if comparison.per_identity else ""
    num = comparison.num_queries
    counted = f"{num} images" if comparison.protocol is None else f"{comparison.num_valid} of {num} queries"
    title = f"{counted}, {100 * comparison.level:g} % intervals{identities}"
    a, b = shown(a, _MOST_CHARACTERS), shown(b, _MOST_CHARACTERS)
    ax.set(xlabel=f"← {a} is better | {b} is better →\ndifference (percentage points)", title=title)
    ax.xaxis.label.set_fontsize("small")
    ax.grid(alpha=0.3, axis="x")
    return ax.figure, ax


def plot_error_breakdown(breakdown: ErrorBreakdown, *, ax: Axes | None = None) -> Plotted:
    """Draw the percentage points of average precision that the repair of each kind of error adds, with their counts.

    Below them are the gains if all false positives, or all misses, are dropped. The gains of two repairs do not add up:
    the sum of the bars is no number. Drawn into `ax` if given. Returns the figure and its axes.

    Args:
        breakdown: `results.error_breakdown()`, or the result of `error_breakdown`.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    num = len(breakdown.gains)
    names = [f"{name} ({breakdown.counts[name]:,})" for name in breakdown.gains]
    gains = [*breakdown.gains.values(), breakdown.false_positive_gain, breakdown.false_negative_gain]
    points = [0.0 if math.isnan(gain) else 100 * gain for gain in gains]
    ax = new_axes() if ax is None else ax
    places = [*range(num), num + 0.5, num + 1.5]
    ax.barh(places, points, color=["tab:blue"] * num + ["tab:gray"] * len(_ALL_TOGETHER))
    for place, point, gain in zip(places, points, gains, strict=True):
        text = "–" if math.isnan(gain) else f"{point:.1f}"  # noqa: RUF001 - a dash that is as wide as a digit
        ax.text(max(point, 0.0), place, f" {text}", va="center", fontsize="small")
    ax.set_yticks(places, [*names, *_ALL_TOGETHER])
    ax.invert_yaxis()
    base = breakdown.average_precision
    said = "undefined: no ground truths" if math.isnan(base) else f"AP is {100 * base:.1f} %"
    ax.set(xlabel="AP gained by repairing it (percentage points)", title=f"Kinds of errors; {said}")
    ax.set_xlim(0, max(_LEAST_WIDTH, _ROOM * max(points)))
    return ax.figure, ax

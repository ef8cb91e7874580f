"""Axes of a figure that pyplot does not know, scales in percent, and the names and legends on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from reid_torchmetrics._extras import require
from reid_torchmetrics.functional.named_numbers import NamedNumbers

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

# In words, as Matplotlib is imported when something is drawn.
Axes: TypeAlias = "matplotlib.axes.Axes"
Plotted: TypeAlias = "tuple[matplotlib.figure.Figure | matplotlib.figure.SubFigure, Axes]"
"""a figure and its axes"""
Result = TypeVar("Result")
Named: TypeAlias = Result | Mapping[str, Result]
"""a result, or several by name"""

USUAL_SIZE = (6.4, 4.2)
"""size of a figure in inches; loggers show it well"""
COLUMN_SIZE = (384 / 72, 304 / 72)
"""size of a figure in a column of a page, which is 384 pixels wide: a point is a pixel there"""
THIN_CURVE: dict[str, Any] = {"color": "grey", "linewidth": 0.8, "alpha": 0.35}
"""style of curves that are too many to have names and colors of their own"""
_MOST_CHARACTERS = 28
_MOST_INSIDE = 5  # entries of a legend that leave room for the curves
_CHARACTERS_PER_INCH = 156  # of letters of size 1, below a figure
_HANDLE = 5  # characters that are as wide as the line before a label
_LEGEND_OFFSET = 3.4  # letters from the axes to a legend below their label
_PERCENT_STEPS = {0: 20, 20: 20, 40: 20, 60: 10, 80: 5, 90: 2, 95: 1, 98: 0.5, 99: 0.2}
"""steps between the ticks of an axis in percent, by its start"""


def new_axes(size: tuple[float, float] = USUAL_SIZE) -> Axes:
    """Return axes of a new figure; it need not be closed."""
    require("A figure", "matplotlib")
    from .warning_figure import WarningFigure  # noqa: PLC0415 - a large import that evaluation does not need

    ax: Axes = WarningFigure(figsize=size, layout="constrained").subplots()
    return ax


def set_percent_axis(ax: Axes, which: str, *, lowest: float = 0.0) -> None:
    """Let the axes "x", "y" or "xy" go to 100 %, with whole lines and markers at both ends, on a grid.

    They begin at 0 %, or at the largest of a few round numbers clearly below the `lowest` value, so that curves close
    to 100 % can be read.
    """
    starts = [start for start in _PERCENT_STEPS if lowest > start + (100 - start) / 100]
    start = max(starts, default=0)
    step = _PERCENT_STEPS[start]
    num_steps = round((100 - start) / step)
    ticks = [start + step * number for number in range(num_steps + 1)]
    margin = (100 - start) / 100
    for axis in which:
        ax.set(**{f"{axis}lim": (start - margin, 100 + margin), f"{axis}ticks": ticks})
    ax.grid(alpha=0.3)


def lowest_of_lines(ax: Axes) -> float:
    """Return the lowest value of the lines in axes; 0 if none has a value."""
    lowest_values = []
    for line in ax.lines:
        values = np.asarray(line.get_ydata(), dtype=float)
        values = values[np.isfinite(values)]
        if len(values):
            lowest_values.append(float(values.min()))
    return min(lowest_values, default=0.0)


def set_precision_recall_axes(ax: Axes, title: str) -> None:
    """Label axes of precision over recall, both in percent."""
    ax.set(xlabel="recall (%)", ylabel="precision (%)", title=title)
    set_percent_axis(ax, "xy")


def set_log_percent_axis(ax: Axes, which: str, least: float) -> None:
    """Let the axis "x" or "y" go from `least` to 100 % by powers of ten, plain numbers, on a grid."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    ax.set(**{f"{which}scale": "log", f"{which}lim": (least, 100)})
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set(major_locator=LogLocator(numticks=12), minor_formatter=NullFormatter())
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.grid(alpha=0.3)


def by_name(results: Any) -> Mapping[str, Any]:
    """Return several results by name, or a single one under an empty name."""
    is_single = isinstance(results, NamedNumbers) or not isinstance(results, Mapping)
    return {"": results} if is_single else results


def short_name(name: object, max_characters: int = _MOST_CHARACTERS) -> str:
    """Return a name on one line, without the middle of a long one."""
    line = " ".join(str(name).split())
    if len(line) > max_characters:
        start = line[: max_characters // 2]
        end = line[len(line) - (max_characters - 1) // 2 :]
        line = f"{start}…{end}"
    return line.replace("$", r"\$")  # Matplotlib reads formulas between two of them


def curve_label(name: object, values: str) -> str:
    """Return the text of a legend for a curve: its name, if it has one, and its values."""
    short = short_name(name)
    label = f"{short}  ({values})" if short else values
    return f" {label}" if label.startswith("_") else label  # Matplotlib leaves such labels out


def add_legend(ax: Axes, *, is_below: bool = False, title: str | None = None, loc: str | None = None) -> Plotted:
    """Add a legend inside the axes, or beside them if it is long; return the figure and its axes.

    With `is_below` a shorter one is below the axes, for the curves may be anywhere inside. `loc` is the place inside.
    In a figure of the user's the legend is always inside, for there may be no room around the axes.
    """
    from .warning_figure import WarningFigure  # noqa: PLC0415 - it imports Matplotlib

    _, labels = ax.get_legend_handles_labels()
    placement: dict[str, Any] = {"loc": loc}
    has_room = isinstance(ax.figure, WarningFigure)
    if has_room and len(labels) > _MOST_INSIDE:
        placement = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    elif has_room and is_below:
        placement = _place_below(ax, labels)
    if labels:
        ax.legend(fontsize="small", title=title, title_fontsize="small", **placement)
    return ax.figure, ax


def _place_below(ax: Axes, labels: Sequence[str]) -> dict[str, Any]:
    """Return the placement of a legend below the label of the axis, in as many columns as there is room for."""
    import matplotlib as mpl  # noqa: PLC0415 - a large import that evaluation does not need
    from matplotlib.transforms import ScaledTranslation  # noqa: PLC0415

    letter_size = mpl.rcParams["font.size"]
    figure_width = ax.figure.bbox.width / ax.figure.dpi
    num_characters = int(_CHARACTERS_PER_INCH * figure_width / letter_size)
    label_width = max(map(len, labels), default=0) + _HANDLE
    offset = ScaledTranslation(0, -_LEGEND_OFFSET * letter_size / 72, ax.figure.dpi_scale_trans)
    return {
        "loc": "upper center",
        "bbox_to_anchor": (0.5, 0),
        "bbox_transform": ax.transAxes + offset,
        "ncols": min(max(1, num_characters // label_width), 3),
    }

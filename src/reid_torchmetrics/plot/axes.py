"""Axes of a figure that pyplot does not know, scales in percent, and the names and legends on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

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
THIN_CURVE: dict[str, Any] = {"color": "grey", "linewidth": 0.8, "alpha": 0.35}
"""style of curves that are too many to have names and colors of their own"""
_MOST_CHARACTERS = 28
_MOST_INSIDE = 5  # entries of a legend that leave room for the curves
_LINE = 100  # characters that fit below a figure of the usual width
_HANDLE = 5  # characters that are as wide as the line before a label


def new_axes(size: tuple[float, float] = USUAL_SIZE) -> Axes:
    """Return axes of a new figure; it need not be closed."""
    require("A figure", "matplotlib")
    from .warning_figure import WarningFigure  # noqa: PLC0415 - a large import that evaluation does not need

    ax: Axes = WarningFigure(figsize=size, layout="constrained").subplots()
    return ax


def set_percent_axis(ax: Axes, which: str) -> None:
    """Let the axes "x", "y" or "xy" go from 0 to 100 %, with whole lines and markers at both ends, on a grid."""
    for axis in which:
        ax.set(**{f"{axis}lim": (-1, 101), f"{axis}ticks": range(0, 101, 20)})
    ax.grid(alpha=0.3)


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


def add_legend(
    ax: Axes, *, is_new: bool, is_below: bool = False, title: str | None = None, loc: str | None = None
) -> Plotted:
    """Add a legend inside the axes, or beside new axes if it is long; return the figure and its axes.

    With `is_below` a shorter one is below new axes, for the curves may be anywhere inside. `loc` is the place inside.
    """
    _, labels = ax.get_legend_handles_labels()
    placement: dict[str, Any] = {"loc": loc}
    if is_new and len(labels) > _MOST_INSIDE:
        placement = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    elif is_new and is_below:
        label_width = max(map(len, labels), default=0) + _HANDLE
        num_columns = min(max(1, _LINE // label_width), 3)
        placement = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18), "ncols": num_columns}
    if labels:
        ax.legend(fontsize="small", title=title, title_fontsize="small", **placement)
    return ax.figure, ax

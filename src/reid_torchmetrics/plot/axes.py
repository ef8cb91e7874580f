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
"""of a figure, in inches; loggers show it well"""
MANY: dict[str, Any] = {"color": "grey", "linewidth": 0.8, "alpha": 0.35}
"""the look of curves that are too many to have names and colors of their own"""
_MOST_CHARACTERS = 28
_MOST_INSIDE = 5  # entries of a legend that leave room for the curves
_LINE = 100  # characters that fit below a figure of the usual width
_HANDLE = 5  # characters that are as wide as the line before a label


def new_axes(size: tuple[float, float] = USUAL_SIZE) -> Axes:
    """Axes of a new figure; it need not be closed."""
    require("A figure", "matplotlib")
    from .own_figure import OwnFigure  # noqa: PLC0415 - a large import that evaluation does not need

    ax: Axes = OwnFigure(figsize=size, layout="constrained").subplots()
    return ax


def in_percent(ax: Axes, which: str) -> None:
    """Let the axes "x", "y" or "xy" go from 0 to 100 %, with whole lines and markers at both ends, on a grid."""
    for axis in which:
        ax.set(**{f"{axis}lim": (-1, 101), f"{axis}ticks": range(0, 101, 20)})
    ax.grid(alpha=0.3)


def over_recall(ax: Axes, title: str) -> None:
    """Label axes of precision over recall, both in percent."""
    ax.set(xlabel="recall (%)", ylabel="precision (%)", title=title)
    in_percent(ax, "xy")


def in_log_percent(ax: Axes, which: str, least: float) -> None:
    """Let the axis "x" or "y" go from `least` to 100 % by powers of ten, plain numbers, on a grid."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    ax.set(**{f"{which}scale": "log", f"{which}lim": (least, 100)})
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set(major_locator=LogLocator(numticks=12), minor_formatter=NullFormatter())
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.grid(alpha=0.3)


def by_name(results: Any) -> Mapping[str, Any]:
    """Several results by name, or a single one under no name."""
    is_one = isinstance(results, NamedNumbers) or not isinstance(results, Mapping)
    return {"": results} if is_one else results


def shown(name: object, most: int = _MOST_CHARACTERS) -> str:
    """A name on one line of at most `most` characters, without the middle of a longer one."""
    line = " ".join(str(name).split())
    if len(line) > most:
        line = f"{line[: most // 2]}…{line[len(line) - (most - 1) // 2 :]}"
    return line.replace("$", r"\$")  # matplotlib reads formulas between two of them


def labeled(name: object, said: str) -> str:
    """The text of a legend for a curve, behind the name of the curve if it has one."""
    label = f"{shown(name)}  ({said})" if shown(name) else said
    return f" {label}" if label.startswith("_") else label  # matplotlib leaves such labels out


def with_legend(ax: Axes, *, is_own: bool, is_below: bool = False, title: str | None = None, **options: Any) -> Plotted:
    """A figure and its axes with a legend inside, or beside our own axes if it is long.

    With `is_below` a shorter one is below our own axes, for the curves may be anywhere inside.
    """
    _, labels = ax.get_legend_handles_labels()
    if is_own and len(labels) > _MOST_INSIDE:
        options |= {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    elif is_own and is_below:
        num_columns = _LINE // (max(map(len, labels), default=0) + _HANDLE)
        options |= {"loc": "upper center", "bbox_to_anchor": (0.5, -0.18), "ncols": min(max(1, num_columns), 3)}
    if labels:
        ax.legend(fontsize="small", title=title, title_fontsize="small", **options)
    return ax.figure, ax

"""New axes, in a figure that pyplot does not know, and axes in percent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def new_axes(size: tuple[float, float] = (6.4, 4.2)) -> Axes:
    """Axes of a figure of a size, by default one that loggers show well, which need not be closed."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - a large import that evaluation does not need

    ax: Axes = Figure(figsize=size, layout="constrained").subplots()
    return ax


def in_percent(ax: Axes, which: str) -> None:
    """Let the axes that are named, "x", "y" or "xy", go from 0 to 100 %, with whole lines and markers at both ends."""
    for axis in which:
        ax.set(**{f"{axis}lim": (-1, 101), f"{axis}ticks": range(0, 101, 20)})


def in_log_percent(ax: Axes, which: str, least: float) -> None:
    """Let an axis, "x" or "y", go from `least` to 100 % by powers of ten, written as plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    ax.set(**{f"{which}scale": "log", f"{which}lim": (least, 100)})
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(LogLocator(numticks=12))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())

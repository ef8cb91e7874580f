"""Cumulative matching characteristics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from reid_torchmetrics.plot.axes import new_axes
from reid_torchmetrics.plot.labels import by_name, labeled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


def plot_cmc(curves: Tensor | Mapping[str, Tensor], *, ax: Axes | None = None) -> tuple[Figure | SubFigure, Axes]:
    """Draw one CMC curve, or several by name; a curve [max_rank] holds the CMC at ranks 1 ... max_rank.

    The identification rate in percent over the rank, drawn into `ax` if given. The axis always goes from 0 to 100 %, so
    pictures of several epochs can be compared. The legend says of a curve of NaN that no query was evaluated. Returns
    the figure and its axes; the figure is made without pyplot, so it need not be closed.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    ax = new_axes() if ax is None else ax
    named = by_name(curves)
    for name, curve in named.items():
        percent = 100 * curve.detach().cpu().double().reshape(-1)
        said = "undefined: no query was evaluated" if percent[0].isnan() else f"rank-1 {percent[0]:.1f} %"
        ax.plot(range(1, len(percent) + 1), percent.numpy(), marker="o", markersize=3, label=labeled(name, said))
    ax.set(xlabel="rank", ylabel="identification rate (%)", title="Cumulative matching characteristic")
    max_rank = max(len(curve.reshape(-1)) for curve in named.values())
    margin = max(0.5, 0.03 * max_rank)
    ax.set(xlim=(1 - margin, max_rank + margin), xticks=_rank_ticks(max_rank))
    ax.set(ylim=(-1, 101), yticks=range(0, 101, 20))  # the markers of 0 and 100 % are whole
    ax.grid(alpha=0.3)
    ax.legend(loc="center right")  # curves end high for a good model and low for a useless one
    return ax.figure, ax


def _rank_ticks(max_rank: int) -> list[int]:
    """Rank 1, which is the most read, and some ten round ranks."""
    step = 1 if max_rank <= 10 else 5 * max(1, max_rank // 50)
    return [1, *range(step if step > 1 else 2, max_rank + 1, step)]

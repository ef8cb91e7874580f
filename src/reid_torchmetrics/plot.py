"""Pictures of plain results; matplotlib is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


def plot_cmc(curves: Tensor | Mapping[str, Tensor], *, ax: Axes | None = None) -> tuple[Figure | SubFigure, Axes]:
    """Draw one CMC curve, or several by name; a curve [max_rank] holds the CMC at ranks 1 ... max_rank.

    The identification rate in percent over the rank, drawn into `ax` if given. Returns the figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    import matplotlib.pyplot as plt  # noqa: PLC0415 - a large import that evaluation does not need

    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    named = curves if isinstance(curves, Mapping) else {"": curves}
    for name, curve in named.items():
        percent = 100 * curve.detach().cpu().double().reshape(-1)
        ranks = range(1, len(percent) + 1)
        label = f"{name}  (rank-1 {percent[0]:.1f} %)".strip()
        ax.plot(ranks, percent.numpy(), marker="o", markersize=3, label=label)
    ax.set(xlabel="rank", ylabel="identification rate (%)", title="Cumulative matching characteristic")
    ax.set_xticks(_rank_ticks(max(len(curve.reshape(-1)) for curve in named.values())))
    ax.set_ylim(top=101)
    ax.grid(alpha=0.3)
    ax.legend(loc="lower right")
    return ax.figure, ax


def _rank_ticks(max_rank: int) -> list[int]:
    """Rank 1, which is the most read, and some ten round ranks."""
    step = 1 if max_rank <= 10 else 5 * max(1, max_rank // 50)
    return [1, *range(step if step > 1 else 2, max_rank + 1, step)]

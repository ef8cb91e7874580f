"""How scores are spread, and where thresholds cut them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from reid_torchmetrics.functional.retrieval.verification import ScoreHistogram, Verification
from reid_torchmetrics.plot.axes import in_log_percent, new_axes
from reid_torchmetrics.plot.labels import add_legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_LEAST = 1e-3  # percent of the pairs in a bin: fewer are not drawn
_DASHES = ("dashed", "dotted", "dashdot")


def plot_scores(
    histogram: ScoreHistogram,
    verification: Verification | None = None,
    *,
    far: Sequence[float] = (0.001, 0.01),
    ax: Axes | None = None,
) -> tuple[Figure | SubFigure, Axes]:
    """Draw the shares of the genuine and of the impostor pairs in each bin of their score.

    In percent of all genuine, and of all impostor pairs, on a logarithmic axis from 0.001 % to 100 %, on which the few
    impostors that score high can be seen. With a `histogram` of fixed `limits` both axes are the same in every epoch.
    A vertical line is drawn at the threshold of each of `far`; what does not exist is said in the legend. Drawn into
    `ax` if given. Returns the figure and its axes.

    Args:
        histogram: of `score_histogram`.
        verification: of the same scores, by `verify`; None for no thresholds.
        far: false accept rates.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `far` is not a sequence of floats.
        ValueError: one of them is outside [0, 1].
    """
    edges = histogram.edges.cpu().numpy()
    thresholds = [] if verification is None else _thresholds(verification, far)
    is_own, ax = ax is None, new_axes() if ax is None else ax
    both = {"impostor": histogram.num_impostors, "genuine": histogram.num_genuine}
    for (name, counts), color in zip(both.items(), ("tab:orange", "tab:blue"), strict=True):
        total = int(counts.sum())
        shares = 100 * counts.cpu().double().numpy() / max(total, 1)
        label = f"{total:,} {name} pairs" if total else f"no {name} pair"
        ax.stairs(shares, edges, baseline=_LEAST, fill=True, color=color, alpha=0.25)
        ax.stairs(shares, edges, baseline=_LEAST, color=color, label=label)
    for (threshold, label), dashes in zip(thresholds, cycle(_DASHES), strict=False):
        ends = [_LEAST, 100] if edges[0] <= threshold <= edges[-1] else []
        said = label + _where(threshold, edges[0], edges[-1])
        ax.plot([threshold] * len(ends), ends, color="black", linewidth=1, linestyle=dashes, label=said)
    ax.set(xlabel="score", ylabel="share of pairs per bin (%)", title="Scores of genuine and impostor pairs")
    ax.set_xlim(edges[0], edges[-1])
    in_log_percent(ax, "y", _LEAST)
    ax.grid(alpha=0.3)
    add_legend_below(ax, is_own=is_own, loc="upper left")
    return ax.figure, ax


def _thresholds(verification: Verification, far: Sequence[float]) -> list[tuple[float, str]]:
    """The threshold of each rate, NaN or infinity where there is none, and what is to be said of it."""
    thresholds, accepted = (
        values.tolist() for values in (verification.threshold_at_far(far), verification.tar_at_far(far))
    )
    return [
        (threshold, f"TAR {_percent(tar)} at FAR {100 * rate:g} %")
        for threshold, tar, rate in zip(thresholds, accepted, far, strict=True)
    ]


def _where(threshold: float, low: float, high: float) -> str:
    """What is to be said of a threshold that is not drawn."""
    if math.isnan(threshold) or low <= threshold <= high:
        return ""
    return ", no threshold" if threshold == math.inf else f", at score {threshold:.4g}"


def _percent(rate: float) -> str:
    return "undefined" if math.isnan(rate) else f"{100 * rate:.1f} %"

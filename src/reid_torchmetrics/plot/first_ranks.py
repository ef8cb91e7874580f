"""At which rank the first right answer comes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
from reid_torchmetrics.plot.axes import new_axes
from reid_torchmetrics.plot.labels import add_legend, by_name, labeled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_LASTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, math.inf)
_WIDTH = 0.85  # of the bars of one bin


def plot_first_ranks(
    results: RetrievalResults | Mapping[str, RetrievalResults], *, ax: Axes | None = None
) -> tuple[Figure | SubFigure, Axes]:
    """Draw how many of the valid queries have their first right answer at rank 1, 2, 3-5, 6-10, ... or beyond 1000.

    In percent, of one evaluation or of several side by side, in the whole gallery. There are bins up to that of the
    last candidate, and the axis ends at 100 %, so pictures of several epochs can be compared. A rank between two, as
    the tie policy "expected" has it, is in the bin of the higher one. Queries count with their weight where the
    protocol gives them one. The legend says how many queries have no right answer. Drawn into `ax` if given. Returns
    the figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    named = by_name(results)
    ax = new_axes() if ax is None else ax
    lasts = _last_ranks(named.values())
    width = _WIDTH / max(1, len(named))
    for place, (name, each) in enumerate(named.items()):
        left = [number + width * (place - (len(named) - 1) / 2) for number in range(len(lasts))]
        percent = 100 * _shares(each, lasts)
        bars = ax.bar(left, percent.nan_to_num().numpy(), width, label=labeled(name, _said(each)))
        if len(named) == 1 and not bool(percent.isnan().any()):
            ax.bar_label(bars, [f"{value:.1f}" for value in percent.tolist()], fontsize="x-small", padding=1)
    ax.set(xlabel="rank of the first right answer", ylabel="valid queries (%)", title="First right answers")
    ax.set(xticks=range(len(lasts)), xticklabels=_names(lasts), xlim=(-0.6, len(lasts) - 0.4))
    ax.set(ylim=(0, 108), yticks=range(0, 101, 20))  # there is room for a number on a bar of 100 %
    ax.tick_params(axis="x", labelsize="small")
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)
    # Inside, for names of bins need the whole width, and bars are seldom high on the right.
    add_legend(ax, is_own=False, title="queries without a right answer", loc="upper right")
    return ax.figure, ax


def _last_ranks(named: Iterable[RetrievalResults]) -> list[float]:
    """The last rank of each bin; those that no candidate can have are left out."""
    num_candidates = max((int(each.num_candidates.amax()) for each in named if len(each.num_candidates)), default=0)
    return [last for before, last in pairwise((0, *_LASTS)) if before < max(1, num_candidates)]


def _names(lasts: list[float]) -> list[str]:
    ranges = ((before + 1, last) for before, last in pairwise((0, *lasts)))
    return [_range(first, last) for first, last in ranges]


def _range(first: float, last: float) -> str:
    if last == math.inf:
        return f"> {first - 1}"
    return f"{last}" if first == last else f"{first}-{last}"


def _shares(results: RetrievalResults, lasts: list[float]) -> Float[Tensor, " bins"]:
    """Share of the valid queries in each bin; NaN without any."""
    ranks = results.first_rank.cpu().double()
    weight = torch.ones_like(ranks) if results.weight is None else results.weight.cpu().double()
    is_valid = ~ranks.isnan()
    bins = torch.searchsorted(torch.tensor(lasts, dtype=torch.float64, device="cpu"), ranks[is_valid])
    counts = bins.bincount(weights=weight[is_valid], minlength=len(lasts))
    return counts / counts.sum()


def _said(results: RetrievalResults) -> str:
    """How many queries have no right answer."""
    total = len(results.first_rank)
    num_without = int(results.first_rank.isnan().sum())
    if total == 0:
        return "undefined: no query was evaluated"
    return f"undefined: all {total}" if num_without == total else f"{num_without} of {total}"

"""Curves of a retrieval: precision over recall, the CMC, and the ranks of the first right answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation import Protocol, RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import MEASURES, mean_over_queries, title_of

from .axes import MANY, Axes, Named, Plotted, by_name, in_percent, labeled, new_axes, over_recall, with_legend

_MOST_NAMED = 10  # queries with colors and names of their own
_NO_QUERY = "undefined: no query was evaluated"
_BINS: dict[str, float] = {"1": 1, "2": 2, "3-5": 5, "6-10": 10, "11-20": 20, "21-50": 50, "51-100": 100}
_BINS |= {"101-\n200": 200, "201-\n500": 500, "501-\n1000": 1000, "> 1000": math.inf}
"""the last ranks of the bins by their names"""
_WIDTH = 0.85  # of the bars of one bin
_STEP = 20  # percent: the axis of shares ends at a multiple of it
_LEAST_RANKS = 10  # of a CMC are shown also where it does not change
_RULES = {"rectangle": "not interpolated", "trapezoid": "trapezoids, not interpolated"}


def plot_retrieval_precision_recall(
    results: Named[RetrievalResults], *, queries: Sequence[int] | Tensor | None = None, ax: Axes | None = None
) -> Plotted:
    """Draw the mean interpolated precision over recall of one evaluation, with single queries or not, or of several.

    The interpolated precision at a recall is the largest at that recall or a higher one; the mean is taken at 101
    recalls, see `mean_precision_recall_curve`. Curves are staircases: a height holds up to its recall. The legend has
    the average precision by the rule of the protocol, in words in its title; only by "interpolated_101" is it the mean
    height of the line. The curves are of the whole gallery, also where the protocol draws galleries and average
    precision is an expectation over them. In percent, drawn into `ax` if given. Returns the figure and its axes.

    Args:
        results: of `evaluate` or of a metric.
        queries: queries of a single evaluation to draw beside the mean, counted from 0, such as `results.hardest(5)`.
            They are named by their `query_index`; of more than ten only the mean has a name.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `queries` are not ints.
        ValueError: `queries` with several evaluations or of numbers that no query has, the tie policy is "expected",
            or average precisions of several evaluations are by different rules and cannot be compared.
    """
    named = by_name(results)
    rules = [_rule(each.protocol) for each in named.values()]
    _checks.alike("results", "rule of average precision", rules)
    numbers = _query_numbers(results, queries)
    is_own, ax = ax is None, new_axes() if ax is None else ax
    style: dict[str, Any] = {"color": "black", "linewidth": 2.5, "zorder": 3} if numbers else {}
    for name, each in named.items():
        action = each.counts.counting(each.protocol.empty_target_action)
        mean = mean_over_queries(each.average_precision, empty_target_action=action, weight=each.weight)
        percent = 100 * each.mean_precision_recall().cpu()
        label = labeled("mean" if numbers else name, _in_words("map", float(mean), _NO_QUERY))
        ax.plot(range(len(percent)), percent.numpy(), drawstyle="steps-pre", label=label, **style)
        _draw_queries(ax, each, numbers)
    over_recall(ax, "Interpolated precision, mean over queries")
    return with_legend(ax, is_own=is_own, title=next(iter(rules), None))


def _query_numbers(results: Named[RetrievalResults], queries: Sequence[int] | Tensor | None) -> list[int]:
    if queries is None:
        return []
    listed: Sequence[int] = queries.tolist() if isinstance(queries, Tensor) else queries
    _checks.integers("queries", listed)
    if not isinstance(results, RetrievalResults):
        raise ValueError(  # noqa: TRY004 - of a type that is allowed without
            f"`queries` must come with a single result, whose queries they are; got {len(results)} results by name."
        )
    for query in listed:
        _checks.index("queries", query, len(results.num_positives), "queries")
    return list(listed)


def _rule(protocol: Protocol) -> str:
    """The rule of average precision in few words."""
    words = f"AP: {_RULES.get(protocol.rule, protocol.rule.replace('_', ' at ') + ' recalls')}"
    words += "" if protocol.k is None else f", first {protocol.k}"
    if protocol.k is not None or protocol.normalizer != "positives":
        words += f", divided by {protocol.normalizer}"
    words += ", expected over draws" if protocol.draws(MEASURES["map"]) else ""
    return words if protocol.rule.startswith("interpolated") else f"{words}\nline: interpolated"


def _in_words(name: str, value: float, if_undefined: str) -> str:
    return if_undefined if math.isnan(value) else f"{title_of(name)} {100 * value:.1f} %"


def _draw_queries(ax: Axes, results: RetrievalResults, queries: list[int]) -> None:
    """The staircases of some queries."""
    is_named = len(queries) <= _MOST_NAMED
    style = {"linewidth": 1.0} if is_named else MANY
    for query in queries:
        precision, recall = results.precision_recall(query)
        best = precision.flip(0).cummax(0).values.flip(0)
        said = _in_words("map", float(results.average_precision[query]), "undefined: no match")
        # The mean of one query is no mean.
        label = labeled(f"query {results.name_of(query)}", said.removeprefix("m")) if is_named else None
        # Each height holds up to its recall, the first one from recall 0 on.
        x, y = (100 * torch.cat(values).cpu() for values in ((recall[:1] * 0, recall), (best[:1], best)))
        ax.plot(x, y, drawstyle="steps-pre", label=label, **style)


def plot_cmc(curves: Named[Tensor], *, ax: Axes | None = None) -> Plotted:
    """Draw one CMC curve, or several by name; a curve [max_rank] holds the CMC at ranks 1 ... max_rank.

    The identification rate in percent over the rank, drawn into `ax` if given. The axis always goes from 0 to 100 %, so
    pictures of several epochs can be compared. Ranks are shown up to the last one at which a curve rises, at least ten.
    For a curve of NaN the legend says that no query was evaluated. Returns the figure and its axes; the figure is made
    without pyplot, so it need not be closed.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    ax = new_axes() if ax is None else ax
    named = {name: curve.detach().cpu().reshape(-1) for name, curve in by_name(curves).items()}
    rises = [_LEAST_RANKS]
    for name, curve in named.items():
        label = labeled(name, _in_words("rank_1", float(curve[0]), _NO_QUERY))
        ax.plot(range(1, len(curve) + 1), (100 * curve.double()).numpy(), marker="o", markersize=3, label=label)
        rises += (2 + (curve.diff() > 0).nonzero()[:, 0]).tolist()
    max_rank = max(map(len, named.values()))
    last = min(max_rank, max(rises))
    words = "rank" if last == max_rank else f"rank (no change from {last} to {max_rank})"
    ax.set(xlabel=words, ylabel="identification rate (%)", title="Cumulative matching characteristic")
    # Rank 1, the most read one, and some ten round ranks.
    margin, step = max(0.5, 0.03 * last), 1 if last <= 10 else 5 * max(1, last // 50)
    ax.set(xlim=(1 - margin, last + margin), xticks=[1, *range(max(2, step), last + 1, step)])
    in_percent(ax, "y")
    ax.legend(loc="best")
    return ax.figure, ax


def plot_first_ranks(results: Named[RetrievalResults], *, ax: Axes | None = None) -> Plotted:
    """Draw the share of the valid queries with their first match at rank 1, 2, 3-5, 6-10, ... or beyond 1000.

    In percent, of one evaluation or of several side by side, in the whole gallery. There are bins up to the last one
    with a query; the axis ends at the multiple of 20 % above the highest bar. A rank between two, as the tie policy
    "expected" has it, is in the bin of the higher one. Queries count with their weight where the protocol gives them
    one. The title, or the legend of several, has the number of queries with a match. Drawn into `ax` if given. Returns
    the figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    named, ax = by_name(results), new_axes() if ax is None else ax
    # The last rank of each bin, up to the bin of the last match.
    highest = max([1.0, *filter(math.isfinite, (rank for each in named.values() for rank in each.first_rank.tolist()))])
    lasts = [last for before, last in pairwise((0, *_BINS.values())) if before < highest]
    width = _WIDTH / max(1, len(named))
    highest = _STEP
    for place, (name, each) in enumerate(named.items()):
        left = [number + width * (place - (len(named) - 1) / 2) for number in range(len(lasts))]
        percent = 100 * _shares(each, lasts)
        highest = max(highest, _STEP * math.ceil(float(percent.nan_to_num().max()) / _STEP))
        total, num_without = len(each.first_rank), int(each.first_rank.isnan().sum())
        counted = f"{total - num_without:,} of {total:,} queries" if total else _NO_QUERY
        bars = ax.bar(left, percent.nan_to_num().numpy(), width, label=labeled(name, counted))
        if len(named) == 1 and not bool(percent.isnan().any()):
            ax.bar_label(bars, [f"{value:.1f}" for value in percent.tolist()], fontsize="x-small", padding=1)
    title = "Rank of the first match" + (f", {counted}" if isinstance(results, RetrievalResults) else "")
    ax.set(xlabel="rank", ylabel="valid queries (%)", title=title)
    ax.set(xticks=range(len(lasts)), xticklabels=[*_BINS][: len(lasts)], xlim=(-0.6, len(lasts) - 0.4))
    ax.set(ylim=(0, 1.08 * highest))  # there is room for a number on the highest bar
    ax.tick_params(axis="x", labelsize="small")
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)
    # Inside, for names of bins need the whole width, and bars are seldom high on the right.
    if not isinstance(results, RetrievalResults):
        with_legend(ax, is_own=False, title="queries with a match", loc="upper right")
    return ax.figure, ax


def _shares(results: RetrievalResults, lasts: list[float]) -> Tensor:
    """Share of the valid queries in each bin; NaN without any."""
    ranks = results.first_rank.cpu().double()
    weight = torch.ones_like(ranks) if results.weight is None else results.weight.cpu().double()
    is_valid = ~ranks.isnan()
    bins = torch.searchsorted(torch.tensor(lasts, dtype=torch.float64, device="cpu"), ranks[is_valid])
    counts = bins.bincount(weights=weight[is_valid], minlength=len(lasts))
    return counts[: len(lasts)] / counts.sum()  # an answer that a list lacks is in no bin

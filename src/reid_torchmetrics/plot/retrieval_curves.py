"""Curves of a retrieval: precision over recall, the CMC, and the ranks of the first right answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.displays import UNDEFINED, counted
from reid_torchmetrics.functional.retrieval.evaluation import Protocol, RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import MEASURES, mean_over_queries, title_of

from .axes import (
    THIN_CURVE,
    Axes,
    Named,
    Plotted,
    add_legend,
    by_name,
    curve_label,
    lowest_of_lines,
    new_axes,
    set_percent_axis,
    set_precision_recall_axes,
)

_MOST_NAMED = 10  # queries with colors and names of their own
_NO_QUERY = f"{UNDEFINED}: no query was evaluated"
_WHOLE_CURVE = "interpolated_101"
"""the rule of average precision that is the area under the curve"""
_BINS: dict[str, float] = {
    "1": 1,
    "2": 2,
    "3-5": 5,
    "6-10": 10,
    "11-20": 20,
    "21-50": 50,
    "51-100": 100,
    "101-\n200": 200,
    "201-\n500": 500,
    "501-\n1000": 1000,
    "> 1000": math.inf,
}
"""last ranks of the bins, by name"""
_WIDTH = 0.85  # of the bars of one bin
_STEP = 20  # percent: the axis of shares ends at a multiple of it
_LEAST_RANKS = 10  # of a CMC are shown also where it does not change


def plot_retrieval_precision_recall(
    results: Named[RetrievalResults], *, queries: Sequence[int] | Tensor | None = None, ax: Axes | None = None
) -> Plotted:
    """Draw the mean interpolated precision over recall of one evaluation, with single queries or not, or of several.

    The interpolated precision at a recall is the largest precision at that recall or a higher one; the mean is taken at
    101 recalls, see `mean_precision_recall_curve`. Curves are staircases: a height holds up to its recall. The legend
    has the average precision, and its title the rule of the protocol unless it is that of most benchmarks. Only by
    "interpolated_101" is average precision the area under the curve; by other rules the legend says so. The curves are
    those of the whole gallery, also if the protocol draws galleries and average precision is an expectation over them.
    All values are in percent. Returns the figure and its axes.

    Args:
        results: of `evaluate` or of a metric.
        queries: queries of a single evaluation to draw beside the mean, counted from 0, such as `results.hardest(5)`.
            They are named by their `query_index`; of more than ten only the mean has a name.
        ax: axes to draw into; None for those of a new figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `queries` are not ints.
        ValueError: `queries` with several evaluations or of numbers that no query has, the tie policy is "expected",
            or average precisions of several evaluations are by different rules and cannot be compared.
    """
    named_results = by_name(results)
    rules = [_describe_rule(part.protocol) for part in named_results.values()]
    _checks.alike("results", "rule of average precision", [rule or "AP at all positives" for rule in rules])
    query_list = _check_queries(results, queries)
    ax = ax or new_axes()
    is_alone = isinstance(results, RetrievalResults) and not query_list
    mean_style: dict[str, Any] = {"color": "black", "linewidth": 2.5, "zorder": 3} if query_list else {}
    for name, part in named_results.items():
        action = part.counts.counting(part.protocol.empty_target_action)
        mean = mean_over_queries(part.average_precision, empty_target_action=action, weight=part.weight_of("map"))
        percent = 100 * part.mean_precision_recall().cpu()
        values = _percent_text("map", float(mean), _NO_QUERY)
        if is_alone and part.protocol.rule != _WHOLE_CURVE and not math.isnan(mean):
            values += f", area under this line {float(percent[1:].mean()):.1f} %"
        label = curve_label("mean" if query_list else name, values)
        ax.plot(range(len(percent)), percent.numpy(), drawstyle="steps-pre", label=label, **mean_style)
        _draw_queries(ax, part, query_list)
    set_precision_recall_axes(ax, "Interpolated precision, mean over queries")
    title_lines = list(filter(None, rules[:1]))
    if not is_alone and any(part.protocol.rule != _WHOLE_CURVE for part in named_results.values()):
        title_lines.append("mAP is not the area under a line")
    return add_legend(ax, title="\n".join(title_lines) or None)


def _check_queries(results: Named[RetrievalResults], queries: Sequence[int] | Tensor | None) -> list[int]:
    """Return the queries to draw; raise unless they are queries of a single evaluation."""
    if queries is None:
        return []
    query_list: Sequence[int] = queries.tolist() if isinstance(queries, Tensor) else queries
    _checks.integers("queries", query_list)
    if not isinstance(results, RetrievalResults):
        raise ValueError(  # noqa: TRY004 - of a type that is allowed without
            f"`queries` must come with a single result, whose queries they are; got {len(results)} results by name."
        )
    for query in query_list:
        _checks.index("queries", query, len(results.num_positives), "queries")
    return list(query_list)


def _describe_rule(protocol: Protocol) -> str:
    """Return the rule of average precision in few words; empty for the mean of the precisions at all positives."""
    words = []
    if protocol.rule.startswith("interpolated"):
        words.append(f"{protocol.rule.replace('_', ' at ')} recalls")
    elif protocol.rule != "rectangle":
        words.append(f"by {protocol.rule}s")
    if protocol.k is not None:
        words.append(f"of the first {protocol.k}")
    if protocol.k is not None or protocol.normalizer != "positives":
        words.append(f"divided by {protocol.normalizer}")
    if protocol.draws(MEASURES["map"]):
        words.append("expected over draws")
    return f"AP {', '.join(words)}" if words else ""


def _percent_text(name: str, value: float, text_if_undefined: str) -> str:
    """Return a number with its title, in percent."""
    return text_if_undefined if math.isnan(value) else f"{title_of(name)} {100 * value:.1f} %"


def _draw_queries(ax: Axes, results: RetrievalResults, queries: list[int]) -> None:
    """Draw the staircases of some queries."""
    is_named = len(queries) <= _MOST_NAMED
    style = {"linewidth": 1.0} if is_named else THIN_CURVE
    for query in queries:
        precision, recall = results.precision_recall(query)
        interpolated = precision.flip(0).cummax(0).values.flip(0)
        label = None
        if is_named:
            value_text = _percent_text("map", float(results.average_precision[query]), f"{UNDEFINED}: no match")
            # The mean of one query is no mean.
            label = curve_label(f"query {results.name_of(query)}", value_text.removeprefix("m"))
        # Each height holds up to its recall, the first one from recall 0 on.
        x = 100 * torch.cat([recall[:1] * 0, recall]).cpu()
        y = 100 * torch.cat([interpolated[:1], interpolated]).cpu()
        ax.plot(x, y, drawstyle="steps-pre", label=label, **style)


def plot_cmc(curves: Named[Tensor | RetrievalResults], *, ax: Axes | None = None) -> Plotted:
    """Draw one CMC curve, or several by name; a curve [max_rank] holds the CMC at ranks 1 ... max_rank, as results do.

    The plot shows the identification rate in percent over the rank. The axis ends at 100 % and begins at a round number
    below the lowest rate, one of nine, so pictures of most epochs can be compared. Ranks are shown up to the last one
    at which a curve rises, at least ten. For a curve of NaN the legend says that no query was evaluated. The curves are
    drawn into `ax` if it is given. Returns the figure and its axes; the figure is made without pyplot, so it need not
    be closed.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    ax = ax or new_axes()
    named_curves = {}
    for name, item in by_name(curves).items():
        curve = item.cmc if isinstance(item, RetrievalResults) else item
        named_curves[name] = curve.detach().cpu().reshape(-1)
    max_rank = max(len(curve) for curve in named_curves.values())
    last_change = _LEAST_RANKS
    for name, curve in named_curves.items():
        label = curve_label(name, _percent_text("rank_1", float(curve[0]), _NO_QUERY))
        ax.plot(range(1, len(curve) + 1), (100 * curve.double()).numpy(), marker="o", markersize=3, label=label)
        rising_ranks = 2 + (curve.diff() > 0).nonzero()[:, 0]
        last_change = max([last_change, *rising_ranks.tolist()])
    last = min(max_rank, last_change)
    xlabel = "rank" if last == max_rank else f"rank (no change from {last} to {max_rank})"
    ax.set(xlabel=xlabel, ylabel="identification rate (%)", title="Cumulative matching characteristic")
    # Rank 1, the most read one, and some ten round ranks.
    margin = max(0.5, 0.03 * last)
    step = 1 if last <= 10 else 5 * max(1, last // 50)
    ax.set(xlim=(1 - margin, last + margin), xticks=[1, *range(max(2, step), last + 1, step)])
    set_percent_axis(ax, "y", lowest=lowest_of_lines(ax))
    return add_legend(ax, loc="lower right")  # curves rise


def plot_first_ranks(results: Named[RetrievalResults], *, ax: Axes | None = None) -> Plotted:
    """Draw the share of the valid queries with their first match at rank 1, 2, 3-5, 6-10, ... or beyond 1000.

    Shares are in percent, of one evaluation or of several side by side, in the whole gallery. There are bins up to the
    last one with a query; the axis ends at the multiple of 20 % above the highest bar. A rank between two whole ones,
    which the tie policy "expected" gives, is in the bin of the higher one. Queries count with their weight if the
    protocol gives them one. The title, or the legend of several evaluations, has the number of queries with a match.
    The bars are drawn into `ax` if it is given. Returns the figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    named_results = by_name(results)
    num_results = len(named_results)
    is_single = isinstance(results, RetrievalResults)
    ax = ax or new_axes()
    last_ranks = _find_bins(named_results.values())
    bins = range(len(last_ranks))
    width = _WIDTH / max(1, num_results)
    highest = _STEP
    title = "Rank of the first match"
    for number, (name, part) in enumerate(named_results.items()):
        left = [center + width * (number - (num_results - 1) / 2) for center in bins]
        percent = 100 * _shares(part, last_ranks)
        heights = percent.nan_to_num()
        highest = max(highest, _STEP * math.ceil(float(heights.max()) / _STEP))
        count_text = _count_matches(part)
        bars = ax.bar(left, heights.numpy(), width, label=curve_label(name, count_text))
        if num_results == 1 and not bool(percent.isnan().any()):
            ax.bar_label(bars, [f"{value:.1f}" for value in percent.tolist()], fontsize="x-small", padding=1)
        if is_single:
            title += f", {count_text}"
    ax.set(xlabel="rank", ylabel="valid queries (%)", title=title)
    ax.set(xticks=bins, xticklabels=list(_BINS)[: len(bins)], xlim=(-0.6, len(bins) - 0.4))
    ax.set(ylim=(0, 1.08 * highest))  # there is room for a number on the highest bar
    ax.tick_params(axis="x", labelsize="small")
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)
    # Inside, for names of bins need the whole width, and bars are seldom high on the right.
    if not is_single:
        ax.legend(fontsize="small", title="queries with a match", title_fontsize="small", loc="upper right")
    return ax.figure, ax


def _find_bins(results: Iterable[RetrievalResults]) -> list[float]:
    """Return the last rank of each bin, up to the bin of the last match."""
    highest = 1.0
    for part in results:
        highest = max([highest, *filter(math.isfinite, part.first_rank.tolist())])
    bins = []
    for last in _BINS.values():
        bins.append(last)
        if last >= highest:
            break
    return bins


def _count_matches(results: RetrievalResults) -> str:
    """Return the number of queries with a match in words."""
    num_queries = len(results.first_rank)
    if num_queries == 0:
        return _NO_QUERY
    num_without = int(results.first_rank.isnan().sum())
    return f"{num_queries - num_without:,} of {counted(num_queries, 'query')}"


def _shares(results: RetrievalResults, last_ranks: list[float]) -> Tensor:
    """Return the share of the valid queries in each bin; NaN without any."""
    ranks = results.first_rank.cpu().double()
    weight = torch.ones_like(ranks) if results.weight is None else results.weight.cpu().double()
    is_valid = ~ranks.isnan()
    edges = torch.tensor(last_ranks, dtype=torch.float64, device="cpu")
    bins = torch.searchsorted(edges, ranks[is_valid])
    counts = bins.bincount(weights=weight[is_valid], minlength=len(last_ranks))
    return counts[: len(last_ranks)] / counts.sum()  # an answer that a list lacks is in no bin

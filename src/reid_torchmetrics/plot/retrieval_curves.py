"""Precision over recall of a retrieval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation import Protocol, RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import MEASURES, mean_over_queries
from reid_torchmetrics.plot.axes import in_percent, new_axes
from reid_torchmetrics.plot.labels import add_legend, by_name, labeled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_NAMED = 10  # so many queries have colors and names of their own
_NO_QUERY = "undefined: no query was evaluated"
_NO_POSITIVE = "undefined: no right answer"


def plot_retrieval_precision_recall(
    results: RetrievalResults | Mapping[str, RetrievalResults],
    *,
    queries: Sequence[int] | Tensor | None = None,
    ax: Axes | None = None,
) -> tuple[Figure | SubFigure, Axes]:
    """Draw the mean interpolated precision over recall of one evaluation, with single queries or not, or of several.

    The interpolated precision at a recall is the largest at that recall or a higher one; the mean is taken at 101
    recalls, see `mean_precision_recall_curve`, and that of one query is a staircase. The legend has the average
    precision by the rule of the protocol, which its title names; only by "interpolated_101" is it the height of the
    line that is drawn. The curves are those of the whole gallery, also where the protocol draws galleries and average
    precision is an expectation over them. In percent, drawn into `ax` if given. Returns the figure and its axes.

    Args:
        results: of `evaluate` or of a metric.
        queries: which queries of a single evaluation to draw beside the mean, counted from 0: `results.hardest(5)`
            say. They are named by their `query_index`; of more than ten only the mean has a name.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `queries` are not ints.
        ValueError: `queries` with several evaluations or of numbers that no query has, the tie policy is "expected",
            or several have average precisions by different rules, which are not to be compared.
    """
    named = by_name(results)
    rules = [_rule(each.protocol) for each in named.values()]
    _checks.alike("results", "rule of average precision", rules)
    chosen = _chosen(results, queries)
    is_own, ax = ax is None, new_axes() if ax is None else ax
    style: dict[str, Any] = {"color": "black", "linewidth": 2.5, "zorder": 3} if chosen else {}
    for name, each in named.items():
        action = each.counts.counting(each.protocol.empty_target_action)
        mean = mean_over_queries(each.average_precision, empty_target_action=action, weight=each.weight)
        percent = 100 * each.mean_precision_recall().cpu()
        label = labeled("mean" if chosen else name, _said("mAP", float(mean), _NO_QUERY))
        ax.plot(range(len(percent)), percent.numpy(), label=label, **style)
        _draw_queries(ax, each, chosen)
    ax.set(xlabel="recall (%)", ylabel="precision (%)", title="Precision and recall, mean over queries")
    in_percent(ax, "xy")
    ax.grid(alpha=0.3)
    add_legend(ax, is_own=is_own, title=next(iter(rules), None))
    return ax.figure, ax


def _chosen(
    results: RetrievalResults | Mapping[str, RetrievalResults], queries: Sequence[int] | Tensor | None
) -> list[int]:
    """The numbers of the queries to draw."""
    if queries is None:
        return []
    listed: Sequence[int] = queries.tolist() if isinstance(queries, Tensor) else queries
    _checks.integers("queries", listed)
    if not isinstance(results, RetrievalResults):
        came = f"{len(results)} results"
        raise ValueError(  # noqa: TRY004 - of a type that is allowed without
            f"`queries` must come with a single result, whose queries they are; got {came} by name."
        )
    for query in listed:
        _checks.index("queries", query, len(results.num_positives), "queries")
    return list(listed)


def _rule(protocol: Protocol) -> str:
    """How average precision is taken, in few words."""
    words = f"AP by rule {protocol.rule!r}"
    words += "" if protocol.k is None else f" over the first {protocol.k}, divided by {protocol.normalizer}"
    return f"{words}, expected over draws" if protocol.draws(MEASURES["map"]) else words


def _said(what: str, value: float, if_undefined: str) -> str:
    return if_undefined if math.isnan(value) else f"{what} {100 * value:.1f} %"


def _draw_queries(ax: Axes, results: RetrievalResults, queries: list[int]) -> None:
    """The staircases of some queries."""
    is_named = len(queries) <= _MOST_NAMED
    style: dict[str, Any] = {"linewidth": 1.0} if is_named else {"color": "grey", "linewidth": 0.8, "alpha": 0.35}
    for query in queries:
        precision, recall = results.precision_recall(query)
        best = precision.flip(0).cummax(0).values.flip(0)
        said = _said("AP", float(results.average_precision[query]), _NO_POSITIVE)
        # Each height holds up to its recall, the first one from recall 0 on.
        corners = [
            torch.cat([first, 100 * values]).cpu()
            for first, values in ((recall[:1] * 0, recall), (best[:1] * 100, best))
        ]
        label = labeled(f"query {int(results.query_index[query])}", said) if is_named else None
        ax.plot(*corners, drawstyle="steps-pre", label=label, **style)

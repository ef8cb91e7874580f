"""What a report says of two models that were compared."""

from __future__ import annotations

import math

from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation import Comparison, Difference, RetrievalResults
from reid_torchmetrics.plot import plot_comparison
from reid_torchmetrics.report.elements import Html, details, element, note, table
from reid_torchmetrics.report.figures import figure
from reid_torchmetrics.report.numbers_in_words import UNDEFINED, heading, of_measure, thousands
from reid_torchmetrics.report.page import Section


def comparison_section(results: RetrievalResults, comparison: Comparison) -> Section:
    """What two models differ by, one of them that of the results.

    Raises:
        ValueError: neither model has the numbers of the results.
    """
    is_of = _this_model(results, comparison)
    drawn = "identities with all their queries" if comparison.per_identity else "queries"
    said = (
        f"This page is about {is_of}. Intervals are of {comparison.repeats:,} bootstrap samples of {drawn}, the same"
        f" for both models; p is of {comparison.permutations:,} random changes of signs, by {drawn}."
    )
    interval = f"{100 * comparison.confidence:g} % interval"
    columns = ("measure", "a", "b", "b - a", interval, "p", "b better", "b worse", "equal")
    rows = [_row(name, difference) for name, difference in comparison.differences.items()]
    shown = table("Numbers of a and b, and their differences", columns, rows)
    drawn_rows = figure(plot_comparison(comparison)[0], "comparison", "Differences with their intervals.")
    setups = note(f"a: {comparison.setup_a}. b: {comparison.setup_b}.")
    changes = _changes(comparison)
    return Section("comparison", "Two models", [note(said), setups, shown, drawn_rows, *changes])


def _this_model(results: RetrievalResults, comparison: Comparison) -> str:
    means = results.means
    for which in ("b", "a"):
        compared = {name: getattr(each, f"mean_{which}") for name, each in comparison.differences.items()}
        if all(name in means and _same(mean, means[name]) for name, mean in compared.items()):
            return which
    raise ValueError("`comparison` must be of `results` and of others; got one of other numbers.")


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _row(name: str, difference: Difference) -> list[str]:
    low, high = (_signed(name, end) for end in (difference.low, difference.high))
    return [
        heading(name),
        of_measure(name, difference.mean_a),
        of_measure(name, difference.mean_b),
        _signed(name, difference.difference),
        f"{low} to {high}",
        UNDEFINED if math.isnan(difference.p_value) else f"{difference.p_value:.4f}",
        *map(thousands, (difference.num_better, difference.num_worse, difference.num_equal)),
    ]


def _signed(name: str, value: float) -> str:
    return f"+{of_measure(name, value)}" if value > 0 else of_measure(name, value)


def _changes(comparison: Comparison) -> list[Html]:
    """The queries whose first candidate became right, and wrong, by their numbers."""
    gained, lost = comparison.gained_index, comparison.lost_index
    return [
        _change(f"Queries whose first candidate is right in b alone: {len(gained)}", gained),
        _change(f"Queries whose first candidate is right in a alone: {len(lost)}", lost),
    ]


def _change(said: str, index: Tensor) -> Html:
    if not len(index):
        return element("p", f"{said}.")
    return details(said, element("p", ", ".join(map(str, index.tolist()))))

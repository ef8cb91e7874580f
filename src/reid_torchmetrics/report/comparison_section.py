"""The section about the model of a page and others: numbers, differences, and the queries that changed."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation import Comparison, Difference
from reid_torchmetrics.plot import plot_comparison

from .elements import UNDEFINED, Html, details, element, figure, note, percent, rank, table
from .page import Section

_MOST_NAMED = 50  # queries that are gained or lost


def comparison_section(means: Mapping[str, float], comparison: Comparison) -> Section:
    """The differences of models, one of them that of the page with these `means`.

    Raises:
        ValueError: no model has the numbers of the page.
    """
    pairs = comparison.by_name
    model, chance = _this_model(means, comparison), comparison.chance.capitalize()
    said = f"This page is about {model}. {chance}; the same draws for all models."
    content = [note(said), *(each for place, pair in enumerate(pairs.values()) for each in _pair(pair, place))]
    return Section("comparison", "Two models" if len(pairs) == 1 else "Models", content)


def _this_model(means: Mapping[str, float], comparison: Comparison) -> str:
    pairs = comparison.by_name
    candidates = {name: {key: of.mean_b for key, of in each.differences.items()} for name, each in pairs.items()}
    candidates[comparison.names[0]] = {name: of.mean_a for name, of in comparison.differences.items()}
    # As words, for NaN is not itself; without a class detections have -1.
    here = {name: str(math.nan if mean < 0 else mean) for name, mean in means.items()}
    for model, numbers in candidates.items():
        if all(here.get(name) == str(mean) for name, mean in numbers.items()):
            return model
    raise ValueError("`comparison` must be of `results` and of others; got one of other numbers.")


def _pair(pair: Comparison, place: int) -> list[Html]:
    """What two models differ by."""
    a, b = pair.names
    has_holm = any(each.p_holm >= 0 for each in pair.differences.values())
    holm = ["p by Holm"] if has_holm else []
    interval, unit = f"{100 * pair.level:g} % interval", "queries" if pair.protocol else "classes"
    columns = ["measure", a, b, f"{b} - {a}", interval, "p", *holm, f"{unit} better", "worse", "equal"]
    rows = [_row(difference, has_holm=has_holm) for difference in pair.differences.values()]
    shown = [
        table(f"Numbers of {a} and {b}, and their differences", columns, rows),
        figure(plot_comparison(pair)[0], f"comparison-{place}", "Differences with their intervals."),
    ]
    if pair.protocol is None:
        return shown
    # The queries whose first candidate became right, and wrong, by their numbers.
    gained = _change(f"Queries whose first candidate is right in {b} alone", pair.gained_index)
    lost = _change(f"Queries whose first candidate is right in {a} alone", pair.lost_index)
    return [note(f"{a}: {pair.setup_a}. {b}: {pair.setup_b}."), *shown, gained, lost]


def _row(difference: Difference, *, has_holm: bool) -> list[str]:
    written = rank if difference.is_rank else percent
    means = [written(mean) for mean in (difference.mean_a, difference.mean_b)]
    changes = difference.difference, difference.low, difference.high
    gain, low, high = (f"+{written(each)}" if each > 0 else written(each) for each in changes)
    p_values = [difference.p_value, difference.p_holm][: 1 + has_holm]
    chance = [UNDEFINED if math.isnan(p_value) else f"{p_value:.4f}" for p_value in p_values]
    counts = [f"{number:,}" for number in (difference.num_better, difference.num_worse, difference.num_equal)]
    heading = difference.title if difference.is_rank else f"{difference.title} (%)"
    return [heading, *means, gain, f"{low} to {high}", *chance, *counts]


def _change(said: str, index: Tensor) -> Html:
    said = f"{said}: {len(index)}"
    if not len(index):
        return element("p", f"{said}.")
    more = f" and {len(index) - _MOST_NAMED:,} more, see the JSON below" if len(index) > _MOST_NAMED else ""
    return details(said, element("p", ", ".join(map(str, index[:_MOST_NAMED].tolist())) + more))

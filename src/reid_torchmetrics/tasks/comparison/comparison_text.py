"""Comparisons as text: `str`, their table of differences, and the table for papers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reid_torchmetrics.functional.displays import UNDEFINED, Display, aligned, counted
from reid_torchmetrics.functional.model_tables import (
    NEVER,
    ModelTable,
    Number,
    evaluated,
    in_words,
    prose_of,
    split_conventions,
)

_SIGNIFICANT = 0.05  # p-values below it are marked


def comparison_text(comparison: Any, form: str = "") -> str:
    """Return a text with a table of the numbers for each model except the first, then the convention of each number.

    `f"{comparison:.2%}"` has shares in percent, and their differences in percentage points.
    """
    pairs = comparison.by_name
    first = comparison.names[0]
    where = evaluated(comparison.protocol, comparison.num_valid, comparison.num_queries)
    models = ", ".join(f"{model} - {first}" for model in pairs)
    lines = [f"Comparison: {models}, {where}"]
    for name, setup in _setups(comparison).items():
        lines.append(f"  {name}: {setup}")
    lines += [f"  {phrase}" for phrase in comparison.about_cutoff]
    lines.append(f"  {comparison.chance}")
    for pair in pairs.values():
        table = aligned(_pair_rows(pair, form or ".4f", has_holm=_are_corrected(pairs)))
        lines += [f"  {line}" for line in (*table, _changed_queries(pair))]

    separate, shared = split_conventions(prose_of(comparison.conventions))
    width = max(map(len, separate))
    for name, text in separate.items():
        if text:
            lines.append(f"  {name.ljust(width)}  {text}")
    if shared:
        lines.append(f"  unless noted: {shared}")
    return "\n".join(lines)


def comparison_display(comparison: Any) -> Display:
    """Return the parts of `comparison_text` for HTML, with the names of the models in the rows."""
    title, *_ = comparison_text(comparison).splitlines()
    pairs = comparison.by_name
    rows = []
    notes = []
    for model, pair in pairs.items():
        columns, *pair_rows = _pair_rows(pair, ".4f", has_holm=_are_corrected(pairs))
        for name, *cells in pair_rows:
            rows.append([f"{name}, {model}" if comparison.further_comparisons else name, *cells])
        notes.append(_changed_queries(pair))
    if comparison.further_comparisons:
        columns[2:4] = ["other", "difference"]
    return Display(title, columns, rows, [*notes, comparison.chance])


def comparison_table(comparison: Any) -> ModelTable:
    """Return a table with a row for each model of a `Comparison`; p-values below 0.05 against the first are marked."""
    pairs = comparison.by_name
    first = comparison.names[0]
    rows: dict[str, dict[str, Number]] = {first: {}}
    marked = set()
    for model, pair in pairs.items():
        rows[model] = {}
        for name, difference in pair.differences.items():
            number = Number(
                name,
                difference.title or name,
                difference.mean_a,
                # Captions have the conventions of the first comparison alone.
                comparison.conventions.get(name, ""),
                is_share=not difference.is_rank,
                lower_is_better=difference.lower_is_better,
            )
            rows[first][name] = number
            rows[model][name] = number._replace(value=difference.mean_b)
            # Without a correction `p_holm` is NaN, and `max` returns the p-value.
            if max(difference.p_value, difference.p_holm) < _SIGNIFICANT:
                marked.add((model, name))

    where = evaluated(comparison.protocol, comparison.num_valid, comparison.num_queries)
    setups = _setups(comparison)
    if len(set(setups.values())) == 1:
        setup_texts = list(set(setups.values()))
    else:
        setup_texts = [f"{model}: {setup}" for model, setup in setups.items()]
    setting = "; ".join([where, *setup_texts, *comparison.about_cutoff])
    correction = " with Holm's correction" if len(pairs) > 1 else ""
    _, _, test = comparison.chance.partition("; ")
    note = f"\N{DAGGER} p < {_SIGNIFICANT} against {first}{correction}; {test}."
    return ModelTable(rows, setting, note, marked)


def _setups(comparison: Any) -> dict[str, str]:
    """Return the text about the scores of each model; empty for detection."""
    return {name: str(setup) for name, setup in comparison.setups.items() if setup}


def _are_corrected(pairs: Mapping[str, Any]) -> bool:
    """Return whether some p-value has Holm's correction."""
    differences: list[Any] = []
    for pair in pairs.values():
        differences.extend(pair.differences.values())
    return any(difference.p_holm >= 0 for difference in differences)


def _pair_rows(pair: Any, form: str, *, has_holm: bool) -> list[list[str]]:
    """Return the headings of a table of differences, and a row for each number."""
    a, b = pair.names
    p_titles = ["p", "p Holm"] if has_holm else ["p"]
    rows = [["", a, b, f"{b} - {a}", f"{100 * pair.level:g}% interval", *p_titles, "better", "worse", "equal"]]
    for name, difference in pair.differences.items():
        is_share = not difference.is_rank
        mean_a = in_words(difference.mean_a, form, is_share=is_share)
        mean_b = in_words(difference.mean_b, form, is_share=is_share)
        change = _signed(difference.difference, form, is_share=is_share)
        low = _signed(difference.low, form, is_share=is_share)
        high = _signed(difference.high, form, is_share=is_share)
        interval = f"[{low}, {high}]"
        if NEVER in (mean_a, mean_b):
            interval = "none: a mean is infinite"
        elif UNDEFINED in (low, high):
            interval = UNDEFINED
        row = [name, mean_a, mean_b, change, interval, in_words(difference.p_value)]
        if has_holm:
            row.append(in_words(difference.p_holm))
        row += [str(difference.num_better), str(difference.num_worse), str(difference.num_equal)]
        rows.append(row)
    return rows


def _changed_queries(pair: Any) -> str:
    """Return a line about the queries with a first candidate that became right or wrong."""
    a, b = pair.names
    if not pair.protocol:
        return "better, worse and equal: classes"
    return f"right at rank 1 in {b} only: {counted(len(pair.gained), 'query')}; in {a} only: {len(pair.lost)}"


def _signed(change: float, form: str, *, is_share: bool) -> str:
    """Return the text for a difference: with a sign, and in percentage points instead of percent."""
    return in_words(change, f"+{form}", is_share=is_share).removesuffix("%")

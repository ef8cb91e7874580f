"""Comparisons as text, and tables for papers in Markdown, LaTeX and CSV, with a row for each model."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reid_torchmetrics import _checks
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
_SYMBOLS = {"\\": "backslash", "^": "asciicircum", "~": "asciitilde", "|": "bar", "<": "less", ">": "greater"}
_IN_LATEX = {character: f"\\{character}" for character in "#$%&_{}"}
_IN_LATEX.update({character: f"\\text{name}{{}}" for character, name in _SYMBOLS.items()})
# A bracket or a star at the beginning of a row would be read as an argument of the `\\` before it.
_IN_LATEX.update({"[": "{[}", "*": "{*}", "\N{DAGGER}": r"$\dagger$", "\N{SUPERSCRIPT TWO}": "$^2$"})
_LATEX_TABLE = str.maketrans(_IN_LATEX)


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


def select(table: ModelTable, measures: Sequence[str]) -> ModelTable:
    """Return the table with some of the numbers, in their order."""
    _checks.collection_of_names("measures", measures)
    if not measures or len(set(measures)) < len(measures):
        raise ValueError(f"`measures` must name some numbers, each once; got {tuple(measures)!r}.")
    for name in measures:
        _checks.one_of("measures", name, table.numbers)
    rows: dict[str, dict[str, Number]] = {}
    for model, numbers in table.rows.items():
        rows[model] = {name: numbers[name] for name in measures if name in numbers}
    return table._replace(rows=rows)


def caption_of(table: ModelTable) -> str:
    """Sentences about the evaluation, and about the definition of the first measure of each kind."""
    conventions = {name: number.convention for name, number in table.numbers.items() if number.convention}
    separate, shared = split_conventions(prose_of(conventions))
    subject = table.setting[:1].upper() + table.setting[1:]
    sentences = [f"{subject}; {shared}." if subject and shared else f"{subject or shared}."]
    kinds = set()
    for name, text in separate.items():
        title = table.numbers[name].title
        kind = re.split(r"\W*\d| ", title)[0]  # Rank-1 and Rank-5 are of one kind
        if text and kind not in kinds:
            sentences.append(f"{title}: {text}.")
        kinds.add(kind)
    if table.note:
        sentences.append(table.note)
    return " ".join(sentences)


def markdown(table: ModelTable, decimals: int) -> str:
    """Return a table in GitHub's Markdown, and the caption below it."""
    head, *body = _cells(table, decimals, _escape_markdown, best="**{}**", marked="{}\N{DAGGER}")
    alignment = [":--"] + ["--:"] * len(table.numbers)
    lines = [f"| {row} |" for row in aligned([head, alignment, *body], between=" | ")]
    return "\n".join([*lines, "", _escape_markdown(caption_of(table))])


def latex(
    table: ModelTable,
    decimals: int,
    *,
    caption: str | None = None,
    label: str | None = None,
    measures: Sequence[str] | None = None,
    two_columns: bool = False,
) -> str:
    """Return a table in LaTeX with the package booktabs; the options are those of `Tabled.to_latex`."""
    if measures is not None:
        table = select(table, measures)
    environment = "table*" if two_columns else "table"
    labels = [] if label is None else [rf"\label{{{label}}}"]
    cells = _cells(table, decimals, _escape_latex, best=r"\textbf{{{}}}", marked=r"{}\rlap{{$^\dagger$}}")
    head, *body = [rf"{line} \\" for line in aligned(cells, between=" & ")]
    lines = [
        rf"\begin{{{environment}}}",
        r"\centering",
        r"\setlength{\belowcaptionskip}{6pt}",
        rf"\caption{{{_escape_latex(caption_of(table) if caption is None else caption)}}}",
        *labels,
        rf"\begin{{tabular}}{{l{'r' * len(table.numbers)}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        rf"\end{{{environment}}}",
    ]
    return "\n".join(lines)


def comma_separated(table: ModelTable, decimals: int) -> str:
    """Return comma-separated numbers without the caption; empty where they are undefined."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(_cells(table, decimals, str, undefined=""))
    return file.getvalue().removesuffix("\n")


def _cells(
    table: ModelTable,
    decimals: int,
    escape: Callable[[str], str],
    *,
    best: str = "{}",
    marked: str = "{}",
    undefined: str = UNDEFINED,
) -> list[Sequence[str]]:
    """Return the cells of the head and of the rows.

    Args:
        decimals: digits after the decimal point.
        escape: escapes a text.
        best: format of the best number in a column.
        marked: format of a number with a dagger.
        undefined: text for an undefined number.
    """
    _checks.positive_int("decimals", decimals, 0)
    columns = [["model", *map(escape, table.rows)]]
    for name, first in table.numbers.items():
        texts: list[str] = []
        finite: dict[float, str] = {}
        for numbers in table.rows.values():
            number = numbers.get(name, first._replace(value=math.nan))
            text = number.text(f".{decimals}%").rstrip("%")
            texts.append(text)
            if math.isfinite(number.value):
                finite[number.value] = text

        # The best numbers are all that have the same text as the best one.
        best_text = None
        if len(texts) > 1 and finite:
            best_text = finite[min(finite) if first.lower_is_better else max(finite)]
        column = [escape(first.heading)]
        for model, text in zip(table.rows, texts, strict=True):
            cell = best.format(text) if text == best_text else text.replace(UNDEFINED, undefined)
            column.append(marked.format(cell) if (model, name) in table.marked else cell)
        columns.append(column)
    return list(zip(*columns, strict=True))


def _escape_latex(text: str) -> str:
    return " ".join(text.split()).translate(_LATEX_TABLE).replace("--", "-{}-")


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|&~$])", r"\\\1", " ".join(text.split()))

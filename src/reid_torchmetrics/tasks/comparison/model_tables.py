"""Tables for papers in Markdown, LaTeX and CSV, with a row for each model and a column for each measure."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.displays import UNDEFINED, aligned
from reid_torchmetrics.functional.model_tables import ModelTable, Number, prose_of, split_conventions

_SYMBOLS = {"\\": "backslash", "^": "asciicircum", "~": "asciitilde", "|": "bar", "<": "less", ">": "greater"}
_IN_LATEX = {character: f"\\{character}" for character in "#$%&_{}"}
_IN_LATEX.update({character: f"\\text{name}{{}}" for character, name in _SYMBOLS.items()})
# A bracket or a star at the beginning of a row would be read as an argument of the `\\` before it.
_IN_LATEX.update({"[": "{[}", "*": "{*}", "\N{DAGGER}": r"$\dagger$", "\N{SUPERSCRIPT TWO}": "$^2$"})
_LATEX_TABLE = str.maketrans(_IN_LATEX)


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

"""Numbers of models as text: `str` of results, and tables for papers in Markdown, LaTeX and CSV.

A table has a row for each model and a column for each measure.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from abc import ABC
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from reid_torchmetrics import _checks

from .displays import UNDEFINED, Displayed, aligned, counted
from .number import Number

_SYMBOLS = {"\\": "backslash", "^": "asciicircum", "~": "asciitilde", "|": "bar", "<": "less", ">": "greater"}
_IN_PROSE = {
    "same camera: same_identity": "gallery images of the query's identity and camera are removed",
    "same camera: all": "gallery images of the query's camera are removed",
    "same camera: only": "gallery images of other cameras are removed",
    "same camera: keep": "gallery images of the query's camera are kept",
    "queries without a positive: skip": "queries without a match are left out",
    "queries without a positive: neg": "queries without a match count as 0",
    "queries without a positive: pos": "queries without a match count as 1",
    "queries without a positive: error": "a query without a match is an error",
    "CMC, first_match,": "CMC of the first match,",
    "CMC, all_shots,": "CMC of all matches,",
    "divisor last_positive": "divided by k, or by the rank of the last positive where that is less",
    "rule rectangle": "not interpolated",
    "rule trapezoid": "by trapezoids, not interpolated",
    "rule interpolated_": "interpolated, number of recalls ",
}
"""phrases of conventions that name options, and the prose for them"""
_IN_LATEX = {character: f"\\{character}" for character in "#$%&_{}"}
_IN_LATEX.update({character: f"\\text{name}{{}}" for character, name in _SYMBOLS.items()})
# A bracket or a star at the beginning of a row would be read as an argument of the `\\` before it.
_IN_LATEX.update({"[": "{[}", "*": "{*}", "\N{DAGGER}": r"$\dagger$", "\N{SUPERSCRIPT TWO}": "$^2$"})
_LATEX_TABLE = str.maketrans(_IN_LATEX)


class Tabled(Displayed, ABC):
    """Numbers of a model, or of several, that can be written as a table for a paper."""

    model_table: Callable[..., ModelTable]
    """returns the table; takes the name of the model if there is one model"""

    def to_markdown(self, *name: str, decimals: int = 1) -> str:
        """Return a table in Markdown with a row for each model: shares in percent, and the conventions below.

        With several models the best number in each column is bold. A dagger marks a number with a p-value below 0.05
        against the first model, with Holm's correction for the number of comparisons.

        Args:
            name: name of the model in results of one model; "model" if it is not given.
            decimals: digits after the decimal point.

        Raises:
            TypeError: `decimals` is not an int.
            ValueError: `decimals` is below 0.
        """
        return self.model_table(*name).markdown(decimals)

    def to_latex(
        self,
        *name: str,
        decimals: int = 1,
        caption: str | None = None,
        label: str | None = None,
        measures: Sequence[str] | None = None,
        two_columns: bool = False,
    ) -> str:
        r"""Return the table of `to_markdown` in LaTeX, for documents with `\usepackage{booktabs}`.

        Args:
            name: As in `to_markdown`.
            decimals: As in `to_markdown`.
            caption: Text in the place of the conventions; special characters are escaped.
            label: Name for `\ref`, such as "tab:market".
            measures: Names of the numbers in the table, in order; None for all.
            two_columns: Whether the table is as wide as the page of a document in two columns, as five measures are.

        Raises:
            TypeError: `decimals` is not an int.
            ValueError: `decimals` is below 0, or `measures` has a name that is not in the table, twice, or none.
        """
        table = self.model_table(*name)
        if measures is not None:
            table = table.select(measures)
        return table.latex(decimals, caption=caption, label=label, two_columns=two_columns)


class ModelTable(NamedTuple):
    """Numbers of models, with the texts of a caption."""

    rows: Mapping[str, Mapping[str, Number]]
    """the numbers of each model by name; the first model has all"""
    setting: str
    """text about the evaluation, without a full stop at its end"""
    note: str = ""
    """sentence at the end of the caption"""
    marked: Collection[tuple[str, str]] = ()
    """models and names of the numbers with a dagger"""

    @property
    def numbers(self) -> Mapping[str, Number]:
        """The numbers of the first model."""
        return next(iter(self.rows.values()))

    def select(self, measures: Sequence[str]) -> ModelTable:
        """Return the table with some of the numbers, in their order."""
        _checks.collection_of_names("measures", measures)
        if not measures or len(set(measures)) < len(measures):
            raise ValueError(f"`measures` must name some numbers, each once; got {tuple(measures)!r}.")
        for name in measures:
            _checks.one_of("measures", name, self.numbers)
        rows: dict[str, dict[str, Number]] = {}
        for model, numbers in self.rows.items():
            rows[model] = {name: numbers[name] for name in measures if name in numbers}
        return self._replace(rows=rows)

    @property
    def caption(self) -> str:
        """Sentences about the evaluation, and about the definition of the first measure of each kind."""
        conventions = {name: number.convention for name, number in self.numbers.items() if number.convention}
        separate, shared = split_conventions(prose_of(conventions))
        subject = self.setting[:1].upper() + self.setting[1:]
        sentences = [f"{subject}; {shared}." if subject and shared else f"{subject or shared}."]
        kinds = set()
        for name, text in separate.items():
            title = self.numbers[name].title
            kind = re.split(r"\W*\d| ", title)[0]  # Rank-1 and Rank-5 are of one kind
            if text and kind not in kinds:
                sentences.append(f"{title}: {text}.")
            kinds.add(kind)
        if self.note:
            sentences.append(self.note)
        return " ".join(sentences)

    def markdown(self, decimals: int) -> str:
        """Return a table in GitHub's Markdown, and the caption below it."""
        head, *body = self._cells(decimals, _escape_markdown, best="**{}**", marked="{}\N{DAGGER}")
        alignment = [":--"] + ["--:"] * len(self.numbers)
        lines = [f"| {row} |" for row in aligned([head, alignment, *body], between=" | ")]
        return "\n".join([*lines, "", _escape_markdown(self.caption)])

    def latex(
        self, decimals: int, *, caption: str | None = None, label: str | None = None, two_columns: bool = False
    ) -> str:
        """Return a table in LaTeX with the package booktabs; the options are those of `Tabled.to_latex`."""
        environment = "table*" if two_columns else "table"
        labels = [] if label is None else [rf"\label{{{label}}}"]
        cells = self._cells(decimals, _escape_latex, best=r"\textbf{{{}}}", marked=r"{}\rlap{{$^\dagger$}}")
        head, *body = [rf"{line} \\" for line in aligned(cells, between=" & ")]
        lines = [
            rf"\begin{{{environment}}}",
            r"\centering",
            r"\setlength{\belowcaptionskip}{6pt}",
            rf"\caption{{{_escape_latex(self.caption if caption is None else caption)}}}",
            *labels,
            rf"\begin{{tabular}}{{l{'r' * len(self.numbers)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\end{{{environment}}}",
        ]
        return "\n".join(lines)

    def csv(self, decimals: int) -> str:
        """Return comma-separated numbers without the caption; empty where they are undefined."""
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(self._cells(decimals, str, undefined=""))
        return file.getvalue().removesuffix("\n")

    def _cells(
        self,
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
        columns = [["model", *map(escape, self.rows)]]
        for name, first in self.numbers.items():
            texts: list[str] = []
            finite: dict[float, str] = {}
            for numbers in self.rows.values():
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
            for model, text in zip(self.rows, texts, strict=True):
                cell = best.format(text) if text == best_text else text.replace(UNDEFINED, undefined)
                column.append(marked.format(cell) if (model, name) in self.marked else cell)
            columns.append(column)
        return list(zip(*columns, strict=True))


def _escape_latex(text: str) -> str:
    return " ".join(text.split()).translate(_LATEX_TABLE).replace("--", "-{}-")


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|&~$])", r"\\\1", " ".join(text.split()))


def in_prose(convention: str) -> str:
    """Return the text of a convention with prose instead of the names of options."""
    for phrase, prose in _IN_PROSE.items():
        convention = convention.replace(phrase, prose)
    return convention


def prose_of(conventions: Mapping[str, str]) -> dict[str, str]:
    """Return the conventions of numbers in prose, by the name of the number."""
    return {name: in_prose(text) for name, text in conventions.items()}


def split_conventions(conventions: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Split conventions into the parts of each number, and the parts that the first shares with half of the numbers.

    For "ties last; per query", "ties last; per class" and "ties last; per query" these are "", "per class" and "", and
    "ties last; per query".
    """
    parts = {name: text.split("; ") for name, text in conventions.items()}
    counts = Counter(itertools.chain.from_iterable(parts.values()))
    # A number without a shared part must have another part instead: otherwise all numbers must share the part.
    least: float = len(parts)
    num_parts = {len(number_parts) for number_parts in parts.values()}
    if len(parts) > 1 and len(num_parts) == 1:
        least = max(2, len(parts) / 2)
    first = next(iter(parts.values()), [])
    shared = [part for part in first if counts[part] >= least]
    separate = {}
    for name, number_parts in parts.items():
        separate[name] = "; ".join(part for part in number_parts if part not in shared)
    return separate, "; ".join(shared)


def evaluated(protocol: Any, num_valid: int, num_queries: int) -> str:
    """Return the text for a protocol and its number of valid queries; for detection, without protocol, for the images.

    If the protocol was changed only in `reports`, the name leaves that out.
    """
    if protocol is None:
        return counted(num_queries, "image")
    name = re.sub(r" with reports=\([^)]*\)$", "", protocol.name)
    return f"protocol {name}, {num_valid:,} of {counted(num_queries, 'query')} valid"


def summary_text(results: Any, form: str = "") -> str:
    """Return the text of `RetrievalResults`: the numbers, the convention of each, and the conventions of all.

    `f"{results:.2%}"` has shares in percent.
    """
    counts = results.counts
    first = (
        f"RetrievalResults: {evaluated(results.protocol, counts.valid, counts.total)}"
        f" ({counts.not_in_gallery} not in the gallery, {counts.same_camera_only} without a positive left,"
        f" {counts.junk} junk, {counts.not_ranked} not ranked)"
    )
    separate, shared = split_conventions(prose_of(results.conventions))
    cells = []
    for name, number in results.numbers.items():
        cells.append((f"  {name:<12}", number.text(form or ".4f")))
    lines = [first]
    for row, text in zip(aligned(cells, between=" "), separate.values(), strict=True):
        lines.append(f"{row}  {text}".rstrip())
    list_counts = str(results.list_counts or "")
    if list_counts:
        lines.append(f"  {list_counts}")
    lines.append("  " + "; ".join(filter(None, (str(results.setup), shared))))
    return "\n".join(lines)

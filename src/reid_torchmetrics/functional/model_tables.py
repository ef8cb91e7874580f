"""Numbers of models in words: the text of results and comparisons, and tables as papers have them.

Such a table has a row for each model and a column for each measure, and is written in Markdown, LaTeX and CSV.
"""

from __future__ import annotations

import csv
import io
import math
import re
from abc import ABC
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from reid_torchmetrics import _checks

NEVER = "never"
"""an infinite number, such as a mean of ranks where a positive is never retrieved, in words"""
_SIGNIFICANT = 0.05
_SYMBOLS = {"\\": "backslash", "^": "asciicircum", "~": "asciitilde", "|": "bar", "<": "less", ">": "greater"}
_IN_PROSE = {
    "same camera: same_identity": "gallery images of the same person in the same camera are removed (Market-1501)",
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
"""options in conventions, in prose"""
_IN_LATEX = str.maketrans({e: f"\\{e}" for e in "#$%&_{}"} | {e: f"\\text{name}{{}}" for e, name in _SYMBOLS.items()})
# A bracket or a star behind the end of a row would belong to that end.
_IN_LATEX |= str.maketrans({"[": "{[}", "*": "{*}", "\N{DAGGER}": r"$\dagger$", "\N{SUPERSCRIPT TWO}": "$^2$"})


class Tabled(ABC):
    """Numbers of a model, or of several, as a table of papers."""

    model_table: Callable[..., ModelTable]
    """what is written, with the name of the model where there is one"""

    def to_markdown(self, *name: str, decimals: int = 1) -> str:
        """A table of Markdown with a row for each model: shares in percent, and the conventions below.

        Of several models the best number is bold, and a dagger marks those with a p-value below 0.05 against the first
        model, with Holm's correction for their number.

        Args:
            name: of the model in results of one; "model" if it is not given.
            decimals: digits behind the point.

        Raises:
            TypeError: `decimals` is not an int.
            ValueError: `decimals` is below 0.
        """
        return self.model_table(*name).markdown(decimals)

    def to_latex(self, *name: str, decimals: int = 1) -> str:
        r"""The same as `to_markdown` in LaTeX, for documents with `\usepackage{booktabs}`."""
        return self.model_table(*name).latex(decimals)


class Heading(NamedTuple):
    """A measure as the head of a column."""

    title: str
    is_rank: bool = False
    lower_is_better: bool = False


class ModelTable(NamedTuple):
    """Numbers of models, shares of 1 and ranks, with what is said of them."""

    headings: Mapping[str, Heading]
    """by the name of the number"""
    rows: Mapping[str, Mapping[str, float]]
    """the numbers of each model, NaN where they are undefined"""
    caption: str
    marked: Collection[tuple[str, str]] = ()
    """models and names of the numbers with a dagger"""

    def markdown(self, decimals: int) -> str:
        """A table of GitHub's Markdown, and the caption below it."""
        head, *body = self._cells(decimals, _escape_markdown, "**{}**", "{}\N{DAGGER}")
        rows = aligned([head, [":--", *["--:"] * len(self.headings)], *body], between=" | ")
        return "\n".join([*(f"| {row} |" for row in rows), "", _escape_markdown(self.caption)])

    def latex(self, decimals: int) -> str:
        """A table of LaTeX with the package booktabs."""
        cells = self._cells(decimals, _escape_latex, r"\textbf{{{}}}", r"{}\rlap{{$^\dagger$}}")
        head, *body = (rf"{line} \\" for line in aligned(cells, between=" & "))
        top = f"\\begin{{table}}\n\\centering\n\\caption{{{_escape_latex(self.caption)}}}"
        columns = f"\\begin{{tabular}}{{l{'r' * len(self.headings)}}}\n\\toprule"
        return "\n".join([top, columns, head, r"\midrule", *body, "\\bottomrule\n\\end{tabular}\n\\end{table}"])

    def csv(self, decimals: int) -> str:
        """Comma-separated numbers without the caption; empty where they are undefined."""
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(self._cells(decimals, str, "{}", "{}", ""))
        return file.getvalue().removesuffix("\n")

    def _cells(self, decimals: int, escape: Callable[[str], str], *forms: str) -> list[Sequence[str]]:
        """The head and the rows; with `forms` of the best, of marked and of undefined numbers."""
        _checks.positive_int("decimals", decimals, 0)
        best, marked, undefined = [*forms, "-"][:3]
        columns = [["model", *map(escape, self.rows)]]
        for name, (title, is_rank, lower_is_better) in self.headings.items():
            values = [numbers.get(name, math.nan) for numbers in self.rows.values()]
            cells = [in_words(value, f".{decimals}%", is_share=not is_rank).rstrip("%") for value in values]
            # Of several models the best are those that are written as the best one.
            finite = {value: cell for value, cell in zip(values, cells, strict=True) if math.isfinite(value)}
            first = finite[(min if lower_is_better else max)(finite)] if len(cells) > 1 and finite else None
            cells = [best.format(cell) if cell == first else cell.replace("nan", undefined) for cell in cells]
            named = zip(self.rows, cells, strict=True)
            cells = [marked.format(cell) if (model, name) in self.marked else cell for model, cell in named]
            columns.append([escape(title if is_rank else f"{title} (%)"), *cells])
        return [*zip(*columns, strict=True)]


def _escape_latex(text: str) -> str:
    return " ".join(text.split()).translate(_IN_LATEX).replace("--", "-{}-")


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|&~$])", r"\\\1", " ".join(text.split()))


def in_words(value: float, form: str = ".4f", *, is_share: bool = True) -> str:
    """A number as text prints it: an infinite one is "never", and only a share is a percentage."""
    form = form if is_share and not math.isnan(value) else form.replace("%", "f")
    return NEVER if math.isinf(value) else format(value, form)


def aligned(rows: Iterable[Sequence[str]], num_left: int = 1, between: str = "  ") -> list[str]:
    """The lines of a table with words in its first columns, to the left, and numbers in the others, to the right."""
    columns = [*zip(*rows, strict=True)]
    for place, column in enumerate(columns):
        align, width = str.ljust if place < num_left else str.rjust, max(map(len, column))
        columns[place] = tuple(align(cell, width) for cell in column)
    return [between.join(row).rstrip() for row in zip(*columns, strict=True)]


def in_prose(convention: str) -> str:
    """A convention without the names of options."""
    return reduce(lambda said, words: said.replace(*words), _IN_PROSE.items(), convention)


def split_conventions(conventions: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The words of each number alone, and words of the first that half of the numbers share, to be said once."""
    parts = {name: words.split("; ") for name, words in conventions.items()}
    counts = Counter(part for each in parts.values() for part in each)
    # A number without a shared part must have another in its place: as many parts as all others.
    least = max(2, len(parts) / 2) if len({*map(len, parts.values())}) == 1 < len(parts) else len(parts)
    shared = [part for part in next(iter(parts.values()), []) if counts[part] >= least]
    alone = {name: "; ".join(part for part in of_name if part not in shared) for name, of_name in parts.items()}
    return alone, "; ".join(shared)


def _caption(where: str, conventions: Mapping[str, str], headings: Mapping[str, Heading]) -> str:
    """Sentences about what was evaluated, and how the first measure of each kind is defined."""
    alone, shared = split_conventions({name: in_prose(said) for name, said in conventions.items() if name in headings})
    # Rank-1 and Rank-5 are of one kind.
    firsts = {re.split(r"\W*\d| ", headings[name].title)[0]: name for name in reversed(alone)}
    said = [f"{headings[name].title}: {words}." for name, words in alone.items() if words and name in firsts.values()]
    return " ".join([f"{'; '.join(filter(None, (f'{where[:1].upper()}{where[1:]}', shared)))}.", *said])


def evaluated(protocol: Any, num_valid: int, num_queries: int) -> str:
    """The protocol, without the names of its numbers where it differs in nothing else, and how many queries are valid.

    For detections, without a protocol, the number of images.
    """
    name = "" if protocol is None else re.sub(r" with reports=\([^)]*\)$", "", protocol.name)
    return f"protocol {name}, {num_valid} of {num_queries} queries valid" if name else f"{num_queries} images"


def summary_text(results: Any, form: str = "") -> str:
    """The numbers of `RetrievalResults`, how each was computed, and what holds for all.

    `f"{results:.2%}"` has shares in percent.
    """
    counts, heads = results.counts, results.model_table().headings
    first = (
        f"RetrievalResults: {evaluated(results.protocol, counts.valid, counts.total)}"
        f" ({counts.not_in_gallery} not in the gallery, {counts.same_camera_only} without a positive left,"
        f" {counts.junk} junk, {counts.not_ranked} not ranked)"
    )
    alone, shared = split_conventions(results.conventions)
    numbers = (in_words(results[name], form or ".4f", is_share=not of.is_rank) for name, of in heads.items())
    rows = aligned(zip((f"  {name:<12}" for name in heads), numbers, strict=True), between=" ")
    lines = [f"{row}  {words}".rstrip() for row, words in zip(rows, alone.values(), strict=True)]
    of_lists = str(results.list_counts or "")
    said = [f"  {of_lists}"] if of_lists else []
    return "\n".join([first, *lines, *said, f"  {'; '.join(filter(None, (str(results.setup), shared)))}"])


def results_table(results: Any, name: str, headings: Mapping[str, Heading], where: str) -> ModelTable:
    """The row of one model; `where` says what was evaluated."""
    numbers = {each: math.nan if mean < 0 else mean for each, mean in results.means.items()}  # detections have -1
    return ModelTable(headings, {name: numbers}, _caption(where, results.conventions, headings))


def comparison_text(comparison: Any, form: str = "") -> str:
    """A table of the numbers for each model but the first, then how each number was computed.

    `f"{comparison:.2%}"` has shares in percent, and their differences in percentage points.
    """
    # The head: who is compared, and how chance was drawn.
    pairs, (first, _) = comparison.by_name, comparison.names
    where = evaluated(comparison.protocol, comparison.num_valid, comparison.num_queries)
    alone, shared = split_conventions(comparison.conventions)
    width = max(map(len, alone))
    lines = [
        f"Comparison: {', '.join(f'{b} - {first}' for b in pairs)}, {where}",
        *(f"  {name}: {setup}" for name, setup in _setups(comparison).items()),
        f"  {comparison.chance}",
        *(line for each in pairs.values() for line in _pair_table(each, form or ".4f")),
        *(f"  {name.ljust(width)}  {said}" for name, said in alone.items() if said),
        *([f"  unless noted: {shared}"] if shared else []),
    ]
    return "\n".join(lines)


def comparison_table(comparison: Any) -> ModelTable:
    """A row for each of the models of a `Comparison`; p-values below 0.05 against the first are marked."""
    pairs, first = comparison.by_name, comparison.names[0]
    numbers = [(model, *row) for model, pair in pairs.items() for row in pair.differences.items()]
    headings = {name: Heading(of.title or name, of.is_rank, of.lower_is_better) for _, name, of in numbers}
    rows = {first: {name: of.mean_a for _, name, of in numbers}}
    rows |= {model: {name: of.mean_b for name, of in pair.differences.items()} for model, pair in pairs.items()}
    # Without a correction `p_holm` is NaN, which is never the larger one.
    marked = {(model, name) for model, name, of in numbers if max(of.p_value, of.p_holm) < _SIGNIFICANT}
    where = evaluated(comparison.protocol, comparison.num_valid, comparison.num_queries)
    setups = _setups(comparison)
    of_models = {*setups.values()} if len({*setups.values()}) == 1 else map(": ".join, setups.items())
    said = _caption("; ".join([where, *of_models]), comparison.conventions, headings)
    holm, test = " with Holm's correction" * (len(pairs) > 1), comparison.chance.partition("; ")[2]
    return ModelTable(headings, rows, f"{said} \N{DAGGER} p < {_SIGNIFICANT} against {first}{holm}; {test}.", marked)


def _setups(compared: Any) -> dict[str, str]:
    """How the scores of each model were made, in words; empty for detections."""
    setups = {compared.names[0]: compared.setup_a} | {name: each.setup_b for name, each in compared.by_name.items()}
    return {name: str(setup) for name, setup in setups.items() if setup}


def _pair_table(pair: Any, form: str) -> list[str]:
    """One row per number, columns to the right but for the name, and who moved."""
    (a, b), has_holm = pair.names, any(each.p_holm >= 0 for each in pair.differences.values())
    titles = ["", a, b, f"{b} - {a}", f"{100 * pair.level:g}% interval", "p", *["p Holm"] * has_holm]
    rows = [[*titles, "better", "worse", "equal"]]
    for name, of in pair.differences.items():
        means = [in_words(mean, form, is_share=not of.is_rank) for mean in (of.mean_a, of.mean_b)]
        changes = (in_words(each, f"+{form}", is_share=not of.is_rank) for each in (of.difference, of.low, of.high))
        difference, low, high = (each.removesuffix("%") for each in changes)  # percentage points
        interval = "none: a mean is infinite" if NEVER in means else f"[{low}, {high}]"
        p_values = [f"{p_value:.4f}" for p_value in (of.p_value, of.p_holm)[: 1 + has_holm]]
        counts = map(str, (of.num_better, of.num_worse, of.num_equal))
        rows.append([name, *means, difference, interval, *p_values, *counts])
    moved = f"right at rank 1 in {b} only: {len(pair.gained)} queries; in {a} only: {len(pair.lost)}"
    below = moved if pair.protocol else "better, worse and equal: classes"
    return [f"  {line}" for line in (*aligned(rows), below)]

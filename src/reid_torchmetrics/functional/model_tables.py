"""The record of a number, and numbers of models as text: `str` of results, and the contents of tables for papers."""

from __future__ import annotations

import itertools
import math
import re
from abc import ABC
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from reid_torchmetrics._registries import Registry

from .displays import UNDEFINED, Displayed, aligned, counted

NEVER = "never"
"""text for an infinite number, such as a mean of ranks where a positive is never retrieved"""


class Number(NamedTuple):
    """A number of a model, with what is printed beside it."""

    name: str
    title: str
    """title in tables and legends, such as "mAP" """
    value: float
    """NaN where it is undefined"""
    convention: str = ""
    """the definition of the number, in words"""
    is_share: bool = True
    """whether the unit is 1, so that the number may be written in percent; ranks and other amounts have no unit"""
    lower_is_better: bool = False

    @property
    def heading(self) -> str:
        """The title, with the unit of numbers that are written in percent without the sign."""
        return f"{self.title} (%)" if self.is_share else self.title

    def text(self, form: str = ".4f") -> str:
        """Return the value as a text, see `in_words`."""
        return in_words(self.value, form, is_share=self.is_share)

    def to_dict(self) -> dict[str, Any]:
        """Return value and convention, JSON-safe; an infinite value also has the key "said", with "never"."""
        row: dict[str, Any] = {"value": json_safe(self.value), "convention": self.convention}
        if math.isinf(self.value):
            row["said"] = NEVER
        return row


def in_words(value: float, form: str = ".4f", *, is_share: bool = True) -> str:
    """Return the text for a number: "n/a" if it is undefined, "never" if it is infinite.

    Only a share is printed as a percentage.
    """
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return NEVER
    return format(value, form if is_share else form.replace("%", "f"))


def json_safe(value: float) -> float | None:
    """Return a number for JSON: None instead of a number that is undefined or infinite."""
    return value if math.isfinite(value) else None


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
TABLE_FORMATS: Registry[Callable[..., str]] = Registry("TABLE_FORMATS", {})
"""functions of a `ModelTable` and of options that return its text, by the name of the format, which tasks add"""


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
        return TABLE_FORMATS["markdown"](self.model_table(*name), decimals)

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
        return TABLE_FORMATS["latex"](
            self.model_table(*name),
            decimals,
            caption=caption,
            label=label,
            measures=measures,
            two_columns=two_columns,
        )


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
        return next(iter(self.rows.values()), {})


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

"""Results as text and, for notebooks, as HTML: a title, a table of numbers, and notes below it.

Texts are short, however many queries or images there are: tables are cut, and a tensor is shown by its dtype and shape.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from torch import Tensor

from reid_torchmetrics import _hints

Result = TypeVar("Result")

UNDEFINED = "n/a"
"""text for an undefined number"""

NUM_ROWS = 10
"""rows of the table of a result with more, and columns of a matrix"""
_FEW = 5  # numbers of a vector that are shown instead of its shape
_LONGEST = 60  # of a text of a field


class Display(NamedTuple):
    """The parts of a text about a result."""

    title: str
    columns: Sequence[str] = ()
    """headings; empty for a table without headings"""
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()
    num_left: int = 1
    """number of columns of words, which are aligned to the left"""

    def text(self) -> str:
        """Return lines of text."""
        rows = [self.columns, *self.rows] if self.columns else self.rows
        lines = [*aligned(rows, self.num_left), *self.notes]
        return "\n  ".join([self.title, *lines])

    def html(self) -> str:
        """Return a table of HTML with the title as caption, and paragraphs for the notes."""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        if not self.rows:
            return f"<p>{escape(self.title)}</p>{notes}"
        head = ""
        if self.columns:
            cells = "".join(f"<th>{escape(column)}</th>" for column in self.columns)
            head = f"<thead><tr>{cells}</tr></thead>"
        rows = ""
        for name, *values in self.rows:
            cells = "".join(_html_cell(value) for value in values)
            rows += f"<tr><th>{escape(name)}</th>{cells}</tr>"
        return f"<table><caption>{escape(self.title)}</caption>{head}<tbody>{rows}</tbody></table>{notes}"


def _html_cell(text: str) -> str:
    """Return a cell of a table; an undefined number is gray."""
    style = ' style="color: gray"' if text == UNDEFINED else ""
    return f"<td{style}>{escape(text)}</td>"


class Displayed:
    """A result that prints as its display, and has a table of HTML in notebooks.

    A dataclass needs `repr=False`.
    """

    def _display(self) -> Display:
        """Return the parts of the text: the fields, unless a class has a table of its own."""
        return fields_display(self)

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            # Without fields, as while it is unpickled, there are no numbers yet.
            numbers = list(self) if vars(self) and isinstance(self, Mapping) else []
            hint = "" if name.startswith("_") else _hints.attribute_meant(name, dir(self), numbers)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    def __str__(self) -> str:
        return self._display().text()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        return self._display().html()


def fields_display(result: Any) -> Display:
    """Return the fields of a dataclass or a named tuple as a table; fields that are None are left out."""
    names = [field.name for field in fields(result)] if is_dataclass(result) else list(result._fields)
    rows = []
    for name in names:
        value = getattr(result, name)
        if value is not None:
            rows.append((name, value_text(value)))
    return Display(type(result).__name__, rows=rows, num_left=2)


def displayed(kind: type[Result]) -> type[Result]:
    """Decorate a named tuple, which can have no base class, with the text and HTML of `Displayed`."""
    kind.__repr__ = lambda result: fields_display(result).text()  # type: ignore[method-assign]
    kind._repr_html_ = lambda result: fields_display(result).html()  # type: ignore[attr-defined]
    return kind


def value_text(value: object) -> str:
    """Return a short text for a value: numbers, words, the dtype and shape of arrays, or the size of a collection."""
    if isinstance(value, (Tensor, np.ndarray)):
        if value.ndim > 1 or math.prod(value.shape) > _FEW:
            dtype = str(value.dtype).removeprefix("torch.")
            return f"{dtype} {list(value.shape)}"
        return value_text(value.tolist())
    if isinstance(value, float) and math.isnan(value):
        return UNDEFINED
    if isinstance(value, (str, int, float)):
        return cut(f"{value:.4g}" if isinstance(value, float) else str(value))
    if isinstance(value, Collection):
        return _collection_text(value)
    return type(value).__name__


def _collection_text(values: Collection[object]) -> str:
    """Return the values, or their number if there are many."""
    if len(values) > _FEW:
        return counted(len(values), "value")
    return cut(", ".join(map(value_text, values))) or "none"


def cut(text: str, most: int = _LONGEST) -> str:
    """Return a text in one line, cut at a length."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 query" and "2,000 queries"."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    if noun.endswith("query"):
        plural = f"{noun.removesuffix('y')}ies"
    return f"{number:,} {plural}"


def more_rows(num_rows: int, noun: str, most: int = NUM_ROWS) -> list[str]:
    """Return a note about the rows that a table of `most` rows leaves out; none if it has all rows."""
    num_more = num_rows - most
    return [f"and {counted(num_more, f'more {noun}')}"] if num_more > 0 else []


def aligned(rows: Iterable[Sequence[str]], num_left: int = 1, between: str = "  ") -> list[str]:
    """Return the lines of a table with the first `num_left` columns aligned to the left, the others to the right."""
    columns = []
    for place, column in enumerate(zip(*rows, strict=True)):
        align = str.ljust if place < num_left else str.rjust
        width = max(map(len, column))
        columns.append([align(cell, width) for cell in column])
    return [between.join(row).rstrip() for row in zip(*columns, strict=True)]

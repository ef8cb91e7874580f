"""Tables of ranked lists and of judgements, a query, an item and a number in each line, read by columns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any

from .word_columns import parse_integers, split_columns

_MAX_INTERNED = 1 << 15  # items with one string each: beyond the size of the cache this costs more than it saves

Table = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class TableForm:
    """The columns of a table; the first one is the query."""

    num_columns: int
    item: int
    number: int
    parse: Callable[[Sequence[str]], list[Any] | None]
    """returns the numbers in a column; None if some word is no number"""
    constant: int | None = None
    """the column with the same word in all lines"""


def read_table(text: str, form: TableForm) -> Table | None:
    """Return the numbers in a text by query and item; None if some line has another form or repeats an item."""
    table: Table = {}
    num_rows = 0
    constants: set[str] = set()
    interned: dict[str, str] = {}
    for columns in split_columns(text, form.num_columns):
        if columns is None:
            return None
        numbers = form.parse(columns[form.number])
        if numbers is None:
            return None
        if form.constant is not None:
            constants.update(columns[form.constant])
        if len(constants) > 1:
            return None
        items = columns[form.item]
        if len(interned) < _MAX_INTERNED:
            # Equal items become one string, whose hash is computed once.
            items = list(map(interned.setdefault, items, items))
        _add_rows(table, columns[0], items, numbers)
        num_rows += len(numbers)
    # An item that a query repeats has replaced the first one.
    num_items = sum(len(row) for row in table.values())
    return table if 0 < num_items == num_rows else None


def parse_digits(words: Sequence[str]) -> list[int] | None:
    """Return integers of at most 18 digits without a sign; None if some word is another one."""
    letters = "".join(words)
    if "-" in letters or "+" in letters:
        return None
    return parse_integers(words)


def _add_rows(table: Table, queries: Sequence[str], items: Sequence[str], numbers: Sequence[Any]) -> None:
    """Add rows to a table; rows of a query that follow each other are added together."""
    is_new = map(operator.ne, queries, queries[1:])
    starts = compress(range(1, len(queries)), is_new)
    for start, end in pairwise([0, *starts, len(queries)]):
        rows = zip(items[start:end], numbers[start:end], strict=True)
        table.setdefault(queries[start], {}).update(rows)

"""Ranked lists and their truth in lines of text, by the one form that all lines have.

run       query Q0 item rank score name     TREC
rank      query item rank                   MS MARCO
query     query item item ...               MSLS; in two columns a query may have more lines, as of hloc
items     item item ...                     VisDA, VeRi: numbers of items, of the query with the number of the line
qrels     query 0 item grade                TREC
grades    query item grade                  BEIR, below a header

Tables, a query, an item and a number in each line, are read by columns where all lines fit; else line by line, so that
an error names the line.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from pathlib import Path
from typing import Any

from .array_files import lines_of_text, read_utf_8, refused
from .word_columns import columns_of_blocks, parse_floats, parse_integers

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"  # no digit fits two parts, which would take quadratic time
_INTEGER = r"\d{1,18}"  # int64
RETRIEVED_FORMS = ("run", "rank", "query", "items")
TRUTH_FORMS = ("qrels", "grades", "pairs", "items")

_PATTERNS = {
    "run": re.compile(rf"(?P<query>\S+)\s+(?P<constant>\S+)\s+(?P<item>\S+)\s+\S+\s+(?P<number>{NUMBER})\s+\S+"),
    "rank": re.compile(rf"(?P<query>\S+)\s+(?P<item>\S+)\s+(?P<number>{_INTEGER})"),
    "query": re.compile(r"(?P<query>\S+)(?!\s+[Qq]0\s)(?P<items>(?:\s+\S+)+)"),
    "pairs": re.compile(r"(?P<query>\S+)(?P<items>\s+\S+)"),
    "items": re.compile(rf"(?P<items>{_INTEGER}(?:\s+{_INTEGER})*)"),
    "qrels": re.compile(rf"(?P<query>\S+)\s+\S+\s+(?P<item>\S+)\s+(?P<number>[-+]?{_INTEGER})"),
    "grades": re.compile(rf"(?P<query>\S+)\s+(?P<item>\S+)\s+(?P<number>[-+]?{_INTEGER})"),
}
_WORDS = {
    "run": "query Q0 item rank score name",
    "rank": "query item rank",
    "query": "query item item ...",
    "pairs": "query item",
    "items": "item item ...",
    "qrels": "query 0 item grade",
    "grades": "query item grade",
}
_MAX_NAMES = 1 << 15  # items that are looked up for their string: beyond the cache this costs more than it saves
_TREC = ("run", "qrels")
"""the forms of TREC"""


@dataclass(frozen=True)
class _TableForm:
    """The columns of a line; the first one is the query."""

    num_columns: int
    item: int
    number: int
    parse: Callable[[Sequence[str]], list[Any] | None]
    """the numbers in a column; None if some word is another one"""
    constant: int | None = None
    """the column with one word in all lines"""


def _parse_digits(words: Sequence[str]) -> list[int] | None:
    """Return integers of at most 18 digits without a sign; None if some word is none."""
    letters = "".join(words)
    return None if "-" in letters or "+" in letters else parse_integers(words)


_TABLES = {
    "run": _TableForm(6, item=2, number=4, parse=parse_floats, constant=1),
    "rank": _TableForm(3, item=1, number=2, parse=_parse_digits),
    "qrels": _TableForm(4, item=2, number=3, parse=parse_integers),
    "grades": _TableForm(3, item=1, number=2, parse=parse_integers),
}
"""the columns of tables"""
_HEADERS = ("query-id", "query_id", "queryid", "qid", "query")
"""first words of a header"""

_Lines = Sequence[tuple[str, str]]
_Table = dict[str, dict[str, Any]]


def read_lines(path: Path, forms: Sequence[str], form: str | None) -> Any:
    """Return the lists in the lines of a file.

    Args:
        path: of the file.
        forms: that the lines may have.
        form: one of them; None for the one that all lines have.

    Returns:
        Numbers by query and item for a run and for judgements; items by query for ranks and for queries with items;
        lists of numbers for items alone.

    Raises:
        ValueError: lines that fit several forms or none, or an item that a query repeats.
    """
    text = read_utf_8(path)
    lines_below, has_header = _without_header(text)
    table = _table_by_columns(lines_below, forms, form, has_header=has_header)
    if table is not None:
        return table
    lines = list(lines_of_text(path, text))
    if has_header:
        lines = lines[1:]
    if not lines:
        raise refused(path, f"the file must have lines of {_WORDS[forms[0]]}", "none")
    return _read_lines(path, lines, forms, form, has_header=has_header)


def _without_header(text: str) -> tuple[str, bool]:
    """Return the text below its header, and whether it has one; a line alone is no header."""
    first, _, below = text.lstrip().partition("\n")
    words = first.split(maxsplit=1)
    if words and words[0].lower() in _HEADERS and below and not below.isspace():
        return below, True
    return text, False


def _table_by_columns(text: str, forms: Sequence[str], form: str | None, *, has_header: bool) -> Any:
    """Return the table in a text, read by columns; None if its lines are no table, or if only lines can tell."""
    tables = [name for name in forms if name in _TABLES] if form is None else [form]
    for name in tables:
        if name not in _TABLES:
            return None
        layout = _TABLES[name]
        if form is None and name == "qrels":
            layout = replace(layout, constant=1)
        if form is None and name == "grades" and not has_header:
            return None
        table = _read_table(text, layout)
        if table is None:
            continue
        if name != "rank":
            return table
        is_clear = form == "rank" or _are_counted(table)
        has_repeated_rank = any(len(set(ranks.values())) < len(ranks) for ranks in table.values())
        return _by_rank(table) if is_clear and not has_repeated_rank else None
    return None


def _read_table(text: str, form: _TableForm) -> _Table | None:
    """Return the numbers in a text by query and item; None if some line has another form or repeats an item."""
    table: _Table = {}
    num_rows = 0
    constants: set[str] = set()
    names: dict[str, str] = {}
    for columns in columns_of_blocks(text, form.num_columns):
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
        if len(names) < _MAX_NAMES:
            # One string for each item, whose hash is known, serves all that follows.
            items = list(map(names.setdefault, items, items))
        _add_rows(table, columns[0], items, numbers)
        num_rows += len(numbers)
    # An item that a query repeats has replaced the first one.
    num_items = sum(len(row) for row in table.values())
    return table if 0 < num_items == num_rows else None


def _add_rows(table: _Table, queries: Sequence[str], items: Sequence[str], numbers: Sequence[Any]) -> None:
    """Add rows to a table; rows of a query that follow each other are added together."""
    is_new = map(operator.ne, queries, queries[1:])
    starts = compress(range(1, len(queries)), is_new)
    for start, end in pairwise([0, *starts, len(queries)]):
        rows = zip(items[start:end], numbers[start:end], strict=True)
        table.setdefault(queries[start], {}).update(rows)


def _by_rank(table: Mapping[str, Mapping[str, int]]) -> dict[str, list[str]]:
    """Return the items of each query by ascending rank."""
    return {query: sorted(ranks, key=ranks.__getitem__) for query, ranks in table.items()}


def _read_lines(path: Path, lines: _Lines, forms: Sequence[str], form: str | None, *, has_header: bool) -> Any:
    """Return the lists in lines, read line by line, so that an error names the line."""
    # Most files are of TREC. They are read at once, and looked at again only where some line has another form.
    first = forms[0]
    if form is None and first in _TREC and _is_told(lines, first, has_header=has_header):
        with suppress(ValueError):
            return _table(_matches(lines, first), _number_type(first))
    form = form or _form_of(path, lines, forms, has_header=has_header)
    matches = _matches(lines, form)
    if form == "items":
        return _numbered_lists(matches, int(lines[-1][0].rpartition(":")[2]))
    if form in ("query", "pairs"):
        return _named_lists(matches)
    table = _table(matches, _number_type(form))
    if form == "rank":
        _check_ranks(path, table)
        return _by_rank(table)
    return table


def _number_type(form: str) -> type:
    return float if form == "run" else int


def _matches(lines: _Lines, form: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the place of each line, and its match.

    Raises:
        ValueError: a line of another form.
    """
    for where, line in lines:
        match = _PATTERNS[form].fullmatch(line)
        if match is None:
            raise refused(where, f"a line must be {_WORDS[form]}", repr(line[:80]))
        yield where, match


def _form_of(path: Path, lines: _Lines, forms: Sequence[str], *, has_header: bool) -> str:
    """Return the form that all lines have; if none has all, the one that has most lines from the first on."""
    num_fitting: dict[str, int] = {}
    for form in forms:
        num_fitting[form] = _num_fitting(lines, form)
        # Forms that tell themselves have other numbers of columns.
        if num_fitting[form] == len(lines) and _is_told(lines, form, has_header=has_header):
            return form
    fitting = [form for form in forms if num_fitting[form] == len(lines)]
    if len(fitting) > 1:
        rule = "lines must fit one form, which `form` says (`--form` or `--truth-form` in the command)"
        meanings = "; ".join(_WORDS[form] for form in fitting)
        raise refused(path, f"{rule}, one of {', '.join(fitting)}", f"lines that are {meanings}")
    return max(forms, key=lambda form: num_fitting[form])


def _num_fitting(lines: _Lines, form: str) -> int:
    """Return how many lines from the first on have a form."""
    constants: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for place, (_, line) in enumerate(lines):
        match = _PATTERNS[form].fullmatch(line)
        if match is None:
            return place
        if form == "run":
            constants.add(match["constant"])
        if len(constants) > 1:
            return place
        # Ranks of a query differ, and so do queries with more than one item in their line.
        key = _key_of_line(match, form)
        if key in seen:
            return place
        if key is not None:
            seen.add(key)
    return len(lines)


def _key_of_line(match: re.Match[str], form: str) -> tuple[str, str] | None:
    """Return what no other line of a form may have; None for a line that may have anything."""
    if form == "rank":
        return match["query"], match["number"]
    if form == "query" and len(match["items"].split()) > 1:
        return match["query"], ""
    return None


def _is_told(lines: _Lines, form: str, *, has_header: bool) -> bool:
    """Return whether a constant column, counted ranks or a header tell a table from a list of items."""
    if form == "run":  # its second column is one word
        return True
    if form == "qrels":
        return len({tuple(line.split()[1:2]) for _, line in lines}) == 1
    if form == "grades":
        return has_header
    if form != "rank":
        return False
    ranks: dict[str, dict[int, int]] = {}  # by query and line
    for place, (_, line) in enumerate(lines):
        query, _, rank = line.split()
        ranks.setdefault(query, {})[place] = int(rank)
    return _are_counted(ranks)


def _are_counted(table: Mapping[str, Mapping[Any, int]]) -> bool:
    """Return whether ranks count the lines of each query, from 0 or 1 on, and some query has two."""
    firsts = set()
    for ranks in table.values():
        first = min(ranks.values())
        firsts.add(first)
        if max(ranks.values()) - first != len(ranks) - 1:
            return False
    return firsts in ({0}, {1}) and any(len(ranks) > 1 for ranks in table.values())


def _numbered_lists(matches: Iterator[tuple[str, re.Match[str]]], num_lines: int) -> list[list[int]]:
    """Return the items of each line; a blank line is a query without items."""
    lists: list[list[int]] = [[] for _ in range(num_lines)]
    for where, match in matches:
        lists[int(where.rpartition(":")[2]) - 1] = [int(item) for item in match["items"].split()]
    return lists


def _named_lists(matches: Iterator[tuple[str, re.Match[str]]]) -> dict[str, list[str]]:
    lists: dict[str, dict[str, None]] = {}
    for where, match in matches:
        query = match["query"]
        if query in lists and len(match["items"].split()) > 1:
            raise refused(where, "a query with several items must have one line", f"{query!r} again")
        items = lists.setdefault(query, {})
        for item in match["items"].split():
            if item in items:
                raise refused(where, "a query must have an item once", f"{item!r} again for {query!r}")
            items[item] = None
    return {query: list(items) for query, items in lists.items()}


def _check_ranks(path: Path, table: Mapping[str, Mapping[str, int]]) -> None:
    """Raise unless the ranks of each query differ."""
    for query, ranks in table.items():
        if len(set(ranks.values())) < len(ranks):
            raise refused(path, "the ranks of a query must differ", f"{list(ranks.values())[:10]} for {query!r}")


def _table(matches: Iterator[tuple[str, re.Match[str]]], number: type) -> dict[str, dict[str, Any]]:
    """Return the numbers in lines by query and item."""
    table: dict[str, dict[str, Any]] = {}
    constants: set[str] = set()
    for where, match in matches:
        query, item = match["query"], match["item"]
        # Lists of a query and five items have six columns, too; in a run the second says nothing.
        if "constant" in match.re.groupindex:
            constants.add(match["constant"])
        if len(constants) > 1:
            raise refused(where, "the second column of a run must be one word, such as Q0", sorted(constants))
        items = table.setdefault(query, {})
        if item in items:
            raise refused(where, "a query must have an item once", f"{item!r} again for {query!r}")
        items[item] = number(match["number"])
    return table

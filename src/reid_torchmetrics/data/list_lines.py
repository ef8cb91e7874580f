"""Ranked lists and their truth in lines of text, by the one form that all lines have.

run       query Q0 item rank score name     TREC
rank      query item rank                   MS MARCO
scores    query item score                  of databases and notebooks, below a header that says so
query     query item item ...               MSLS; in two columns a query may have more lines, as of hloc
items     item item ...                     VisDA, VeRi: numbers of items, of the query with the number of the line
qrels     query 0 item grade                TREC
grades    query item grade                  BEIR, below a header

Tables, a query, an item and a number in each line, are read by columns. Lines are looked at one by one to find the form
of all, to read lists, and to name the line of an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from reid_torchmetrics import _hints

from .array_files import file_error
from .array_names import kind_of_numbers
from .text_files import MARK, are_decimal, file_text, parse_floats, parse_integers, split_lines, split_words

RETRIEVED_FORMS = ("run", "rank", "query", "items", "scores")
TRUTH_FORMS = ("qrels", "grades", "pairs", "items")

_NUM_COLUMNS_OF_ITEMS = 3  # query, item and rank or score
_NUM_FIRST_CHARACTERS = 1000  # of a text, which may be a large one, with the first words
_MAX_INTERNED = 1 << 15  # items with one string each: beyond the size of the cache this costs more than it saves


@dataclass(frozen=True)
class _TableForm:
    """The columns of a table; the first one is the query."""

    num_columns: int
    item: int
    number: int
    parse: Callable[[Sequence[str]], list[Any] | None]
    """returns the numbers in a column; None if some word is no number"""
    constant: int | None = None
    """the column with the same word in all lines"""


def _parse_digits(words: Sequence[str]) -> list[int] | None:
    """Return integers of at most 18 digits without a sign; None if some word is another one."""
    letters = "".join(words)
    if "-" in letters or "+" in letters:
        return None
    return parse_integers(words)


_TABLES = {
    "run": _TableForm(6, item=2, number=4, parse=parse_floats, constant=1),
    "rank": _TableForm(3, item=1, number=2, parse=_parse_digits),
    "scores": _TableForm(3, item=1, number=2, parse=parse_floats),
    "qrels": _TableForm(4, item=2, number=3, parse=parse_integers),
    "grades": _TableForm(3, item=1, number=2, parse=parse_integers),
}
"""forms of tables"""
_WORDS = {
    "run": "query Q0 item rank score name",
    "rank": "query item rank",
    "scores": "query item score",
    "query": "query item item ...",
    "pairs": "query item",
    "items": "item item ...",
    "qrels": "query 0 item grade",
    "grades": "query item grade",
}
_HEADERS = ("query-id", "query_id", "queryid", "qid", "query", "query_name", "query_image", "topic_id", "q_id")
"""first words of a header"""

_Lines = Sequence[tuple[str, str]]
"""the place of each line, and its text"""
_Table = dict[str, dict[str, Any]]
"""numbers by query and item"""


def read_lines(path: Path, forms: Sequence[str], form: str | None) -> Any:
    """Return the lists in the lines of a file.

    Args:
        path: The file.
        forms: Allowed forms of lines.
        form: One of them; None finds the one that all lines have.

    Returns:
        Numbers by query and item for a run and for judgements; items by query for ranks and for queries with items;
        lists of numbers for items alone.

    Raises:
        ValueError: Lines that fit several forms or none, an item that a query repeats, or distances by their header.
    """
    text = file_text(path)
    if MARK in text:
        raise file_error(path, "the file must be text", "a null character")
    text_below, header = _without_header(text)
    if form is None and "rank" in forms:
        form = _form_of_first_lines(path, header, text_below)
    form_of_table, table = _read_by_columns(text_below, forms, form, has_header=bool(header))
    if table is not None:
        return table
    lines = list(split_lines(path, text))
    if header:
        lines = lines[1:]
    if not lines:
        raise file_error(path, f"the file must have lines of {_WORDS[forms[0]]}", "none")
    form = form or form_of_table
    if form is None:
        # Whole numbers are scores only where a header or the user says so.
        are_whole = all(line.split()[-1].isdecimal() for _, line in lines)
        num_fitting = {name: _count_fitting(lines, name) for name in forms if name != "scores" or not are_whole}
        form = choose_form(path, len(lines), num_fitting, _WORDS)
    if form == "items":
        return _numbered_lists(lines)
    if form in ("query", "pairs"):
        return _named_lists(lines, form)
    _, table = _read_by_columns(text_below, forms, form, has_header=bool(header))
    if table is None:
        raise _fault_of_table(path, lines, form)
    return table


def _without_header(text: str) -> tuple[str, list[str]]:
    """Return the text below its header, and the words of the header, none without one; a line alone is no header."""
    stripped = text.lstrip()
    first = stripped[: stripped.find("\n") + 1]
    words = first.split()
    if words and words[0].lower() in _HEADERS:
        below = stripped[len(first) :]
        if below and not below.isspace():
            return below, words
    return text, []


def _form_of_first_lines(path: Path, header: Sequence[str], text: str) -> str | None:
    """Return the form of retrieved items by the names of their columns or by Q0; None if these do not tell it.

    A line whose second word is Q0 is one of TREC's runs, also if it is cut off behind it.

    Raises:
        ValueError: The numbers are distances, of which the lowest are the best, or there are columns of no form.
    """
    kinds = [kind_of_numbers(name) for name in header]
    num_columns = len(header)
    is_unread = any(kinds) and num_columns not in (_NUM_COLUMNS_OF_ITEMS, _TABLES["run"].num_columns)
    if "distances" in kinds or is_unread:
        rule = "the third column must be `rank` or `score`, with the best as the highest, and be the last"
        raise file_error(path, rule, _hints.listed(header, "`{}`".format))
    if num_columns == _NUM_COLUMNS_OF_ITEMS and kinds[-1]:
        return kinds[-1]
    line, _, _ = text.lstrip()[:_NUM_FIRST_CHARACTERS].partition("\n")
    return "run" if line.split()[1:2] in (["Q0"], ["q0"]) else None


def _read_by_columns(
    text: str, forms: Sequence[str], form: str | None, *, has_header: bool
) -> tuple[str | None, dict[str, Any] | None]:
    """Return the form of a table, and its contents, None if a line is at fault.

    The form is None if lines are no table, or if only single lines tell whether they are.
    """
    for name in forms if form is None else [form]:
        if name not in _TABLES:
            continue
        layout = _TABLES[name]
        if form is None and name == "qrels":
            layout = replace(layout, constant=1)
        if form is None and name == "grades" and not has_header:
            break
        table, num_rows = _read_table(text, layout)
        if not num_rows:
            continue
        if form is None and name == "rank" and not _are_counted(table):
            break
        # An item that a query repeats has replaced the first one.
        if sum(map(len, table.values())) < num_rows:
            return name, None
        if name != "rank":
            return name, table
        if any(len(set(ranks.values())) < len(ranks) for ranks in table.values()):
            return name, None
        return name, {query: sorted(ranks, key=ranks.__getitem__) for query, ranks in table.items()}
    return None, None


def _read_table(text: str, form: _TableForm) -> tuple[_Table, int]:
    """Return the numbers in a text by query and item, and the number of lines, 0 if some line has another form."""
    table: _Table = {}
    num_rows = 0
    constants: set[str] = set()
    interned: dict[str, str] = {}
    width = form.num_columns + 1  # with the mark
    for block, words in split_words(text, form.num_columns):
        number_words = words[form.number :: width]
        is_decimal = bool(words) and (are_decimal(block) or are_decimal("".join(number_words)))
        numbers = form.parse(number_words) if is_decimal else None
        if form.constant is not None:
            constants.update(words[form.constant :: width])
        if numbers is None or len(constants) > 1:
            return {}, 0
        items: Iterable[str] = words[form.item :: width]
        if len(interned) < _MAX_INTERNED:
            # Equal items become one string, whose hash is computed once.
            items = map(interned.setdefault, items, items)
        # Rows of a query that follow each other are added together.
        rows = zip(items, numbers, strict=True)
        for query, copies in groupby(words[::width]):
            table.setdefault(query, {}).update(islice(rows, len(list(copies))))
        num_rows += len(numbers)
    return table, num_rows


def _fits(words: Sequence[str], form: str) -> bool:
    """Return whether the words of a line have a form."""
    if form == "items":
        return are_decimal("".join(words)) and _parse_digits(words) is not None
    if form == "query":
        return len(words) > 1 and (len(words) == 2 or words[1] not in ("Q0", "q0"))
    if form == "pairs":
        return len(words) == 2
    table = _TABLES[form]
    if len(words) != table.num_columns or not are_decimal(words[table.number]):
        return False
    return table.parse([words[table.number]]) is not None


def _split_words_of_lines(lines: _Lines, form: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place of each line, and its words.

    Raises:
        ValueError: A line of another form.
    """
    for where, line in lines:
        words = line.split()
        if not _fits(words, form):
            rule = f"a line must be {_WORDS[form]}"
            if form == "run" and len(words) < _TABLES["run"].num_columns:
                rule = f"{rule}, and not be cut off"
            if form == "run" and len(words) == 2:
                rule = f"{rule}, unless `form='query'` says that {words[1]} is an item"
            raise file_error(where, rule, repr(line[:80]))
        yield where, words


def choose_form(path: Path, num_lines: int, num_fitting: Mapping[str, int], meanings: Mapping[str, str]) -> str:
    """Return the only form of all lines of a file, or else the form that fits the most lines from the first on.

    Args:
        path: The file, for messages.
        num_lines: The number of its lines.
        num_fitting: For each form the number of lines from the first one on that have it.
        meanings: Forms in words.

    Raises:
        ValueError: All lines have several forms.
    """
    candidates = [form for form, number in num_fitting.items() if number == num_lines]
    if len(candidates) > 1:
        rule = f"lines must fit one form, which an argument such as `form={candidates[0]!r}` says"
        words = "; ".join(meanings[form] for form in candidates)
        raise file_error(path, f"{rule}, one of {_hints.listed(candidates, str)}", f"lines that are {words}")
    return max(num_fitting, key=num_fitting.__getitem__)


def _count_fitting(lines: _Lines, form: str) -> int:
    """Return the number of lines with a form, from the first line to the first one without it."""
    constants: set[str] = set()
    keys: set[tuple[str, ...]] = set()
    for index, (_, line) in enumerate(lines):
        words = line.split()
        if not _fits(words, form):
            return index
        if form == "run":
            constants.add(words[1])
        # Ranks of a query differ, and so do queries with more than one item in their line.
        key: tuple[str, ...] = ()
        if form == "rank":
            key = words[0], words[2]
        elif form == "query" and len(words) > 2:
            key = (words[0],)
        if len(constants) > 1 or key in keys:
            return index
        if key:
            keys.add(key)
    return len(lines)


def _are_counted(table: Mapping[str, Mapping[Any, int]]) -> bool:
    """Return whether ranks count the lines of each query, from 0 or 1 on, and some query has two."""
    firsts = set()
    for ranks in table.values():
        first = min(ranks.values())
        firsts.add(first)
        if max(ranks.values()) - first != len(ranks) - 1:
            return False
    return firsts in ({0}, {1}) and any(len(ranks) > 1 for ranks in table.values())


def _numbered_lists(lines: _Lines) -> list[list[int]]:
    """Return the items of each line of the file; a blank line is a query without items."""
    last_place, _ = lines[-1]
    lists: list[list[int]] = [[] for _ in range(_line_number(last_place))]
    for where, words in _split_words_of_lines(lines, "items"):
        lists[_line_number(where) - 1] = list(map(int, words))
    return lists


def _line_number(where: str) -> int:
    return int(where.rpartition(":")[2])


def _named_lists(lines: _Lines, form: str) -> dict[str, list[str]]:
    """Return the items of each query; a query may have several lines of one item.

    Raises:
        ValueError: A query repeats an item, or has several lines with several items.
    """
    lists: dict[str, dict[str, None]] = {}
    for where, (query, *items_of_line) in _split_words_of_lines(lines, form):
        if query in lists and len(items_of_line) > 1:
            raise file_error(where, "a query with several items must have one line", f"{query!r} again")
        items = lists.setdefault(query, {})
        for item in items_of_line:
            if item in items:
                raise _repeated_item(where, query, item)
            items[item] = None
    return {query: list(items) for query, items in lists.items()}


def _fault_of_table(path: Path, lines: _Lines, form: str) -> ValueError:
    """Return the error for the first fault in the lines of a table.

    Raises:
        ValueError: A line of another form.
    """
    table = _TABLES[form]
    numbers: dict[str, dict[str, str]] = {}
    constants: set[str] = set()
    for where, words in _split_words_of_lines(lines, form):
        # The second column of a run says nothing, but tells it from lists of a query and five items.
        if table.constant is not None:
            constants.add(words[table.constant])
        if len(constants) > 1:
            return file_error(where, "the second column of a run must be one word, such as Q0", sorted(constants))
        query, item = words[0], words[table.item]
        if item in numbers.setdefault(query, {}):
            return _repeated_item(where, query, item)
        numbers[query][item] = words[table.number]
    for query, words_of_query in numbers.items():
        ranks = list(map(int, words_of_query.values())) if form == "rank" else []
        if len(set(ranks)) < len(ranks):
            return file_error(path, "the ranks of a query must differ", f"{ranks[:10]} for {query!r}")
    return file_error(path, f"all lines must be {_WORDS[form]}", "other lines")


def _repeated_item(where: str, query: str, item: str) -> ValueError:
    return file_error(where, "a query must have an item once", f"{item!r} again for {query!r}")

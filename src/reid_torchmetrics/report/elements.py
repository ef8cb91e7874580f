"""Elements of a page: text is escaped, what is already an element is not."""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

_VOID = frozenset({"img", "input", "link", "meta"})


class Html(str):
    """Markup, which is not escaped again."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: object) -> Html:
    """One element; strings of `content` that are no `Html` are text.

    An attribute's `_` stands for `-`, and one at its end for nothing (`class_`). True is an attribute without a value;
    None and False leave it out.
    """
    written = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(content)}</{name}>")


def join(content: Iterable[str], between: str = "") -> Html:
    """Several elements and texts as one."""
    return Html(between.join(each if isinstance(each, Html) else html.escape(each, quote=False) for each in content))


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: Collection[str] = (),
    filter_by: str | None = None,
) -> Html:
    """A table in a box that scrolls; the first column names its rows.

    Args:
        caption: what is in it.
        columns: their headings.
        rows: cells, as many as columns.
        words: columns of words, which are to be wrapped; the others hold numbers.
        filter_by: what a filter for the beginning of the rows' names is called; None for no filter.
    """
    kinds = ["words" if column in words else None for column in columns]
    heads = (element("th", column, scope="col", class_=kind) for column, kind in zip(columns, kinds, strict=True))
    body = join((_row(row, kinds) for row in rows), between="\n")
    parts = element("caption", caption), element("thead", element("tr", *heads)), element("tbody", body)
    box = element("div", element("table", *parts), class_="scroll", role="region", aria_label=caption, tabindex="0")
    if filter_by is None:
        return box
    field = element("label", f"{filter_by} ", element("input", type="search", autocomplete="off"))
    # Without scripts it would do nothing, so it is the script that shows it.
    return element("div", element("p", field, " ", element("output"), hidden=True), box, class_="filtered")


def details(summary: str, *content: str) -> Html:
    """What is folded until the reader asks for it."""
    return element("details", element("summary", summary), *content)


def note(text: str) -> Html:
    """A paragraph about what is shown, or why it is not."""
    return element("p", text, class_="note")


def as_json(data: Any) -> str:
    """JSON, indented, with letters of all languages as they are."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False)


def embedded(text: str) -> Html:
    """JSON as data in the page, in which nothing can end its element or begin a comment."""
    escaped = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}
    return element("script", Html(text.translate(escaped)), type="application/json", id="results")


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'


def _row(cells: Sequence[str], kinds: Sequence[str | None]) -> Html:
    first, *others = cells
    tail = (element("td", cell, class_=kind) for cell, kind in zip(others, kinds[1:], strict=True))
    return element("tr", element("th", first, scope="row"), *tail)

"""A page and its sections: head, style, the script of the filters, figures, versions, and all numbers as JSON."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any, NamedTuple

import torch

from reid_torchmetrics._version import __version__
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional.model_tables import split_conventions
from reid_torchmetrics.plot import FIGURES

from .elements import Html, as_json, choice, details, element, embedded, figure, filtered, join, note, table


class Section(NamedTuple):
    """A part of the page, under a heading in the list of contents."""

    id: str
    heading: str
    content: Sequence[str]


def content_or_reason(make: Callable[..., list[Html]], *arguments: Any) -> list[Html]:
    """Return the content of a section or, where the results lack it, the reason."""
    try:
        return make(*arguments)
    except ValueError as error:
        return [note(f"Not shown: {error}")]


def figures_section(results: object, section: str, *content: str) -> Html:
    """Return the figures of a section, with their captions or the reasons why they are missing, then other content."""
    parts = []
    for name, row in FIGURES[type(results)].items():
        if row.section != section:
            continue
        try:
            reason = row.why_not(results)
            if reason:
                parts.append(note(f"Not shown: {reason}"))
            else:
                plot = partial(row.plot, results)
                parts.append(figure(plot, name.replace("_", "-"), row.caption, row.size(results)))
        except ValueError as error:
            parts.append(note(f"Not shown: {error}"))
    return element("div", *parts, *content, class_="figures")


def folded(items: Sequence[Any], num_open: int, show: Callable[[Sequence[Any], str], Html], caption: str) -> list[Html]:
    """Return the first items open and the others folded, both with a caption."""
    parts = []
    if items:
        parts.append(show(items[:num_open], caption))
    rest = items[num_open:]
    if rest:
        parts.append(details(f"{len(rest)} more", show(rest, f"{caption}, continued")))
    return parts


def filterable(
    facts: Sequence[Mapping[str, str]], filter_names: Collection[str], order_name: str, content: list[Html]
) -> list[Html]:
    """Put content under fields to filter its items by some facts, and to sort them by a number, where that can be.

    Args:
        facts: of each item, by name.
        filter_names: facts to filter by, if there are several values.
        order_name: the fact to sort by.
        content: with an item for each of `facts`.
    """
    if len(facts) < 2:
        return content
    fields = []
    for column, name in enumerate(facts[0]):
        values = sorted({fact[name] for fact in facts}, key=lambda value: (len(value), value))
        if name in filter_names and len(values) > 1:
            options = {"": "all"}
            options.update(zip(values, values, strict=True))
            fields.append(choice(name, options, data_column=column))
        elif name == order_name:
            orders = {"": "as listed", "1": f"{name}, lowest first", "-1": f"{name}, highest first"}
            fields.append(choice("order", orders, data_column=column, data_sort=True))
    return [filtered(fields, *content)] if fields else content


def conventions_note(conventions: Mapping[str, str]) -> Html:
    """Return the conventions behind numbers, by title; parts that half of them share are on the first line."""
    differing, shared = split_conventions(conventions)
    lines = []
    if shared:
        lines.append(f"Unless noted: {shared}.")
    for title, words in differing.items():
        if words:
            lines.append(f"{title}: {words}.")
    return element("ul", *(element("li", line) for line in lines), class_="conventions")


def picture_or_reason(draw: Callable[[], Html]) -> Html:
    """Return a picture or, if it fails, the reason, with a warning: the rest of the page is not lost."""
    try:
        return draw()
    except Exception as error:  # noqa: BLE001 - the user's functions
        warn("A picture of the report is missing; the page says why in its place.")
        return note(f"No picture: {error or type(error).__name__}")


class Page(NamedTuple):
    """The content of a page."""

    title: str
    lead: str
    sections: Sequence[Section]
    data: dict[str, Any]
    """all numbers, for programs"""


def render(page: Page, title: str | None) -> str:
    """Return a page as HTML, with versions and numbers at its end; `title` replaces that of the page unless None."""
    if title is None:
        title = page.title
    packages = {"reid_torchmetrics": __version__, "torch": str(torch.__version__), "torchmetrics": "unknown"}
    with suppress(PackageNotFoundError):
        packages["torchmetrics"] = version("torchmetrics")
    packages["python"] = platform.python_version()
    numbers = as_json({"versions": packages, **page.data})

    # Sections.
    code = element("pre", element("code", numbers), tabindex="0")
    versions = table("Versions", ("package", "version"), packages.items())
    provenance = Section("provenance", "Provenance", [versions, details("Settings and numbers as JSON", code)])
    sections = [*page.sections, provenance]

    # The page around them.
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),  # or browsers ask for one
        element("title", title),
        element("style", _read_file("page.css")),
    )
    entries = [element("li", element("a", section.heading, href=f"#{section.id}")) for section in sections]
    contents = element("nav", element("ul", *entries), aria_label="Contents")
    header = element("header", element("h1", title), element("p", page.lead, class_="note"), contents)
    main_sections = []
    for section in sections:
        heading_id = f"{section.id}-heading"
        heading = element("h2", section.heading, id=heading_id)
        main_sections.append(element("section", heading, *section.content, id=section.id, aria_labelledby=heading_id))
    main = element("main", join(main_sections, between="\n"))
    script = element("script", _read_file("page.js"))
    body = element("body", join([header, main, embedded(numbers), script], between="\n"))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _read_file(name: str) -> Html:
    """Return a file of this package, on lines of its own."""
    return Html(f"\n{files(__package__).joinpath(name).read_text(encoding='utf-8')}")

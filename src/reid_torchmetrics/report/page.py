"""A page and its sections: head, style, the script of the filters, figures, versions, and all numbers as JSON."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any, NamedTuple

import torch

from reid_torchmetrics._version import __version__
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional.model_tables import split_conventions
from reid_torchmetrics.plot import FIGURES, ResultFigure

from .elements import Html, as_json, choice, details, element, embedded, figure, filtered, join, note, table


class Section(NamedTuple):
    """A part of the page, under a heading in the list of contents."""

    id: str
    heading: str
    content: Sequence[str]


def shown_or_why(make: Callable[..., list[Html]], *of: Any) -> list[Html]:
    """The content of a section or, where the results lack it, the reason."""
    try:
        return make(*of)
    except ValueError as error:
        return [note(f"Not shown: {error}")]


def figures_section(results: object, section: str, *beside: str) -> Html:
    """The figures of a section, each with its caption or the reason why there is none, and what stands beside them."""

    def shown(name: str, row: ResultFigure) -> list[Html]:
        if why_not := row.why_not(results):
            return [note(f"Not shown: {why_not}")]
        return [figure(row.plot(results)[0], name.replace("_", "-"), row.caption)]

    rows = {name: row for name, row in FIGURES[type(results)].items() if row.section == section}
    return element("div", *(join(shown_or_why(shown, *each)) for each in rows.items()), *beside, class_="figures")


def folded(items: Sequence[Any], num_open: int, show: Callable[[Sequence[Any], str], Html], said: str) -> list[Html]:
    """The first items at once, and the others folded, both under a caption."""
    parts = [show(items[:num_open], said)] if items else []
    if others := items[num_open:]:
        parts.append(details(f"{len(others)} more", show(others, f"{said}, continued")))
    return parts


def filterable(facts: Sequence[Mapping[str, str]], by: Collection[str], order: str, shown: list[Html]) -> list[Html]:
    """Content under fields to filter it by some facts of its items, and to sort it by a number, where that can be."""
    fields = []
    for place, name in enumerate(facts[0] if len(facts) > 1 else ()):
        values = sorted({each[name] for each in facts}, key=lambda value: (len(value), value))
        if name in by and len(values) > 1:
            fields.append(choice(name, {"": "all"} | dict(zip(values, values, strict=True)), data_column=place))
        elif name == order:
            orders = {"": "as listed", "1": f"{name}, lowest first", "-1": f"{name}, highest first"}
            fields.append(choice("order", orders, data_column=place, data_sort=True))
    return [filtered(fields, *shown)] if fields else shown


def conventions_note(conventions: Mapping[str, str]) -> Html:
    """How numbers were computed, by their titles: what the first one shares with half of them is said once."""
    alone, shared = split_conventions(conventions)
    lines = [f"Unless noted: {shared}."] if shared else []
    lines += [f"{title}: {said}." for title, said in alone.items() if said]
    return element("ul", *(element("li", line) for line in lines), class_="conventions")


def picture_or_why(draw: Callable[[], Html]) -> Html:
    """A picture or, if it fails, the reason, with a warning: the rest of the page is not lost."""
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


def written(page: Page, title: str | None) -> str:
    """The page as HTML, under another title than its own if one is given; versions and numbers are its end."""
    packages = {"reid_torchmetrics": __version__, "torch": str(torch.__version__), "torchmetrics": "unknown"}
    with suppress(PackageNotFoundError):
        packages["torchmetrics"] = version("torchmetrics")
    packages["python"] = platform.python_version()
    title, numbers = page.title if title is None else title, as_json({"versions": packages, **page.data})
    code = element("pre", element("code", numbers), tabindex="0")
    versions = table("Versions", ("package", "version"), packages.items())
    provenance = Section("provenance", "Provenance", [versions, details("Settings and numbers as JSON", code)])
    sections = [*page.sections, provenance]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),  # or browsers ask for one
        element("title", title),
        element("style", _file("page.css")),
    )
    entries = (element("li", element("a", each.heading, href=f"#{each.id}")) for each in sections)
    contents = element("nav", element("ul", *entries), aria_label="Contents")
    header = element("header", element("h1", title), element("p", page.lead, class_="note"), contents)
    main = element("main", join(map(_section, sections), between="\n"))
    body = element("body", join([header, main, embedded(numbers), element("script", _file("page.js"))], between="\n"))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _file(name: str) -> Html:
    """A file beside this one, on lines of its own."""
    return Html(f"\n{files(__package__).joinpath(name).read_text(encoding='utf-8')}")


def _section(section: Section) -> Html:
    heading = element("h2", section.heading, id=f"{section.id}-heading")
    return element("section", heading, *section.content, id=section.id, aria_labelledby=f"{section.id}-heading")

"""The page around the sections: head, style, and the script of the filters.

Where the numbers come from: versions, and all settings as JSON.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import torch

from reid_torchmetrics._version import __version__
from reid_torchmetrics.plot import FIGURES, ResultFigure

from .elements import Html, as_json, details, element, embedded, figure, join, note, table

STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --muted: #57606a; --line: #d0d7de; --ground: #fff; --raised: #f6f8fa;
 --link: #0757ba; --right: #1a7f37; --wrong: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8eb; --muted: #a3acb7; --line: #3a424c; --ground: #14171b;
 --raised: #1d2127; --link: #79b8ff;
 --right: #4ac26b; --wrong: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1.5rem 1rem 4rem; color: var(--text); background: var(--ground);
 font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; }
p { max-width: 48rem; margin: .5rem 0; overflow-wrap: anywhere; }
a { color: var(--link); }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: .75rem 0; padding: 0; list-style: none; }
.note, figcaption, caption, td.words { color: var(--muted); }
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .25rem 0; }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; white-space: nowrap; vertical-align: top;
 border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; }
thead th { color: var(--muted); font-weight: 600; }
tbody th { font-weight: 600; }
td.words { text-align: left; white-space: normal; min-width: 20rem; }
th.words { text-align: left; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; min-width: 0; max-width: 33rem; }
figcaption { margin-top: .25rem; }
figure svg { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
 border-radius: 6px; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
details { margin: .75rem 0; border: 1px solid var(--line); border-radius: 6px; padding: 0 .75rem; }
details[open] { padding-bottom: .75rem; }
summary { cursor: pointer; padding: .5rem 0; font-weight: 600; }
details .scroll { max-height: 36rem; overflow: auto; }
details thead th { position: sticky; top: 0; background: var(--ground); }
.lists { margin: 0; padding: 0; list-style: none; }
.lists li { margin: 1rem 0; }
.lists p { max-width: none; }
.lists img { max-width: 100%; height: auto; }
.pictures { display: flex; flex-wrap: wrap; gap: .5rem .35rem; }
.pictures figure { flex: 0 0 auto; width: min-content; min-width: 4.8rem; overflow-wrap: anywhere; font-size: .75rem;
 line-height: 1.35; }
.pictures img { display: block; max-width: none; border: 3px solid var(--muted); }
.pictures .query { margin-right: .75rem; }
.pictures .first { margin: 0 0 0 .75rem; }
.pictures .right img { border-color: var(--right); }
.pictures .wrong img { border-color: var(--wrong); }
.pictures .right figcaption::before { content: "\\2713  "; color: var(--right); font-weight: 700; }
.pictures .wrong figcaption::before { content: "\\2717  "; color: var(--wrong); font-weight: 700; }
input { font: inherit; padding: .2rem .4rem; max-width: 100%; }
pre { overflow: auto; max-height: 36rem; margin: 0; padding: .75rem; background: var(--raised); border-radius: 6px;
 font-size: .85rem; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
"""

SCRIPT = """
for (const box of document.querySelectorAll(".filtered")) {
  const ask = box.querySelector("p"), rows = [...box.querySelectorAll("tbody tr")];
  const input = ask.querySelector("input"), output = ask.querySelector("output");
  const show = () => {
    const wanted = input.value.trim().toLowerCase();
    for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().startsWith(wanted);
    const shown = rows.filter(row => !row.hidden).length;
    output.textContent = wanted ? `${shown} of ${rows.length} rows` : "";
  };
  input.addEventListener("input", show);
  ask.hidden = false;
  show();
}
"""


class Section(NamedTuple):
    """A part of the page, under a heading that the list of contents leads to."""

    id: str
    heading: str
    content: Sequence[str]


def shown_or_why(make: Callable[[], list[Html]]) -> list[Html]:
    """What a section shows or, where the results do not have it, the reason."""
    try:
        return make()
    except ValueError as error:
        return [note(f"Not shown: {error}")]


def figures_section(results: object, section: str) -> Html:
    """The figures of a section, each with its caption or the reason why there is none."""

    def shown(name: str, row: ResultFigure) -> list[Html]:
        return shown_or_why(lambda: [figure(row.plot(results)[0], name.replace("_", "-"), row.caption)])

    rows = {name: row for name, row in FIGURES[type(results)].items() if row.section == section}
    return element("div", *(each for name, row in rows.items() for each in shown(name, row)), class_="figures")


def picture_or_why(draw: Callable[[], Html]) -> Html:
    """A picture or, where it is missing or no picture, the reason, with a warning: the rest of the page is not lost."""
    try:
        return draw()
    except Exception as error:  # noqa: BLE001 - the user's functions
        warnings.warn("A picture of the report is missing; the page says why in its place.", stacklevel=2)
        return note(f"No picture: {error or type(error).__name__}")


class Page(NamedTuple):
    """What a page is about."""

    title: str
    lead: str
    sections: Sequence[Section]
    data: dict[str, Any]
    """all numbers, for programs"""


def written(page: Page, title: str | None) -> str:
    """The page as HTML, under another title than its own if one is given."""
    title = page.title if title is None else title
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),  # or browsers ask for one
        element("title", title),
        element("style", Html(STYLE)),
    )
    data, script = embedded(as_json(page.data)), element("script", Html(SCRIPT))
    body = element("body", join([_header(page, title), _main(page), data, script], between="\n"))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _header(page: Page, title: str) -> Html:
    entries = (element("li", element("a", each.heading, href=f"#{each.id}")) for each in page.sections)
    contents = element("nav", element("ul", *entries), aria_label="Contents")
    return element("header", element("h1", title), element("p", page.lead, class_="note"), contents)


def _main(page: Page) -> Html:
    return element("main", join(map(_section, page.sections), between="\n"))


def _section(section: Section) -> Html:
    heading = element("h2", section.heading, id=f"{section.id}-heading")
    return element("section", heading, *section.content, id=section.id, aria_labelledby=f"{section.id}-heading")


def versions() -> dict[str, str]:
    """Versions of what computed the numbers."""
    return {
        "reid_torchmetrics": __version__,
        "torch": str(torch.__version__),
        "torchmetrics": _version_of("torchmetrics"),
        "python": platform.python_version(),
    }


def _version_of(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


def provenance_section(data: dict[str, Any]) -> Section:
    """Versions, then all that the page is about as JSON."""
    shown = table("Versions", ("package", "version"), data["versions"].items())
    code = element("pre", element("code", as_json(data)), tabindex="0")
    return Section("provenance", "Provenance", [shown, details("Settings and numbers as JSON", code)])

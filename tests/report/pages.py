"""Reads a page as a browser would, but strictly: every element is closed where it should be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

VOID = {"img", "input", "link", "meta", "br"}


@dataclass
class Element:
    """An element with all that is in it."""

    name: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, name: str | None = None, /, **attributes: str) -> list[Element]:
        """The elements within, in their order, that have a name and attributes (`class_`)."""
        wanted = {key.rstrip("_"): value for key, value in attributes.items()}.items()
        return [each for each in self._descendants() if name in (None, each.name) and wanted <= each.attributes.items()]

    def one(self, name: str | None = None, /, **attributes: str) -> Element:
        (found,) = self.all(name, **attributes)
        return found

    def rows(self, caption: str) -> list[dict[str, str]]:
        """The rows of the table with a caption, by the headings of its columns."""
        (table,) = (each for each in self.all("table") if each.one("caption").text == caption)
        heads = [each.text for each in table.one("thead").all("th")]
        cells = ([each.text for each in row.all() if each.name in ("th", "td")] for row in table.one("tbody").all("tr"))
        return [dict(zip(heads, row, strict=True)) for row in cells]

    def _descendants(self) -> Iterator[Element]:
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child._descendants()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute of {tag} comes twice: {names}"
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert any(each.name == "svg" for each in self.open), f"<{tag}/> outside of SVG"
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(html: str) -> Element:
    """The page as a tree; fails where an element is not closed, or closed by the end of another."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root], "an element is not closed"
    return reader.root


def read(path: Path) -> Element:
    return parse(path.read_text(encoding="utf-8"))


def section(page: Element, name: str) -> Element:
    return page.one("section", id=name)


def data(page: Element) -> dict[str, Any]:
    return json.loads(page.one("script", type="application/json").text)

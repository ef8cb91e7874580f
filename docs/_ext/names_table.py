"""A table of all public names, with the first line of what is said of each, by the page that documents it."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from docutils import nodes
from public_names import about_value
from reference_pages import PAGES, find_object, names_by_page
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_END_OF_SENTENCE = re.compile(r"(?<!\.)\.(?= |$)")  # and not the dots of 1, 2, ...


def first_line(name: str) -> str:
    """The definition of a public name: the first sentence of its docstring, or below a value, or the value."""
    thing = find_object(name)
    is_defined = inspect.isclass(thing) or inspect.isfunction(thing)
    said = (inspect.getdoc(thing) or "").splitlines() if is_defined else about_value(name.rpartition(".")[2], thing)
    paragraph = "\n".join(said).strip().partition("\n\n")[0].replace("\n", " ")
    return _END_OF_SENTENCE.split(paragraph)[0]


def as_markdown() -> str:
    """A table for each page of the reference."""
    lines = []
    for page, names in names_by_page().items():
        lines += ["", f"**[]({page.relative_to(PAGES).as_posix()})**", "", "| name | what it is |", "| --- | --- |"]
        for name in names:
            text = first_line(name).replace("|", r"\|")
            lines.append(f"| {{py:obj}}`{name.rpartition('.')[2]} <{name}>` | {text} |")
    return "\n".join(lines)


class NamesTable(SphinxDirective):
    """Stands where the table is to be."""

    def run(self) -> list[nodes.Node]:
        """The nodes of the table."""
        return [nodes.container("", *self.parse_text_to_nodes(as_markdown()), classes=["names"])]


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the directive."""
    app.add_directive("names-table", NamesTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

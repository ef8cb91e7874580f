"""Tables for narrow screens, where site.css shows a row as a list: every cell tells the title of its column.

A table that is narrow enough for a phone stays a table.
"""

from __future__ import annotations

import re
from itertools import starmap
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WIDTH_OF_A_PHONE = 36
"""the longest lines of all columns, in letters, that fit beside each other"""

_WORD = re.compile(r'<span class="pre">([^<]+)</span>')
_BREAK = re.compile(r"(?<=[_(=\[/])(?=\w)|(?<=\.)(?=\w{5})")
"""places in code where a line may end: inside of long names, and not before the ending of a file"""

SHORT_NAME = 14
"""letters of a name that stays whole"""


class TellColumns(SphinxPostTransform):
    """Note the title of the column in each cell of a wide table."""

    default_priority = 500
    formats = ("html",)

    def run(self) -> None:
        """Mark the tables of a page."""
        for table in self.document.findall(nodes.table):
            heads = [list(row) for head in table.findall(nodes.thead) for row in head]
            rows = [list(row) for body in table.findall(nodes.tbody) for row in body]
            if not heads or sum(starmap(_width, zip(heads[0], *rows, strict=True))) <= WIDTH_OF_A_PHONE:
                continue
            table["classes"].append("stacks")
            for row in rows:
                for cell, head in zip(row, heads[0], strict=True):
                    cell["column"] = head.astext() if cell.astext() else ""


def _width(*cells: nodes.entry) -> int:
    """The number of letters in the longest cell of a column, and of the space beside it."""
    return 2 + max(len(cell.astext()) for cell in cells)


class Translator(HTML5Translator):
    """Write the title of the column as an attribute of the cell, and mark where code may break."""

    _is_in_cell = False

    def visit_entry(self, node: nodes.Element) -> None:
        """Open a cell."""
        super().visit_entry(node)
        if node.get("column"):
            title = self.attval(node["column"])
            self.body[-1] = self.body[-1].replace(">", f' data-column="{title}">', 1)
        self._is_in_cell = True

    def depart_entry(self, node: nodes.Element) -> None:
        """Close a cell."""
        self._is_in_cell = False
        super().depart_entry(node)

    def visit_Text(self, node: nodes.Text) -> None:  # noqa: N802 - docutils looks for this name
        """Write text; code is a list of words."""
        start = len(self.body)
        super().visit_Text(node)
        if self.protect_literal_text:
            self.body[start:] = [_WORD.sub(self._with_breaks, part) for part in self.body[start:]]

    def _with_breaks(self, word: re.Match[str]) -> str:
        """Keep an option whole, since browsers break behind hyphens, and let long names in a table break."""
        text = word[1]
        if text.startswith("-"):
            return f'<span class="pre option">{text}</span>'
        if self._is_in_cell and len(text) > SHORT_NAME:
            text = _BREAK.sub("<wbr>", text)
        return f'<span class="pre">{text}</span>'


def setup(app: Sphinx) -> dict[str, bool]:
    """Mark tables before they are written."""
    app.add_post_transform(TellColumns)
    app.set_translator("html", Translator)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

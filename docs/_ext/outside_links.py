"""Links of pages to files outside of docs/, such as `../CONTRIBUTING.md`, lead to the page that shows the file.

Pages are written for the clone, where every link is a path from a file to a file. On the site some of these files are
shown by a page that includes them; links to and from them are rewritten here, before a page is read. A file that no
page shows stays a path, which MyST turns into a download. A link whose text is its own path gets the title of the page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
SHOWN_BY = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "DECISIONS.md": "decisions.md",
    "benchmarks/RESULTS.md": "numbers/benchmarks.md",
    "tests/golden/README.md": "numbers/recorded_outputs.md",
}
"""files outside of docs/, and the pages that include them or stand for them"""

_OF_GALLERY = re.compile(r"examples/gallery(?:/(\w+)\.py)?")
_FENCED = r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[ \t]*$"
_LINK = r"\[(?P<text>[^\[\]]*)\]\((?!\w+:)(?P<path>[^)\s#]+)"
_FENCED_OR_LINK = re.compile(f"{_FENCED}|{_LINK}", re.MULTILINE | re.DOTALL)


def rewrite(text: str, *, file: Path, page: Path) -> str:
    """The text of a file that is shown by a page, with links that are right from the page."""

    def from_page(link: re.Match[str]) -> str:
        if link["path"] is None:
            return link[0]
        target = Path(os.path.normpath(file.parent / link["path"]))
        text = "" if link["text"] == link["path"] else link["text"]
        return f"[{text}]({os.path.relpath(_shown_by(target), page.parent)}"

    return _FENCED_OR_LINK.sub(from_page, text)


def _shown_by(file: Path) -> Path:
    path = os.path.relpath(file, ROOT)
    script = _OF_GALLERY.fullmatch(path)
    if script:
        return DOCS / "gallery" / f"{script[1] or 'index'}.rst"
    return DOCS / SHOWN_BY[path] if path in SHOWN_BY else file


def _rewrite_page(app: Sphinx, docname: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(docname))
    if page.suffix == ".md":
        content[0] = rewrite(content[0], file=page, page=page)


def _rewrite_included(app: Sphinx, relative_path: Path, parent_docname: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(app.env.docname))
    content[0] = rewrite(content[0], file=Path(os.path.normpath(DOCS / relative_path)), page=page)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to what is read."""
    listeners: dict[str, Callable[..., None]] = {"source-read": _rewrite_page, "include-read": _rewrite_included}
    for event, listener in listeners.items():
        app.connect(event, listener)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

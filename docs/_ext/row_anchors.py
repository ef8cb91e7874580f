"""Anchors in rows of tables, such as `<a id="retrieval-torchreid"></a>`, which links of other pages may name.

A code host knows them as they are. MyST looks for anchors among the headings of a page, so they are noted there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_ANCHOR = re.compile(r'<a id="([\w-]+)">')


def note_anchors(app: Sphinx, doctree: nodes.document) -> None:
    """Note the anchors of a page that was read."""
    anchors = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
    for markup in doctree.findall(nodes.raw):
        match = _ANCHOR.fullmatch(markup.astext())
        if match is not None:
            anchors[match[1]] = (markup.line, match[1], "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Look at every page."""
    app.connect("doctree-read", note_anchors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Public names in code on the pages, such as `ReIDMetrics` or `compare(...)`, link to the reference.

Pages are written for the clone, where a name in backticks is code and nothing else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from reference_pages import find_meant
from sphinx.addnodes import pending_xref

if TYPE_CHECKING:
    from sphinx.application import Sphinx

AMBIGUOUS = {"nearest", "rerank"}
"""functions whose names are mostly those of an argument or a method"""
_NAME_OR_CALL = re.compile(r"([A-Za-z_][\w.]*)(\(.*\))?", re.DOTALL)


def _link_code(app: Sphinx, document: nodes.document) -> None:
    docname = app.env.docname
    for code in [*document.findall(nodes.literal)]:
        text = code.astext()
        named = _NAME_OR_CALL.fullmatch(text)
        if named is None or named[1] in AMBIGUOUS or _is_linked_or_title(code):
            continue
        target = find_meant(named[1], seen_from=f".{docname.replace('/', '.')}.")
        if target:
            link = pending_xref("", refdomain="py", reftype="obj", reftarget=target, refdoc=docname, refexplicit=True)
            code.parent.replace(code, link)
            link += code


def _is_linked_or_title(code: nodes.Node) -> bool:
    kinds = (nodes.reference, pending_xref, nodes.title)
    return isinstance(code.parent, kinds) or isinstance(code.parent.parent, kinds)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to pages that were read."""
    app.connect("doctree-read", _link_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Formulas as MathML, by the converter of docutils: browsers show it without a script and without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


def _show(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    translator.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer that `html_math_renderer` names."""
    app.add_html_math_renderer("mathml", (_show, None), (_show, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Pictures of the gallery: every figure and every image that a block of a script gives a name to.

The package draws without pyplot, so there are no "open figures" that sphinx-gallery could look for.
"""

from __future__ import annotations

import ast
from typing import Any

from matplotlib.figure import Figure
from PIL.Image import Image
from sphinx_gallery.scrapers import figure_rst


def show_named_pictures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the pictures that the block assigns to names, and return the text that shows them."""
    values = (block_vars["example_globals"].get(name) for name in assigned_names(block.content))
    pictures = {id(value): value for value in values if isinstance(value, (Figure, Image))}
    paths = []
    for picture, path in zip(pictures.values(), block_vars["image_path_iterator"], strict=False):
        paths.append(path)
        if isinstance(picture, Figure):
            picture.savefig(path, dpi=2 * picture.dpi, bbox_inches="tight", facecolor="white")
        else:
            picture.save(path)
    return figure_rst(paths, gallery_conf["src_dir"]) if paths else ""


def assigned_names(code: str) -> list[str]:
    """The names that the statements of a block assign to, in order."""
    targets = [
        target
        for statement in ast.parse(code).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    ]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]

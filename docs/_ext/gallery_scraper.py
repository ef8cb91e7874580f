"""What a block of a gallery script gives a name to and the page shows: figures, images, and files of HTML in a frame.

The package draws without pyplot, so there are no "open figures" that sphinx-gallery could look for, and its grids of
pictures are arrays. A figure is described by its titles, an image by its name.
"""

from __future__ import annotations

import ast
import shutil
import textwrap
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sphinx_gallery.scrapers import figure_rst

FOLDER = "_static/pages"
"""where files of HTML are put, below the sources of the site; Sphinx copies them"""
FRAME = """
.. raw:: html

    <iframe class="written-page" src="{source}" title="{name}" loading="lazy"></iframe>
    <p><a href="{source}">Open this page by itself</a></p>

"""


def show_named(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the pictures and move the pages that the block assigns to names; returns the text that shows them."""
    named = {name: block_vars["example_globals"].get(name) for name in assigned_names(block.content)}
    pictures = {id(value): (name, value) for name, value in named.items() if is_picture(value)}
    shown = []
    for (name, picture), path in zip(pictures.values(), block_vars["image_path_iterator"], strict=False):
        save(picture, path)
        image = figure_rst([path], gallery_conf["src_dir"], described(name, picture))
        shown.append(
            image if isinstance(picture, Figure) else f".. container:: grid\n\n{textwrap.indent(image, '   ')}\n"
        )
    folder = Path(block_vars["target_file"]).parents[1] / FOLDER
    for name, page in named.items():
        if isinstance(page, Path) and page.suffix == ".html":
            folder.mkdir(parents=True, exist_ok=True)
            shutil.move(page, folder / page.name)
            shown.append(FRAME.format(source=f"../{FOLDER}/{escape(page.name)}", name=name.replace("_", " ")))
    return "".join(shown)


def is_picture(value: object) -> bool:
    """Whether it is a figure, an image of Pillow, or an array of uint8 [height, width, 3]."""
    if isinstance(value, np.ndarray):
        return value.dtype == np.uint8 and value.ndim == 3 and value.shape[2] == 3
    return isinstance(value, (Figure, Image.Image))


def save(picture: Any, path: str) -> None:
    """Write a picture; a figure has twice as many pixels as the page, and can be enlarged."""
    if isinstance(picture, Figure):
        picture.savefig(path, dpi=2 * picture.dpi, bbox_inches="tight", facecolor="white")
    else:
        (Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture).save(path)


def described(name: str, picture: object) -> str:
    """What is read out in place of a picture."""
    titles = [ax.get_title() for ax in picture.axes] if isinstance(picture, Figure) else []
    return "; ".join(filter(None, titles)) or name.replace("_", " ")


def assigned_names(code: str) -> list[str]:
    """The names that the statements of a block assign to, in order."""
    targets = [
        target
        for statement in ast.parse(code).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    ]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]

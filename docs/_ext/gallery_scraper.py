"""What a block of a gallery script gives a name to and the page shows: figures, images, and files of HTML in a frame.

The package draws without pyplot, so there are no "open figures" that sphinx-gallery could look for, and its grids of
pictures are arrays. A figure is described by its titles, an image by its name. The small picture on the card of a page
has letters that can be read: a figure is drawn again without its titles and legends, and an image is cut.
"""

from __future__ import annotations

import ast
import re
import shutil
import textwrap
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sphinx_gallery.scrapers import figure_rst

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = "_static/pages"
"""where files of HTML are put, below the sources of the site; Sphinx copies them"""
CARD_WIDTH, CARD_HEIGHT = 260, 182
"""the largest size of a small picture on the site; its file has twice as many pixels"""
CARD_INCHES = (3.2, 2.24)
CARD_LETTERS = 9
CARD_TITLE = 20
"""letters of a title that fit on a card"""
CUT_WIDTH = 380
"""pixels of an image that are seen on its card, from its left"""
FRAME = """
.. raw:: html

    <iframe class="written-page" src="{source}" title="{name}" loading="lazy"></iframe>
    <p><a href="{source}">Open this page by itself</a></p>

"""


def show_named(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the pictures and move the pages that the block assigns to names; returns the text that shows them."""
    named = {name: block_vars["example_globals"].get(name) for name in assigned_names(block.content)}
    pictures = {id(value): (name, value) for name, value in named.items() if is_picture(value)}
    script = Path(block_vars["src_file"])
    number = number_of_card(script.read_text(encoding="utf-8"))
    shown = []
    for (name, picture), path in zip(pictures.values(), block_vars["image_path_iterator"], strict=False):
        save(picture, path)
        if path.endswith(f"_{number}.png"):
            save_card(picture, Path(path).parent / "cards" / f"{script.stem}.png")
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


def number_of_card(code: str) -> str:
    """The number of the picture that a script wants on its card, as its file has it; none if it names a file."""
    number = re.search(r"^# sphinx_gallery_thumbnail_number = (\d+)$", code, flags=re.MULTILINE)
    return f"{int(number[1]):03}" if number else "none"


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


def save_card(picture: Any, path: Path) -> None:
    """Write the small picture of a page."""
    path.parent.mkdir(exist_ok=True)
    if isinstance(picture, Figure):
        _make_small(picture)
        picture.savefig(path, dpi=2 * CARD_WIDTH / CARD_INCHES[0], facecolor="white")
        return
    save(picture, str(path))
    with Image.open(path) as image:
        width = min(CUT_WIDTH, image.width)
        cut = image.crop((0, 0, width, width * CARD_HEIGHT // CARD_WIDTH))
    cut.save(path)


def _make_small(figure: Figure) -> None:
    """Keep the first axes of a figure that was saved, with letters at a size that can be read on a card."""
    first, *further = figure.axes
    for axes in further:
        axes.remove()
    if further:
        first.set_subplotspec(figure.add_gridspec(1, 1)[0])
    words = [*figure.texts, *figure.legends, *first.texts, first.get_legend()]
    for text in filter(None, words):
        text.set_visible(False)
        text.set_in_layout(False)
    if first.get_ylabel() or len(first.get_title()) > CARD_TITLE:
        first.set_title("")
    for label in (first.title, first.xaxis.label, first.yaxis.label):
        label.set_text(label.get_text().rpartition("\n")[2])
        label.set_size(CARD_LETTERS)
    first.tick_params(labelsize=CARD_LETTERS)
    figure.set_size_inches(CARD_INCHES)
    figure.set_layout_engine("constrained")


def use_cards(app: Sphinx) -> None:
    """Put the small pictures in the places of the thumbnails, which sphinx-gallery has made."""
    images = Path(app.srcdir, "gallery/images")
    for card in images.glob("cards/*.png"):
        shutil.copy(card, images / "thumb" / f"sphx_glr_{card.stem}_thumb.png")


def setup(app: Sphinx) -> dict[str, bool]:
    """Run after sphinx-gallery."""
    app.connect("builder-inited", use_cards, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


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

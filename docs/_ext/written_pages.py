"""Pages of HTML that scripts of the gallery write: framed below the block that assigned their path to a name.

The file is moved out of the folder of the scripts, and put beside the pages of the gallery when they are written.
"""

from __future__ import annotations

import shutil
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from named_pictures import assigned_names

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = "pages"
FRAME = """
.. raw:: html

    <iframe class="written-page" src="{source}" title="{name}" loading="lazy"></iframe>
    <p><a href="{source}">Open this page by itself</a></p>

"""


def show_written_pages(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Take the pages whose paths the block assigns to names, and return the text that frames them."""
    named = {name: block_vars["example_globals"].get(name) for name in assigned_names(block.content)}
    pages = {name: value for name, value in named.items() if isinstance(value, Path) and value.suffix == ".html"}
    folder = Path(block_vars["target_file"]).parent / FOLDER
    for page in pages.values():
        folder.mkdir(exist_ok=True)
        shutil.move(page, folder / page.name)
    return "".join(
        FRAME.format(source=f"{FOLDER}/{escape(page.name)}", name=name.replace("_", " "))
        for name, page in pages.items()
    )


def _put_beside(app: Sphinx, exception: Exception | None) -> None:
    if exception or app.builder.format != "html":
        return
    for gallery in app.config.sphinx_gallery_conf["gallery_dirs"]:
        pages = Path(app.srcdir, gallery, FOLDER)
        if pages.exists():
            shutil.copytree(pages, Path(app.outdir, gallery, FOLDER), dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Copy the pages when all others are written."""
    app.connect("build-finished", _put_beside)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

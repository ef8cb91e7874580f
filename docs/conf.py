"""How Sphinx builds the site: `nox -s docs`."""

import os
import sys
from pathlib import Path

import reid_torchmetrics

sys.path.append(str(Path(__file__).parent / "_ext"))

project = "reid_torchmetrics"
author = "The reid_torchmetrics developers"
project_copyright = author
version = release = reid_torchmetrics.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "outside_links",
    "public_names",
]
exclude_patterns = ["_build", "images/README.md", "gallery/*.py", "gallery/*.ipynb", "gallery/*.md5"]
nitpicky = True

# Pages: Markdown, with the anchors that a code host gives to headings.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]
suppress_warnings = ["config.cache"]  # functions that order the gallery cannot be pickled

# Reference: the docstrings, one argument a line, defaults as they are written.
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
add_module_names = False
napoleon_numpy_docstring = False
napoleon_use_rtype = False
viewcode_line_numbers = True

# Other projects' references are linked where there is a network.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "torch": ("https://docs.pytorch.org/docs/stable", None),
    "torchmetrics": ("https://lightning.ai/docs/torchmetrics/stable", None),
    "lightning": ("https://lightning.ai/docs/pytorch/stable", None),
}
if not os.environ.get("REID_DOCS_INTERSPHINX"):
    intersphinx_mapping = {}

# Gallery: the scripts run while the site is built, in the order of their names.
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "backreferences_dir": "gallery/of",
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("named_pictures.show_named_pictures",),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "reference_url": {"reid_torchmetrics": None},
    "doc_module": ("reid_torchmetrics",),
}

copybutton_exclude = ".linenos, .gp, .go"
linkcheck_anchors = False

html_theme = "furo"
html_title = "reid_torchmetrics"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

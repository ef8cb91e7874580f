"""How Sphinx builds the site: `nox -s docs`."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "_ext"))

import reid_torchmetrics

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
    "gallery_scraper",
    "formulas",
    "names_table",
    "outside_links",
    "public_names",
    "row_anchors",
    "short_signatures",
    "stacked_tables",
]
exclude_patterns = ["_build", "images/README.md", "gallery/*.py", "gallery/*.ipynb"]
nitpicky = True
smartquotes_action = "D"  # dashes only: quotes are values, such as "cosine"

# Pages: Markdown, with the anchors that a code host gives to headings.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]
html_math_renderer = "mathml"

# Reference: the docstrings, one argument a line. Defaults of signatures that are made
# are in no source.
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "no-value": True,
    "member-order": "bysource",
    # What every metric of TorchMetrics has, and some here override.
    "exclude-members": "extra_repr, forward, full_state_update, higher_is_better, "
    "is_differentiable, merge_state, plot_lower_bound, plot_upper_bound, reset, "
    "sync_context, unsync, update_called",
}
autodoc_preserve_defaults = False
autodoc_typehints_format = "short"
maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
intersphinx_timeout = 3
# Without a network the empty inventory is taken, and names are not linked.
intersphinx_mapping = {
    name: (address, (None, "_ext/empty.inv"))
    for name, address in {
        "python": "https://docs.python.org/3",
        "torch": "https://docs.pytorch.org/docs/stable",
        "torchmetrics": "https://lightning.ai/docs/torchmetrics/stable",
        "lightning": "https://lightning.ai/docs/pytorch/stable",
    }.items()
}

# Gallery: the scripts run while the site is built, in the order of their names.
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "backreferences_dir": "gallery/of",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (520, 364),
    "image_scrapers": ("gallery_scraper.show_named",),
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "min_reported_time": 3600,  # a build says little about the reader's machine
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "doc_module": ("reid_torchmetrics",),
}

copybutton_exclude = ".linenos, .gp, .go"
linkcheck_timeout = 20

html_theme = "furo"
html_title = "reid_torchmetrics"
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/project.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
repository = os.environ.get("PROJECT_REPOSITORY_URL", "").rstrip("/")
if repository:  # set by .github/workflows/docs.yml
    html_theme_options = {
        "source_repository": repository,
        "source_branch": "main",
        "source_directory": "docs/",
    }
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "_ext" / "search_scorer.js")
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

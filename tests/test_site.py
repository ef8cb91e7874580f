"""What extensions of the site write: tables that fit every screen, and signatures that fit the first one."""

import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
from sphinx.application import Sphinx
from sphinx.util.inspect import signature, stringify_signature

from tests.test_reference_pages import extension

DOCS = Path(__file__).parents[1] / "docs"


reference_pages = extension("reference_pages")
short_signatures = extension("short_signatures")
extension("stacked_tables")

PAGE = """
Page
====

======================================  ==============
theirs                                  here & now
======================================  ==============
``average_precision(scores, labels)``   mean
``cmc a.npy --k``
======================================  ==============

====  ====
item  rank
====  ====
1     2
====  ====
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The tables of a page that Sphinx wrote."""
    source = tmp_path_factory.mktemp("pages")
    (source / "index.rst").write_text(PAGE, encoding="utf-8")
    options = {"extensions": ["stacked_tables"], "html_theme": "basic"}
    folders = {"srcdir": source, "confdir": None, "outdir": source / "html", "doctreedir": source / "trees"}
    Sphinx(**folders, buildername="html", confoverrides=options, status=None, warning=None).build()
    html = (source / "html" / "index.html").read_text(encoding="utf-8")
    return re.findall(r"<table.*?</table>", html, flags=re.DOTALL)


def test_a_cell_of_a_wide_table_tells_the_title_of_its_column(tables):
    wide, narrow = tables
    assert 'class="stacks ' in wide
    assert re.findall(r'data-column="(.*?)"', wide) == ["theirs", "here &amp; now", "theirs"]
    assert "stacks" not in narrow
    assert "data-column" not in narrow


def test_code_in_a_table_may_break_inside_of_a_name(tables):
    assert ">average_<wbr>precision(<wbr>scores,<" in tables[0]
    assert '<span class="pre">a.npy</span> <span class="pre option">--k</span>' in tables[0]


def test_a_table_that_is_still_too_wide_scrolls_and_no_cell_hides_its_text():
    css = re.sub(r"/\*.*?\*/", "", (DOCS / "_static" / "site.css").read_text(encoding="utf-8"), flags=re.DOTALL)
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", css)
    of_cells = [
        rule
        for selector, rule in rules
        if re.search(r"\b(td|th|table)\b", selector) and not re.search(r"math|option", selector)
    ]
    assert len(of_cells) > 5
    for rule in of_cells:
        assert not re.search(r"white-space: (nowrap|pre)\b|overflow(-x)?: hidden|text-overflow", rule)


def signatures():
    """Public functions and classes with the arguments that their page shows, one each."""
    for name in reference_pages.documented_names():
        thing = reference_pages.find_object(name)
        if inspect.isfunction(thing) or (inspect.isclass(thing) and not issubclass(thing, (Exception, dict))):
            function = thing.__init__ if inspect.isclass(thing) else thing
            full = stringify_signature(
                signature(function, bound_method=inspect.isclass(thing)),
                show_return_annotation=False,
                unqualified_typehints=True,
            )
            arguments, _ = short_signatures._sign(None, "function", name, thing, None, full, None)
            yield name, re.split(r", (?=[*\w]+(?:[:=,)]|$))", re.sub(r"~[\w.]+\.", "", arguments))


def test_a_signature_on_the_site_is_no_longer_than_a_screen():
    visible = dict(signatures())
    assert max(map(len, visible.values())) <= 25
    types = [re.sub(r" = .*", "", argument) for arguments in visible.values() for argument in arguments]
    assert len(types) > 300
    assert not [argument for argument in types if argument.count("ndarray") > 1 or "SupportsIndex" in argument]
    assert visible["reid_torchmetrics.evaluate"][:3] == [
        "(query: Embeddings",
        "gallery: Embeddings | None = None",
        "query_identities: Labels | None = None",
    ]
    assert visible["reid_torchmetrics.evaluate"][-1] == "**options)"


def test_options_that_a_signature_leaves_out_are_listed_below_it():
    thing = reference_pages.find_object("reid_torchmetrics.evaluate")
    lines = inspect.getdoc(thing).splitlines()
    short_signatures._list_names(None, "function", "evaluate", thing, None, lines)
    (listed,) = (line for line in lines if line.startswith("        The names are "))
    visible = set(re.findall(r"``(\w+)``", listed))
    assert {"same_camera", "query_clothes", "rule"} <= visible
    assert visible == set(inspect.signature(thing).parameters) - set(
        re.findall(r"^    (\w+):", "\n".join(lines), re.MULTILINE)
    )


def test_every_short_name_of_a_type_has_a_row():
    page = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)) == short_signatures.EXPLAINED
    assert "\n## Types in signatures\n" in page

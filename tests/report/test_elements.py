"""Elements: what is text stays text."""

import json
import math

import pytest

from reid_torchmetrics.report.elements import (
    Html,
    as_json,
    element,
    embedded,
    join,
    number_text,
    percent_text,
    rank_text,
    table,
)
from tests.report.pages import parse

NASTY = "<script>alert('\"&amp;')</script><!--"


def test_text_is_escaped_and_elements_are_not():
    assert element("p", "1 < 2 & 3", element("b", "x")) == "<p>1 &lt; 2 &amp; 3<b>x</b></p>"


def test_an_attribute_is_escaped_and_says_its_name_without_python_s_signs():
    assert element("td", class_="a", aria_label='"<&>"') == '<td class="a" aria-label="&quot;&lt;&amp;&gt;&quot;"></td>'


def test_true_is_an_attribute_without_a_value_and_none_and_false_are_no_attribute():
    assert element("input", hidden=True, class_=None, open=False) == "<input hidden>"


def test_joined_text_is_not_escaped_twice():
    assert join(["<", Html("<br>"), "&"], between="|") == "&lt;|<br>|&amp;"


@pytest.mark.parametrize("place", ["caption", "column", "name", "cell", "filter"])
def test_a_nasty_text_is_shown_as_it_is(place):
    columns, rows = ["column", NASTY if place == "column" else "b"], [["row", "1"], ["other", "2"]]
    rows[0] = [NASTY if place == "name" else "row", NASTY if place == "cell" else "1"]
    caption, asked = (NASTY if place == each else each for each in ("caption", "filter"))
    page = parse(table(caption, columns, rows, filter_by=asked))
    assert page.all("script") == []
    assert NASTY in page.text


def test_a_row_is_named_by_its_first_cell_and_words_are_marked():
    page = parse(table("numbers", ["what", "why"], [["a", "b"]], words="why"))
    assert page.one("th", scope="row").text == "a"
    assert [each.text for each in page.all(class_="words")] == ["why", "b"]


def test_an_undefined_number_is_gray_in_every_table_and_a_row_may_have_an_id():
    texts = [percent_text(math.nan), percent_text(None), rank_text(math.nan), number_text(None, ".3f"), "0.5"]
    page = parse(table("numbers", ["name", *texts], [["a", *texts]], ids={"a": "row-a"}))
    assert [cell.text for cell in page.all("td", class_="undefined")] == ["n/a"] * 4
    assert page.one("tr", id="row-a").one("th").text == "a"


def test_embedded_json_cannot_end_its_element_and_says_the_same():
    data = {"name": NASTY, "none": None}
    script = parse(embedded(as_json(data))).one("script")
    assert not set("<>&") & set(script.text)
    assert json.loads(script.text) == data

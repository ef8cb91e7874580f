"""Elements: what is text stays text."""

import json
import math
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reid_torchmetrics.plot import FIGURES
from reid_torchmetrics.report.elements import (
    Html,
    as_json,
    element,
    embedded,
    figure,
    join,
    number_text,
    percent_text,
    picture,
    rank_text,
    table,
)
from tests.report import problems
from tests.report.pages import Element, parse

NASTY = "<script>alert('\"&amp;')</script><!--"


def test_text_and_attributes_are_escaped_and_elements_are_not():
    assert element("p", "1 < 2 & 3", element("b", "x")) == "<p>1 &lt; 2 &amp; 3<b>x</b></p>"
    assert element("td", class_="a", aria_label='"<&>"') == '<td class="a" aria-label="&quot;&lt;&amp;&gt;&quot;"></td>'
    assert element("input", hidden=True, class_=None, open=False) == "<input hidden>"
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


def drawn(title: str, *, ax: Any) -> None:
    axes = ax
    axes.plot([0, 1], [0, 5], marker="o", label=title)
    axes.set(title=title, xlim=(0, 0.5))  # the line is clipped
    axes.imshow([[0, 1]])
    axes.legend()


DRAWN = partial(drawn, "title")


def ids(element: Element) -> list[str]:
    return [each.attributes["id"] for each in element.all() if "id" in each.attributes]


def references(element: Element) -> set[str]:
    values = [value for each in element.all("svg")[0].all() for value in each.attributes.values()]
    urls = {value[len("url(#") : -1] for value in values if value.startswith("url(#")}
    return urls | {value[1:] for value in values if value.startswith("#") and len(value) != len("#ffffff")}


def test_the_same_figure_twice_on_a_page_has_different_ids_and_uses_its_own():
    first, second = (parse(figure(DRAWN, name, "caption")) for name in ("first", "second"))
    assert len({*ids(first), *ids(second)}) == len(ids(first)) + len(ids(second))
    for name, page in (("first", first), ("second", second)):
        assert references(page)
        assert references(page) <= set(ids(page))
        assert all(each.startswith(f"{name}-") for each in ids(page))


MARKUP = '<script> id="a" url(#b)'
LETTERS = {MARKUP: MARKUP} | {f"a{letter}b": "a\N{REPLACEMENT CHARACTER}b" for letter in "\x00\x0b\uffff"}


@pytest.mark.filterwarnings("ignore:Glyph", "ignore:The font")
@pytest.mark.parametrize("title", LETTERS)
def test_letters_are_text_markup_in_them_stays_text_and_those_that_xml_lacks_are_replaced(title):
    page = parse(figure(partial(drawn, title), "cmc", "caption"))
    assert page.all("script") == []
    assert LETTERS[title] in [each.text for each in page.all("text")]


def test_a_figure_is_named_by_its_title_and_caption_which_it_does_not_repeat_and_has_no_style_date_or_address():
    markup = figure(DRAWN, "cmc", "what <it> shows", (5.0, 4.0))
    assert "http" not in markup
    assert "xmlns" not in markup
    page = parse(markup)
    assert page.all("style") == page.all("metadata") == []
    assert page.one("svg").attributes["role"] == "img"
    assert page.one("svg").attributes["viewbox"] == "0 0 360 288"  # the size in which it is drawn
    assert page.one("figure").attributes["style"] == "width: 360px; --least-width: 288px"
    named_by = page.one("svg").attributes["aria-labelledby"]
    assert page.one("figcaption", id=named_by).text == "title. what <it> shows"
    assert [each.text for each in page.all("text")].count("title") == 1  # in the legend
    assert parse(figure(DRAWN, "cmc", "")).one("figcaption").text == "title"


RESULTS = (problems.retrieval(), problems.with_confusion())


@pytest.mark.parametrize(
    ("results", "name"), [(results, name) for results in RESULTS for name in FIGURES[type(results)]]
)
def test_letters_of_every_figure_are_at_least_8_pixels_high_in_a_window_of_500_pixels(results, name):
    row = FIGURES[type(results)][name]
    page = parse(figure(partial(row.plot, results), name, row.caption, row.size(results)))
    style = page.one("figure").attributes["style"]
    width, least_width = (int(number) for number in re.findall(r"([0-9]+)px", style))
    scale = max(least_width, min(width, 500 - 2 * 16)) / width  # beside the margins of the page
    sizes = [float(re.search(r"font-size: ([0-9.]+)px", text.attributes["style"])[1]) for text in page.all("text")]
    assert max(sizes) == 13
    assert min(sizes) * scale >= 8


@pytest.mark.parametrize(
    ("results", "name"), [(results, name) for results in RESULTS for name in FIGURES[type(results)]]
)
def test_a_title_and_a_caption_are_two_sentences_that_do_not_repeat_each_other(results, name):
    row = FIGURES[type(results)][name]
    _, axes = row.plot(results)
    assert axes.get_title()[:1].isupper()
    assert row.caption[:1].isupper() or not row.caption
    title = axes.get_title().partition(",")[0].lower()
    assert title not in row.caption.lower()


@pytest.mark.parametrize("size", [(8, 16), (1, 1)])
def test_a_picture_is_embedded_in_its_size_and_is_there_at_once(size):
    image = Image.fromarray(np.full((*reversed(size), 3), 128, dtype=np.uint8))
    shown = parse(picture(image, 'wrong "one"')).one("img")
    assert shown.attributes["src"].startswith("data:image/jpeg;base64,")
    assert (shown.attributes["width"], shown.attributes["height"]) == tuple(map(str, size))
    assert shown.attributes["alt"] == 'wrong "one"'
    assert "loading" not in shown.attributes

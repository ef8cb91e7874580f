"""Figures in the page: their ids are their own, their letters are text, and they are the same every time."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from reid_torchmetrics.report.elements import figure, picture
from tests.report.pages import Element, parse


def drawn(title: str = "title") -> Figure:
    made = Figure()
    axes = made.subplots()
    axes.plot([0, 1], [0, 5], marker="o", label=title)
    axes.set(title=title, xlim=(0, 0.5))  # the line is clipped
    axes.imshow([[0, 1]])
    axes.legend()
    return made


def ids(element: Element) -> list[str]:
    return [each.attributes["id"] for each in element.all() if "id" in each.attributes]


def references(element: Element) -> set[str]:
    values = [value for each in element.all("svg")[0].all() for value in each.attributes.values()]
    urls = {value[len("url(#") : -1] for value in values if value.startswith("url(#")}
    return urls | {value[1:] for value in values if value.startswith("#") and len(value) != len("#ffffff")}


def test_the_same_figure_twice_on_a_page_has_different_ids_and_uses_its_own():
    first, second = (parse(figure(drawn(), name, "caption")) for name in ("first", "second"))
    assert len({*ids(first), *ids(second)}) == len(ids(first)) + len(ids(second))
    for name, page in (("first", first), ("second", second)):
        assert references(page)
        assert references(page) <= set(ids(page))
        assert all(each.startswith(f"{name}-") for each in ids(page))


def test_letters_are_text_and_markup_in_them_stays_text():
    page = parse(figure(drawn('<script> id="a" url(#b)'), "cmc", "caption"))
    assert page.all("script") == []
    assert '<script> id="a" url(#b)' in [each.text for each in page.all("text")]


@pytest.mark.filterwarnings("ignore:Glyph", "ignore:The font")
@pytest.mark.parametrize("letter", ["\x00", "\x0b", "\uffff"])
def test_letters_that_xml_lacks_are_replaced(letter):
    page = parse(figure(drawn(f"a{letter}b"), "cmc", "caption"))
    assert "a\N{REPLACEMENT CHARACTER}b" in [each.text for each in page.all("text")]


def test_a_figure_has_no_style_of_its_own_no_date_and_no_address():
    markup = figure(drawn(), "cmc", "caption")
    assert parse(markup).all("style") == parse(markup).all("metadata") == []
    assert "http" not in markup
    assert "xmlns" not in markup


def test_a_figure_is_named_by_its_caption():
    page = parse(figure(drawn(), "cmc", "what <it> shows"))
    assert page.one("svg").attributes["role"] == "img"
    named_by = page.one("svg").attributes["aria-labelledby"]
    assert page.one("figcaption", id=named_by).text == "what <it> shows"


def test_a_figure_is_the_same_every_time():
    assert figure(drawn(), "cmc", "caption") == figure(drawn(), "cmc", "caption")


@pytest.mark.parametrize("size", [(8, 16), (1, 1)])
def test_a_picture_is_embedded_in_its_size_and_decoded_late(size):
    image = Image.fromarray(np.full((*reversed(size), 3), 128, dtype=np.uint8))
    shown = parse(picture(image, 'wrong "one"')).one("img")
    assert shown.attributes["src"].startswith("data:image/jpeg;base64,")
    assert (shown.attributes["width"], shown.attributes["height"]) == tuple(map(str, size))
    assert shown.attributes["alt"] == 'wrong "one"'
    assert shown.attributes["loading"] == "lazy"

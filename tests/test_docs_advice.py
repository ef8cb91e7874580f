"""The page of advice is what the registries say."""

from tests.advice_page import PATH, page


def test_the_page_of_advice_is_made_from_the_registries():
    assert PATH.read_text(encoding="utf-8") == page(), "run `python -m tests.advice_page`"

"""The page of causes is what the registries say."""

from tests.diagnosis_page import PATH, page


def test_the_page_of_causes_is_made_from_the_registries():
    assert PATH.read_text(encoding="utf-8") == page(), "run `python -m tests.diagnosis_page`"

"""The pages of causes and of evaluators are what the registries say."""

import pytest

from tests import diagnosis_page, differences_page


@pytest.mark.parametrize("module", [diagnosis_page, differences_page])
def test_a_page_is_made_from_the_registries(module):
    assert module.PATH.read_text(encoding="utf-8") == module.page(), f"run `python -m {module.__name__}`"

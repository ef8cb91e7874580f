"""Questions from other trackers: every answer on the page is what the code gives."""

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

from tests.coming_from.detection_questions import DETECTION
from tests.coming_from.questions import Question
from tests.coming_from.retrieval_questions import RETRIEVAL
from tests.test_docs import tables

PAGE = Path(__file__).parents[2] / "docs" / "numbers" / "questions.md"
SECTIONS = DETECTION, RETRIEVAL
QUESTIONS = [question for section in SECTIONS for question in section.questions]
MOST_ROWS = 40


def test_the_page_has_the_questions_and_answers_of_the_code():
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == [section.title for section in SECTIONS]
    for table, section in zip(tables(text), SECTIONS, strict=True):
        expected = [
            {"question": question.question, "answer": question.answer, "source": question.links}
            for question in section.questions
        ]
        assert table.rows == expected, section.title
    assert len(QUESTIONS) <= MOST_ROWS


@pytest.mark.parametrize("question", QUESTIONS, ids=[question.sources[0] for question in QUESTIONS])
def test_the_answer_is_what_is_computed(question: Question):
    stated = re.findall(r"\*\*(.+?)\*\*", question.answer)
    computed = question.compute()
    assert stated
    for text, value in zip(stated, computed, strict=True):
        if isinstance(value, str):
            assert text in value
        else:
            assert value == pytest.approx(number(text), abs=tolerance(text), nan_ok=True)


def number(text: str) -> float:
    """Return a number as the page writes it: a fraction, a decimal or NaN."""
    return math.nan if text == "NaN" else float(Fraction(text))


def tolerance(text: str) -> float:
    """Return how far a number with four digits behind the point may be off; all others are exact."""
    decimals = len(text.partition(".")[2])
    return 0.5001e-4 if decimals == 4 else 1e-6


def test_a_source_is_a_number_in_a_repository_and_is_on_the_page_once():
    sources = [source for question in QUESTIONS for source in question.sources]
    assert [source for source in sources if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", source)] == []
    assert len({*sources}) == len(sources)

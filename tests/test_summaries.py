"""The first lines of docstrings begin with a verb or a noun, and are easy to read."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.test_architecture import modules, parsed

FIRST_WORDS = re.compile(r"(of|what|how|where)\b", re.IGNORECASE)
NOT_IN_SUMMARIES = re.compile(r"\b(whom|whose|nobody|so many|whatever)\b", re.IGNORECASE)


def summaries(source: str) -> Iterator[str]:
    """The first lines of all docstrings: of modules, classes, functions, and of what is assigned a name."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            yield text.splitlines()[0]
        body = getattr(node, "body", None)
        statements = body if isinstance(body, list) else []
        for assigned, said in pairwise(statements):
            is_text = isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant)
            if isinstance(assigned, (ast.Assign, ast.AnnAssign)) and is_text:
                yield str(said.value.value).strip().splitlines()[0]


def unclear(sources: dict[str, str]) -> list[str]:
    return [
        f"{module}: {line}"
        for module, source in sources.items()
        for line in summaries(source)
        if NOT_IN_SUMMARIES.search(line) or FIRST_WORDS.match(line)
    ]


def test_a_summary_line_begins_with_a_verb_or_a_noun_and_has_no_word_that_makes_it_hard_to_read():
    assert unclear(modules()) == []


@pytest.mark.parametrize(
    "source",
    [
        '"""The boxes, whatever they are."""',
        'def boxes():\n    """Boxes of whom it is known."""',
        'class Boxes:\n    count: int\n    """so many boxes"""',
        'BOXES = 3\n"""boxes that nobody takes"""',
        'def boxes():\n    """What is in the boxes."""',
        'def boxes():\n    """Of each box its area."""',
    ],
)
def test_a_summary_line_with_such_a_word_would_be_found(source):
    assert len(unclear({"thing": source})) == 1

"""The tables of the page on lists: each call gives the number that the other evaluator recorded."""

import re
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics.functional import retrieval
from tests.coming_from.pages import TASKS
from tests.fields import test_lists, test_person_search
from tests.golden.field_cases import load_field
from tests.golden.rows_of_pages import RECORDED
from tests.test_docs import tables

PAGE = (Path(__file__).parents[2] / "docs" / "how_to" / "lists.md").read_text(encoding="utf-8")
ROWS = [row for table in tables(PAGE) for row in table.rows]
KEYS = RECORDED["lists"]


def names_of(case):
    """What the calls of the page use, of a recorded problem."""
    if "query_box" in case.inputs:
        return test_person_search.scene_of(case)
    if "faiss" in case.outputs:
        return {"I": case.outputs["faiss"]["I"], "positives": [[0]] * len(case.outputs["faiss"]["I"])}
    retrieved, positives = case.lists("retrieved"), case.lists("positives")
    of_trec = {"run": test_lists.run(case), "qrels": test_lists.judged(case)}
    return {"retrieved": retrieved, "positives": positives} | of_trec


@pytest.mark.parametrize(("row", "key"), [*zip(ROWS, KEYS, strict=True)], ids=KEYS)
def test_a_call_gives_the_recorded_number(row, key):
    name, evaluator, output = key.split("/")
    field = "person_search" if "SeqNet" in row else "lists"
    (case,) = (each for each in load_field(field) if each.name == name)
    (call,) = re.findall(r"`(.+)`", row["here"])
    ours = eval(call, vars(retrieval) | TASKS | names_of(case))  # noqa: S307 - our own text
    expected = case.outputs[evaluator][output]
    expected = expected if output == "I" else np.nanmean(expected)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-9)

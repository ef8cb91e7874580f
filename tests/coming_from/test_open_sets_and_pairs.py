"""The pages on open sets and given pairs: the calls of their tables, run on every recorded problem without ties."""

import numpy as np
import pytest

from reid_torchmetrics import tasks
from reid_torchmetrics.functional import retrieval
from tests.coming_from.pages import TASKS
from tests.golden.field_cases import FieldCase, load_field
from tests.golden.rows_of_pages import RECORDED
from tests.test_docs import tables
from tests.test_docs_pages import DOCS


def of_open_set(case: FieldCase) -> dict[str, object]:
    given = {"threshold": float(case.inputs["threshold"]), "fpirs": case.options["fars"]}
    return given | {
        "identification": retrieval.evaluate_scores(
            *(case.inputs[name] for name in ("scores", "query_ids", "gallery_ids"))
        ).identification()
    }


def of_pairs(case: FieldCase) -> dict[str, object]:
    scores, first, second, same = (case.inputs[name] for name in ("scores", "first", "second", "same"))
    given = {"distances": ((first - second) ** 2).sum(1), "fars": [10.0**power for power in range(-6, 0)]}
    return given | {"same": same, "verification": tasks.verify_pairs(scores, same)}


PAGES = {"open_set": of_open_set, "pairs": of_pairs}
ROWS = [
    (page, row["ours"].strip("`"), key)
    for page in PAGES
    for table in tables((DOCS / "how_to" / f"{page}.md").read_text(encoding="utf-8"))
    for row, key in zip(table.rows, RECORDED[page], strict=True)
]


@pytest.mark.parametrize(("page", "call", "recorded"), ROWS)
def test_a_call_gives_what_theirs_gave(page, call, recorded):
    evaluator, output = recorded.split("/", 1)
    compared = 0
    for case in load_field(page):
        if output in case.outputs.get(evaluator, {}) and not case.name.endswith("_ties"):
            expected = case.outputs[evaluator][output]
            expected = expected[:, 0] if expected.ndim == 2 else expected  # the first of the ranks, 1 and 5
            value = np.asarray(eval(call, vars(retrieval) | TASKS | PAGES[page](case)))  # noqa: S307 - our own text
            np.testing.assert_allclose(value, expected, rtol=0, atol=1e-6)
            compared += 1
    assert compared >= 16


def test_every_table_is_run():
    assert {page for page, *_ in ROWS} == {*PAGES}
    assert len(ROWS) == 12

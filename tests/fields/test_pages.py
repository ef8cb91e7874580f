"""The tables of the pages on these fields: each call gives the recorded number of the code base."""

import contextlib
import io
import re
from typing import Any

import numpy as np
import pytest

from reid_torchmetrics.functional.retrieval import evaluate
from tests.fields.comparisons import EXACT, SINGLE
from tests.fields.test_gait import CROSS_VIEW, GALLERIES, SINGLE_VIEW, evaluated
from tests.golden.field_cases import FieldCase, load_field
from tests.golden.rows_of_pages import RECORDED
from tests.test_docs import tables
from tests.test_docs_pages import DOCS, blocks

PAGES = ("text_and_images", "neighbors_and_gait")
ROUNDED = 0.01
"""OpenGait rounds to percents with two digits before it takes a mean"""


def text(case: FieldCase) -> dict[str, Any]:
    """The functions of the page, of the recorded scores."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(blocks(DOCS / "how_to" / "text_and_images.md")[0], names)  # noqa: S102 - our own text
    inputs, numbers = case.inputs, np.arange(case.inputs["similarity"].shape[1])
    of_texts = inputs.get("text_ids", inputs.get("image_of_text", numbers))
    names |= {"scores": inputs["similarity"], "texts": of_texts, "images": inputs.get("image_ids", numbers)}
    return names


def neighbors(case: FieldCase) -> dict[str, Any]:
    arrays = [case.inputs[name] for name in ("query", "gallery", "query_labels", "gallery_labels")]
    return {"lists": evaluate(*arrays, same_camera="keep", junk_identities=()).nearest(20)}


def gait(case: FieldCase, evaluator: str) -> dict[str, Any]:
    splits = {"single_view": (SINGLE_VIEW["NM"], GALLERIES[0]), "cross_view": (CROSS_VIEW["NM"], GALLERIES[1])}
    return {"results": evaluated(case, *splits[evaluator])}


def known(page: str, case: str, evaluator: str) -> tuple[FieldCase, dict[str, Any]]:
    """A recorded case, and what the expressions of its rows name."""
    field = "text_image" if page == "text_and_images" else "gait" if evaluator.endswith("view") else "other"
    (recorded,) = (each for each in load_field(field) if each.name == case)
    if field == "gait":
        return recorded, gait(recorded, evaluator)
    return recorded, {"text_image": text, "other": neighbors}[field](recorded)


def calls_of(page: str) -> list[str]:
    """What the tables of a page that compare another tool say of ours."""
    found = tables((DOCS / "how_to" / f"{page}.md").read_text(encoding="utf-8"))
    return [row["here"] for table in found if "here" in table.header for row in table.rows]


ROWS = [
    pytest.param(page, call.strip("`"), key, id=key)
    for page in PAGES
    for call, key in zip(calls_of(page), RECORDED[page], strict=True)
]


@pytest.mark.parametrize(("page", "expression", "key"), ROWS)
def test_a_row_gives_the_recorded_number(page, expression, key):
    name, evaluator, output, first = re.fullmatch(r"(\w+)/(\w+)/([^\[]+)(?:\[(\d+):\])?", key).groups()
    case, names = known(page, name, evaluator)
    theirs = case.outputs[evaluator][output]
    theirs = theirs if first is None else theirs[int(first) :]
    tolerance = SINGLE if theirs.dtype == np.float32 else EXACT
    tolerance = ROUNDED if evaluator.endswith("view") else tolerance * max(1, np.abs(theirs).max())
    ours = np.asarray(eval(expression, names))  # noqa: S307 - our own text
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)

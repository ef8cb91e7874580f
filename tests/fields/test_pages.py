"""The tables of the pages on neighboring fields: each call gives the number that the other code base recorded."""

import contextlib
import io
import re
from typing import Any

import numpy as np
import pytest

from reid_torchmetrics import evaluate, evaluate_scores, tasks
from reid_torchmetrics.functional import retrieval
from tests.coming_from.pages import TASKS
from tests.fields import test_lists, test_person_search
from tests.fields.comparisons import EXACT, SINGLE
from tests.fields.test_gait import CROSS_VIEW, GALLERIES, SINGLE_VIEW, evaluated
from tests.fields.test_vpr import EUCLIDEAN, SIDES, positives_of
from tests.golden.field_cases import FieldCase, load_field
from tests.golden.rows_of_pages import RECORDED
from tests.test_docs import tables
from tests.test_docs_pages import DOCS, blocks

FIELDS = {
    "text_and_images": ("text_image",),
    "neighbors_and_gait": ("gait", "other"),
    "places": ("vpr",),
    "clothes": ("clothes",),
    "lists": ("lists", "person_search"),
    "open_set": ("open_set",),
    "pairs": ("pairs",),
}
"""the fields of each page"""
ROUNDED = 0.01
"""OpenGait rounds to percents with two digits before it takes a mean"""


def defined_on(page: str, block: int) -> dict[str, Any]:
    """What a block of a page defines."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(blocks(DOCS / "how_to" / f"{page}.md")[block], names)  # noqa: S102 - our own text
    return names


def text(case: FieldCase) -> dict[str, Any]:
    inputs, numbers = case.inputs, np.arange(case.inputs["similarity"].shape[1])
    of_texts = inputs.get("text_ids", inputs.get("image_of_text", numbers))
    known = {"scores": inputs["similarity"], "texts": of_texts, "images": inputs.get("image_ids", numbers)}
    names = defined_on("text_and_images", 0)
    names |= known  # which the functions of the page read
    return names


def neighbors(case: FieldCase) -> dict[str, Any]:
    arrays = [case.inputs[name] for name in ("query", "gallery", "query_labels", "gallery_labels")]
    return {"lists": evaluate(*arrays, same_camera="keep", junk_identities=()).nearest(20)}


def places(case: FieldCase) -> dict[str, Any]:
    positions = {f"{side}_positions": case.inputs[f"{side}_positions"] for side in SIDES}
    sides = {"queries": case.inputs["query"], "database": case.inputs["gallery"]}
    found = {
        name: evaluate(*sides.values(), **positions, protocol=protocol, **EUCLIDEAN)
        for name, protocol in (("results", "pitts30k"), ("msls", "msls"))
    }
    return defined_on("places", -1) | sides | found | {"gt": positives_of(case)}


def clothes(case: FieldCase) -> dict[str, Any]:
    inputs = case.inputs
    labels = [inputs[name] for name in ("query_ids", "gallery_ids", "query_cameras", "gallery_cameras")]
    both = {f"{side}_clothes": inputs[f"{side}_clothes"] for side in SIDES}
    known = {"distmat": inputs["distances"], "labels": labels, "clothes": both, "g_pids": inputs["gallery_ids"]}
    return known | {"evaluate_scores": evaluate_scores}


def lists(case: FieldCase) -> dict[str, Any]:
    known = vars(retrieval) | TASKS
    if "query_box" in case.inputs:
        return known | test_person_search.scene_of(case)
    if "faiss" in case.outputs:
        found = case.outputs["faiss"]["I"]
        return known | {"I": found, "positives": [[0]] * len(found)}
    known |= {name: case.lists(name) for name in ("retrieved", "positives")}
    return known | {"run": test_lists.run(case), "qrels": test_lists.judged(case)}


def open_set(case: FieldCase) -> dict[str, Any]:
    labels = [case.inputs[name] for name in ("scores", "query_ids", "gallery_ids")]
    identification = evaluate_scores(*labels).identification()
    given = {"threshold": float(case.inputs["threshold"]), "fpirs": case.options["fars"]}
    return vars(retrieval) | TASKS | given | {"identification": identification}


def given_pairs(case: FieldCase) -> dict[str, Any]:
    scores, first, second, same = (case.inputs[name] for name in ("scores", "first", "second", "same"))
    given = {"distances": ((first - second) ** 2).sum(1), "fars": [10.0**power for power in range(-6, 0)]}
    return vars(retrieval) | TASKS | given | {"same": same, "verification": tasks.verify_pairs(scores, same)}


NAMES = {
    "open_set": open_set,
    "pairs": given_pairs,
    "text_and_images": text,
    "neighbors_and_gait": neighbors,
    "places": places,
    "clothes": clothes,
    "lists": lists,
    "single_view": lambda case: {"results": evaluated(case, SINGLE_VIEW["NM"], GALLERIES[0])},
    "cross_view": lambda case: {"results": evaluated(case, CROSS_VIEW["NM"], GALLERIES[1])},
}
"""what the calls of a page, or of an evaluator of gait, name of a recorded problem"""


def calls_of(page: str) -> list[str]:
    """What the tables of a page that compare another tool say of ours."""
    cells = []
    for table in tables((DOCS / "how_to" / f"{page}.md").read_text(encoding="utf-8")):
        cells += [row[column] for column in ("here", "ours") if column in table.header for row in table.rows]
    return [cell.split("`")[1] for cell in cells]


def recorded(page: str, key: str) -> list[tuple[FieldCase, str, Any]]:
    """The cases of a key `case/evaluator/output[first:]`, each with the evaluator and what it returned.

    Without the name of a case those are all that have no ties.
    """
    name, evaluator, output, first = re.fullmatch(r"(?:(\w+)/)?(\w+)/([^/\[]+)(?:\[(\d+):\])?", key).groups()
    cases = [case for field in FIELDS[page] for case in load_field(field) if output in case.outputs.get(evaluator, {})]
    if name is None:
        chosen = [case for case in cases if not case.name.endswith("_ties")]
        assert len(chosen) >= 16
    else:
        chosen = [case for case in cases if case.name == name]
        assert len(chosen) == 1
    return [
        (case, evaluator, case.outputs[evaluator][output][slice(int(first), None) if first else ...]) for case in chosen
    ]


ROWS = [
    pytest.param(page, call, key, id=f"{page}/{key}")
    for page in FIELDS
    for call, key in zip(calls_of(page), RECORDED[page], strict=True)
]


@pytest.mark.parametrize(("page", "call", "key"), ROWS)
def test_a_call_gives_the_recorded_number(page, call, key):
    for case, evaluator, theirs in recorded(page, key):
        expected = theirs
        if page == "lists" and not key.endswith("/I"):  # of each query
            expected = np.nanmean(theirs)
        if page == "open_set" and theirs.ndim == 2:  # the first of the ranks, 1 and 5
            expected = theirs[:, 0]
        names = NAMES.get(evaluator, NAMES[page])(case)
        ours = np.asarray(eval(call, names))  # noqa: S307 - our own text
        tolerance = (SINGLE if theirs.dtype == np.float32 else EXACT) * max(1, np.abs(theirs).max())
        tolerance = ROUNDED if evaluator.endswith("view") else tolerance
        np.testing.assert_allclose(ours.reshape(np.shape(expected)), expected, rtol=0, atol=tolerance)

"""Changed clothes: Simple-CCReID's general, CC and SC settings, FIRe-CCReID's, and PRCC's two."""

from typing import Any

import numpy as np
import pytest

from reid_torchmetrics.functional.retrieval import GalleryDraw, RetrievalResults, evaluate_scores
from tests.fields.comparisons import assert_equal
from tests.golden.field_cases import FieldCase, load_field

LEFT_OUT = {
    ("*", "*_ties"): "equal distances in the order of an unstable sort",
    ("prcc_draws", "draws"): "the number of their draws; ours is the expectation",
}
_ANY_CAMERA = {"protocol": "ltcc", "same_camera": "keep"}
_ONE_SHOT = {**_ANY_CAMERA, "gallery_draw": GalleryDraw(1, "identity")}
CALLS = {
    "simple_ccreid": {"protocol": "ltcc"},
    "simple_ccreid_cc": {"protocol": "ltcc_cc"},
    "simple_ccreid_sc": {"protocol": "ltcc_sc"},
    "fire_ltcc": {"protocol": "ltcc"},
    "fire_ltcc_cc": {"protocol": "ltcc_cc"},
    "fire_prcc": _ANY_CAMERA,
    "prcc_draws": _ONE_SHOT,
}
LABELS = {"identities": "ids", "cameras": "cameras", "clothes": "clothes"}


def given(case: FieldCase, side: str) -> dict[str, Any]:
    names = {label: f"{side}_{name}" for label, name in LABELS.items()}
    return {label: case.inputs[name] for label, name in names.items() if name in case.inputs}


def evaluated(case: FieldCase, **options: Any) -> RetrievalResults:
    labels = {f"{side}_{name}": values for side in ("query", "gallery") for name, values in given(case, side).items()}
    return evaluate_scores(-case.inputs["distances"], **labels, **options)


def numbers(evaluator: str, results: RetrievalResults, cmc: Any) -> dict[tuple[str, str], Any]:
    """Ours in the form of theirs, where no query or not every query has a positive."""
    precision, counts = results["map"], results.counts
    if evaluator.startswith("simple_ccreid") and not counts.valid:  # 0 there, NaN here
        precision, cmc = 0.0, np.zeros(len(cmc))
    if evaluator == "fire_prcc" and counts.valid < counts.total:  # 0 / 0 there, left out here
        precision, cmc = np.nan, np.asarray(cmc) * counts.valid / counts.total
    return {(evaluator, "map"): precision, (evaluator, "cmc"): cmc}


@pytest.mark.parametrize("case", load_field("clothes"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    found = {}
    for evaluator, outputs in case.outputs.items():
        results = evaluated(case, max_rank=len(outputs["cmc"]), **CALLS[evaluator])
        found |= numbers(evaluator, results, results.cmc.numpy())
    assert_equal(case, found, LEFT_OUT)

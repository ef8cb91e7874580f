"""Visible and infrared: LLCM, SYSU-MM01 and RegDB on one drawn gallery, and LLCM's draws."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import GalleryDraw, RetrievalResults, evaluate_scores
from tests.fields.comparisons import assert_equal
from tests.golden.field_cases import FieldCase, load_field

LEFT_OUT = {
    ("*", "*_ties"): "equal distances in the order of an unstable sort",
    ("llcm_draws", "standard_error"): "of their 400 draws, beside which ours is exact: see the test of draws",
    ("llcm_draws", "mean"): "of their 400 draws, beside which ours is exact: see the test of draws",
}
STANDARD_ERRORS = 4.5
GIVEN = {"gallery_draw": GalleryDraw(None), "gallery_draw_for_map": False}
"""a gallery that is drawn already: the CMC counts identities, each at its best item"""
CALLS = {
    "eval_llcm": {"protocol": "llcm", **GIVEN},
    "eval_sysu": {"protocol": "sysu_mm01_all_single", "search_cameras": None, "same_camera": "keep", **GIVEN},
    "eval_regdb": {"protocol": "regdb"},
    "sysu_official": {"protocol": "sysu_mm01_all_single", "search_cameras": None, **GIVEN},
}


def two_for_three(case: FieldCase) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Camera 2 is dropped for camera 3, and nothing else: the same as `sysu_mm01` with the cameras of the benchmark."""
    queries, gallery = (torch.from_numpy(case.inputs[f"{side}_cameras"]) for side in ("query", "gallery"))
    return lambda rows, columns: (queries[rows] == 3)[:, None] & (gallery[columns] == 2)[None]


def evaluated(case: FieldCase, **options: Any) -> RetrievalResults:
    names = ("query_ids", "gallery_ids", "query_cameras", "gallery_cameras")
    return evaluate_scores(-case.inputs["distances"], *(case.inputs[name] for name in names), **options)


@pytest.mark.parametrize("case", load_field("infrared"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    found = {}
    for evaluator, outputs in case.outputs.items():
        if evaluator in CALLS:
            junk_pairs = two_for_three(case) if evaluator == "eval_sysu" else None
            results = evaluated(case, max_rank=len(outputs["cmc"]), junk_pairs=junk_pairs, **CALLS[evaluator])
            values = {"cmc": results.cmc, "map": results["map"], "minp": results["minp"]}
            found |= {(evaluator, name): value for name, value in values.items()}
    assert_equal(case, found, LEFT_OUT)


DRAWN = [case for case in load_field("infrared") if "llcm_draws" in case.outputs]


@pytest.mark.parametrize("case", DRAWN, ids=lambda case: case.name)
def test_the_mean_of_llcms_draws_is_near_the_expectation(case):
    theirs = case.outputs["llcm_draws"]
    results = evaluated(case, protocol="llcm", max_rank=len(theirs["mean"]) - 2)
    ours = np.array([*results.cmc.tolist(), results["map"], results["minp"]])
    assert (np.abs(ours - theirs["mean"]) <= STANDARD_ERRORS * theirs["standard_error"] + 1e-9).all()

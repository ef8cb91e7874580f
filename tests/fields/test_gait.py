"""Gait: CASIA-B as OpenGait computes it, views as cameras."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate
from tests.fields.comparisons import SINGLE, assert_equal
from tests.golden.field_cases import FieldCase, load_field

SINGLE_VIEW = {"NM": ("nm-05", "nm-06"), "BG": ("bg-01", "bg-02"), "CL": ("cl-01", "cl-02")}
CROSS_VIEW = {"NM": ("nm-01",), "BG": ("bg-01",), "CL": ("cl-01",)}
GALLERIES = ("nm-01", "nm-02", "nm-03", "nm-04"), ("nm-02", "bg-02", "cl-02")
"""the sequences of the gallery, of a single view and across views"""


def evaluated(case: FieldCase, probes: tuple[str, ...], gallery: tuple[str, ...]) -> RetrievalResults:
    sides = [np.isin(case.inputs["sequence"], side) for side in (probes, gallery)]
    views = case.inputs["view"].astype(np.int64)
    arrays = [values[side] for values in (case.inputs["features"], case.inputs["label"], views) for side in sides]
    return evaluate(*arrays, protocol="casia_b", similarity="euclidean")


def rounded(share: torch.Tensor) -> torch.Tensor:
    """In percent with two digits, as OpenGait rounds every cell before it takes a mean."""
    return (100 * share).round(decimals=2)


def ours(case: FieldCase) -> dict[tuple[str, str], Any]:
    found = {}
    for kind, probes in SINGLE_VIEW.items():
        pairs = evaluated(case, probes, GALLERIES[0]).by_camera_pair("rank_1")
        found["single_view", f"{kind}@R1"] = replace(pairs, mean=rounded(pairs.mean)).mean_without_diagonal
        results = evaluated(case, CROSS_VIEW[kind], GALLERIES[1])
        for theirs, name in (("Rank@1", "rank_1"), ("mAP", "map")):
            found["cross_view", f"{kind}-{theirs}"] = rounded(results.by_camera(name).mean).mean()
    return found


@pytest.mark.parametrize("case", load_field("gait"), ids=lambda case: case.name)
def test_a_recorded_problem_has_the_numbers_of_its_evaluators(case):
    assert_equal(case, ours(case), {}, {"single_view": SINGLE, "cross_view": SINGLE})

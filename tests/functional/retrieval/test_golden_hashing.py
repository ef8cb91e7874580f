"""Average precision of samples with several labels is what two code bases for hashing recorded."""

from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics.functional.retrieval import evaluate_scores

RECORD = Path(__file__).parents[2] / "golden" / "hashing.npz"
CUTOFFS = (10, None, 10, None)
"""of DeepHash-pytorch's `CalcTopMap` twice, and of ADSH's `calc_topMap` and `calc_map`"""


def problems():
    with np.load(RECORD) as arrays:
        names = sorted({name.partition("/")[0] for name in arrays.files}, key=int)
        return [{key: arrays[f"{name}/{key}"] for key in KEYS} for name in names]


KEYS = ("query", "gallery", "query_labels", "gallery_labels", "values")
PROBLEMS = problems()


@pytest.mark.parametrize("place", range(len(CUTOFFS)))
def test_mean_average_precision_is_that_of_both_code_bases(place):
    for problem in PROBLEMS:
        results = evaluate_scores(
            problem["query"] @ problem["gallery"].T,
            problem["query_labels"],
            problem["gallery_labels"],
            protocol="hashing",
            k=CUTOFFS[place],
            ties="stable",
            empty_target_action="neg",
        )
        # Queries without a right answer count 0 there, as they are left out of the sum alone.
        assert results["map"] == pytest.approx(problem["values"][place], abs=1e-12)


def test_the_problems_have_ties_many_labels_and_queries_without_a_right_answer():
    assert len(PROBLEMS) == 30
    assert {problem["query_labels"].shape[1] for problem in PROBLEMS} == {8, 70}
    assert any(not problem["query_labels"].any(1).all() for problem in PROBLEMS)
    assert any(len(np.unique(problem["query"] @ problem["gallery"].T)) <= 13 for problem in PROBLEMS)

"""Measures of the first k candidates, and all-shots CMC: by hand, by the slow reference, and undefined values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.measures.cutoffs import (
    PRECISION_DIVISORS,
    cmc_at,
    cmc_curve,
    hit_rate_at,
    normalized_dcg,
    precision_at,
    r_precision,
    recall_at,
    reciprocal_rank,
    retrieval_rank,
)
from reid_torchmetrics.functional.retrieval.ranking.ranks import rank_positives_from_scores
from tests.functional.retrieval.measures.test_measures import exactly, ranks_of
from tests.profiles import examples
from tests.reference import measures as reference
from tests.strategies import problems

MEASURES = {
    "recall": (recall_at, reference.recall_at),
    "hit rate": (hit_rate_at, reference.hit_rate_at),
    "R-precision": (lambda ranks, k: r_precision(ranks, k=k), reference.r_precision),
    "reciprocal rank": (lambda ranks, k: reciprocal_rank(ranks, k=k), reference.reciprocal_rank),
    "nDCG": (lambda ranks, k: normalized_dcg(ranks, k=k), reference.normalized_dcg),
}
for name in PRECISION_DIVISORS:
    MEASURES[f"precision over {name}"] = (
        lambda ranks, k, name=name: precision_at(ranks, k, divisor=name),
        lambda groups, k, name=name: reference.precision_at(groups, k, name),
    )
WITHOUT_CUTOFF = ("R-precision", "reciprocal rank", "nDCG")


def test_the_retrieval_rank_is_0_for_perfect_lists_and_1_where_nothing_comes_early():
    # The most positives of a query are 3: K is 4 of the first query and 6 of the second.
    ranks = ranks_of((1,), (2, 4, 7), (50,))
    assert exactly(retrieval_rank(ranks), [0, ((2 + 4 + 7.5) / 3 - 2) / (7.5 - 2), 1])
    assert exactly(retrieval_rank(ranks, variant="shrec22"), [0, ((2 + 7 + 7) / 3 - 2) / (7 - 2), 1])
    assert exactly(retrieval_rank(ranks_of((1, 2, 3))), [0])
    with pytest.raises(ValueError, match="`variant` must be one of 'mpeg7', 'shrec22'; got 'shrec'"):
        retrieval_rank(ranks, variant="shrec")


@examples(30)
@given(problems(), st.sampled_from([1, 2, 5, 50]))
def test_measures_of_the_first_candidates_are_those_of_the_slow_reference(problem, k):
    evaluation = problem.reference()
    ranks = rank_positives_from_scores(problem.scores, *problem.labels, **problem.options)
    entries = list(zip(evaluation.ranks, evaluation.num_candidates, strict=True))
    groups = [reference.certain(*entry) if entry[0] else None for entry in entries]
    for name, (ours, theirs) in MEASURES.items():
        for cutoff in (k, None) if name in WITHOUT_CUTOFF else (k,):
            expected = [math.nan if group is None else theirs(group, cutoff) for group in groups]
            assert exactly(ours(ranks, cutoff), expected)
    most = max(map(len, evaluation.ranks), default=0)
    for variant in ("mpeg7", "shrec22"):
        expected = [math.nan if group is None else reference.retrieval_rank(group, most, variant) for group in groups]
        assert exactly(retrieval_rank(ranks, variant=variant), expected)


@pytest.mark.parametrize("name", MEASURES)
def test_a_cutoff_is_a_number_of_candidates(name):
    ours, _ = MEASURES[name]
    with pytest.raises(ValueError, match="`k` must be at least 1; got 0"):
        ours(ranks_of((1,)), 0)


def test_a_divisor_is_one_of_a_table():
    with pytest.raises(
        ValueError, match="`divisor` must be one of 'k', 'attainable', 'last_positive', 'calibrated'; got 'n'"
    ):
        precision_at(ranks_of((1,)), 5, divisor="n")


def test_the_mode_of_the_curve_is_checked():
    for curve in (cmc_at, cmc_curve):
        with pytest.raises(ValueError, match="`mode` must be one of 'first_match', 'all_shots'; got 'single'"):
            curve(ranks_of((1,)), 5, mode="single")

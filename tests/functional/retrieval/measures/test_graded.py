"""Graded positives and judged negatives: gains of nDCG, and bpref, by their definitions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import PositiveRanks, binary_preference, normalized_dcg
from reid_torchmetrics.functional.retrieval.measures import GAINS
from reid_torchmetrics.tasks import evaluate_lists
from tests.profiles import examples
from tests.reference import lists as reference

ITEMS = st.integers(0, 9)
QUERY = st.tuples(st.lists(ITEMS, max_size=8), st.dictionaries(ITEMS, st.integers(-2, 3), max_size=7))
GRADED = [([1, 2, 1, 3], {1: 1, 3: 3, 5: 2, 2: 0}), ([4, 4], {4: 2}), ([], {7: 1}), ([1], {1: 0})]


def values_of(retrieved, positives, **options):
    return evaluate_lists(retrieved, positives, **options).per_query


@examples(25)
@given(st.lists(QUERY, min_size=1, max_size=6), st.sampled_from([None, 1, 3]), st.sampled_from(sorted(GAINS)))
def test_graded_lists_have_the_gain_and_the_preference_of_their_definition(queries, k, gain):
    ranks = evaluate_lists(*map(list, zip(*queries, strict=True))).ranks
    values = torch.stack([normalized_dcg(ranks, k=k, gain=gain), binary_preference(ranks)], 1).tolist()
    expected = [
        [reference.normalized_dcg(items, grades, k, gain), reference.binary_preference(items, grades)]
        if reference.num_positives(grades)
        else [math.nan] * 2
        for items, grades in queries
    ]
    assert values == [pytest.approx(row, abs=1e-12, nan_ok=True) for row in expected]


# Positives at 1, 2 and 5; the list lacks one with the largest grade. By hand as 2^(grade - 5000).
HUGE = [1, 2, 9, 8, 3], {1: 4999, 2: 5000, 3: 4990, 4: 5000}
DISCOUNTS = [1 / math.log2(place + 1) for place in range(1, 6)]


def test_huge_grades_have_the_ratios_of_their_gains():
    gained = 1 / 2 * DISCOUNTS[0] + 1 * DISCOUNTS[1] + 2**-10 * DISCOUNTS[4]
    ideal = 1 * DISCOUNTS[0] + 1 * DISCOUNTS[1] + 1 / 2 * DISCOUNTS[2] + 2**-10 * DISCOUNTS[3]
    exponential = {"gain": "exponential", "reports": ["ndcg_5"]}
    # Beside a query with ordinary grades, and one whose gains are too far apart for a float.
    queries = [HUGE, ([4, 5, 6], {6: 3, 5: 1}), ([7, 8], {8: 1e300, 7: 1})]
    values = values_of(*map(list, zip(*queries, strict=True)), **exponential)["ndcg_5"].tolist()
    ordinary = (1 * DISCOUNTS[1] + 7 * DISCOUNTS[2]) / (7 * DISCOUNTS[0] + 1 * DISCOUNTS[1])
    assert values == pytest.approx([gained / ideal, ordinary, DISCOUNTS[1]], abs=1e-15)
    for grade in (900, 1023, 1024, 5000, 1e17, 1.7e308):
        perfect = [[1, 2, 3]], [{1: grade, 2: grade, 3: grade}]
        for gain in reference.GAINS:
            assert values_of(*perfect, gain=gain, reports=["ndcg_5"])["ndcg_5"].item() == 1, (grade, gain)
    linear = values_of([[1, 9, 2]], [{1: 0.75e308, 2: 1.5e308, 3: 1.5e308}], reports=["ndcg_5"])["ndcg_5"].item()
    ideal = DISCOUNTS[0] + DISCOUNTS[1] + 1 / 2 * DISCOUNTS[2]
    assert linear == pytest.approx((1 / 2 * DISCOUNTS[0] + DISCOUNTS[2]) / ideal, abs=1e-15)


def test_tiny_grades_have_gains_too():
    for grade in (5e-324, 1e-20, 1e-9, 1e-4):
        perfect = [[1, 2]], [{1: grade, 2: grade}]
        assert values_of(*perfect, gain="exponential", reports=["ndcg_5"])["ndcg_5"].item() == 1
        # Of such grades 2^grade - 1 is grade log 2 but for a share of grade / 3.
        missed = values_of([[2]], [{1: 1, 2: grade}], gain="exponential", reports=["ndcg_5"])["ndcg_5"].item()
        assert missed == pytest.approx(grade * math.log(2) / (1 + grade * DISCOUNTS[1]), rel=grade)


def test_ordinary_grades_have_gains_to_the_bit():
    grade = torch.cat([torch.arange(1, 901), torch.rand(500, generator=torch.Generator().manual_seed(0)) * 50 + 1e-3])
    grade = grade.double()
    for largest in (grade, torch.full_like(grade, 900)):
        assert torch.equal(GAINS["linear"](grade, largest), grade)
        assert torch.equal(GAINS["exponential"](grade, largest), 2**grade - 1)


def test_without_grades_every_other_candidate_is_judged():
    # Positives at 2 and 3 of 4: one judged negative before each, of two.
    assert binary_preference(PositiveRanks.from_hits([[0, 1, 1, 0]])).tolist() == [1 - 1 / 2]
    blocks = [evaluate_lists([items], [grades]).ranks for items, grades in GRADED]
    both = PositiveRanks.concatenate(blocks)
    assert binary_preference(both).nan_to_num().tolist() == [1 / 3 * (1 + 0), 1, 0, 0]
    with pytest.raises(ValueError, match="must all have the same kind of judgments"):
        PositiveRanks.concatenate([both, PositiveRanks.from_hits([[1]])])

"""Tied candidates: whole groups, and expectations against every order of the tied items."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics.functional.retrieval import retrieval_normalized_dcg

from reid_torchmetrics.functional.retrieval.measures.average_precision import (
    AP_NORMALIZERS,
    AP_RULES,
    average_precision,
    average_precision_at_r,
    mean_precision_recall_curve,
    precision_recall_curve,
)
from reid_torchmetrics.functional.retrieval.measures.cutoffs import (
    CMC_MODES,
    PRECISION_DIVISORS,
    cmc_at,
    cmc_curve,
    first_rank,
    hit_rate_at,
    inverse_negative_penalty,
    normalized_dcg,
    precision_at,
    r_precision,
    recall_at,
    reciprocal_rank,
    retrieval_rank,
)
from reid_torchmetrics.functional.retrieval.measures.means import mean_over_queries
from reid_torchmetrics.functional.retrieval.measures.terms import Groups, RangeSums, chance_of_none, expected_reciprocal
from reid_torchmetrics.functional.retrieval.ranking.positive_ranks import PositiveRanks
from tests.paths import path
from tests.profiles import examples
from tests.reference import measures as reference
from tests.reference.ties import expectation, groups_of_scores, tied_positives
from tests.tied_groups import groups_of

CUTOFFS = (1, 3, 30)
AREA_RULES = [rule for rule in AP_RULES if not rule.startswith("interpolated")]


def ranks_of(*queries, policy):
    positives = [positive for groups in queries for positive in tied_positives(groups)]
    rank, *_ = torch.tensor(positives, dtype=torch.int64).reshape(-1, 4).T
    sizes = [sum(positives for positives, _ in groups) for groups in queries]
    candidates = [sum(map(sum, groups)) for groups in queries]
    return PositiveRanks(
        rank.contiguous(),
        torch.tensor(sizes, dtype=torch.int64),
        torch.tensor(candidates, dtype=torch.int64),
        groups_of(policy, queries),
    )


def area(rule, k, normalizer):
    return (
        lambda ranks: average_precision(ranks, rule=rule, k=k, normalizer=normalizer),
        lambda groups: reference.average_precision(groups, rule, k, normalizer),
    )


def at(ours, theirs, k):
    return lambda ranks: ours(ranks, k=k), lambda groups: theirs(groups, k)


def precision(k, divisor):
    return (
        lambda ranks: precision_at(ranks, k, divisor=divisor),
        lambda groups: reference.precision_at(groups, k, divisor),
    )


MEASURES = {
    "first rank": (first_rank, reference.first_rank),
    "INP": (inverse_negative_penalty, reference.inverse_negative_penalty),
}
for k in (None, *CUTOFFS):
    MEASURES |= {
        f"{rule} at {k} over {normalizer}": area(rule, k, normalizer)
        for rule in AREA_RULES
        for normalizer in AP_NORMALIZERS
        if (k, normalizer) != (None, "k")
    }
    MEASURES[f"MAP@R at {k}"] = at(average_precision_at_r, reference.average_precision_at_r, k)
    MEASURES[f"R-precision at {k}"] = at(r_precision, reference.r_precision, k)
    MEASURES[f"reciprocal rank at {k}"] = at(reciprocal_rank, reference.reciprocal_rank, k)
    MEASURES[f"nDCG at {k}"] = at(normalized_dcg, reference.normalized_dcg, k)
for k in CUTOFFS:
    MEASURES |= {f"precision at {k} over {divisor}": precision(k, divisor) for divisor in PRECISION_DIVISORS}
    MEASURES[f"recall at {k}"] = at(recall_at, reference.recall_at, k)
    MEASURES[f"hit rate at {k}"] = at(hit_rate_at, reference.hit_rate_at, k)
    MEASURES[f"all shots at {k}"] = (
        lambda ranks, k=k: cmc_at(ranks, k, mode="all_shots"),
        lambda groups, k=k: reference.all_shots_at(groups, k),
    )

INTERPOLATED = {
    f"{rule} at {k}": area(rule, k, "positives") for rule in AP_RULES if rule not in AREA_RULES for k in (None, 2, 5)
}

items = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=8)
queries = st.lists(items.map(groups_of_scores), max_size=12)


def expected_values(measure, groups_of_queries):
    """One float per query; NaN where there is no positive."""
    return [float(measure(groups)) if reference.count(groups) else math.nan for groups in groups_of_queries]


def assert_close(values, expected):
    assert values.dtype == torch.float64
    assert values.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)


@examples(9)
@given(queries)
def test_a_grouped_value_reads_each_group_at_once(problem):
    ranks = ranks_of(*problem, policy="grouped")
    for ours, theirs in (MEASURES | INTERPOLATED).values():
        assert_close(ours(ranks), expected_values(theirs, problem))


@examples(9)
@given(queries)
def test_an_expected_value_is_the_mean_over_all_orders_of_the_tied(problem):
    ranks = ranks_of(*problem, policy="expected")
    for ours, theirs in MEASURES.values():
        assert_close(ours(ranks), expected_values(lambda groups, theirs=theirs: expectation(theirs, groups), problem))


@examples(30)
@given(queries, st.sampled_from(["grouped", "expected"]), st.sampled_from(["mpeg7", "shrec22"]))
def test_the_retrieval_rank_of_the_tied_looks_at_the_query_with_the_most_positives(problem, policy, variant):
    most = max(map(reference.count, problem), default=0)

    def theirs(groups):
        return reference.retrieval_rank(groups, most, variant)

    of_query = theirs if policy == "grouped" else lambda groups: expectation(theirs, groups)
    assert_close(retrieval_rank(ranks_of(*problem, policy=policy), variant=variant), expected_values(of_query, problem))


@examples(20)
@given(queries, st.sampled_from(["grouped", "expected"]), st.sampled_from(sorted(CMC_MODES)))
def test_the_curve_at_k_is_the_mean_of_the_values_at_k(problem, policy, mode):
    ranks = ranks_of(*problem, policy=policy)
    expected = [float(mean_over_queries(cmc_at(ranks, k, mode=mode))) for k in range(1, 10)]
    assert_close(cmc_curve(ranks, 9, mode=mode), expected)


def test_a_collapsed_model_is_expected_to_score_as_at_random():
    # All 20 000 candidates tie: one positive is anywhere, so AP = mean of 1/r, and rank k is reached with k in 20 000.
    size = 20_000
    ranks = ranks_of([(1, size - 1)], [(8, size - 8)], policy="expected")
    assert float(average_precision(ranks)[0]) == pytest.approx(math.fsum(1 / r for r in range(1, size + 1)) / size)
    assert_close(hit_rate_at(ranks, 10), [10 / size, 1 - math.comb(size - 8, 10) / math.comb(size, 10)])
    assert_close(recall_at(ranks, 10), [10 / size, 10 / size])
    assert_close(first_rank(ranks), [(size + 1) / 2, (size + 1) / 9])


@pytest.mark.parametrize("policy", ["grouped", "expected"])
def test_values_of_tied_candidates_do_not_depend_on_blocks(monkeypatch, policy):
    ranks = ranks_of([(1, 2), (2, 3)], [(0, 4)], [(3, 0), (0, 1), (1, 1)], [(2, 2)], policy=policy)
    measures = {name: ours for name, (ours, _) in MEASURES.items()}
    measures |= {mode: lambda ranks, mode=mode: cmc_curve(ranks, 6, mode=mode) for mode in CMC_MODES}
    whole = {name: measure(ranks).tolist() for name, measure in measures.items()}
    split = PositiveRanks.split
    monkeypatch.setattr(PositiveRanks, "split", lambda self, *_: split(self, 1))
    monkeypatch.setattr(*path("max_terms"), 1)
    monkeypatch.setattr(*path("max_chances"), 1)
    for name, measure in measures.items():
        assert_close(measure(ranks), whole[name])


def test_the_expected_gain_is_that_of_torchmetrics_which_averages_over_ties():
    items = [(0.9, True), (0.5, False), (0.5, True), (0.5, True), (0.2, False), (0.2, True)]
    scores, positive = torch.tensor(items, dtype=torch.float64).T
    for k in (None, 2, 5):
        theirs = retrieval_normalized_dcg(scores, positive.long(), top_k=k)
        ours = normalized_dcg(ranks_of(groups_of_scores(items), policy="expected"), k=k)
        assert float(ours) == pytest.approx(float(theirs), rel=1e-6)


@pytest.mark.parametrize("rule", ["interpolated_11", "interpolated_101"])
def test_an_interpolated_rule_has_no_expectation(rule):
    ranks = ranks_of([(1, 1)], policy="expected")
    with pytest.raises(ValueError, match=f"^`rule` must have an expectation under ties 'expected'; got '{rule}'.$"):
        average_precision(ranks, rule=rule)
    with pytest.raises(ValueError, match="must have an expectation under ties 'expected'; got the curve"):
        mean_precision_recall_curve(ranks)
    with pytest.raises(ValueError, match="must have an expectation under ties 'expected'; got the curve of query 0"):
        precision_recall_curve(ranks, 0)


@pytest.mark.parametrize(("before", "size"), [(0, 20_000), (100_000, 3), (1_000_000, 50), (7, 1)])
def test_sums_over_a_range_are_exact_wherever_it_lies(before, size):
    positions = torch.arange(1, before + size + 1, dtype=torch.float64)
    sums = RangeSums(torch.stack([1 / positions, positions]))
    expected = math.fsum((1 / positions[before:]).tolist())
    found = sums(torch.tensor([before]), torch.tensor([before + size]))
    assert float(found[0]) == pytest.approx(expected, rel=1e-15)
    assert float(found[1]) == size * before + size * (size + 1) // 2


@pytest.mark.parametrize(
    ("before", "size", "positives", "within"), [(0, 500, 7, 120), (30, 90, 80, 40), (5, 40, 1, 39)]
)
def test_the_law_of_the_first_and_the_last_positive_is_hypergeometric(before, size, positives, within):
    groups = Groups(*(torch.tensor([value]) for value in (before, 0, size, positives)))
    ways = math.comb(size, positives)
    first = sum(Fraction(math.comb(size - i, positives - 1), ways * (before + i)) for i in range(1, within + 1))
    last = sum(Fraction(math.comb(i - 1, positives - 1), ways * (before + i)) for i in range(1, within + 1))
    limit = torch.tensor([within])
    assert_close(expected_reciprocal(groups, limit, last=False), [float(first)])
    assert_close(expected_reciprocal(groups, limit, last=True), [float(last)])
    assert_close(chance_of_none(groups, limit), [math.comb(size - within, positives) / ways])

"""Measures of ranks: values that can be checked by hand, equality with the slow reference, and undefined values."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import (
    AP_RULES,
    EMPTY_TARGET_ACTIONS,
    PositiveRanks,
    average_precision,
    cmc_at,
    cmc_curve,
    first_rank,
    inverse_negative_penalty,
    mean_over_queries,
    rank_positives_from_scores,
)
from tests.strategies import problems


def ranks_of(*queries: tuple[int, ...]) -> PositiveRanks:
    flat = torch.tensor(sum(queries, ()), dtype=torch.int64)
    sizes = torch.tensor([len(query) for query in queries], dtype=torch.int64)
    return PositiveRanks(flat, sizes, torch.full_like(sizes, 100))


def exactly(values: torch.Tensor, expected: list[float]) -> bool:
    assert values.dtype == torch.float64
    return values.tolist() == pytest.approx([float(value) for value in expected], abs=1e-15, nan_ok=True)


@pytest.mark.parametrize(
    ("hits", "rule", "expected"),
    [
        ((1,), "rectangle", 1),
        ((1,), "trapezoid", 1),
        ((2,), "rectangle", Fraction(1, 2)),
        ((2,), "trapezoid", Fraction(1, 4)),  # (0/1 + 1/2) / 2
        ((1, 2, 10), "rectangle", (1 + 1 + Fraction(3, 10)) / 3),
        ((1, 4), "trapezoid", (1 + (Fraction(1, 3) + Fraction(2, 4)) / 2) / 2),
        ((1, 4, 5), "rectangle", (1 + Fraction(2, 4) + Fraction(3, 5)) / 3),
    ],
)
def test_average_precision_is_the_area_of_its_rule(hits, rule, expected):
    assert exactly(average_precision(ranks_of(hits), rule=rule), [expected])


def test_inverse_negative_penalty_is_the_share_of_positives_down_to_the_last():
    assert exactly(inverse_negative_penalty(ranks_of((1, 2, 10), (1, 4, 5), (7,))), [0.3, 0.6, Fraction(1, 7)])


def test_a_query_without_positives_has_no_value_in_any_measure():
    ranks = ranks_of((), (2,), ())
    measures = [average_precision(ranks, rule=rule) for rule in AP_RULES]
    measures += [inverse_negative_penalty(ranks), first_rank(ranks), cmc_at(ranks, 5)]
    for values in measures:
        assert values.isnan().tolist() == [True, False, True]


def test_no_queries_have_no_values():
    ranks = ranks_of()
    for values in (average_precision(ranks), inverse_negative_penalty(ranks), first_rank(ranks), cmc_at(ranks, 1)):
        assert values.shape == (0,)
    assert cmc_curve(ranks, 3).isnan().all()


def test_the_cmc_curve_counts_the_queries_that_found_a_positive():
    ranks = ranks_of((1, 9), (3,), (), (2, 3))
    assert exactly(cmc_curve(ranks, 4), [Fraction(1, 3), Fraction(2, 3), 1, 1])


def test_the_cmc_curve_has_its_length_whatever_the_gallery():
    ranks = rank_positives_from_scores(torch.tensor([[0.5, 0.1]]), torch.tensor([1]), torch.tensor([2, 1]))
    assert exactly(cmc_curve(ranks, 5), [0, 1, 1, 1, 1])


@pytest.mark.parametrize(("action", "expected"), [("skip", 0.75), ("neg", 0.5), ("pos", Fraction(5, 6))])
def test_an_action_decides_what_an_undefined_value_counts(action, expected):
    values = torch.tensor([0.5, math.nan, 1.0], dtype=torch.float64)
    assert exactly(mean_over_queries(values, empty_target_action=action).reshape(1), [expected])


@pytest.mark.parametrize("action", ["skip", "neg", "pos"])
def test_a_mean_of_nothing_is_nan_and_never_a_plausible_number(action):
    for values in (torch.empty(0, dtype=torch.float64), torch.full((3,), math.nan, dtype=torch.float64)):
        assert mean_over_queries(values, empty_target_action=action).isnan()
    assert cmc_curve(ranks_of((), ()), 2, empty_target_action=action).isnan().all()


def test_the_mean_refuses_undefined_values_if_told_to():
    with pytest.raises(ValueError, match="'error' allows no query without a positive; got 1 of 2"):
        mean_over_queries(torch.tensor([1.0, math.nan], dtype=torch.float64), empty_target_action="error")


@given(problems(), st.sampled_from(sorted(AP_RULES)))
def test_measures_are_those_of_the_slow_reference(problem, rule):
    expected = problem.reference()
    ranks = rank_positives_from_scores(problem.scores, *problem.labels, **problem.options)
    assert exactly(average_precision(ranks, rule=rule), expected.average_precision[rule])
    assert exactly(inverse_negative_penalty(ranks), expected.inverse_negative_penalty)
    assert exactly(first_rank(ranks), expected.first_rank)
    assert exactly(cmc_curve(ranks, 7), expected.cmc(7))


@given(problems(), st.sampled_from(["skip", "neg", "pos"]))
def test_the_curve_at_k_is_the_mean_of_the_hits_at_k(problem, action):
    ranks = rank_positives_from_scores(problem.scores, *problem.labels, **problem.options)
    means = [mean_over_queries(cmc_at(ranks, k), empty_target_action=action) for k in (1, 2, 3)]
    assert exactly(cmc_curve(ranks, 3, empty_target_action=action), [float(mean) for mean in means])


def test_measures_do_not_depend_on_the_blocks_that_they_are_computed_in(monkeypatch):
    ranks = ranks_of((1, 9), (3,), (), (2, 3, 8), (5,))
    whole = average_precision(ranks)
    split = PositiveRanks.split
    monkeypatch.setattr(PositiveRanks, "split", lambda self: split(self, 1))
    assert exactly(average_precision(ranks), whole.tolist())


def test_every_action_is_one_of_torchmetrics():
    assert set(EMPTY_TARGET_ACTIONS) == {"skip", "neg", "pos", "error"}

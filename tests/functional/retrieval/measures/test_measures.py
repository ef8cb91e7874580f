"""Average precision, INP, first rank and CMC of ranks, and means over queries: by hand and by the slow reference."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.measures.average_precision import (
    AP_NORMALIZERS,
    AP_RULES,
    average_precision,
    average_precision_at_r,
    mean_precision_recall_curve,
)
from reid_torchmetrics.functional.retrieval.measures.cutoffs import (
    CMC_MODES,
    cmc_at,
    cmc_curve,
    first_rank,
    inverse_negative_penalty,
)
from reid_torchmetrics.functional.retrieval.measures.means import (
    EMPTY_TARGET_ACTIONS,
    mean_over_identities,
    mean_over_queries,
    median_over_queries,
)
from reid_torchmetrics.functional.retrieval.ranking.positive_ranks import PositiveRanks
from reid_torchmetrics.functional.retrieval.ranking.ranks import rank_positives_from_scores
from tests.profiles import examples
from tests.reference import measures as reference
from tests.strategies import problems

NAN = math.nan


def ranks_of(*queries: tuple[int, ...]) -> PositiveRanks:
    flat = torch.tensor(sum(queries, ()), dtype=torch.int64)
    sizes = torch.tensor([len(query) for query in queries], dtype=torch.int64)
    return PositiveRanks(flat, sizes, torch.full_like(sizes, 100))


def values_of(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def exactly(values: torch.Tensor, expected: list[float], abs_tol: float = 1e-15) -> bool:
    assert values.dtype == torch.float64
    return values.tolist() == pytest.approx([float(value) for value in expected], abs=abs_tol, nan_ok=True)


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
        # Recall 1/2 at precision 1/2, recall 1 at 2/3, which is the larger one at every recall.
        ((2, 3), "interpolated_11", Fraction(2, 3)),
        # Precision 1 up to recall 1/2 (6 of 11 levels, 51 of 101), then 1/4.
        ((1, 8), "interpolated_11", (6 + Fraction(5, 4)) / 11),
        ((1, 8), "interpolated_101", (51 + Fraction(50, 4)) / 101),
        # Three of ten positives reach recall 3/10 exactly, which 0.1 * 3 in floating point misses.
        ((1, 2, 3, 20, 21, 22, 23, 24, 25, 26), "interpolated_11", (4 + 7 * Fraction(10, 26)) / 11),
    ],
)
def test_average_precision_is_the_area_of_its_rule(hits, rule, expected):
    assert exactly(average_precision(ranks_of(hits), rule=rule), [expected])


def test_without_a_cutoff_a_normalizer_counts_what_is_retrieved():
    # A hit at 1 and one at 4 of five positives: (1 + 2/4) / 5, or / 2; nothing retrieved is 0.
    ranks = PositiveRanks.from_hits([[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]], num_positives=[5, 3, 2])
    for normalizer, expected in (
        ("positives", Fraction(3, 10)),
        ("attainable", Fraction(3, 10)),
        ("hits", Fraction(3, 4)),
    ):
        assert exactly(average_precision(ranks, normalizer=normalizer), [expected, 0, 1])
    # Trapezoid: 1, and (1/3 + 2/4) / 2.
    halves = average_precision(ranks, rule="trapezoid", normalizer="hits")
    assert exactly(halves, [(1 + Fraction(5, 12)) / 2, 0, 1])


@pytest.mark.parametrize(("action", "expected"), [("skip", 0.75), ("neg", 0.5), ("pos", Fraction(5, 6))])
def test_an_action_decides_what_an_undefined_value_counts(action, expected):
    values = torch.tensor([0.5, math.nan, 1.0], dtype=torch.float64)
    assert exactly(mean_over_queries(values, empty_target_action=action).reshape(1), [expected])


@pytest.mark.parametrize("action", EMPTY_TARGET_ACTIONS)
def test_a_mean_of_no_queries_is_nan_whatever_the_action(action):
    nothing = torch.empty(0, dtype=torch.float64)
    assert mean_over_queries(nothing, empty_target_action=action).isnan()
    assert mean_over_queries(nothing, empty_target_action=action, weight=nothing).isnan()
    assert mean_over_queries(values_of(NAN), empty_target_action=action, weight=values_of(0)).isnan()
    assert mean_over_identities(nothing, torch.empty(0, dtype=torch.int64), empty_target_action=action).isnan()
    assert cmc_curve(ranks_of(), 2, empty_target_action=action).isnan().all()


WITHOUT_ANY_POSITIVE = [("skip", NAN), ("neg", 0), ("pos", 1), ("error", NAN)]


@pytest.mark.parametrize(("action", "expected"), WITHOUT_ANY_POSITIVE)
def test_queries_count_as_the_action_says_if_none_has_a_positive(action, expected):
    values, weight, identities = values_of(NAN, NAN, NAN), values_of(1, 2, 0), torch.tensor([4, 7, 4])
    assert exactly(mean_over_queries(values, empty_target_action=action)[None], [expected])
    assert exactly(mean_over_queries(values, empty_target_action=action, weight=weight)[None], [expected])
    assert exactly(mean_over_identities(values, identities, empty_target_action=action)[None], [expected])
    assert exactly(cmc_curve(ranks_of((), ()), 2, empty_target_action=action), [expected] * 2)
    assert exactly(mean_precision_recall_curve(ranks_of((), ()), 2, empty_target_action=action), [expected] * 2)


def test_weights_say_how_much_a_query_counts():
    weight = values_of(3, 1, 1)
    values = values_of(0.5, 1.0, NAN)
    assert exactly(mean_over_queries(values, weight=weight).reshape(1), [Fraction(5, 8)])
    assert exactly(mean_over_queries(values, weight=weight, empty_target_action="pos").reshape(1), [Fraction(7, 10)])
    curves = torch.stack([values, 2 * values], dim=1)
    assert exactly(mean_over_queries(curves, weight=weight), [Fraction(5, 8), Fraction(5, 4)])
    with pytest.raises(ValueError, match="'error' allows no query without a positive; got 1 of 3"):
        mean_over_queries(values, weight=weight, empty_target_action="error")


@pytest.mark.parametrize(
    ("action", "expected"), [("skip", Fraction(3, 4)), ("neg", Fraction(7, 18)), ("pos", Fraction(5, 6))]
)
def test_every_identity_counts_the_same_however_many_queries_it_has(action, expected):
    # Identity 4 has the mean 1/2, identity 7 the mean 1 or, with its empty query as 0, 2/3, identity 9 only that of
    # its empty query.
    values, identities = values_of(0, 1, 1, NAN, NAN, 1), torch.tensor([4, 7, 7, 7, 9, 4])
    assert exactly(mean_over_identities(values, identities, empty_target_action=action).reshape(1), [expected])


@pytest.mark.usefixtures("unannotated")
def test_every_query_needs_an_identity():
    with pytest.raises(ValueError, match=r"`identities` must have shape \[1\]; got \[2\]"):
        mean_over_identities(values_of(1), torch.tensor([1, 2]))


@pytest.mark.parametrize(
    ("values", "expected"), [((3, 1, 2), 2), ((4, 1, NAN, 2, 8), 3), ((5,), 5), ((NAN,), NAN), ((), NAN)]
)
def test_the_median_is_that_of_the_queries_with_a_value(values, expected):
    assert exactly(median_over_queries(values_of(*values)).reshape(1), [expected])


@examples(60)
@given(st.sampled_from(["mean", "lower", "floor"]), st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_a_median_is_the_middle_value_and_a_weight_a_number_of_queries(rule, values):
    whole = values_of(*values)
    expected = reference.median(values, rule)
    assert exactly(median_over_queries(whole, rule=rule).reshape(1), [expected])
    times = torch.arange(len(values)) % 3 + (torch.tensor(len(values)) == 1)
    repeated = whole.repeat_interleave(times)
    weighted = median_over_queries(whole, rule=rule, weight=times.double())
    assert exactly(weighted.reshape(1), [float(median_over_queries(repeated, rule=rule))])


def test_the_rule_of_a_median_is_one_of_a_table():
    with pytest.raises(ValueError, match="`rule` must be one of 'mean', 'lower', 'floor'; got 'upper'"):
        median_over_queries(values_of(1), rule="upper")


def expected_values(measure, problem) -> list[float]:
    """The reference of each query, NaN without positives."""
    evaluation = problem.reference()
    lists = zip(evaluation.ranks, evaluation.num_candidates, strict=True)
    return [float(measure(reference.certain(*entry))) if entry[0] else NAN for entry in lists]


@examples(40)
@given(problems(), st.sampled_from(sorted(AP_RULES)), st.sampled_from([None, 1, 2, 5, 50]))
def test_average_precision_is_that_of_the_slow_reference(problem, rule, k):
    ranks = rank_positives_from_scores(problem.scores, *problem.labels, **problem.options)
    normalizers = ["positives"] if isinstance(AP_RULES[rule], int) else [*AP_NORMALIZERS]
    for normalizer in normalizers if k else normalizers[:-1]:
        expected = expected_values(
            lambda groups, by=normalizer: reference.average_precision(groups, rule, k, by), problem
        )
        assert exactly(average_precision(ranks, rule=rule, k=k, normalizer=normalizer), expected)


@examples(40)
@given(problems(), st.sampled_from([None, 1, 2, 5, 50]))
def test_measures_are_those_of_the_slow_reference(problem, k):
    expected = problem.reference()
    ranks = rank_positives_from_scores(problem.scores, *problem.labels, **problem.options)
    at_r = expected_values(lambda groups: reference.average_precision_at_r(groups, k), problem)
    assert exactly(average_precision_at_r(ranks, k=k), at_r)
    assert exactly(inverse_negative_penalty(ranks), expected.inverse_negative_penalty)
    assert exactly(first_rank(ranks), expected.first_rank)
    assert exactly(cmc_curve(ranks, 7), expected.cmc(7))
    all_shots = expected_values(lambda groups: reference.all_shots_at(groups, k or 7), problem)
    assert exactly(cmc_at(ranks, k or 7, mode="all_shots"), all_shots)


@examples(30)
@given(problems(), st.sampled_from(["skip", "neg", "pos"]), st.sampled_from(sorted(CMC_MODES)))
def test_the_curve_at_k_is_the_mean_of_the_values_at_k(problem, action, mode):
    ranks = rank_positives_from_scores(problem.scores, *problem.labels, **problem.options)
    means = [mean_over_queries(cmc_at(ranks, k, mode=mode), empty_target_action=action) for k in (1, 2, 3)]
    curve = cmc_curve(ranks, 3, mode=mode, empty_target_action=action)
    assert exactly(curve, [float(mean) for mean in means], abs_tol=1e-13)  # adds up in another order


def test_measures_do_not_depend_on_the_blocks_that_they_are_computed_in(monkeypatch):
    ranks = ranks_of((1, 9), (3,), (), (2, 3, 8), (5,))
    measures = [lambda rule=rule: average_precision(ranks, rule=rule, k=8) for rule in AP_RULES]
    measures += [lambda: average_precision_at_r(ranks), lambda: cmc_curve(ranks, 5, mode="all_shots")]
    whole = [measure().tolist() for measure in measures]
    split = PositiveRanks.split
    monkeypatch.setattr(PositiveRanks, "split", lambda self, *_: split(self, 1))
    for measure, values in zip(measures, whole, strict=True):
        assert exactly(measure(), values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "rect"}, "`rule` must be one of 'rectangle', 'trapezoid', 'interpolated_11', 'interpolated_101'"),
        ({"normalizer": "all"}, "`normalizer` must be one of 'positives', 'attainable', 'hits', 'k'; got 'all'."),
        ({"k": 0}, "`k` must be at least 1; got 0."),
        ({"normalizer": "k"}, "`normalizer` 'k' must come with a cutoff `k`; got None."),
        (
            {"rule": "interpolated_11", "normalizer": "hits", "k": 5},
            "`normalizer` must be 'positives' with rule 'interpolated_11'; got 'hits'.",
        ),
    ],
)
def test_options_of_average_precision_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        average_precision(ranks_of(), **options)

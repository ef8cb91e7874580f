"""Verification over all pairs: equal to the slow reference, in tiles of any size, exact to the last count."""

import math
import threading
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import find_relevance, scores_from_matrix
from reid_torchmetrics.functional.retrieval.relevance import find_listed_relevance
from reid_torchmetrics.tasks.verification.all_pairs import PAIR_TIES, Verification, fnmr_at_fmr, verify
from tests.functional.retrieval.ranking.test_nearest import relevance_of
from tests.paths import taking
from tests.profiles import examples
from tests.reference import verification as reference
from tests.strategies import Problem, problems
from tests.tasks.verification.pairs import pairs_of, row

RATES = [0.0, 0.1, 1 / 3, 0.5, 1.0]
NAN = pytest.approx(math.nan, nan_ok=True)


def verified(problem: Problem, scores=None, **options) -> Verification:
    relevance = relevance_of(problem)
    return verify(scores_from_matrix(problem.scores if scores is None else scores, relevance, **options), relevance)


def contents(found: Verification) -> tuple:
    lists = (found.thresholds, found.num_genuine_at, found.num_impostors_at, found.num_impostors_above)
    return *(values.tolist() for values in lists), found.num_genuine, found.num_impostors


EXAMPLE = row([9, 6, 4], [8, 5, 3, 1])


def test_the_example_has_its_tar_at_far():
    found = verify(*EXAMPLE)
    assert found.tar_at_far([0.0, 0.24, 0.25, 0.5, 1.0]).tolist() == [1 / 3, 1 / 3, 2 / 3, 1, 1]
    assert found.threshold_at_far([0.0, 0.24, 0.25, 0.5, 1.0]).tolist() == [9, 9, 6, 4, 4]


@pytest.mark.parametrize(
    ("ties", "expected"), [("pessimistic", (1 / 3 + 2 / 4) / 2), ("optimistic", 1), ("grouped", 2 / 4)]
)
def test_tied_pairs_are_read_as_the_tie_policy_says(ties, expected):
    assert float(verify(*row([5, 5], [5, 5])).average_precision(ties=ties)) == pytest.approx(expected)


@examples(100)
@given(problems(), st.sampled_from([10**6, 64, 200, 1000]))
def test_counts_and_measures_are_those_of_the_slow_reference_within_any_memory(problem, max_bytes):
    genuine, impostors = pairs_of(problem)
    found = verified(problem, max_bytes=max_bytes)
    assert (found.num_genuine, found.num_impostors) == (len(genuine), len(impostors))
    assert found.thresholds.tolist() == sorted(set(genuine), reverse=True)
    if not genuine or not impostors:
        return
    assert found.tar_at_far(RATES).tolist() == [reference.tar_at_far(genuine, impostors, far) for far in RATES]
    assert float(found.equal_error_rate().rate) == reference.equal_error_rate(genuine, impostors)
    assert float(found.area_under_curve()) == reference.area_under_curve(genuine, impostors)
    for ties in PAIR_TIES:
        expected = reference.average_precision(genuine, impostors, ties)
        assert float(found.average_precision(ties=ties)) == pytest.approx(expected, abs=1e-12)
    # The corners of the curve.
    far, tar, thresholds = (values.tolist() for values in found.roc())
    sizes = len(impostors), len(genuine)
    points = [
        (Fraction(round(x * sizes[0]), sizes[0]), Fraction(round(y * sizes[1]), sizes[1]))
        for x, y in zip(far, tar, strict=True)
    ]
    assert reference.corners(points) == reference.corners(reference.roc(genuine, impostors))
    assert points == [reference.rates(genuine, impostors, threshold) for threshold in thresholds]
    # The threshold at a FAR keeps to it.
    for allowed, tar, threshold in zip(RATES, found.tar_at_far(RATES), found.threshold_at_far(RATES), strict=True):
        far_there, tar_there = reference.rates(genuine, impostors, float(threshold))
        assert float(far_there) <= allowed
        assert float(tar_there) == float(tar)


@examples(50)
@given(problems())
def test_non_match_rates_are_those_of_the_slow_reference(problem):
    genuine, impostors = pairs_of(problem)
    relevance = relevance_of(problem)
    with taking(gaps=64):  # for speed
        found = fnmr_at_fmr(scores_from_matrix(problem.scores, relevance), relevance, RATES)
    if not genuine or not impostors:
        assert found.rates.isnan().all()
        return
    expected = [reference.non_match_rate(genuine, impostors, fmr) for fmr in RATES]
    assert list(zip(found.rates.tolist(), found.thresholds.tolist(), strict=True)) == expected


@pytest.mark.parametrize(("genuine", "impostors"), [([], [1.0]), ([1.0], []), ([], [])])
def test_without_genuine_pairs_or_impostors_nothing_is_defined(genuine, impostors):
    scores = row(genuine, impostors)
    found = verify(*scores)
    assert (found.num_genuine, found.num_impostors) == (len(genuine), len(impostors))
    assert [found.tar_at_far([0.1]).tolist(), found.threshold_at_far([0.1]).tolist()] == [[NAN], [NAN]]
    assert [float(value) for value in (*found.equal_error_rate(), found.area_under_curve())] == [NAN] * 3
    assert float(found.average_precision()) == (1 if genuine else NAN)
    assert fnmr_at_fmr(*scores, [0.1]).rates.tolist() == [NAN]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_no_queries_or_no_gallery_give_no_pairs(shape):
    relevance = find_relevance(*(torch.zeros(size, dtype=torch.int64) for size in shape))
    scores = scores_from_matrix(torch.empty(shape), relevance)
    assert contents(verify(scores, relevance)) == ([], [], [], [], 0, 0)
    assert fnmr_at_fmr(scores, relevance, [0.5]).rates.tolist() == [NAN]


def test_pairs_that_a_rule_of_the_users_drops_are_neither_and_the_calling_thread_asks_it():
    threads = set()

    def is_junk(queries, items):
        threads.add(threading.get_ident())
        return queries[:, None] == items

    relevance = find_relevance(torch.arange(40) % 2, torch.arange(40) % 2, junk_pairs=is_junk)
    found = verify(scores_from_matrix(torch.eye(40), relevance, max_bytes=2000), relevance)
    assert contents(found) == ([0.0], [40 * 19], [40 * 20], [0], 40 * 19, 40 * 20)
    assert threads == {threading.get_ident()}


def test_nan_is_refused_except_in_junk():
    relevance = find_listed_relevance([torch.tensor([0])], [torch.tensor([2])], num_gallery=3)
    verify(scores_from_matrix(torch.tensor([[1, 0, torch.nan]]), relevance), relevance)
    for scores in ([torch.nan, 0, 0], [0, torch.nan, 0]):
        with pytest.raises(ValueError, match=r"`scores` must give scores that can be ordered; got NaN\."):
            verify(scores_from_matrix(torch.tensor([scores]), relevance), relevance)


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("rates", "error", "rule"),
    [
        (0.1, TypeError, "must be a tuple or list of floats; got float."),
        (["0.1"], TypeError, "must hold floats only; got '0.1'."),
        ([True], TypeError, "must hold floats only; got True."),
        ([0.5, 1.5], ValueError, "must hold shares from 0 to 1; got 1.5."),
        ([math.nan], ValueError, "must hold shares from 0 to 1; got nan."),
    ],
)
def test_bad_rates_are_refused(rates, error, rule):
    with pytest.raises(error) as raised:
        verify(*EXAMPLE).tar_at_far(rates)
    assert str(raised.value) == f"`far` {rule}"
    with pytest.raises(error) as raised:
        fnmr_at_fmr(*EXAMPLE, rates)
    assert str(raised.value) == f"`fmr` {rule}"


def test_an_unknown_tie_policy_is_refused():
    with pytest.raises(ValueError, match=r"`ties` must be one of 'pessimistic', 'optimistic', 'grouped'; got 'stable'"):
        verify(*EXAMPLE).average_precision(ties="stable")

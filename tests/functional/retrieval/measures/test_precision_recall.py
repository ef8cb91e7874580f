"""Precision-recall curves: points that can be checked by hand, the slow reference, and undefined values."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.measures.average_precision import (
    mean_precision_recall_curve,
    precision_recall_curve,
)
from reid_torchmetrics.functional.retrieval.ranking.positive_ranks import PositiveRanks, TiedGroups
from reid_torchmetrics.functional.retrieval.ranking.ranks import rank_positives_from_scores
from tests.functional.retrieval.measures.test_measures import exactly, ranks_of
from tests.profiles import examples
from tests.reference import measures as reference
from tests.strategies import problems


def test_a_curve_has_one_point_for_each_tied_group():
    # Scores .9 +, .5 + + -, .1 +: all of the middle group is read at rank 4.
    tied = TiedGroups("grouped", *map(torch.tensor, ([3], [1, 2, 1], [0, 1, 0])))
    ranks = PositiveRanks(torch.tensor([1, 3, 4, 5]), torch.tensor([4]), torch.tensor([5]), tied)
    precision, recall = precision_recall_curve(ranks, 0)
    assert exactly(precision, [1, Fraction(3, 4), Fraction(4, 5)])
    assert exactly(recall, [Fraction(1, 4), Fraction(3, 4), 1])
    # The precision at recall 1, 4/5, is larger than that at recall 3/4.
    assert exactly(mean_precision_recall_curve(ranks, 5), [1, 1, 0.8, 0.8, 0.8])


def test_the_mean_curve_reads_the_largest_precision_at_a_recall_or_above():
    # Positives at 2 and 3: 2/3 at every recall. At 1 and 8: 1 up to recall 1/2, then 1/4.
    ranks = ranks_of((2, 3), (), (1, 8))
    expected = [Fraction(5, 6), Fraction(5, 6), Fraction(11, 24)]
    assert exactly(mean_precision_recall_curve(ranks, 3), expected)
    with_empty = [value * 2 / 3 for value in expected]
    assert exactly(mean_precision_recall_curve(ranks, 3, empty_target_action="neg"), with_empty)


@examples(30)
@given(problems(), st.sampled_from([2, 5, 101]))
def test_curves_are_those_of_the_slow_reference(problem, num_points):
    evaluation = problem.reference()
    ranks = rank_positives_from_scores(problem.scores, *problem.labels, **problem.options)
    entries = list(zip(evaluation.ranks, evaluation.num_candidates, strict=True))
    curves = [reference.interpolated_precision(reference.certain(*entry), num_points) for entry in entries if entry[0]]
    expected = [sum(points) / len(curves) for points in zip(*curves, strict=True)] or [float("nan")] * num_points
    assert exactly(mean_precision_recall_curve(ranks, num_points), expected)
    for query, (places, _) in enumerate(entries):
        precision, recall = precision_recall_curve(ranks, query)
        assert exactly(precision, [Fraction(j, rank) for j, rank in enumerate(places, start=1)])
        assert exactly(recall, [Fraction(j, len(places)) for j in range(1, len(places) + 1)])


def test_nothing_to_average_is_nan_and_can_be_refused():
    assert mean_precision_recall_curve(ranks_of(), 3).isnan().all()
    assert mean_precision_recall_curve(ranks_of((), ()), 3).isnan().all()
    with pytest.raises(ValueError, match="'error' allows no query without a positive; got 1 of 2"):
        mean_precision_recall_curve(ranks_of((), (1,)), empty_target_action="error")


def test_the_number_of_a_query_and_of_points_is_checked():
    with pytest.raises(ValueError, match="`query` must be the number of one of 2 queries; got 2"):
        precision_recall_curve(ranks_of((1,), (2,)), 2)
    with pytest.raises(ValueError, match="`num_points` must be at least 2; got 1"):
        mean_precision_recall_curve(ranks_of((1,)), 1)

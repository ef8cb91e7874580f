"""Counting without a sort, as on other devices than the CPU: the ranks of the slow reference, and of the sort."""

import math
from dataclasses import replace
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import rank_positives_from_scores
from reid_torchmetrics.functional.retrieval.ranking.counting import count_by_lookup, sort_rows
from tests.functional.retrieval.ranking.test_ranks import as_lists, ranks_of
from tests.paths import taking
from tests.profiles import examples
from tests.strategies import ALL_TIES, Problem, problems

BINS = {"bins": {}, "one set of bins": {"bins_of_row": 0}, "bins of a few scores at a time": {"looked_up_scores": 7}}
WAYS = {way: {"few_on_device": -1, **options} for way, options in BINS.items()} | {"sorted keys": {"few_on_device": 1}}


def looked_up(problem: Problem, way: str, **options):
    with mock.patch.object(torch.Tensor, "is_cpu", new=False), taking(**WAYS[way]):
        return ranks_of(problem, **options)


@pytest.mark.parametrize("way", BINS)
def test_long_rows_are_counted_as_one_by_one(way):
    scores = torch.randint(9, (5, 700)).float()
    thresholds = torch.tensor([[7.0, 4.0, 4.0, 1.0]]).expand(5, -1)
    with taking(**BINS[way]):
        found = count_by_lookup(scores, thresholds, or_tied=(True, False))
    above = [compare(scores[:, :, None], thresholds[:, None]).sum(1).tolist() for compare in (torch.ge, torch.gt)]
    assert found.tolist() == above


@pytest.mark.parametrize("way", WAYS)
@examples(50)
@given(problem=problems(ties=ALL_TIES), max_bytes=st.sampled_from([64, 10**6]))
def test_ranks_are_those_of_the_slow_reference(way, problem, max_bytes):
    expected = problem.reference()
    found = as_lists(looked_up(problem, way, max_bytes=max_bytes))
    assert found == (expected.ranks, expected.num_candidates, expected.tied)


@pytest.mark.parametrize("way", WAYS)
@examples(30)
@given(problem=problems(ties=ALL_TIES), infinite=st.sampled_from([-math.inf, math.inf]))
def test_infinite_scores_are_ranked_as_after_a_sort(way, problem, infinite):
    problem = replace(problem, scores=problem.scores.masked_fill(problem.scores == 1, infinite))
    assert as_lists(looked_up(problem, way)) == as_lists(ranks_of(problem))


def test_rows_are_sorted_each_by_itself():
    with mock.patch.object(torch.Tensor, "is_cpu", new=False):
        found = sort_rows(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), argument="scores")
    assert found.tolist() == [[1, 2], [0, 3]]


def test_a_score_that_is_nan_is_refused():
    scores = torch.tensor([[0.5, math.nan, 0.25]])
    labels = torch.tensor([1]), torch.tensor([1, 2, 2])
    with mock.patch.object(torch.Tensor, "is_cpu", new=False):
        with pytest.raises(ValueError, match="`scores` must give scores that can be ordered; got NaN"):
            rank_positives_from_scores(scores, *labels)

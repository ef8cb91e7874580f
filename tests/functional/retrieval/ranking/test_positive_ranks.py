"""Ranks that did not come from the engine: made by hand, and of lists that are ranked already."""

import math
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.retrieval import (
    PositiveRanks,
    average_precision,
    average_precision_at_r,
    cmc_at,
    cmc_curve,
    first_rank,
    hit_rate_at,
    inverse_negative_penalty,
    mean_precision_recall_curve,
    normalized_dcg,
    precision_at,
    precision_recall_curve,
    r_precision,
    rank_positives_from_scores,
    recall_at,
    reciprocal_rank,
)
from reid_torchmetrics.functional.retrieval.measures import AP_RULES
from reid_torchmetrics.functional.retrieval.ranking import TiedGroups, positive_ranks
from tests.profiles import examples
from tests.strategies import ALL_TIES, problems

FRUIT = [1, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    "hits",
    [
        torch.tensor([FRUIT]),
        torch.tensor([FRUIT], dtype=torch.bool),
        torch.tensor([FRUIT], dtype=torch.uint8),
        np.array([FRUIT]),
        np.array([FRUIT], dtype=bool),
        [FRUIT],
        (FRUIT,),
        [torch.tensor(FRUIT)],
        [[bool(hit) for hit in FRUIT]],
        [np.array(FRUIT, dtype=bool)],
    ],
)
def test_the_worked_example_of_every_text_is_a_list_of_hits(hits):
    ranks = PositiveRanks.from_hits(hits)
    assert (ranks.rank.tolist(), ranks.num_positives.tolist(), ranks.num_candidates.tolist()) == ([1, 3, 6], [3], [6])
    assert float(average_precision(ranks)) == pytest.approx((1 / 1 + 2 / 3 + 3 / 6) / 3)


def test_lists_may_be_of_unequal_lengths_and_hold_no_hit_or_nothing():
    ranks = PositiveRanks.from_hits([[0, 1], [], [0, 0, 0], [1]])
    assert (ranks.rank.tolist(), ranks.num_positives.tolist()) == ([2, 1], [1, 0, 0, 1])
    assert ranks.num_candidates.tolist() == [2, 0, 3, 1]
    assert average_precision(ranks).tolist() == pytest.approx([1 / 2, math.nan, math.nan, 1], nan_ok=True)
    nobody = PositiveRanks.from_hits([], num_positives=[])
    assert (nobody.num_queries, len(nobody.rank)) == (0, 0)


@examples(40)
@given(problems(ties=("stable",)))
def test_hits_in_the_order_of_scores_have_the_ranks_of_the_engine(problem):
    ranks = rank_positives_from_scores(problem.scores, *problem.labels, **problem.options)
    hits, done = [], 0
    for size, length in zip(ranks.num_positives.tolist(), ranks.num_candidates.tolist(), strict=True):
        hits.append(torch.zeros(length, dtype=torch.bool))
        hits[-1][ranks.rank[done : done + size] - 1] = True
        done += size
    again = PositiveRanks.from_hits(hits)
    assert all(map(torch.equal, vars_of(again), vars_of(ranks)))


def vars_of(ranks: PositiveRanks) -> list[Tensor]:
    return [ranks.rank, ranks.num_positives, ranks.num_candidates]


lists_of_hits = st.lists(st.lists(st.booleans(), min_size=6, max_size=9), min_size=1, max_size=4)


@examples(25)
@given(lists_of_hits, st.integers(1, 5))
def test_a_list_that_is_cut_off_has_the_numbers_of_the_whole_up_to_there(hits, length):
    whole = PositiveRanks.from_hits(hits)
    cut = PositiveRanks.from_hits([row[:length] for row in hits], whole.num_positives)

    def agree(measure, expected=None):
        values = (expected or measure)(whole)
        assert torch.allclose(measure(cut), values, rtol=1e-12, atol=0, equal_nan=True)

    for rule in AP_RULES:
        agree(
            lambda ranks, rule=rule: average_precision(ranks, rule=rule),
            lambda ranks, rule=rule: average_precision(ranks, rule=rule, k=length),
        )
    agree(lambda ranks: normalized_dcg(ranks, k=length))
    agree(reciprocal_rank, lambda ranks: reciprocal_rank(ranks, k=length))
    for k in range(1, length + 1):
        agree(lambda ranks, k=k: cmc_curve(ranks, k))
        for measure in (precision_at, recall_at, hit_rate_at):
            agree(lambda ranks, k=k, measure=measure: measure(ranks, k))
        agree(lambda ranks, k=k: average_precision_at_r(ranks, k=k))
        agree(lambda ranks, k=k: r_precision(ranks, k=k))


@examples(40)
@given(problems(ties=ALL_TIES))
def test_ranks_of_the_engine_pass_the_checks_for_ranks_of_users(problem):
    ranks = rank_positives_from_scores(problem.scores, *problem.labels, **problem.options)
    again = PositiveRanks(ranks.rank, ranks.num_positives, ranks.num_candidates, ranks.tied)
    assert torch.equal(average_precision(again), average_precision(ranks)) or average_precision(ranks).isnan().any()


@pytest.mark.parametrize(
    ("rank", "groups", "positives", "negatives", "message"),
    [
        ([1, 2], [1], [3], [0], "`tied` must have groups of all positives; got 3 of 2 for query 0"),
        ([1, 2], [1], [1], [0], "`tied` must have groups of all positives; got 1 of 2 for query 0"),
        ([1, 2], [2], [2, 0], [0, 0], "`tied` must have groups with a positive; got 0 for group 1"),
        ([1, 2], [1], [2], [-1], "`tied` must have at least 0 negatives; got -1 for group 0"),
        ([1, 3], [1], [2], [0], "got another for positive 1"),  # ranks of a group follow each other
        ([1, 2], [1], [2], [1], "got another for positive 0"),  # its negative is before rank 1
        ([1, 2], [2], [1, 1], [0, 1], "got another for positive 1"),  # a negative and a positive are before rank 2
    ],
)
def test_groups_that_do_not_hold_their_positives_are_refused(rank, groups, positives, negatives, message):
    rank, *tied = map(torch.tensor, (rank, groups, positives, negatives))
    number = torch.tensor([len(rank)])
    with pytest.raises(ValueError, match=message):
        PositiveRanks(rank, number, torch.tensor([4]), TiedGroups("grouped", *tied))


def test_ranks_of_different_tie_policies_do_not_append():
    scores, identity = torch.tensor([[0.5, 0.5]]), torch.tensor([0])
    blocks = [
        rank_positives_from_scores(scores, identity, torch.tensor([0, 1]), ties=ties) for ties in ("grouped", "stable")
    ]
    with pytest.raises(ValueError, match="`blocks` must all have the same tie policy; got 'grouped', None"):
        PositiveRanks.concatenate(blocks)


def test_ranks_of_the_engine_are_not_looked_through_again():
    scores, identities = torch.rand(4, 9), torch.arange(9) % 4
    with mock.patch.object(positive_ranks, "_refuse") as look:
        ranks = rank_positives_from_scores(scores, identities[:4], identities)
        average_precision(PositiveRanks.concatenate(list(ranks.split(1))))
        precision_recall_curve(PositiveRanks.from_hits([FRUIT]), 0)
        assert not look.called
        PositiveRanks(ranks.rank, ranks.num_positives, ranks.num_candidates)
        assert look.called


MEASURES = {
    "average precision": average_precision,
    "interpolated": lambda ranks: average_precision(ranks, rule="interpolated_11"),
    "MAP@R": average_precision_at_r,
    "R-precision": r_precision,
    "reciprocal rank": reciprocal_rank,
    "nDCG": normalized_dcg,
    "INP": inverse_negative_penalty,
    "first rank": first_rank,
    "precision": lambda ranks: precision_at(ranks, 1),
    "recall": lambda ranks: recall_at(ranks, 1),
    "hit rate": lambda ranks: hit_rate_at(ranks, 1),
    "CMC": lambda ranks: cmc_at(ranks, 1),
    "all shots": lambda ranks: cmc_at(ranks, 1, mode="all_shots"),
    "curve": lambda ranks: cmc_curve(ranks, 1),
    "precision and recall": lambda ranks: precision_recall_curve(ranks, 0),
    "mean precision and recall": mean_precision_recall_curve,
}


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_that_is_given_hits_says_how_they_become_ranks(name):
    hits = torch.tensor([FRUIT], dtype=torch.bool)
    with pytest.raises(TypeError) as raised:
        MEASURES[name](hits)
    assert str(raised.value) == (
        "`ranks` must be `PositiveRanks`, which `PositiveRanks.from_hits` makes of ranked lists of hits and"
        " `rank_positives` of embeddings; got torch.bool of shape [1, 6]."
    )

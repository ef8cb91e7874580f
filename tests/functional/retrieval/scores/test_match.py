"""Scores and relevance that do not belong together are refused, and learned similarities are not."""

import pytest
import torch

from reid_torchmetrics.functional.retrieval import (
    GalleryDraw,
    find_relevance,
    mean_over_queries,
    score_embeddings,
    scores_from_matrix,
)
from reid_torchmetrics.functional.retrieval.ranking import count_ranks, nearest
from reid_torchmetrics.tasks import fnmr_at_fmr, verify
from reid_torchmetrics.tasks.comparison import bootstrap_interval
from reid_torchmetrics.tasks.draws import expect_draws
from tests.closeness import assert_close

QUERY, GALLERY = torch.randn(4, 3), torch.randn(12, 3)
LABELS = torch.arange(4), torch.arange(12) % 5
ALL, FEWER = find_relevance(*LABELS), find_relevance(*LABELS, junk_identities=(0,))
DRAW = GalleryDraw(1)

CALLS = {
    "count_ranks": lambda scores: count_ranks(scores, ALL, ties="stable"),
    "verify": lambda scores: verify(scores, ALL),
    "fnmr_at_fmr": lambda scores: fnmr_at_fmr(scores, ALL, [0.1]),
    "nearest": lambda scores: nearest(scores, ALL, 2),
    "expect_draws": lambda scores: expect_draws(scores, ALL, DRAW),
}


@pytest.mark.parametrize("name", CALLS)
def test_scores_that_were_made_for_another_relevance_are_refused(name):
    with pytest.raises(ValueError, match=r"^`scores` must be made for the same `relevance`; got 4 x 9 scores for 4 "):
        CALLS[name](score_embeddings(QUERY, GALLERY, FEWER))


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize("wrong", [None, 1.5, "market1501", torch.eye(4, 12)])
def test_a_relevance_of_another_type_is_refused_by_its_name(wrong):
    message = rf"^`relevance` must be what `find_relevance` returns; got {type(wrong).__name__}\.$"
    with pytest.raises(TypeError, match=message):
        score_embeddings(QUERY, GALLERY, wrong)
    with pytest.raises(TypeError, match=message):
        scores_from_matrix(torch.zeros(4, 12), wrong)


@pytest.mark.parametrize("name", CALLS)
def test_a_similarity_may_have_weights_that_are_learned(name):
    layer = torch.nn.Linear(3, 2)
    CALLS[name](score_embeddings(QUERY, GALLERY, ALL, similarity=lambda query, items: layer(query) @ layer(items).T))


def test_weights_of_any_dtype_are_taken_and_wrong_ones_are_named():
    values = torch.tensor([0.2, 0.4], dtype=torch.float64)
    assert float(mean_over_queries(values, weight=torch.tensor([1, 3]))) == pytest.approx(0.35)
    for wrong, message in (
        (torch.ones(3), "`weight` must have shape [2]; got [3]."),
        (torch.tensor([1.0, -1.0]), "`weight` must be finite and at least 0; got -1.0 to 1.0."),
    ):
        with pytest.raises(ValueError, match="`weight`") as raised:
            mean_over_queries(values, weight=wrong)
        assert str(raised.value) == message


def test_a_query_that_counts_nothing_is_not_drawn():
    values = torch.tensor([0.2, 0.4], dtype=torch.float64)
    interval = bootstrap_interval(values, generator=torch.Generator(), weight=torch.tensor([1.0, 0.0]))
    assert (float(interval.low), float(interval.high)) == pytest.approx((0.2, 0.2))


@pytest.mark.slow
def test_many_rates_are_found_exactly_with_little_memory():
    relevance = find_relevance(torch.zeros(20).long(), torch.arange(200) % 3)
    scores = torch.randn(20, 200, generator=torch.Generator().manual_seed(0))
    rates = [place / 100 for place in range(1, 100)]
    found = fnmr_at_fmr(scores_from_matrix(scores, relevance), relevance, rates)
    impostors = -scores[:, torch.arange(200) % 3 > 0].flatten().double()
    expected = impostors.quantile(torch.tensor(rates, dtype=torch.float64))
    assert_close(-found.thresholds, expected, atol=1e-12)

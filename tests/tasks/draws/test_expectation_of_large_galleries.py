"""Expectations where sums over all draws cannot be written out: laws of sums of events and of drawn items."""

import math
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.evaluation import GalleryDraw
from reid_torchmetrics.functional.retrieval.relevance.from_labels import find_relevance
from reid_torchmetrics.functional.retrieval.scores.scores import scores_from_matrix
from reid_torchmetrics.tasks.draws import drawn_galleries
from reid_torchmetrics.tasks.draws.drawn_galleries import expect_draws
from reid_torchmetrics.tasks.draws.hypergeometric import (
    Hypergeometric,
    largest_mean,
    poisson_binomial_cdf,
    quadrature_nodes,
)
from tests.profiles import examples
from tests.tasks.draws.drawn_problems import assert_same, large


def convolved(chances: np.ndarray) -> np.ndarray:
    law = np.ones(1)
    for chance in chances:
        law = np.append(law, 0) * (1 - chance) + np.append(0, law) * chance
    return law


@pytest.mark.parametrize("noise", [0.3, 1.0, 5.0])
def test_a_wide_gallery_agrees_with_plain_convolution(noise):
    scores, labels = large(noise=noise)
    relevance = find_relevance(labels[:40], labels, self_index=torch.arange(40))
    found = expect_draws(scores_from_matrix(scores, relevance), relevance, GalleryDraw(1), max_rank=50)
    for q in range(0, 40, 7):
        curve, precision = np.zeros(50), 0.0
        positives = [p for p in range(len(labels)) if labels[p] == labels[q] and p != q]
        for p in positives:
            ahead = (scores[q] >= scores[q, p]) & (labels != labels[q])
            law = convolved(np.bincount(labels[ahead].numpy(), minlength=300) / 4)
            curve += law[:50].cumsum() / len(positives)
            precision += (law / np.arange(1, len(law) + 1)).sum() / len(positives)
        assert np.abs(found.cmc[q].numpy() - curve).max() < 1e-12
        assert abs(float(found.average_precision[q]) - precision) < 1e-12


@pytest.mark.parametrize("draw", [GalleryDraw(1), GalleryDraw(3, "identity_and_camera"), GalleryDraw(None)])
def test_positives_that_are_left_out_add_nothing(draw):
    scores, labels = large(noise=1.0)
    relevance = find_relevance(labels[:40], labels, torch.zeros(40).long(), torch.arange(1200) % 3)
    found = expect_draws(scores_from_matrix(scores, relevance), relevance, draw, max_rank=5, with_precision=False).cmc
    with mock.patch.object(drawn_galleries, "largest_mean", return_value=math.inf):
        everything = expect_draws(scores_from_matrix(scores, relevance), relevance, draw, max_rank=5).cmc
    assert_same(found, everything, 1e-15)


@examples(60)
@given(st.lists(st.floats(0, 1), max_size=30), st.integers(0, 40), st.integers(1, 6))
def test_integrals_and_tails_of_sums_of_events_are_exact(chances, repeats, size):
    chances = np.array(chances * repeats)
    law = convolved(chances)
    tails = np.append(law, np.zeros(size))[:size].cumsum()
    found = poisson_binomial_cdf(torch.from_numpy(chances), torch.tensor([len(chances)]), size)
    assert np.abs(found[0].numpy() - tails).max() < 1e-12
    nodes, weights = quadrature_nodes(0.0, chances.sum())
    integral = (weights * np.prod(1 - chances[:, None] * nodes, axis=0)).sum()
    assert abs(integral - (law / np.arange(1, len(law) + 1)).sum()) < 1e-13


@examples(60)
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=30), st.integers(1, 40), st.floats(0, 1))
def test_panels_that_are_left_out_add_nothing(chances, repeats, share):
    chances = np.array(chances * repeats)
    (nodes, weights), (fewer, their_weights) = (
        quadrature_nodes(0.0, chances.sum()),
        quadrature_nodes(share * chances.sum(), chances.sum()),
    )
    integrals = [
        (of * np.prod(1 - chances[:, None] * at, axis=0)).sum() for at, of in ((nodes, weights), (fewer, their_weights))
    ]
    assert len(fewer) <= len(nodes)
    assert integrals[1] == pytest.approx(integrals[0], rel=0, abs=1e-16)


@pytest.mark.parametrize("count", [0, 1, 9, 49])
def test_a_larger_mean_makes_a_small_sum_negligible(count):
    # 2000 equal chances: of all laws with this mean nearly the one with the heaviest lower tail, that of Poisson.
    tail = poisson_binomial_cdf(torch.full((2000,), largest_mean(count) / 2000), torch.tensor([2000]), count + 1)[0, -1]
    assert 1e-21 < float(tail) < 1e-17
    assert largest_mean(count) < largest_mean(count + 1)


@examples(60)
@given(st.integers(1, 80), st.data())
def test_the_law_of_drawn_items_is_hypergeometric(available, data):
    marked, drawn = data.draw(st.integers(0, available)), data.draw(st.integers(0, available))
    counts = range(min(marked, drawn) + 1)
    ways = [math.comb(marked, t) * math.comb(available - marked, drawn - t) for t in counts]
    law = Hypergeometric(*(torch.tensor([number]) for number in (available, marked, drawn)))
    x = torch.tensor([1e-3, 0.5, 1 - 1e-9], dtype=torch.float64)
    total = math.comb(available, drawn)
    expected = [sum(way * value**t for t, way in enumerate(ways)) / total for value in x.tolist()]
    slopes = [sum(t * way * value**t for t, way in enumerate(ways)) / total for value in x.tolist()]
    assert float(law.chance_of_none()) == pytest.approx(ways[0] / total, abs=1e-13)
    assert law.value_and_slope(x.log())[0][0].tolist() == pytest.approx(expected, abs=1e-13)
    assert law.value_and_slope(x.log())[1][0].tolist() == pytest.approx(slopes, abs=1e-12)
    assert law.log_value(x.log())[0].exp().tolist() == pytest.approx(expected, abs=1e-13)


def test_a_stratum_of_which_an_item_is_surely_drawn_is_counted_like_others():
    """Of 200 items of one identity, 100 of them ahead, 60 are drawn: none of the 100 with a chance of 2e-24."""
    identities = torch.tensor([1] + [2] * 200)
    relevance = find_relevance(torch.tensor([1]), identities)
    scores = scores_from_matrix(torch.tensor([[0.5] + [0.9] * 100 + [0.1] * 100]), relevance)
    found = expect_draws(scores, relevance, GalleryDraw(60), max_rank=1)
    ways = [math.comb(100, t) * math.comb(100, 60 - t) for t in range(61)]
    expected = sum(way / (1 + t) for t, way in enumerate(ways)) / math.comb(200, 60)
    assert float(found.average_precision) == pytest.approx(expected, abs=1e-13)


def test_a_positive_that_is_too_far_down_for_the_cmc_has_a_precision():
    relevance = find_relevance(torch.tensor([0]), torch.arange(61))
    scores = scores_from_matrix(torch.tensor([[0.1] + [0.9] * 60]), relevance)
    found = expect_draws(scores, relevance, GalleryDraw(1), ties="stable", max_rank=1)
    assert float(found.average_precision) == pytest.approx(1 / 61)
    assert float(found.cmc) == 0

"""All pairs in tiles of bounded memory, and exact order statistics of the impostors among them."""

import math
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import find_relevance, given_scores, score_embeddings
from reid_torchmetrics.functional.retrieval.verification.scored_pairs import ScoredPairs, impostor_scores_at
from reid_torchmetrics.functional.retrieval.verification.verify import fnmr_at_fmr, verify
from tests.functional.retrieval.verification.pairs import row
from tests.paths import path, taking


@pytest.mark.parametrize("max_bytes", [1000, 5000, 40000])
def test_no_more_scores_are_held_than_the_memory_bound_allows(max_bytes):
    identities = torch.arange(300) % 40
    relevance = find_relevance(identities[:50], identities)
    scores = given_scores(torch.randn(50, 300), relevance, max_bytes=max_bytes)
    fills = mock.patch.object(scores, "fill", wraps=scores.fill)
    with fills as fill, taking(gaps=1 << 10):
        verify(scores, relevance)
        fnmr_at_fmr(scores, relevance, [0.5])
    sizes = [call.args[0].numel() * 4 for call in fill.call_args_list]
    assert sum(sizes) >= 2 * 4 * 50 * 300
    assert max(sizes) <= max_bytes


def test_many_pairs_are_counted_as_sorting_counts_them():
    identities = torch.arange(2000) % 150
    scores = (identities[:200, None] == identities).float() + torch.randn(200, 2000)
    relevance = find_relevance(identities[:200], identities)
    is_genuine = identities[:200, None] == identities
    genuine, impostors = scores[is_genuine].sort().values, scores[~is_genuine].sort().values
    found = verify(given_scores(scores, relevance, max_bytes=10**5), relevance)
    assert torch.equal(found.num_impostors_at, len(impostors) - torch.searchsorted(impostors, found.thresholds))
    rates, thresholds = fnmr_at_fmr(given_scores(scores, relevance), relevance, [0.001, 0.01, 0.1])
    expected = -torch.quantile(-impostors.double(), torch.tensor([0.001, 0.01, 0.1], dtype=torch.float64))
    torch.testing.assert_close(thresholds, expected, rtol=1e-12, atol=0)
    assert rates.tolist() == [float((genuine <= limit).double().mean()) for limit in thresholds]


SMALLEST = 2.0**-149  # float32
floats = st.floats(allow_nan=False, width=32) | st.sampled_from([0.0, -0.0, SMALLEST, -SMALLEST, math.inf, -math.inf])


@given(st.lists(floats, min_size=1, max_size=12), st.sampled_from([torch.float32, torch.float64]), st.data())
def test_any_order_statistic_of_the_impostors_is_found(impostors, dtype, data):
    ranks = data.draw(st.lists(st.integers(1, len(impostors)), min_size=1, max_size=4))
    with mock.patch.object(*path("gaps"), data.draw(st.sampled_from([4, 1 << 10]))):
        found = impostor_scores_at(ScoredPairs(*row([], impostors, dtype)), ranks)
    assert found.tolist() == [sorted(impostors, reverse=True)[rank - 1] for rank in ranks]


@pytest.mark.parametrize(("dtype", "num_passes"), [(torch.float32, 2), (torch.float64, 4)])
def test_an_order_statistic_takes_few_passes(dtype, num_passes):
    pairs = ScoredPairs(*row([], [0.1, -0.3, 1e30], dtype))
    with mock.patch.object(pairs, "count_impostors", wraps=pairs.count_impostors) as count:
        impostor_scores_at(pairs, [1, 2, 3])
    assert count.call_count == num_passes


@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("max_bytes", [200, 10**6])
@pytest.mark.slow
def test_euclidean_scores_are_distances_that_can_be_compared_between_queries(offset, max_bytes):
    query, gallery = torch.randint(-3, 4, (9, 5)) + offset, torch.randint(-3, 4, (30, 5)) + offset
    relevance = find_relevance(torch.arange(9) % 4, torch.arange(30) % 4)
    scores = score_embeddings(query.float(), gallery.float(), relevance, similarity="euclidean", max_bytes=max_bytes)
    squared = (query[:, None] - gallery).square().sum(-1).double()
    found, expected = verify(scores, relevance), verify(given_scores(-squared.sqrt(), relevance), relevance)
    torch.testing.assert_close(found.thresholds.double(), expected.thresholds)
    for name in ("num_genuine_at", "num_impostors_at", "num_impostors_above"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    rates = [0.0, 0.1, 1 / 3, 0.5, 1.0]
    expected_rates = fnmr_at_fmr(given_scores(-squared.sqrt(), relevance), relevance, rates)
    torch.testing.assert_close(fnmr_at_fmr(scores, relevance, rates), expected_rates)


@pytest.mark.parametrize("similarity", ["cosine", "dot", lambda query, gallery: query @ gallery.T])
def test_other_similarities_are_compared_as_they_are(similarity):
    query, gallery = torch.randn(7, 4).double(), torch.randn(20, 4).double()
    relevance = find_relevance(torch.arange(7) % 3, torch.arange(20) % 3)
    if similarity == "cosine":
        query, gallery = (3 * rows / rows.norm(dim=1, keepdim=True) for rows in (query, gallery))
    expected = query @ gallery.T / (9 if similarity == "cosine" else 1)
    found = verify(score_embeddings(query, gallery, relevance, similarity=similarity), relevance)
    torch.testing.assert_close(
        found.thresholds, expected[torch.arange(7)[:, None] % 3 == torch.arange(20) % 3].sort(descending=True).values
    )


def test_an_item_is_never_at_a_negative_distance_from_itself():
    rows = torch.randn(50, 16) * 10
    relevance = find_relevance(torch.arange(50), torch.arange(50))
    thresholds = verify(score_embeddings(rows, rows, relevance, similarity="euclidean"), relevance).thresholds
    assert ((thresholds <= 0) & (thresholds > -0.1)).all()

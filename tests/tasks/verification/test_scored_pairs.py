"""All pairs in tiles of bounded memory, and exact order statistics of the impostors among them."""

import math
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import find_relevance, score_embeddings, scores_from_matrix
from reid_torchmetrics.tasks.verification.all_pairs import fnmr_at_fmr, verify
from reid_torchmetrics.tasks.verification.scored_pairs import ScoredPairs, impostor_scores_at
from tests.closeness import assert_close
from tests.paths import path, taking
from tests.profiles import examples
from tests.tasks.verification.pairs import row


@pytest.mark.parametrize("max_bytes", [1000, 6000])
def test_no_more_scores_are_held_than_the_memory_bound_allows(max_bytes):
    identities = torch.arange(150) % 40
    relevance = find_relevance(identities[:20], identities)
    scores = scores_from_matrix(torch.randn(20, 150), relevance, max_bytes=max_bytes)
    fills = mock.patch.object(scores, "fill", wraps=scores.fill)
    with fills as fill, taking(gaps=1 << 10):
        verify(scores, relevance)
        fnmr_at_fmr(scores, relevance, [0.5])
    sizes = [call.args[0].numel() * 4 for call in fill.call_args_list]
    assert sum(sizes) >= 2 * 4 * 20 * 150
    assert max(sizes) <= max_bytes


def test_many_pairs_are_counted_as_sorting_counts_them():
    identities = torch.arange(600) % 75
    is_genuine = identities[:100, None] == identities
    scores = is_genuine.float() + torch.randn(100, 600)
    relevance = find_relevance(identities[:100], identities)
    genuine, impostors = scores[is_genuine].sort().values, scores[~is_genuine].sort().values
    found = verify(scores_from_matrix(scores, relevance, max_bytes=30_000), relevance)
    assert torch.equal(found.num_impostors_at, len(impostors) - torch.searchsorted(impostors, found.thresholds))
    with taking(gaps=1 << 11):
        rates, thresholds = fnmr_at_fmr(scores_from_matrix(scores, relevance), relevance, [0.001, 0.01, 0.1])
    expected = -torch.quantile(-impostors.double(), torch.tensor([0.001, 0.01, 0.1], dtype=torch.float64))
    assert_close(thresholds, expected, rtol=1e-12)
    assert rates.tolist() == [float((genuine <= limit).double().mean()) for limit in thresholds]


SMALLEST = 2.0**-149  # float32
floats = st.floats(allow_nan=False, width=32) | st.sampled_from([0.0, -0.0, SMALLEST, -SMALLEST, math.inf, -math.inf])


@examples(60)
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


@pytest.mark.parametrize(("offset", "max_bytes"), [(0, 200), (1000, 10**6)])
def test_euclidean_scores_are_distances_that_can_be_compared_between_queries(offset, max_bytes):
    query, gallery = torch.randint(-3, 4, (6, 5)) + offset, torch.randint(-3, 4, (15, 5)) + offset
    relevance = find_relevance(torch.arange(6) % 4, torch.arange(15) % 4)
    scores = score_embeddings(query.float(), gallery.float(), relevance, similarity="euclidean", max_bytes=max_bytes)
    squared = (query[:, None] - gallery).square().sum(-1).double()
    found, expected = verify(scores, relevance), verify(scores_from_matrix(-squared.sqrt(), relevance), relevance)
    assert_close(found.thresholds.double(), expected.thresholds, rtol=1e-7, atol=1e-7)
    for name in ("num_genuine_at", "num_impostors_at", "num_impostors_above"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    with taking(gaps=1 << 8):
        expected_rates = fnmr_at_fmr(scores_from_matrix(-squared.sqrt(), relevance), relevance, [0.0, 1 / 3])
        for one, other in zip(fnmr_at_fmr(scores, relevance, [0.0, 1 / 3]), expected_rates, strict=True):
            assert_close(one, other, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("similarity", ["cosine", "dot", lambda query, gallery: query @ gallery.T])
def test_other_similarities_are_compared_as_they_are(similarity):
    query, gallery = torch.randn(7, 4).double(), torch.randn(20, 4).double()
    relevance = find_relevance(torch.arange(7) % 3, torch.arange(20) % 3)
    if similarity == "cosine":
        query, gallery = (3 * rows / rows.norm(dim=1, keepdim=True) for rows in (query, gallery))
    expected = query @ gallery.T / (9 if similarity == "cosine" else 1)
    found = verify(score_embeddings(query, gallery, relevance, similarity=similarity), relevance)
    expected = expected[torch.arange(7)[:, None] % 3 == torch.arange(20) % 3].sort(descending=True).values
    assert_close(found.thresholds, expected, rtol=1e-7, atol=1e-7)


def test_an_item_is_never_at_a_negative_distance_from_itself():
    rows = torch.randn(50, 16) * 10
    relevance = find_relevance(torch.arange(50), torch.arange(50))
    thresholds = verify(score_embeddings(rows, rows, relevance, similarity="euclidean"), relevance).thresholds
    assert ((thresholds <= 0) & (thresholds > -0.1)).all()

"""Verification within one set multiplies each pair once, and looks up the scores of few genuine pairs."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import find_relevance, score_embeddings, scores_from_matrix
from reid_torchmetrics.functional.retrieval.scores import SymmetricScores
from reid_torchmetrics.functional.retrieval.verification import scored_pairs, symmetric_pairs
from reid_torchmetrics.functional.retrieval.verification.scored_pairs import score_histogram
from reid_torchmetrics.functional.retrieval.verification.verify import fnmr_at_fmr, verify
from tests.profiles import examples

FIELDS = ("thresholds", "num_genuine_at", "num_impostors_at", "num_impostors_above")
SMALL = {"_MOST_ITEMS": 48, "_FEWEST_BLOCKS": 2, "FEWEST_DIMENSIONS": 1}


def problem_of(*, seed, num_items=200, dimension=8, num_identities=40, is_whole=False, **options):
    """Embeddings, and relevance of each against all others."""
    rng = np.random.default_rng(seed)
    identities = rng.integers(0, num_identities, num_items)
    values = rng.normal(size=(num_items, dimension))
    values = np.round(2 * values) if is_whole else values
    cameras = rng.integers(0, 3, num_items)
    relevance = find_relevance(
        identities, identities, cameras, cameras, self_index=np.arange(num_items), junk_identities=(), **options
    )
    return torch.tensor(values, dtype=torch.float32), relevance


def verified(problem, *, similarity, max_bytes=None, is_symmetric, looks_up):
    """The verification, by each road, and whether products served both directions."""
    embeddings, relevance = problem
    made = []

    def find(scores, some):
        made.append(symmetric_pairs.find_symmetric_pairs(scores, some) if is_symmetric else None)
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scored_pairs, "find_symmetric_pairs", find)
        if not looks_up:
            patch.setattr(scored_pairs, "_FEW_LISTED", -1.0)
        scores = score_embeddings(embeddings, embeddings, relevance, similarity=similarity, max_bytes=max_bytes)
        found = verify(scores, relevance)
    return [getattr(found, name).tolist() for name in FIELDS], made[0] is not None


CASES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "num_items": st.integers(2, 200),
        "dimension": st.sampled_from([1, 8, 64, 400]),
        "num_identities": st.sampled_from([1, 10, 60]),
        "is_whole": st.booleans(),
        "same_camera": st.sampled_from(["same_identity", "keep", "all"]),
    }
)


@examples(30)
@given(
    CASES,
    st.sampled_from(["cosine", "euclidean", "dot"]),
    st.sampled_from([None, 1 << 18, 1 << 22]),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([1, 2]),
)
def test_the_road_changes_no_count(case, similarity, max_bytes, dtype, num_threads):
    embeddings, relevance = problem_of(**case)
    problem = embeddings.to(dtype), relevance
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in SMALL.items():
                patch.setattr(symmetric_pairs, name, value)
            patch.setattr(scored_pairs, "_FEW_LISTED", 1.0)
            options = {"similarity": similarity, "max_bytes": max_bytes}
            expected, _ = verified(problem, **options, is_symmetric=False, looks_up=False)
            assert verified(problem, **options, is_symmetric=False, looks_up=True)[0] == expected
            assert verified(problem, **options, is_symmetric=True, looks_up=True)[0] == expected
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def small(monkeypatch):
    """Blocks of 48 items, so that small problems have several."""
    for name, value in SMALL.items():
        monkeypatch.setattr(symmetric_pairs, name, value)


@pytest.mark.usefixtures("small")
def test_counts_are_those_of_all_pairs_one_by_one():
    embeddings, relevance = problem_of(seed=0, is_whole=True)
    (thresholds, num_genuine_at, num_impostors_at, num_impostors_above), was_symmetric = verified(
        (embeddings, relevance), similarity="dot", is_symmetric=True, looks_up=True
    )
    assert was_symmetric
    scores, identities, cameras = (
        (embeddings @ embeddings.T).tolist(),
        relevance.query_identities,
        relevance.query_cameras,
    )
    genuine, impostors = [], []
    for query in range(len(scores)):
        for item in range(len(scores)):
            if identities[query] != identities[item]:
                impostors.append(scores[query][item])
            elif query != item and cameras[query] != cameras[item]:
                genuine.append(scores[query][item])
    assert thresholds == sorted(set(genuine), reverse=True)
    assert num_genuine_at == [sum(score >= threshold for score in genuine) for threshold in thresholds]
    assert num_impostors_at == [sum(score >= threshold for score in impostors) for threshold in thresholds]
    assert num_impostors_above == [sum(score > threshold for score in impostors) for threshold in thresholds]


@pytest.mark.usefixtures("small")
def test_each_pair_is_multiplied_once(monkeypatch):
    sizes, multiply = [], SymmetricScores.multiply

    def count(self, first, second, out):
        sizes.append(out.numel())
        multiply(self, first, second, out)

    monkeypatch.setattr(SymmetricScores, "multiply", count)
    _, was_symmetric = verified(
        problem_of(seed=1, num_items=480), similarity="cosine", is_symmetric=True, looks_up=True
    )
    assert was_symmetric
    # Ten blocks of 48 items: 55 of 100 products.
    assert sum(sizes) == 55 * 48 * 48


@pytest.mark.usefixtures("small")
def test_products_that_depend_on_the_order_of_their_items_are_made_both_ways(monkeypatch):
    multiply, problem = SymmetricScores.multiply, problem_of(seed=2)
    expected, _ = verified(problem, similarity="dot", is_symmetric=False, looks_up=False)

    def multiply_unevenly(self, first, second, out):
        multiply(self, first, second, out)
        out.view(-1)[1:2] += 1e-3

    monkeypatch.setattr(SymmetricScores, "multiply", multiply_unevenly)
    assert verified(problem, similarity="dot", is_symmetric=True, looks_up=True)[0] == expected


@pytest.mark.usefixtures("small")
def test_other_problems_are_multiplied_both_ways():
    embeddings, relevance = problem_of(seed=3)
    scores = score_embeddings(embeddings, embeddings, relevance, similarity="dot")
    assert symmetric_pairs.find_symmetric_pairs(scores, relevance) is not None
    others = {
        "a copy": score_embeddings(embeddings.clone(), embeddings, relevance, similarity="dot"),
        "a function": score_embeddings(embeddings, embeddings, relevance, similarity=lambda a, b: a @ b.T),
        "given scores": scores_from_matrix(embeddings @ embeddings.T, relevance),
        "little memory": score_embeddings(embeddings, embeddings, relevance, similarity="dot", max_bytes=10_000),
    }
    assert [name for name, made in others.items() if symmetric_pairs.find_symmetric_pairs(made, relevance)] == []
    identities = relevance.query_identities
    without_own = find_relevance(identities, identities, junk_identities=())
    scores = score_embeddings(embeddings, embeddings, without_own, similarity="dot")
    assert symmetric_pairs.find_symmetric_pairs(scores, without_own) is None


def test_scores_of_few_genuine_pairs_are_looked_up_in_a_matrix():
    identities = torch.arange(400) // 2
    relevance = find_relevance(identities[:50], identities)
    scores = scores_from_matrix(torch.randn(50, 400), relevance)
    filled, fill = [], scores.fill

    def count(out, rows, columns):
        filled.append(out.numel())
        fill(out, rows, columns)

    scores.fill = count
    verify(scores, relevance)
    assert sum(filled) == 50 * 400


@pytest.mark.usefixtures("small")
def test_error_rates_and_histograms_are_the_same_by_each_road(monkeypatch):
    embeddings, relevance = problem_of(seed=4)
    scores = score_embeddings(embeddings, embeddings, relevance)
    rates, histogram = fnmr_at_fmr(scores, relevance, [0.01, 0.1]), score_histogram(scores, relevance, bins=7)
    monkeypatch.setattr(scored_pairs, "find_symmetric_pairs", lambda *_: None)
    monkeypatch.setattr(scored_pairs, "_FEW_LISTED", -1.0)
    expected_rates, expected = fnmr_at_fmr(scores, relevance, [0.01, 0.1]), score_histogram(scores, relevance, bins=7)
    assert rates.rates.equal(expected_rates.rates)
    assert rates.thresholds.equal(expected_rates.thresholds)
    assert histogram.num_genuine.equal(expected.num_genuine)
    assert histogram.num_impostors.equal(expected.num_impostors)

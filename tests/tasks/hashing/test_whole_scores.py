"""Ranks by histograms of whole scores are those of counting, to the bit."""

from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import find_relevance
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, count_ranks
from reid_torchmetrics.functional.retrieval.scores import scores_from_matrix
from reid_torchmetrics.tasks.hashing import whole_scores
from reid_torchmetrics.tasks.hashing.whole_scores import Levels, find_levels, rank_whole_scores

TIED = ("num_groups", "num_positives", "num_negatives")


def drawn(seed, levels, num_labels):
    """Whole scores, and the relevance of samples with labels, cameras and places of their own in the gallery."""
    generator = torch.Generator().manual_seed(seed)
    num_queries, num_gallery = 6, 40

    def numbers(high, *shape):
        return torch.randint(0, high, shape, generator=generator)

    gallery = numbers(3, num_gallery, num_labels) == 0
    own = numbers(num_gallery, num_queries)
    own[::2] = -1
    query = torch.where((own >= 0)[:, None], gallery[own], numbers(3, num_queries, num_labels) == 0)
    cameras = numbers(3, num_gallery)
    query_cameras = torch.where(own >= 0, cameras[own], numbers(3, num_queries))
    scores = numbers(levels, num_queries, num_gallery).float() - levels // 2
    labels = {"query_identities": query, "gallery_identities": gallery, "self_index": own}
    return scores, labels | {"query_cameras": query_cameras, "gallery_cameras": cameras}


RULES = [{"same_camera": rule} for rule in ("keep", "same_identity", "all")] + [{"search_cameras": (0, 1)}]


def results_of(scores, relevance, ties, max_bytes):
    """Return the ranks by histograms, and by counting."""
    with mock.patch.object(whole_scores, "rank_whole_scores", wraps=rank_whole_scores) as ranking:
        at_once = count_ranks(scores_from_matrix(scores, relevance, max_bytes=max_bytes), relevance, ties=ties)
    assert ranking.called
    with mock.patch.object(whole_scores, "find_levels", return_value=None):
        counted = count_ranks(scores_from_matrix(scores, relevance, max_bytes=max_bytes), relevance, ties=ties)
    return at_once, counted


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 5, 200]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from(sorted(TIE_POLICIES)),
    st.sampled_from([*RULES, "pairs"]),
    st.sampled_from([None, 1 << 12]),
)
def test_histograms_and_counting_agree(seed, levels, num_labels, ties, rule, max_bytes):
    scores, labels = drawn(seed, levels, num_labels or 2)
    if num_labels is None:  # one identity for each sample, of four
        for side in ("query_identities", "gallery_identities"):
            labels[side] = labels[side].long() @ torch.tensor([1, 2])
    if rule == "pairs":
        rule = {"junk_pairs": lambda query, items: (query[:, None] + items) % 3 == 0, "same_camera": "all"}
    relevance = find_relevance(**labels, **rule)
    at_once, counted = results_of(scores, relevance, ties, max_bytes)
    for name in ("rank", "num_positives", "num_candidates"):
        assert torch.equal(getattr(at_once, name), getattr(counted, name)), name
    if num_labels is not None and counted.tied is None:
        assert torch.equal(at_once.judged.grade, counted.judged.grade)
    if counted.tied is not None:
        assert at_once.tied.policy == counted.tied.policy == ties
        for name in TIED:
            assert torch.equal(getattr(at_once.tied, name), getattr(counted.tied, name)), name


def test_the_example_of_the_page():
    scores, grades = torch.tensor([[3.0, 1, 3, 2, 1]]), torch.tensor([[0, 2, 1, 1, 0]])
    expected = {
        "pessimistic": ([2, 3, 5], [1, 1, 2]),
        "optimistic": ([1, 3, 4], [1, 1, 2]),
        "stable": ([2, 3, 4], [1, 1, 2]),
    }
    for ties, (rank, grade) in expected.items():
        ranked = rank_whole_scores(scores, Levels(1, 3), grades, None, TIE_POLICIES[ties])
        assert [values.tolist() for values in ranked[:3]] == [[3], rank, grade]
    _, _, _, *groups = rank_whole_scores(scores, Levels(1, 3), grades, None, TIE_POLICIES["expected"])
    # Groups: of score 3 one positive and one negative, of 2 one positive, of 1 one of each.
    assert [values.tolist() for values in groups] == [[3], [1, 1, 1], [1, 0, 1]]


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan, 0.5, 4e4])
def test_other_scores_than_small_whole_numbers_are_counted(value):
    scores = torch.zeros(2, 300)
    assert find_levels(scores, num_grades=2) == Levels(0, 0)
    scores[1, 7] = value
    assert find_levels(scores, num_grades=2) is None
    assert find_levels(torch.full((2, 3), value), num_grades=2) is None


def test_a_histogram_has_at_most_four_bins_for_each_item():
    scores = torch.arange(600.0)[None]
    assert find_levels(scores, num_grades=3) == Levels(0, 599)
    assert find_levels(scores, num_grades=4) is None  # 601 levels, with one for junk, of 4 grades
    assert find_levels(scores[:, :255] - 300, num_grades=4) == Levels(-300, -46)  # 1,024 bins are always few
    assert find_levels(scores[:, :256], num_grades=4) is None


def test_keys_fit_sixteen_bits():
    scores = torch.arange(20_000.0)[None]
    assert find_levels(scores, num_grades=1) is not None
    assert find_levels(scores, num_grades=2) is None


@pytest.mark.parametrize("shape", [(0, 5), (3, 0)])
def test_no_scores_have_no_levels(shape):
    assert find_levels(torch.zeros(shape), num_grades=2) is None

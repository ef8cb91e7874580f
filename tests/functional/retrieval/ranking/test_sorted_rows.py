"""Ranks by sorting whole rows of codes are those of counting, to the bit."""

from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import find_relevance
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, count_ranks, ranks
from reid_torchmetrics.functional.retrieval.ranking.sorted_rows import are_of_codes, sort_rows_of_codes
from reid_torchmetrics.functional.retrieval.scores import scores_from_matrix

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


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 5, 200]),
    st.sampled_from([1, 6, 70]),
    st.sampled_from(sorted(TIE_POLICIES)),
    st.sampled_from(RULES),
    st.booleans(),
)
def test_sorting_and_counting_agree(seed, levels, num_labels, ties, rule, drops):
    scores, labels = drawn(seed, levels, num_labels)
    junk_pairs = (lambda query, items: (query[:, None] + items) % 3 == 0) if drops else None
    relevance = find_relevance(**labels, **rule, junk_pairs=junk_pairs)
    with mock.patch.object(ranks, "sort_rows_of_codes", wraps=sort_rows_of_codes) as sorting:
        by_sorting = count_ranks(scores_from_matrix(scores, relevance), relevance, ties=ties)
    assert sorting.called
    with mock.patch.object(ranks, "are_of_codes", return_value=False):
        by_counting = count_ranks(scores_from_matrix(scores, relevance), relevance, ties=ties)
    for name in ("rank", "num_positives", "num_candidates"):
        assert torch.equal(getattr(by_sorting, name), getattr(by_counting, name)), name
    if by_counting.tied is None:
        assert torch.equal(by_sorting.judged.grade, by_counting.judged.grade)
        return
    assert by_sorting.tied.policy == by_counting.tied.policy == ties
    for name in TIED:
        assert torch.equal(getattr(by_sorting.tied, name), getattr(by_counting.tied, name)), name


def test_the_example_of_the_page():
    scores, grades = torch.tensor([[3.0, 1, 3, 2, 1]]), torch.tensor([[0, 2, 1, 1, 0]])
    expected = {
        "pessimistic": ([2, 3, 5], [1, 1, 2]),
        "optimistic": ([1, 3, 4], [1, 1, 2]),
        "stable": ([2, 3, 4], [1, 1, 2]),
    }
    for ties, (rank, grade) in expected.items():
        ranked = sort_rows_of_codes(scores, grades, None, TIE_POLICIES[ties])
        assert (ranked.rank.tolist(), ranked.grade.tolist()) == (rank, grade)
    ranked = sort_rows_of_codes(scores, grades, None, TIE_POLICIES["expected"])
    # Groups: of score 3 one positive and one negative, of 2 one positive, of 1 one of each.
    assert [values.tolist() for values in ranked.groups] == [[3], [1, 1, 1], [1, 0, 1]]


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan, 0.5, 4e4])
def test_other_scores_than_small_whole_numbers_are_counted(value):
    scores = torch.zeros(2, 300)
    assert are_of_codes(scores)
    scores[1, 7] = value
    assert sort_rows_of_codes(scores, torch.ones_like(scores).short(), None, TIE_POLICIES["stable"]) is None
    assert not are_of_codes(torch.full((2, 3), value))


def test_levels_times_grades_that_do_not_fit_sixteen_bits_are_counted():
    scores = torch.arange(300.0)[None]
    few, many = torch.full((1, 300), 100), torch.full((1, 300), 200)
    assert sort_rows_of_codes(scores, few, None, TIE_POLICIES["pessimistic"]) is not None
    assert sort_rows_of_codes(scores, many, None, TIE_POLICIES["pessimistic"]) is None


@pytest.mark.parametrize("shape", [(0, 5), (3, 0)])
def test_no_scores_are_not_those_of_codes(shape):
    assert not are_of_codes(torch.zeros(shape))

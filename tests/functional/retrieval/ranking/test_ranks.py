"""The ranks of positives: equal to the slow reference, and unchanged by everything that must not matter."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.retrieval import (
    PositiveRanks,
    average_precision,
    rank_positives,
    rank_positives_from_scores,
)
from reid_torchmetrics.functional.retrieval.ranking import counting
from tests.paths import taking
from tests.profiles import each_row, examples
from tests.strategies import ALL_TIES, TIES, Problem, problems
from tests.tied_groups import of_each_positive

TINY = 64  # bytes: a few scores at a time


def ranks_of(problem: Problem, **options) -> PositiveRanks:
    return rank_positives_from_scores(problem.scores, *problem.labels, **(problem.options | options))


def as_lists(ranks: PositiveRanks) -> tuple[list[list[int]], list[int], list[list[tuple[int, int, int]]] | None]:
    sizes = ranks.num_positives.tolist()
    return [group.tolist() for group in ranks.rank.split(sizes)], ranks.num_candidates.tolist(), tied_of(ranks, sizes)


def tied_of(ranks: PositiveRanks, sizes: list[int]) -> list[list[tuple[int, int, int]]] | None:
    if ranks.tied is None:
        return None
    return [[tuple(row) for row in group.tolist()] for group in of_each_positive(ranks).split(sizes)]


@given(problems(ties=ALL_TIES), st.sampled_from([None, 1, TINY, 3 * TINY, 1000]))
def test_ranks_are_those_of_the_slow_reference_in_tiles_of_any_size(problem, max_bytes):
    expected = problem.reference()
    found = as_lists(ranks_of(problem, max_bytes=max_bytes))
    assert found == (expected.ranks, expected.num_candidates, expected.tied)


@examples(50)
@given(problems(ties=ALL_TIES))
def test_scores_by_a_function_rank_as_the_same_scores_do_in_panels_of_any_width(problem):
    num_queries = len(problem.scores)
    query = torch.eye(max(1, num_queries))[:num_queries]
    gallery = torch.zeros(problem.scores.shape[1], query.shape[1])
    gallery[:, :num_queries] = problem.scores.T
    for max_bytes in (1, TINY, 3 * TINY, 1000):  # a function cannot look up a score: it scores panel after panel
        ranks = rank_positives(
            query,
            gallery,
            *problem.labels,
            similarity=lambda some_queries, some_items: some_queries @ some_items.T,
            max_bytes=max_bytes,
            **problem.options,
        )
        assert as_lists(ranks) == as_lists(ranks_of(problem))


@examples(50)
@given(problems(ties=ALL_TIES), st.sampled_from([TINY, 10**6]))
def test_looking_for_the_contenders_before_sorting_changes_nothing(problem, max_bytes):
    with taking(few_values=2, serial_sort=1):
        found = as_lists(ranks_of(problem, max_bytes=max_bytes))
    assert found == as_lists(ranks_of(problem))


@examples(40)
@given(problems(ties=ALL_TIES), st.sampled_from([torch.float16, torch.bfloat16, torch.float64]), st.booleans())
def test_neither_the_dtype_of_scores_nor_a_monotone_rescaling_changes_anything(problem, dtype, is_rescaled):
    exact = problem.scores.clamp(max=100)  # exact in every dtype
    expected = rank_positives_from_scores(exact, *problem.labels, **problem.options)
    scores = exact.double() / 1024 - 7 if is_rescaled else exact.to(dtype)
    found = rank_positives_from_scores(scores, *problem.labels, **problem.options)
    assert as_lists(found) == as_lists(expected)


def test_given_scores_are_not_written_to():
    scores = torch.randn(3, 8)
    before = scores.clone()
    rank_positives_from_scores(scores, torch.tensor([1, 2, 3]), torch.arange(8) % 4)
    assert torch.equal(scores, before)


@pytest.mark.parametrize("max_bytes", [TINY, 10**6])
@pytest.mark.parametrize("low", [-math.inf, -1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_scores_keep_the_columns_whether_a_row_has_one_of_them_or_several(max_bytes, low, dtype):
    # The second item has the identity and the camera of all queries. Behind 0.0 positives are level with negatives.
    gallery, cameras = torch.tensor([7, 7, 8, 7, 9, 8, 7]), torch.tensor([1, 0, 1, 1, 1, 1, 1])
    scores = torch.tensor([[0.0] * 7, [low] * 7, [low, 0.0, 0.0, 0.0, low, 0.0, low], [1.0, 1.0, *[0.0] * 5]])
    sides = torch.full((4,), 7), gallery, torch.zeros(4, dtype=torch.int64), cameras
    ranks = rank_positives_from_scores(scores.to(dtype), *sides, ties="stable", max_bytes=max_bytes)
    assert as_lists(ranks)[0] == [[1, 3, 6], [1, 3, 6], [2, 4, 6], [1, 3, 6]]


@each_row("ties", TIES)
@pytest.mark.parametrize("max_bytes", [TINY, 10**6])
def test_infinite_scores_are_ordinary_scores(ties, max_bytes):
    low, high = -math.inf, math.inf
    scores = torch.tensor([[low, low, high, 0.0, low, high]])
    gallery = torch.tensor([5, 1, 5, 1, 1, 1])  # positives at -inf and inf, tied with negatives
    expected = {"pessimistic": [2, 6], "optimistic": [1, 4], "stable": [1, 4]}[ties]
    found = rank_positives_from_scores(scores, torch.tensor([5]), gallery, ties=ties, max_bytes=max_bytes)
    assert found.rank.tolist() == expected


@pytest.mark.parametrize("ties", ["grouped", "expected"])
def test_a_positive_at_minus_infinity_does_not_tie_with_the_padding_of_its_row(ties):
    # The first query has its one positive last of 3; the row of the second, with two at ranks 1 and 2, is longer.
    scores = torch.tensor([[2.0, 1.0, -torch.inf, 0.0], [4.0, 3.0, 2.0, 1.0]])
    ranks = rank_positives_from_scores(scores, torch.tensor([1, 2]), torch.tensor([2, 2, 1, -1]), ties=ties)
    assert ranks.tied is not None
    assert ranks.tied.num_positives.tolist() == [1, 1, 1]
    assert average_precision(ranks).tolist() == pytest.approx([1 / 3, 1])


def test_positives_by_the_thousand_are_ranked_like_one_or_none():
    identities = torch.arange(3000) % 3
    embeddings = torch.randint(-9, 10, (3000, 4)).float()
    embeddings[:, 0] += identities
    queries = torch.tensor([0, 1, 2, 17])
    ranks = rank_positives(
        embeddings[queries], embeddings, identities[queries], identities, self_index=queries, similarity="dot"
    )
    assert ranks.num_positives.tolist() == [999] * 4
    scores = embeddings[queries].double() @ embeddings.double().T
    for q, block in enumerate(ranks.split(1)):
        same = identities == identities[queries[q]]
        same[queries[q]] = False
        negative = scores[q][identities != identities[queries[q]]]
        best_first = scores[q][same].sort(descending=True).values
        above = (negative >= best_first[:, None]).sum(1)
        assert torch.equal(block.rank, above + torch.arange(1, 1000))


def test_an_empty_gallery_and_no_queries_have_no_ranks():
    empty, none = torch.empty(0, 2), torch.empty(0, dtype=torch.int64)
    without_gallery = rank_positives(torch.ones(1, 2), empty, torch.tensor([3]), none)
    assert (without_gallery.rank.tolist(), without_gallery.num_positives.tolist()) == ([], [0])
    without_queries = rank_positives(empty, torch.ones(1, 2), none, torch.tensor([3]))
    assert without_queries.num_queries == 0


def test_a_query_never_meets_itself_by_position_and_not_by_score():
    embeddings = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # 0 and 1 are exact duplicates
    identities = torch.tensor([1, 1, 2])
    ranks = rank_positives(embeddings, embeddings, identities, identities, self_index=torch.arange(3))
    assert ranks.num_candidates.tolist() == [2, 2, 2]
    assert as_lists(ranks)[0] == [[1], [1], []]


def count_sorted(monkeypatch) -> list[int]:
    """Sizes of the score tiles that are sorted from now on."""
    sizes: list[int] = []
    sort_rows = counting.sort_rows

    def counted(values: Tensor, **options) -> Tensor:
        sizes.append(values.numel() * values.element_size())
        return sort_rows(values, **options)

    monkeypatch.setattr(counting, "sort_rows", counted)
    return sizes


@pytest.mark.parametrize("max_bytes", [2000, 20000, 10**6])
def test_no_more_than_the_memory_bound_of_scores_is_held(monkeypatch, max_bytes):
    sizes = count_sorted(monkeypatch)
    rank_positives_from_scores(torch.randn(40, 900), torch.arange(40), torch.arange(900), max_bytes=max_bytes)
    assert max(sizes) <= max_bytes

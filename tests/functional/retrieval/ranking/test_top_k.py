"""The k highest scores of a row: those of a sort by score and column."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.ranking.top_k import likely_top_k, stable_top_k
from tests.paths import path


def test_nan_is_higher_than_any_number_also_beside_ties():
    best, _ = stable_top_k(torch.tensor([[1.0, math.nan, 1.0, 1.0, math.nan, 1.0]]), 3)
    assert best.isnan().tolist() == [[True, True, False]]


@pytest.mark.parametrize("k", [1, 3, 17])
@pytest.mark.parametrize("width", [16 * 8 * 4, 16 * 8 * 18 + 7])
def test_wide_rows_are_those_of_a_sort_by_score_and_column(k, width):
    scores = torch.randint(-40, 400, (30, width)).float()
    scores[0, 5], scores[1], scores[2, -1] = math.nan, -math.inf, 1000.0
    best, columns = stable_top_k(scores, k)
    expected = scores.sort(dim=1, descending=True, stable=True)
    assert torch.equal(columns, expected.indices[:, :k])
    assert torch.equal(best.nan_to_num(0), expected.values[:, :k].nan_to_num(0))


@pytest.mark.parametrize("k", [1, 3, 200])
def test_padding_of_wide_rows_comes_last_even_where_candidates_score_minus_infinity(k):
    candidate = torch.rand((9, 2311), generator=torch.Generator().manual_seed(0)) < torch.arange(9)[:, None] / 20
    scores = torch.randint(-3, 2, (9, 2311)).float().where(candidate, -math.inf)
    scores[-1] = -math.inf
    columns = stable_top_k(scores, k, candidate)[1]
    for row, marked, listed in zip(scores, candidate, columns, strict=True):
        order = [column for column in row.sort(descending=True, stable=True).indices.tolist() if marked[column]][:k]
        assert listed.tolist() == order + [-1] * (k - len(order))


@pytest.mark.parametrize("column", [*range(-9, 0), 0, 16 * 8 * 4 - 1])
def test_the_highest_score_of_a_wide_row_without_ties_is_found_in_every_left_over_column(column):
    scores = torch.arange(16 * 8 * 4 + 8.0).flip(0)[None].clone()
    scores[0, column] = 1e6
    best, columns = stable_top_k(scores, 2)
    assert columns[0, 0] == column % scores.shape[1]
    assert best[0, 0] == 1e6


@given(
    st.integers(0, 4),
    st.integers(1, 9),
    st.sampled_from([1, 1 << 20]),
    st.sampled_from([torch.float32, torch.float64]),
    st.randoms(use_true_random=True),
)
def test_rows_are_those_of_a_sort_by_score_and_column(num_rows, width, scores_at_a_time, dtype, random):
    k = random.randint(1, width)
    flags = [random.choices([True, False], k=width) for _ in range(num_rows)]
    candidate = torch.tensor(flags, dtype=torch.bool).view(num_rows, width)
    drawn = [random.choices([-math.inf, 0.0, 1.0, 2.0], k=width) for _ in range(num_rows)]
    scores = torch.tensor(drawn, dtype=dtype).view(num_rows, width).where(candidate, -math.inf)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(*path("listed_scores"), scores_at_a_time)
        plain, masked = stable_top_k(scores, k), stable_top_k(scores, k, candidate)
    for row, values in enumerate(scores.tolist()):
        order = sorted(range(width), key=lambda column: (-values[column], column))[:k]
        assert plain[1][row].tolist() == order
        assert plain[0][row].tolist() == masked[0][row].tolist() == [values[column] for column in order]
        listed = sorted((column for column in range(width) if flags[row][column]), key=lambda c: (-values[c], c))[:k]
        assert masked[1][row].tolist() == listed + [-1] * (k - len(listed))


@given(
    st.lists(st.lists(st.sampled_from([-math.inf, -1.0, 0.0, 1.0, 2.0, 3.0]), min_size=6, max_size=6), min_size=1),
    st.integers(1, 6),
)
def test_a_likely_list_that_is_not_in_doubt_is_that_of_the_stable_order(rows, k):
    scores = torch.tensor(rows)
    best, columns, in_doubt = likely_top_k(scores, k)
    expected_best, expected_columns = stable_top_k(scores, k)
    assert torch.equal(best[~in_doubt], expected_best[~in_doubt])
    assert torch.equal(columns[~in_doubt], expected_columns[~in_doubt])


def test_a_likely_list_is_in_doubt_after_a_tie_at_its_end_nan_or_minus_infinity():
    rows = [[3.0, 2.0, 2.0, 1.0], [3.0, 2.0, math.nan, 1.0], [3.0, -math.inf, -math.inf, -math.inf], [1, 2, 3, 4]]
    in_doubt = likely_top_k(torch.tensor(rows), 2)[2]
    assert in_doubt.tolist() == [True, True, True, False]

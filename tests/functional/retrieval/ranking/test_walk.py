"""The walk over queries and gallery: every pair once, in the memory that it may take, whatever the sizes."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.ranking import Walk, cut_in_panels, rows_with_gallery
from reid_torchmetrics.functional.retrieval.scores.scores import MatrixScores

sizes = st.integers(0, 40)


def numbered(num_queries: int, num_gallery: int, max_bytes: int = 1000) -> MatrixScores:
    """Scores that tell which pair they are of."""
    scores = torch.arange(num_queries * num_gallery, dtype=torch.float64).view(num_queries, num_gallery)
    return MatrixScores(scores, kept=None, max_bytes=max_bytes)


@given(sizes, sizes, st.integers(1, 50), st.integers(1, 50))
def test_every_pair_is_fresh_in_one_panel_of_one_tile(num_queries, num_gallery, num_rows, width):
    walk = Walk(numbered(num_queries, num_gallery), num_rows, width)
    fresh = [scores[:, panel.num_seen :].flatten() for rows in walk.rows for panel, scores in panels(walk, rows)]
    found = torch.cat([torch.empty(0, dtype=torch.float64), *fresh]).sort().values
    assert found.tolist() == list(range(num_queries * num_gallery))


def panels(walk: Walk, rows: slice):
    return ((panel, scores.clone()) for panel, scores in walk.panels_of(rows))


@given(sizes, sizes, st.integers(1, 20), st.integers(1, 20))
def test_panels_are_equally_wide_and_only_the_last_begins_in_the_one_before(num_queries, num_gallery, num_rows, width):
    walk = Walk(numbered(num_queries, num_gallery), num_rows, width)
    assert len({panel.columns.stop - panel.columns.start for panel in walk.panels}) <= 1
    assert all(panel.num_seen == 0 for panel in walk.panels[:-1])


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(100, 10**6), st.integers(4, 30), st.integers(0, 5000))
def test_a_panel_fits_the_memory_that_it_may_take(num_queries, num_gallery, max_bytes, per_score, per_row):
    scores = MatrixScores(torch.empty(num_queries, 1).expand(-1, num_gallery), kept=None, max_bytes=max_bytes)
    rows, width = cut_in_panels(scores, per_score - 4, per_row)
    assert 1 <= rows <= num_queries
    assert 1 <= width <= num_gallery
    held = rows * (width * per_score + per_row)
    assert held <= max_bytes or rows == 1


def test_panels_are_no_wider_than_their_number_asks():
    assert cut_in_panels(numbered(1, 20, max_bytes=18 * 8)) == (1, 10)  # and not 18 with an overlap of 16
    assert cut_in_panels(numbered(1, 1000, max_bytes=900 * 8)) == (1, 528)


def test_sides_of_a_tile_fill_the_kernels_of_a_product_where_they_can():
    scores = MatrixScores(torch.empty(500, 1).expand(-1, 20_000), kept=None, max_bytes=60 * 1365 * 4)
    assert cut_in_panels(scores, most_rows=60) == (48, 1008)
    assert cut_in_panels(scores, most_rows=200) == (192, 384)
    assert rows_with_gallery(replace_max_bytes(scores, 100 * 20_000 * 4), 0) == 96
    assert rows_with_gallery(replace_max_bytes(scores, 500 * 20_000 * 4), 0) == 500  # all of them, at once
    assert rows_with_gallery(replace_max_bytes(scores, 8 * 20_000 * 4), 0) == 8
    assert rows_with_gallery(replace_max_bytes(scores, 7 * 20_000 * 4), 0) == 0  # too few to be worth it


def replace_max_bytes(scores: MatrixScores, max_bytes: int) -> MatrixScores:
    scores.max_bytes = max_bytes
    return scores

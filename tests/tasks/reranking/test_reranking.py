"""k-reciprocal re-ranking: the definition, worked examples, laws, and what is refused."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.retrieval import rank_positives_from_scores
from reid_torchmetrics.functional.retrieval.ranking.ranks import count_ranks
from reid_torchmetrics.functional.retrieval.relevance.from_labels import find_relevance
from reid_torchmetrics.functional.retrieval.scores.scores import Scores, scores_from_matrix
from reid_torchmetrics.tasks.reranking import k_reciprocal
from reid_torchmetrics.tasks.reranking.k_reciprocal import (
    ORIGINAL_DISTANCES,
    KReciprocal,
    reciprocal_sets,
    rerank_k_reciprocal,
)
from reid_torchmetrics.tasks.reranking.neighbors import find_neighbors
from tests.closeness import assert_close
from tests.profiles import examples
from tests.reference.reranking import reranked_distances

BOUNDS = (300, 2_000, 20_000, 10**7)


@dataclass(frozen=True)
class Problem:
    """Few items on a grid, so that many are equally near, and options that may exceed their number."""

    query: Tensor
    gallery: Tensor
    options: dict[str, object]

    def reference(self) -> Tensor:
        expected = reranked_distances(self.query.tolist(), self.gallery.tolist(), **self.options)
        return torch.tensor(expected, dtype=torch.float64).reshape(len(self.query), len(self.gallery))


@st.composite
def problems(draw) -> Problem:
    num_queries, num_gallery, dimension = draw(st.integers(0, 5)), draw(st.integers(0, 14)), draw(st.integers(1, 3))
    coordinate = st.integers(0, draw(st.sampled_from([0, 2, 9])))
    items = [[draw(coordinate) for _ in range(dimension)] for _ in range(num_queries + num_gallery)]
    query, gallery = torch.tensor(items).double().reshape(-1, dimension).split([num_queries, num_gallery])
    options = {
        "k1": draw(st.integers(1, 9)),
        "k2": draw(st.integers(1, 6)),
        "weight": draw(st.sampled_from([0.0, 0.3, 1.0])),
        "distance": draw(st.sampled_from(list(ORIGINAL_DISTANCES))),
    }
    return Problem(query, gallery, options)


def clustered(num_queries: int = 12, num_gallery: int = 50, dimension: int = 8) -> tuple[Tensor, Tensor]:
    centers = torch.randn(7, dimension, dtype=torch.float64)
    items = centers[torch.randint(0, 7, (num_queries + num_gallery,))]
    items = items + 0.5 * torch.randn(len(items), dimension, dtype=torch.float64)
    return items[:num_queries], items[num_queries:]


@examples(60)
@given(problems(), st.sampled_from(BOUNDS))
def test_distances_are_those_of_the_definition(problem, max_bytes):
    found = rerank_k_reciprocal(problem.query, problem.gallery, max_bytes=max_bytes, **problem.options)
    assert_close(found.distances(), problem.reference(), atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"k1": 20, "k2": 6},
        {"k1": 7, "k2": 3, "distance": "euclidean", "normalize": True},
        {"k1": 5, "k2": 1, "distance": "quartic_euclidean"},
        {"k1": 3, "k2": 30, "normalize": True},
    ],
)
def test_distances_of_clusters_are_those_of_the_definition(options):
    query, gallery = clustered()
    options = {"weight": 0.3} | options
    expected = torch.tensor(reranked_distances(query.tolist(), gallery.tolist(), **options), dtype=torch.float64)
    found = rerank_k_reciprocal(query, gallery, **options).distances()
    assert_close(found, expected, atol=1e-9)
    in_single = rerank_k_reciprocal(query.float(), gallery.float(), **options).distances()
    assert_close(in_single, expected.float(), atol=2e-6)


@pytest.mark.parametrize(("distance", "power"), [("euclidean", 1), ("squared_euclidean", 2), ("quartic_euclidean", 4)])
def test_the_original_distance_at_weight_1_is_divided_by_the_largest_to_any_item(distance, power):
    query, gallery = torch.tensor([[0.0], [-8.0]]), torch.tensor([[1.0], [2.0], [4.0]])
    found = rerank_k_reciprocal(query, gallery, weight=1.0, distance=distance).distances()
    expected = torch.tensor([[1 / 8, 2 / 8, 4 / 8], [9 / 12, 10 / 12, 1.0]]) ** power
    assert_close(found, expected, rtol=1e-6)


def test_ranks_are_those_of_the_definition():
    query, gallery = clustered()
    labels = [torch.arange(12) % 4, torch.arange(50) % 5 - 1, torch.arange(12) % 2, torch.arange(50) % 3]
    expected = torch.tensor(reranked_distances(query.tolist(), gallery.tolist(), k1=8, k2=3, weight=0.3))
    relevance = find_relevance(*labels)
    scores = KReciprocal(k1=8, k2=3).rerank(query, gallery, kept=relevance.kept)
    assert isinstance(scores, Scores)
    ranks = count_ranks(scores, relevance, ties="pessimistic")
    assert torch.equal(ranks.rank, rank_positives_from_scores(-expected, *labels).rank)


def test_junk_is_not_scored_but_remains_in_the_neighborhoods():
    query, gallery = clustered()
    everything = rerank_k_reciprocal(query, gallery).distances()
    for kept in (torch.tensor([3, 4, 9, 30]), torch.tensor([40, 2, 2]), torch.tensor([], dtype=torch.int64)):
        found = rerank_k_reciprocal(query, gallery, kept=kept)
        assert (found.num_queries, found.num_gallery) == (12, len(kept))
        assert torch.equal(found.distances(), everything[:, kept])
    without = rerank_k_reciprocal(query, gallery[:40]).distances()
    assert not torch.equal(without, everything[:, :40])


def test_options_are_those_of_the_authors_unless_they_are_given():
    query, gallery = clustered()
    authors = {"k1": 20, "k2": 6, "weight": 0.3, "distance": "squared_euclidean", "normalize": False}
    assert KReciprocal() == KReciprocal(**authors)
    found, expected = (rerank_k_reciprocal(query, gallery, **options).distances() for options in ({}, authors))
    assert torch.equal(found, expected)


def test_a_tile_is_a_part_of_the_whole():
    query, gallery = clustered()
    scores = rerank_k_reciprocal(query, gallery)
    whole = -scores.distances()
    for rows, columns in ((slice(0, 1), slice(0, 50)), (slice(3, 11), slice(7, 8)), (slice(5, 12), slice(20, 50))):
        tile = torch.full((rows.stop - rows.start, columns.stop - columns.start), torch.nan, dtype=torch.float64)
        scores.fill(tile, rows, columns)
        assert_close(tile, whole[rows, columns], atol=1e-12)


@pytest.mark.parametrize(("scale", "shift"), [(1e25, 0), (1e-25, 0), (1, 300)])
def test_extreme_embeddings_are_as_good_as_others(scale, shift):
    query, gallery = (side.float() for side in clustered())
    found = rerank_k_reciprocal(query * scale + shift, gallery * scale + shift, distance="quartic_euclidean")
    expected = rerank_k_reciprocal(query, gallery, distance="quartic_euclidean").distances()
    assert_close(found.distances(), expected.to(found.dtype), atol=1e-3)


def test_embeddings_are_left_as_they_are_and_followed_by_no_gradient():
    query, gallery = (side.requires_grad_() for side in clustered())
    before = query.detach().clone()
    found = rerank_k_reciprocal(query, gallery, normalize=True)
    assert not found.distances().requires_grad
    assert torch.equal(query.detach(), before)


@pytest.mark.parametrize(("num_queries", "num_gallery"), [(0, 5), (3, 0), (0, 0), (1, 1)])
def test_without_queries_or_gallery_there_is_nothing_to_score(num_queries, num_gallery):
    labels = torch.zeros(num_queries, dtype=torch.int64), torch.zeros(num_gallery, dtype=torch.int64)
    scores = rerank_k_reciprocal(torch.randn(num_queries, 4), torch.randn(num_gallery, 4))
    assert scores.distances().shape == (num_queries, num_gallery)
    ranks = count_ranks(scores, find_relevance(*labels), ties="pessimistic")
    assert ranks.rank.tolist() == [1] * (num_queries * num_gallery)


@examples(40)
@given(st.data(), st.sampled_from(BOUNDS))
def test_neighbors_are_in_order_and_lower_positions_first_among_equals(data, max_bytes):
    num_items = data.draw(st.integers(1, 20))
    matrix = [[data.draw(st.integers(0, 2)) for _ in range(num_items)] for _ in range(num_items)]
    k, rows_are_items = data.draw(st.integers(1, 22)), data.draw(st.booleans())
    nobody = torch.zeros(num_items, dtype=torch.int64)
    scores = scores_from_matrix(torch.tensor(matrix).float(), find_relevance(nobody, nobody), max_bytes=max_bytes)
    found = find_neighbors(scores, k, rows_are_items=rows_are_items)
    for p, row in enumerate(matrix):
        order = sorted(range(num_items), key=lambda q: (not (rows_are_items and p == q), -row[q], q))[:k]
        assert found.positions[p].tolist() == order
        assert found.scores[p].tolist() == [float("inf") if rows_are_items and p == q else row[q] for q in order]
        assert found.lowest[p] == min(row)
        assert found.with_itself[p] == (row[p] if rows_are_items else 0)


PAIR = torch.zeros(2, 4), torch.zeros(3, 4)


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k1": 0}, ValueError, "`k1` must be at least 1; got 0."),
        ({"k2": 2.5}, TypeError, "`k2` must be an int; got float."),
        ({"weight": 1.5}, ValueError, r"`weight` must lie in \[0, 1\]; got 1.5."),
        ({"weight": float("nan")}, ValueError, r"`weight` must lie in \[0, 1\]; got nan."),
        ({"weight": "0.3"}, TypeError, "`weight` must be a number; got str."),
        ({"distance": "cosine"}, ValueError, "`distance` must be one of 'euclidean', .*; got 'cosine'."),
        ({"normalize": 1}, TypeError, "`normalize` must be True or False; got int."),
        ({"kept": torch.tensor([0, 3])}, ValueError, r"`kept` must lie in \[0, 3\); got values from 0 to 3."),
        ({"kept": torch.tensor([0.0])}, TypeError, "`kept` must have an integer dtype; got torch.float32."),
        ({"max_bytes": 0}, ValueError, "`max_bytes` must be at least 1; got 0."),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        rerank_k_reciprocal(*PAIR, **options)


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("query", "gallery", "error", "message"),
    [
        ([[1.0], [1.0, 2.0]], PAIR[1], TypeError, "`query` must be a tensor, an array or a list of numbers; got list."),
        (PAIR[0], PAIR[1].long(), TypeError, "`gallery` must have a floating point dtype of 16 to 64 bits"),
        (PAIR[0], torch.zeros(3, 5), ValueError, "must have the same embedding dimension; got 4 and 5."),
        (PAIR[0] / 0, PAIR[1], ValueError, "`query` must be finite; got 2 rows"),
        (PAIR[0], PAIR[1] + torch.inf, ValueError, "`gallery` must be finite; got 3 rows"),
    ],
)
def test_embeddings_that_make_no_sense_are_refused(query, gallery, error, message):
    with pytest.raises(error, match=message):
        rerank_k_reciprocal(query, gallery)


def test_the_memory_bound_decides_how_many_items_are_encoded_at_a_time(monkeypatch):
    sizes = []

    def recorded(near, half, rows):
        sizes.append(rows.stop - rows.start)
        return reciprocal_sets(near, half, rows)

    monkeypatch.setattr(k_reciprocal, "reciprocal_sets", recorded)
    query, gallery = clustered(num_queries=2, num_gallery=5)
    for max_bytes, expected in ((1, [1] * 7), (10**7, [7])):
        rerank_k_reciprocal(query, gallery, k1=3, k2=2, max_bytes=max_bytes)
        assert sizes == expected
        sizes.clear()

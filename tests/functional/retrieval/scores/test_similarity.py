"""Similarities of embeddings: every dtype and layout, exact ties, and precision that training does not touch."""

import itertools

import pytest
import torch

from reid_torchmetrics.functional.retrieval import (
    PositiveRanks,
    average_precision,
    mean_over_queries,
    rank_positives,
    rank_positives_from_scores,
)
from reid_torchmetrics.functional.retrieval.scores.rows import Rows
from reid_torchmetrics.functional.retrieval.scores.scores import EmbeddingScores, score_rows
from reid_torchmetrics.functional.retrieval.scores.similarity import SIMILARITIES, Similarity, score_dtype
from tests.closeness import assert_close
from tests.distributed import threads
from tests.profiles import each_row, of_each
from tests.reference.retrieval import evaluate, similarity
from tests.strategies import SIMILARITIES_OF_ALL, TIES


def labelled(num_queries: int = 9, num_gallery: int = 40, dimension: int = 8):
    query, gallery = torch.randn(num_queries, dimension), torch.randn(num_gallery, dimension)
    return query, gallery, torch.arange(num_queries) % 4, torch.arange(num_gallery) % 5


def same(first: PositiveRanks, second: PositiveRanks) -> bool:
    return torch.equal(first.rank, second.rank) and torch.equal(first.num_positives, second.num_positives)


@each_row("name", SIMILARITIES_OF_ALL)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("max_bytes", [300, 10**7])
def test_ranks_by_similarity_are_those_of_the_slow_reference(name, dtype, max_bytes):
    query, gallery, *identities = labelled()
    query, gallery = query.to(dtype), gallery.to(dtype)
    scores = similarity(query.double().numpy(), gallery.double().numpy(), name)
    expected = evaluate(scores, *(labels.tolist() for labels in identities))
    found = rank_positives(query, gallery, *identities, similarity=name, max_bytes=max_bytes)
    assert found.rank.tolist() == sum(expected.ranks, [])


@each_row("name", SIMILARITIES_OF_ALL)
@pytest.mark.parametrize("max_bytes", [20_000, 64_000, 10**7])
def test_equal_gallery_items_tie_exactly_whatever_the_tiles(name, max_bytes):
    for num_queries, num_gallery in ((1, 397), (5, 397), (9, 64), (17, 101)):
        query, gallery = torch.randn(num_queries, 37), torch.randn(3, 37).repeat(num_gallery, 1)
        identities = torch.arange(len(gallery)) % 5
        ranks = rank_positives(query, gallery, torch.zeros(num_queries).long(), identities, similarity=name,
                               ties="optimistic", max_bytes=max_bytes)  # fmt: skip
        # of three levels of equal items, each holds its share of positives, and they come first in it
        shares = [int((identities[level::3] == 0).sum()) for level in range(3)]
        for block in ranks.split(1):
            starts = (block.rank[1:] - block.rank[:-1] > 1).sum() + 1
            assert block.rank[0] == 1
            assert starts <= 3
            assert block.num_positives.item() == sum(shares)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@each_row("ties", TIES)
def test_integers_keep_exact_ties_in_euclidean_distance(dtype, ties):
    query, gallery = torch.randint(0, 4, (9, 4)), torch.randint(0, 4, (80, 4))
    identities = torch.arange(9) % 4, torch.arange(80) % 5
    squared = (query[:, None] - gallery).square().sum(2)
    expected = evaluate(-squared.double().numpy(), *(labels.tolist() for labels in identities), ties=ties)
    found = rank_positives(query.to(dtype), gallery.to(dtype), *identities, similarity="euclidean", ties=ties)
    assert found.rank.tolist() == sum(expected.ranks, [])


def test_euclidean_similarity_does_not_depend_on_the_origin():
    query, gallery, *identities = labelled(num_gallery=200)
    expected = rank_positives(query, gallery, *identities, similarity="euclidean")
    moved = rank_positives(query + 4096, gallery + 4096, *identities, similarity="euclidean")
    found, wanted = (mean_over_queries(average_precision(ranks)) for ranks in (moved, expected))
    assert_close(found, wanted, atol=2e-3)  # float32 keeps 3 decimals of x + 4096


BY_BLOCK = {
    "softmax": lambda query, gallery: (query @ gallery.T).softmax(1),
    "standardized queries": lambda query, gallery: ((query - query.mean(0)) / query.std(0)) @ gallery.T,
    "standardized scores": lambda query, gallery: torch.nn.functional.layer_norm(query @ gallery.T, [len(gallery)]),
    "noise": lambda query, gallery: query @ gallery.T * torch.rand(len(query), len(gallery)),
}


@pytest.mark.parametrize("name", BY_BLOCK)
@pytest.mark.parametrize(
    ("dimension", "leave_one_out"),
    of_each([(2, False), (8, True), (64, False), (2, True), (8, False), (64, True)], suite=3),
)
def test_a_function_whose_scores_depend_on_their_block_is_refused(name, dimension, leave_one_out):
    query, gallery, *labels = labelled(40, dimension=dimension)
    if leave_one_out:  # each query finds itself in the gallery
        gallery, labels[1] = query, labels[0]
    with pytest.raises(
        ValueError, match=r"^`similarity` must give .* got other scores in blocks of 8 .* than in one of 16"
    ):
        rank_positives(query, gallery, *labels, similarity=BY_BLOCK[name])


BY_PAIR = {
    "distance": lambda query, gallery: -torch.cdist(query, gallery),
    "inverse distance": lambda query, gallery: 1 / torch.cdist(query, gallery),
    "bfloat16": lambda query, gallery: (query.bfloat16() @ gallery.bfloat16().T).float(),
    "one in common": lambda query, gallery: (query[:, None] == gallery).any(2).float(),
    "attention": lambda query, gallery: (query[:, None] * gallery).softmax(2).amax(2),
}
VALUES = {"normal": lambda x: x, "equal": torch.ones_like, "far": lambda x: x + 1e4, "whole": torch.round}


@pytest.mark.parametrize("name", BY_PAIR)
@pytest.mark.parametrize(
    ("values", "num_queries"),
    of_each([*zip(VALUES, (20, 4, 20, 1), strict=True), *itertools.product(VALUES, (1, 4, 20))], suite=4),
)
def test_a_function_of_pairs_is_none_of_them(name, values, num_queries):
    query, gallery, *labels = labelled(num_queries)
    change = VALUES[values]
    ranks = rank_positives(change(query), change(gallery), *labels, similarity=BY_PAIR[name])
    assert len(ranks.num_positives) == num_queries


def test_embeddings_that_require_gradients_or_are_inference_tensors_are_ranked():
    query, gallery, *identities = labelled()
    expected = rank_positives(query, gallery, *identities)
    assert same(rank_positives(query.requires_grad_(), gallery, *identities), expected)
    with torch.inference_mode():
        inside = rank_positives(query.clone(), gallery.clone(), *identities)
        kept = gallery.clone()
    assert same(inside, expected)
    assert same(rank_positives(query, kept, *identities), expected)


def test_autocast_and_reduced_precision_do_not_touch_scores():
    query, gallery, *identities = labelled(num_gallery=400, dimension=64)
    expected = rank_positives(query, gallery, *identities)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = rank_positives(query, gallery, *identities)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    assert same(found, expected)


def test_processes_score_in_the_widest_dtype_of_all():
    def dtype(world):
        rows = Rows([torch.ones(2, 3, dtype=(torch.float32, torch.float64)[world.process])])
        return score_rows(world, rows, rows, similarity="cosine", max_bytes=1000).dtype

    assert threads.run(2, dtype) == [torch.float64] * 2


TINY, HUGE = 2.0**-540, 2.0**540  # their squares leave the range of float64


def test_only_a_gallery_out_of_range_is_copied_for_cosines():
    usual, tiny = (Rows([torch.full((2, 3), value, dtype=torch.float64)]) for value in (1.0, TINY))
    copies = [SIMILARITIES["cosine"](rows, torch.float64, torch.zeros(0)).copies_gallery for rows in (usual, tiny)]
    assert copies == [False, True]


@pytest.mark.parametrize(
    ("of_query", "of_gallery"),
    of_each(
        [
            *((TINY, 1.0), (HUGE, TINY), (1.0, HUGE), (2.0**-1000, 2.0**1015), (2.0**1015, 2.0**-1000), (TINY, TINY)),
            *itertools.product((2.0**-1000, TINY, 1.0, HUGE, 2.0**1015), repeat=2),
        ],
        suite=6,
    ),
)
@pytest.mark.parametrize("name", ["cosine", "dot"])
def test_the_size_of_float64_embeddings_changes_no_rank(name, of_query, of_gallery):
    query, gallery, *identities = labelled()
    query, gallery = query.double(), gallery.double()
    expected = rank_positives(query, gallery, *identities, similarity=name)
    assert same(rank_positives(query * of_query, gallery * of_gallery, *identities, similarity=name), expected)
    query[::2] *= of_query  # the others stay as they are
    if name == "cosine":
        gallery[::3] *= of_gallery
    assert same(rank_positives(query, gallery, *identities, similarity=name), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@each_row("name", SIMILARITIES)
def test_comparable_scores_are_the_definitions_in_any_tile(name, dtype):
    query, gallery = (values.to(dtype) for values in labelled(dimension=96)[:2])
    if name == "hamming":
        query, gallery = query.sign(), gallery.sign()
    if name == "euclidean":  # far from the origin, near which distances are computed
        query, gallery = query + 4096, gallery + 4096
    expected = torch.from_numpy(similarity(query.double().numpy(), gallery.double().numpy(), name))
    for max_bytes in (2000, 10**6):
        scores = EmbeddingScores(Rows([query]), Rows([gallery]), similarity=name, max_bytes=max_bytes)
        out = torch.empty(4, 17, dtype=dtype)
        scores.fill(out, slice(2, 6), slice(5, 22))
        scores.to_comparable(out, slice(2, 6))
        assert_close(out.double(), expected[2:6, 5:22], rtol=0, atol=300 * torch.finfo(dtype).eps)


class OutOfMemoryError(RuntimeError):
    """As devices raise it."""


def test_errors_of_a_function_about_shapes_say_what_it_must_return_and_others_pass():
    query, gallery, *labels = labelled()

    def lacks_memory(query, gallery):
        raise OutOfMemoryError("no memory")

    with pytest.raises(
        RuntimeError, match=r"^`similarity` must return scores of shape \[\d+, \d+\] for queries \[.* got"
    ):
        rank_positives(query, gallery, *labels, similarity=lambda query, gallery: query @ gallery)
    with pytest.raises(OutOfMemoryError, match="no memory"):
        rank_positives(query, gallery, *labels, similarity=lacks_memory)


@pytest.mark.parametrize("size", [1.0, 2.0**-60, 2.0**60])
@pytest.mark.parametrize(("side", "row"), [("query", 0), ("query", 8), ("gallery", 0), ("gallery", 39)])
def test_scores_are_in_float64_if_some_row_needs_it(size, side, row):
    sides = {"query": torch.randn(9, 8), "gallery": torch.randn(40, 8)}
    sides[side][row] *= size
    expected = torch.float32 if size == 1 else torch.float64
    assert score_dtype("cosine", *(Rows([rows]) for rows in sides.values())) == expected


@pytest.mark.parametrize(("name", "expected"), [("dot", [10.0, 1e-199]), ("cosine", [10**-0.5, 10**-0.5])])
def test_scores_that_are_compared_between_queries_are_not_scaled(name, expected):
    query = torch.tensor([[1.0, 3.0], [1e-200, 3e-200]], dtype=torch.float64)
    gallery = torch.tensor([[10.0, 0.0]], dtype=torch.float64)
    scores = EmbeddingScores(Rows([query]), Rows([gallery]), similarity=name, max_bytes=1000)
    out = torch.empty(2, 1, dtype=torch.float64)
    scores.fill(out, slice(0, 2), slice(0, 1))
    scores.to_comparable(out, slice(0, 2))
    assert out[:, 0].tolist() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_squared_distances_that_float64_does_not_hold_are_refused(size):
    query, gallery, *identities = labelled()
    with pytest.raises(ValueError, match="`similarity` 'euclidean' needs a largest coordinate of embeddings between"):
        rank_positives(query.double() * size, gallery.double() * size, *identities, similarity="euclidean")


class Manhattan(Similarity):
    """Minus the sum of absolute differences: all that an added similarity must say."""

    copies_gallery = True

    def score(self, query, gallery, columns, out):
        assert len(gallery) <= 30
        torch.neg(torch.cdist(query, gallery, p=1), out=out)


@pytest.mark.parametrize("ties", ["pessimistic", "stable", "expected"])
def test_a_similarity_that_is_added_is_one_class_and_one_row(monkeypatch, ties):
    monkeypatch.setitem(SIMILARITIES, "manhattan", Manhattan)
    query, gallery, *identities = labelled()
    max_bytes = 30 * 4 * 8 * 4  # a quarter of it is for the gallery items of a block
    found = rank_positives(query, gallery, *identities, similarity="manhattan", ties=ties, max_bytes=max_bytes)
    distances = torch.cdist(query, gallery, p=1)
    assert same(found, rank_positives_from_scores(-distances, *identities, ties=ties))

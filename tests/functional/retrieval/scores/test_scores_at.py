"""Scores of a few columns for each query: the very bits of whole tiles."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.ranking import count_ranks
from reid_torchmetrics.functional.retrieval.relevance import find_relevance
from reid_torchmetrics.functional.retrieval.scores import EmbeddingScores, MatrixScores, Rows, score_embeddings
from tests.profiles import examples
from tests.strategies import SIMILARITIES_OF_ALL


@examples(40)
@given(
    st.integers(0, 10**6),
    st.sampled_from(SIMILARITIES_OF_ALL),
    st.sampled_from([torch.bfloat16, torch.float32, torch.float64]),
    st.sampled_from([1, 5, 400, 1000]),
    st.sampled_from([10**3, 10**5, 10**9]),
)
def test_scores_of_pairs_are_to_the_bit_those_of_whole_tiles(seed, similarity, dtype, dimension, max_bytes):
    random = torch.Generator().manual_seed(seed)
    num_queries, num_gallery = torch.randint(1, 130, (2,), generator=random).tolist()
    query, gallery = (torch.randn(size, dimension, generator=random).to(dtype) for size in (num_queries, num_gallery))
    kept = torch.randperm(num_gallery, generator=random)[: 1 + num_gallery // 2] if seed % 2 else None
    rows = Rows(gallery.split(50), kept)
    scores = EmbeddingScores(Rows([query]), rows, similarity=similarity, max_bytes=max_bytes)
    whole = torch.empty(num_queries, rows.size, dtype=scores.dtype)
    scores.fill(whole, slice(0, num_queries), slice(0, rows.size))
    some = slice(num_queries // 3, num_queries)
    columns = torch.randint(0, rows.size, (num_queries - some.start, 7), generator=random)
    assert torch.equal(scores.at(some, columns), whole[some].gather(1, columns))
    assert scores.at(some, columns[:, :0]).shape == (len(columns), 0)


def test_given_scores_are_looked_up():
    given = torch.randn(5, 20)
    kept = torch.tensor([3, 1, 19])
    scores = MatrixScores(given, kept=kept, max_bytes=100)
    columns = torch.tensor([[2, 0], [1, 1]])
    assert torch.equal(scores.at(slice(1, 3), columns), given[1:3].gather(1, kept[columns]))


@pytest.mark.parametrize(("similarity", "products"), [("dot", 1), (lambda query, gallery: query @ gallery.T, 2)])
def test_panels_need_one_product_unless_a_function_gives_the_scores(similarity, products, monkeypatch):
    query, gallery = torch.randn(60, 4), torch.randn(3000, 4)
    relevance = find_relevance(torch.arange(60), torch.arange(3000))
    scores = score_embeddings(query, gallery, relevance, similarity=similarity, max_bytes=100_000)
    filled, fill = [], EmbeddingScores.fill

    def counted(self, out, *tile):
        filled.append(out.numel())
        fill(self, out, *tile)

    monkeypatch.setattr(EmbeddingScores, "fill", counted)
    ranks = count_ranks(scores, relevance, ties="pessimistic")
    assert products <= sum(filled) / (60 * 3000) < products + 0.4  # panels overlap
    at_once = score_embeddings(query, gallery, relevance, similarity="dot")
    assert torch.equal(ranks.rank, count_ranks(at_once, relevance, ties="pessimistic").rank)

"""A query that is an item of the gallery is one item, and what a metric asks of re-ranking is what it gets."""

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import find_relevance, score_embeddings
from reid_torchmetrics.functional.retrieval.scores import check_rerank
from reid_torchmetrics.tasks.reranking import KReciprocal, QueryExpansion
from tests.closeness import assert_close
from tests.reference.reranking import expanded_by, expanded_set, reranked_distances

OWN = [-1, 5, -1, 0]  # of four queries, the second and the last are items of the gallery


def sides() -> tuple[Tensor, Tensor]:
    new, gallery = torch.randn(2, 3, dtype=torch.float64), torch.randn(8, 3, dtype=torch.float64)
    return torch.stack([new[0], gallery[5], new[1], gallery[0]]), gallery


def test_its_neighborhoods_hold_it_once():
    query, gallery = sides()
    new, options = query[::2].tolist(), {"k1": 3, "k2": 2, "weight": 0.3}
    found = KReciprocal(**options).rerank(query, gallery, self_index=OWN).distances()
    for row, own in enumerate(OWN):
        others = [place for place in range(8) if place != own]
        all_queries = new[row // 2 :] + new[: row // 2] if own < 0 else [query[row].tolist(), *new]
        expected = reranked_distances(all_queries, gallery[others].tolist(), **options)[0]
        assert found[row, others].tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("expanded", ["queries", "gallery_first", "together"])
def test_a_query_in_the_gallery_is_not_expanded_by_itself(expanded):
    query, gallery = sides()
    options, items = {"k": 3, "alpha": 1.0}, gallery.tolist()
    found, of_gallery = QueryExpansion(**options, expanded=expanded).expand(query, gallery, self_index=OWN)
    if expanded == "together":
        everything = expanded_set(query[::2].tolist() + items, **options)
        items, expected = everything[2:], [everything[place] for place in (0, 7, 1, 2)]
    else:
        items = items if expanded == "queries" else expanded_set(items, **options)
        others = [[item for place, item in enumerate(items) if place != own] for own in OWN]
        expected = [expanded_by(*each, **options) for each in zip(query.tolist(), others, strict=True)]
    assert_close(found, torch.tensor(expected, dtype=torch.float64), atol=1e-9)
    assert_close(of_gallery, torch.tensor(items, dtype=torch.float64), atol=1e-9)


def test_the_first_item_alone_is_expanded_by_another():
    gallery = torch.tensor([[1.0, 0.0], [0.8, 0.6]])
    found, _ = QueryExpansion(k=1, alpha=0.0, expanded="queries").expand(gallery[:1], gallery, self_index=[0])
    assert_close(found, gallery.mean(0, keepdim=True))


@pytest.mark.parametrize(("similarity", "normalize"), [("cosine", True), ("euclidean", False)])
def test_k_reciprocal_distances_are_of_unit_vectors_under_cosine_and_of_the_kept_gallery(similarity, normalize):
    query, gallery = sides()
    relevance = find_relevance(torch.tensor([1, 2, 3, 4]), torch.tensor([4, -1, 1, 1, -1, 2, 3, 3]), self_index=OWN)
    arguments, options = (query, gallery), {"self_index": OWN, "kept": torch.tensor([0, 2, 3, 5, 6, 7])}
    expected = KReciprocal(k1=3, normalize=normalize).rerank(*arguments, **options).distances()
    found = KReciprocal(k1=3).score(*arguments, relevance, similarity=similarity, max_bytes=None)
    assert torch.equal(found.distances(), expected)
    of_units = KReciprocal(k1=3, normalize=True)
    found = of_units.score(*arguments, relevance, similarity=similarity, max_bytes=None)
    assert torch.equal(found.distances(), of_units.rerank(*arguments, **options).distances())


def test_expanded_embeddings_are_compared_by_the_similarity():
    query, gallery = sides()
    relevance = find_relevance(torch.tensor([1, 2, 3, 4]), torch.tensor([4, -1, 1, 1, -1, 2, 3, 3]), self_index=OWN)
    expansion = QueryExpansion(k=3, expanded="gallery_first")
    expected = score_embeddings(*expansion.expand(query, gallery, self_index=OWN), relevance, similarity="dot").all()
    found = expansion.score(query, gallery, relevance, similarity="dot", max_bytes=None)
    assert torch.equal(found.all(), expected)


@pytest.mark.usefixtures("unannotated")
def test_k_reciprocal_re_ranking_starts_from_distances():
    for similarity, came in (("dot", "'dot'"), (torch.matmul, "builtin_function_or_method")):
        check_rerank(QueryExpansion(), similarity)
        with pytest.raises(ValueError, match=f"'cosine' or 'euclidean' for k-reciprocal re-ranking; got {came}.$"):
            check_rerank(KReciprocal(), similarity)
    for rerank in (None, KReciprocal(), QueryExpansion()):
        check_rerank(rerank, "cosine")
        check_rerank(rerank, "euclidean")
    with pytest.raises(TypeError, match="`rerank` must be one of KReciprocal, QueryExpansion or None; got str"):
        check_rerank("k-reciprocal", "cosine")


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("own", "error", "message"),
    [
        ([-1, 8, -1, 0], ValueError, r"`self_index` must lie in \[-1, 8\); got values from -1 to 8."),
        ([-2, 5, -1, 0], ValueError, r"`self_index` must lie in \[-1, 8\); got values from -2 to 5."),
        ([0, 1], ValueError, r"`self_index` must have shape \[4\]"),
        ([0.5] * 4, TypeError, "`self_index` must have an integer dtype"),
    ],
)
def test_a_place_outside_the_gallery_is_refused(own, error, message):
    for options in (KReciprocal(), QueryExpansion(), QueryExpansion(expanded="together")):
        act = options.rerank if isinstance(options, KReciprocal) else options.expand
        with pytest.raises(error, match=message):
            act(*sides(), self_index=own)

"""Query expansion: the definition, worked examples, laws, and what is refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.tasks.reranking.query_expansion import EXPANSIONS, QueryExpansion, expand_queries
from tests.closeness import assert_close
from tests.profiles import examples
from tests.reference.reranking import expanded_by, expanded_set

BOUNDS = (300, 2_000, 10**7)


@st.composite
def problems(draw):
    """Queries and gallery items out of a few vectors, so that many are equally near; the zero vector is among them."""
    pool = torch.randn(draw(st.integers(1, 8)), 3, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    pool = torch.cat([pool.double(), torch.zeros(1, 3, dtype=torch.float64)])
    sizes = draw(st.integers(0, 4)), draw(st.integers(0, 9))
    chosen = [draw(st.integers(0, len(pool) - 1)) for _ in range(sum(sizes))]
    query, gallery = pool[torch.tensor(chosen, dtype=torch.int64)].split(sizes)
    return query, gallery, {"k": draw(st.integers(1, 7)), "alpha": draw(st.sampled_from([0.0, 0.5, 1.0, 3.0]))}


def expand_set(items, max_bytes=BOUNDS[-1], **options):
    """A gallery expanded by itself; there are no queries."""
    return QueryExpansion(expanded="gallery_first", **options).expand(items[:0], items, max_bytes=max_bytes)[1]


@examples(40)
@given(problems(), st.sampled_from(BOUNDS))
def test_queries_and_sets_are_expanded_as_defined(problem, max_bytes):
    query, gallery, options = problem
    expected = [expanded_by(item, gallery.tolist(), **options) for item in query.tolist()]
    found = expand_queries(query, gallery, max_bytes=max_bytes, **options)
    assert_close(found, torch.tensor(expected, dtype=torch.float64).reshape(-1, 3), rtol=1e-7, atol=1e-7)
    expected = expanded_set(gallery.tolist(), **options)
    found = expand_set(gallery, max_bytes=max_bytes, **options)
    assert_close(found, torch.tensor(expected, dtype=torch.float64).reshape(-1, 3), rtol=1e-7, atol=1e-7)


def test_without_a_gallery_queries_stay():
    query = torch.randn(4, 6).half()
    found = expand_queries(query, query[:0])
    assert torch.equal(found, query.float())
    assert expand_queries(query[:0], query).shape == (0, 6)
    assert expand_set(query[:0]).shape == (0, 6)
    assert torch.equal(expand_set(query[:1]), query[:1].float())


def test_the_samples_to_expand_are_an_option():
    query, gallery, k = torch.randn(5, 8), torch.randn(20, 8), 3
    together = expand_set(torch.cat([query, gallery]), k=k)
    augmented = expand_set(gallery, k=k)
    expected = {
        "queries": (expand_queries(query, gallery, k=k), gallery),
        "gallery_first": (expand_queries(query, augmented, k=k), augmented),
        "together": (together[:5], together[5:]),
    }
    assert expected.keys() == {*EXPANSIONS}
    for expanded, sides in expected.items():
        for found, side in zip(QueryExpansion(k=k, expanded=expanded).expand(query, gallery), sides, strict=True):
            assert torch.equal(found, side)


def test_embeddings_are_left_as_they_are_and_followed_by_no_gradient():
    query, gallery = torch.randn(5, 8, requires_grad=True), torch.randn(20, 8, requires_grad=True)
    before = query.detach().clone(), gallery.detach().clone()
    for expanded in ("gallery_first", "together"):
        assert not any(side.requires_grad for side in QueryExpansion(expanded=expanded).expand(query, gallery))
    assert torch.equal(query.detach(), before[0])
    assert torch.equal(gallery.detach(), before[1])


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k": 0}, ValueError, "`k` must be at least 1; got 0."),
        ({"alpha": -1.0}, ValueError, "`alpha` must be finite and at least 0; got -1.0."),
        ({"alpha": float("nan")}, ValueError, "`alpha` must be finite and at least 0; got nan."),
        ({"alpha": None}, TypeError, "`alpha` must be a number; got NoneType."),
        ({"max_bytes": 0}, ValueError, "`max_bytes` must be at least 1; got 0."),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options, error, message):
    items = torch.randn(3, 4)
    with pytest.raises(error, match=message):
        expand_queries(items, items, **options)
    with pytest.raises(error, match=message):
        expand_set(items, **options)


@pytest.mark.usefixtures("unannotated")
def test_options_and_embeddings_that_do_not_fit_are_refused():
    items = torch.randn(3, 4)
    with pytest.raises(ValueError, match=r"`expanded` must be one of 'queries', .*, 'together'; got 'all'."):
        QueryExpansion(expanded="all")
    with pytest.raises(TypeError, match=r"`query` must be a tensor, an array or a list of numbers; got str."):
        expand_queries("items", items)
    with pytest.raises(ValueError, match=r"`query` and `gallery` must have the same embedding dimension; got 4 and 3."):
        expand_queries(items, items[:, :3])
    with pytest.raises(ValueError, match="`gallery` must be finite; got 3 rows"):
        expand_queries(items, items / 0)

"""Recall of a vector index: a loop with exact scores, ties and copies, blocks of a gallery, names, messages, files."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import index_recall
from reid_torchmetrics.data import SampleFile
from reid_torchmetrics.tasks import IndexRecall
from tests.profiles import examples
from tests.reference import index_recall as reference

SCORES = {
    "dot": lambda query, gallery: query @ gallery.T,
    "cosine": lambda query, gallery: torch.nn.functional.normalize(query) @ torch.nn.functional.normalize(gallery).T,
    "euclidean": lambda query, gallery: -(query[:, None] - gallery).square().sum(2).sqrt(),
    "hamming": lambda query, gallery: -(query[:, None] != gallery).sum(2).double(),
}
"""scores by their formulas, in float64"""
SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 40), st.integers(1, 12), st.integers(1, 15), st.integers(0, 999))


def make_problem(num_queries, num_gallery, longest, seed, similarity="dot"):
    """Few different vectors, so that many items tie, and lists with repeated items and with padding in any place."""
    rng = np.random.default_rng(seed)
    low, high = (-2, 3) if similarity != "hamming" else (0, 2)
    query, gallery = (torch.from_numpy(rng.integers(low, high, (n, 3))).float() for n in (num_queries, num_gallery))
    retrieved = rng.integers(-1, num_gallery, (num_queries, longest))
    return query, gallery, retrieved


def expected_recall(query, gallery, retrieved, k, similarity="dot", tolerance=1e-12, **rules):
    scores = SCORES[similarity](query.double(), gallery.double()).tolist()
    return reference.index_recall(np.asarray(retrieved).tolist(), scores, k, tolerance, **rules)


@pytest.mark.parametrize("similarity", [*SCORES, "function"])
@examples(25)
@given(shape=SHAPES, share=st.sampled_from([0.0, 0.1, 0.5, 1.0]), cut=st.integers(0, 40), form=st.integers(0, 4))
def test_recall_among_all_or_allowed_items_without_the_query_equals_that_of_a_loop(similarity, shape, share, cut, form):
    num_queries, num_gallery, longest, k, seed = shape
    rng = np.random.default_rng(seed)
    query, gallery, retrieved = make_problem(num_queries, num_gallery, longest, seed, similarity)
    allowed = rng.random((num_queries, num_gallery)) < share
    self_index = rng.integers(-1, num_gallery, num_queries)
    rules = {"allowed": allowed.tolist()} if form in (1, 2, 3) else {}
    if form in (0, 2):
        rules["self_index"] = self_index.tolist()
    arguments = {"allowed": torch.from_numpy(allowed), "self_index": self_index}
    if form in (2, 3):  # one mask for all queries
        arguments["allowed"], rules["allowed"] = allowed[0].tolist(), [allowed[0].tolist()] * num_queries
    options = {name: arguments[name] for name in rules}
    options |= {"k": k, "similarity": similarity}
    scored_by = similarity
    if similarity == "function":
        scored_by = "dot"
        options["similarity"] = lambda query, gallery: query @ gallery.T
    expected = expected_recall(query, gallery, retrieved, k, scored_by, **rules)
    for blocks, max_bytes in ((gallery, None), ([gallery[:cut], gallery[cut:]], 2_000)):
        recall = index_recall(retrieved, query, blocks, max_bytes=max_bytes, **options)
        np.testing.assert_allclose(recall.per_query, expected, rtol=1e-15)
        assert not bool((recall.per_query > 1).any())
        if not rules:
            different = [len(set(row[:k]) - {-1}) for row in retrieved.tolist()]
            assert recall.num_short == sum(number < min(k, num_gallery) for number in different)
        np.testing.assert_allclose(
            recall.mean, np.mean([value for value in expected if not math.isnan(value)] or [np.nan]), rtol=1e-12
        )
    scores = SCORES[scored_by](query.double(), gallery.double()).numpy().copy()
    if "allowed" in rules:
        scores[~np.array(rules["allowed"])] = -np.inf
    exact = [[item for item in np.argsort(-row, kind="stable").tolist() if row[item] > -np.inf] for row in scores]
    per_query = index_recall(exact, query, gallery, **options).per_query
    assert bool((per_query == 1).logical_or(per_query.isnan()).all())


def make_near_duplicates(seed, spread, offset):
    """Queries and items of few centers in float32, and lists that are exact, or as a search in float32 returns them."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(3, 16))
    items = offset + centers[rng.integers(0, 3, 90)] + spread * rng.normal(size=(90, 16))
    items[0] = 0
    query, gallery = (torch.from_numpy(rows.astype(np.float32)) for rows in (items[80:], items[:80]))
    return query, gallery


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@examples(6)
@given(
    seed=st.integers(0, 999),
    spread_and_offset=st.sampled_from([(1.0, 0), (1e-3, 0), (1e-4, 0), (1e-2, 300)]),
    k=st.integers(1, 12),
    cut=st.integers(1, 79),
)
def test_recall_of_near_duplicates_is_that_of_float64_in_any_blocks(similarity, seed, spread_and_offset, k, cut):
    query, gallery = make_near_duplicates(seed, *spread_and_offset)
    exact = SCORES[similarity](query.double(), gallery.double()).argsort(descending=True)
    rounded = SCORES[similarity](query, gallery).argsort(descending=True)
    in_any_order = np.random.default_rng(seed).permuted(np.tile(np.arange(80), (10, 1)), axis=1)
    assert index_recall(exact, query, gallery, k=k, similarity=similarity).mean == 1
    for lists in (rounded.numpy(), in_any_order):
        expected = expected_recall(query, gallery, lists, k, similarity)
        for form, max_bytes in ((gallery, None), ([gallery[:cut], gallery[cut:]], 20_000)):
            recall = index_recall(lists, query, form, k=k, similarity=similarity, max_bytes=max_bytes)
            np.testing.assert_allclose(recall.per_query, expected, rtol=1e-15)


def test_tolerance_counts_items_that_an_index_confuses_by_rounding():
    query = torch.tensor([[1.0, 0.0]])
    gallery = torch.tensor([[2.0, 0.0], [2.0 - 1e-6, 0.0], [1.9, 0.0]])
    assert index_recall([[1]], query, gallery, k=1, similarity="dot").mean == 0
    assert index_recall([[1]], query, gallery, k=1, similarity="dot", tolerance=1e-6).mean == 1
    assert index_recall([[2]], query, gallery, k=1, similarity="dot", tolerance=1e-6).mean == 0
    assert index_recall([[2]], query, gallery, k=1, similarity="dot", tolerance=0.06).mean == 1

    def product(query, gallery):  # whose scores round
        return query @ gallery.T

    assert index_recall([[1]], query, gallery, k=1, similarity=product).mean == 1
    assert index_recall([[1]], query, gallery, k=1, similarity=product, tolerance=0).mean == 0


def test_a_function_as_similarity_and_scores_without_bounds_are_allowed():
    query, gallery, retrieved = make_problem(4, 30, 8, 0)

    def similarity(query, gallery):
        return (query @ gallery.T).masked_fill(gallery[:, 0] > 1, -torch.inf)

    scores = similarity(query.double(), gallery.double()).tolist()
    expected = reference.index_recall(retrieved.tolist(), scores, 5, 0)
    recall = index_recall(retrieved, query, gallery, k=5, similarity=similarity)
    assert recall.per_query.tolist() == expected
    assert "similarity" in recall.similarity


def test_packed_codes_and_half_precision_have_the_recall_of_their_numbers():
    rng = np.random.default_rng(0)
    query, gallery = rng.integers(0, 2, (5, 16), dtype=np.uint8), rng.integers(0, 2, (60, 16), dtype=np.uint8)
    retrieved = rng.integers(0, 60, (5, 10))
    expected = index_recall(retrieved, query, gallery, similarity="hamming")
    packed = np.packbits(query, axis=1), np.packbits(gallery, axis=1)
    assert index_recall(retrieved, *packed, similarity="hamming", packed=True).mean == expected.mean
    halves = torch.from_numpy(query).half(), torch.from_numpy(gallery).half()
    assert (
        index_recall(retrieved, *halves, similarity="dot").mean
        == index_recall(retrieved, halves[0].double(), halves[1].double(), similarity="dot").mean
    )


def test_mapped_arrays_and_files_of_samples_are_galleries(tmp_path):
    query, gallery, retrieved = make_problem(5, 40, 10, 0)
    expected = index_recall(retrieved, query, gallery, k=4).per_query.tolist()
    np.save(tmp_path / "gallery.npy", gallery.numpy())
    mapped = np.load(tmp_path / "gallery.npy", mmap_mode="r")
    assert index_recall(retrieved, query.numpy(), mapped, k=4).per_query.tolist() == expected
    files = [SampleFile("a.npy", gallery[:13].numpy(), {}, ()), SampleFile("b.npy", gallery[13:].numpy(), {}, ())]
    assert index_recall(retrieved, query, files, k=4).per_query.tolist() == expected
    query_files = [SampleFile("q.npy", query[:2].numpy(), {}, ()), SampleFile("r.npy", query[2:].numpy(), {}, ())]
    assert index_recall(retrieved, query_files, files, k=4).per_query.tolist() == expected


@pytest.mark.parametrize("name", [str, lambda number: 1000 - number], ids=["strings", "ints"])
def test_names_stand_for_queries_and_items(name):
    query, gallery, retrieved = make_problem(4, 30, 8, 1)
    retrieved = np.abs(retrieved)
    expected = index_recall(retrieved, query, gallery, k=5)
    lists = [[name(item) for item in row] for row in retrieved.tolist()]
    gallery_names = [name(item) for item in range(30)]
    assert index_recall(lists, query, gallery, k=5, gallery_names=gallery_names).mean == expected.mean
    query_names = [name(number) for number in range(4)]
    by_query = dict(reversed(list(zip(query_names, lists, strict=True))))
    names = {"query_names": query_names, "gallery_names": gallery_names}
    assert index_recall(by_query, query, gallery, k=5, **names).mean == expected.mean
    del by_query[query_names[0]]  # a query without a list retrieved nothing
    recall = index_recall(by_query, query, gallery, k=5, **names)
    assert recall.per_query.tolist() == [0, *expected.per_query[1:].tolist()]


def test_a_gallery_below_k_has_fewer_nearest_items_and_no_query_no_mean():
    query, gallery, _ = make_problem(2, 3, 1, 0)
    assert index_recall([[0, 1, 2], [2, 1, 0]], query, gallery, k=10).mean == 1
    recall = index_recall(np.zeros((0, 4), int), query[:0], gallery)
    assert math.isnan(recall.mean)
    assert len(recall.per_query) == 0


def test_text_names_k_the_gallery_the_similarity_and_short_lists():
    query, gallery, _ = make_problem(2, 30, 1, 0)
    recall = index_recall([[0, -1], [1, 2]], query, gallery, k=2)
    assert str(recall) == (
        f"IndexRecall: recall@2 {recall.mean:.4f} over 2 queries in a gallery of 30 items; similarity: cosine; "
        "lists with fewer than 2 items: 1"
    )
    assert f"{recall.mean:.1%}" in f"{recall:.1%}"
    assert str(recall) in recall._repr_html_()
    assert float(recall) == recall.mean


def test_a_saved_recall_is_loaded_with_all_its_values(tmp_path):
    query, gallery, retrieved = make_problem(6, 40, 12, 0)
    recall = index_recall(retrieved, query, gallery)
    loaded = IndexRecall.load(recall.save(tmp_path / "recall.npz"))
    assert loaded.per_query.tolist() == recall.per_query.tolist()
    assert str(loaded) == str(recall)
    with pytest.raises(ValueError, match="shares from 0 to 1"):
        IndexRecall(recall.per_query + 1, k=10, num_gallery=40, similarity="dot", num_short=0).save(tmp_path / "bad")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"k": 0}, ValueError, "`k` must be at least 1; got 0"),
        ({"k": 2.0}, TypeError, "`k` must be an int"),
        ({"similarity": "l2"}, ValueError, "`similarity` must be one of"),
        ({"tolerance": -1}, ValueError, r"`tolerance` must lie in \[0, 1\); got -1"),
        ({"tolerance": "small"}, TypeError, "`tolerance` must be a number"),
        ({"packed": 1}, TypeError, "`packed` must be"),
        ({"retrieved": [[0]]}, ValueError, "`retrieved` must hold one list for each of 2 queries; got 1"),
        ({"retrieved": [0, 1]}, TypeError, "`retrieved` must hold one list for each query"),
        ({"retrieved": [[0], [5]]}, ValueError, r"`retrieved` must .*5"),
        ({"retrieved": [[0], [-2]]}, ValueError, "`retrieved` must hold items of at least 0, or -1"),
        ({"retrieved": [["a"], ["b"]]}, TypeError, "names that `gallery_names` has; got 'a' without `gallery_names`"),
        ({"retrieved": [[0.5], [1.0]]}, TypeError, "items that are all ints, or all strings"),
        ({"retrieved": {"q": [0]}}, ValueError, "`query_names` must be given where `retrieved` is a mapping"),
        ({"query_names": ["p", "q"]}, ValueError, "`query_names` must come with `retrieved` as a mapping"),
        ({"retrieved": {"r": [0]}, "query_names": ["p", "q"]}, ValueError, "queries of `query_names`; got 'r'"),
        ({"retrieved": {"q": [0]}, "query_names": ["q"]}, ValueError, "one name for each of 2 rows; got 1"),
        ({"retrieved": {"q": [0]}, "query_names": ["q", "q"]}, ValueError, "each name once; got 'q' twice"),
        ({"gallery_names": list("aacde")}, ValueError, "`gallery_names` must hold each name once; got 'a' twice"),
        (
            {"retrieved": [["a"], ["b"]], "gallery_names": list("abcd")},
            ValueError,
            "`gallery_names` must hold one name for each gallery item; got 4 names for 5 items",
        ),
        ({"retrieved": [["a"], ["z"]], "gallery_names": list("abcde")}, ValueError, "`retrieved` must hold .*'z'"),
        ({"query": torch.zeros(2)}, ValueError, r"`query` must have shape \[N, D\]"),
        ({"query": torch.zeros(2, 3, dtype=torch.int64)}, TypeError, "`query` must have a floating point dtype"),
        ({"gallery": torch.zeros(5, 4)}, ValueError, "`gallery` must have .*4"),
        ({"gallery": torch.full((5, 3), torch.nan)}, ValueError, "must be finite"),
        ({"gallery": torch.zeros(0, 3)}, ValueError, "`gallery` must have at least one item; got none"),
        ({"gallery": []}, ValueError, "`gallery` must"),
        ({"gallery": iter([])}, ValueError, "`gallery` must have at least one item; got none"),
        ({"gallery": [torch.zeros(5, 3), torch.zeros(2, 4)]}, ValueError, "`gallery` must have .*4"),
        ({"similarity": lambda query, gallery: (query @ gallery.T) * torch.nan}, ValueError, "NaN"),
        ({"max_bytes": 0}, ValueError, "`max_bytes` must be at least 1"),
        ({"self_index": [0]}, ValueError, r"`self_index` must have shape \[2\]; got \[1\]"),
        ({"self_index": [0, 5]}, ValueError, r"`self_index` must lie in \[-1, 5\); got values from 0 to 5"),
        ({"self_index": [0.5, 1.0]}, TypeError, "`self_index` must have an integer dtype"),
        ({"allowed": torch.ones(2, 5)}, TypeError, "`allowed` must be a bool tensor; got torch.float32"),
        ({"allowed": np.ones((3, 5), bool)}, ValueError, r"`allowed` must have shape \[N\] or \[2, N\]; got \[3, 5\]"),
        ({"allowed": np.ones((2, 4), bool)}, ValueError, "`allowed` must hold 5 gallery items; got 4"),
        ({"allowed": [True] * 6}, ValueError, "`allowed` must hold 5 gallery items; got 6"),
    ],
)
def test_a_wrong_argument_is_named_with_its_rule_and_value(changes, error, message):
    query, gallery, _ = make_problem(2, 5, 1, 0)
    arguments = {"retrieved": [[0], [1]], "query": query, "gallery": gallery} | changes
    with pytest.raises(error, match=message):
        index_recall(**arguments)

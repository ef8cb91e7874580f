"""Ranked lists that are judged by labels: the numbers of `evaluate`, and of a loop where lists are cut."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import PROTOCOLS, evaluate
from reid_torchmetrics.tasks import evaluate_lists
from tests.reference import retrieval as reference

NUM_QUERIES, NUM_GALLERY = 12, 50
ITEMS = [
    name
    for name, protocol in PROTOCOLS.items()
    if protocol.gallery_draw is None and not protocol.needs_groups and not protocol.needs_lists
]


def make_problem(seed=0):
    rng = np.random.default_rng(seed)
    embeddings = [torch.from_numpy(rng.normal(size=(number, 6))) for number in (NUM_QUERIES, NUM_GALLERY)]
    labels = {}
    for side, number in (("query", NUM_QUERIES), ("gallery", NUM_GALLERY)):
        labels[f"{side}_identities"] = torch.from_numpy(rng.integers(-1, 5, number))
        labels[f"{side}_cameras"] = torch.from_numpy(rng.integers(1, 7, number))
        labels[f"{side}_clothes"] = torch.from_numpy(rng.integers(0, 2, number))
        labels[f"{side}_sequences"] = torch.from_numpy(rng.integers(0, 9, number))
        labels[f"{side}_positions"] = torch.from_numpy(rng.uniform(0, 60, (number, 2)))
    return embeddings, labels


def numbers_of(results):
    return {name: results.per_query[name].tolist() for name in results.per_query}


@pytest.mark.filterwarnings("ignore:Nearly all gallery items match")  # one identity, for lists of all items
@pytest.mark.sampled
@pytest.mark.parametrize("name", ITEMS)
def test_lists_of_the_whole_gallery_have_the_numbers_of_evaluate(name):
    (query, gallery), labels = make_problem()
    protocol = PROTOCOLS[name]
    if protocol.leave_one_out:
        sides = {key: value for key, value in labels.items() if key.startswith("query_")}
        expected = evaluate(query, **sides, protocol=name)
        sides |= {key.replace("query_", "gallery_"): value for key, value in sides.items()}
        own = {"self_index": torch.arange(NUM_QUERIES)}
        found = evaluate_lists(expected.nearest(NUM_QUERIES).index, **sides, **own, protocol=name)
    else:
        expected = evaluate(query, gallery, **labels, protocol=name)
        # Lists of an index hold junk as well.
        plain = {"similarity": expected.setup.similarity}
        order = evaluate(query, gallery, [0] * NUM_QUERIES, [0] * NUM_GALLERY, **plain).nearest(NUM_GALLERY).index
        found = evaluate_lists(order, **labels, protocol=name)
        from_candidates = evaluate_lists(expected.nearest(NUM_GALLERY).index, **labels, protocol=name)
        np.testing.assert_equal(numbers_of(from_candidates), numbers_of(expected))
        assert found.list_counts.num_short == 0
    np.testing.assert_equal(numbers_of(found), numbers_of(expected))
    np.testing.assert_equal(found.means, expected.means)
    assert found.counts == expected.counts
    np.testing.assert_equal(found.cmc.tolist(), expected.cmc.tolist())
    ours, theirs = found.nearest(5), expected.nearest(5)
    for field in ("index", "identities", "is_positive", "first_positive_rank", "first_positive_index"):
        assert torch.equal(getattr(ours, field), getattr(theirs, field)), field


@pytest.mark.parametrize("length", [1, 5, 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_cut_lists_have_the_numbers_of_a_loop(seed, length):
    (query, gallery), labels = make_problem(seed)
    scores = (query @ gallery.T).numpy()
    order = np.argsort(-scores, axis=1, kind="stable")[:, :length]
    identities, cameras = (
        [labels[f"{side}_{name}"].tolist() for side in ("query", "gallery")] for name in ("identities", "cameras")
    )
    chosen = {key: labels[key] for key in labels if key.endswith(("identities", "cameras"))}
    results = evaluate_lists(torch.from_numpy(order), **chosen, protocol="market1501")
    num_short = 0
    for row in range(NUM_QUERIES):
        candidates = reference.candidates(identities[0][row], identities[1], cameras[0][row], cameras[1])
        left = [item for item in order[row].tolist() if item not in candidates.junk]
        hits = [item in candidates.positive for item in left]
        expected = reference.average_precision(hits, num_positives=len(candidates.positive))
        np.testing.assert_allclose(float(results.average_precision[row]), expected, atol=1e-12)
        num_short += len(left) < min(10, NUM_GALLERY - len(candidates.junk))
    assert (results.list_counts.cutoff, results.list_counts.num_short) == (10, num_short)
    if num_short:
        assert f"lists with fewer than 10 left once junk is removed: {num_short}" in str(results)


def test_items_and_queries_may_have_names():
    (query, gallery), labels = make_problem()
    order = (query @ gallery.T).argsort(dim=1, descending=True)[:, :20]
    expected = evaluate_lists(order, **labels, protocol="market1501")
    items = [f"image {number}.jpg" for number in range(NUM_GALLERY)]
    queries = [f"query {number}" for number in range(NUM_QUERIES)]
    named = {}
    for name, values in labels.items():
        keys = queries if name.startswith("query_") else items
        named[name] = dict(zip(keys, values.tolist(), strict=True))
    retrieved = {queries[row]: [items[item] for item in order[row].tolist()] for row in reversed(range(NUM_QUERIES))}
    found = evaluate_lists(retrieved, **named, protocol="market1501")
    np.testing.assert_equal(numbers_of(found), numbers_of(expected))
    assert found.query_names == tuple(queries)
    assert found.gallery_names == tuple(items)
    by_number = {100 + row: [500 + item for item in order[row].tolist()] for row in range(NUM_QUERIES)}
    numbered = {
        name: {(100 if name.startswith("query_") else 500) + key: value for key, value in enumerate(values.tolist())}
        for name, values in labels.items()
    }
    found = evaluate_lists(by_number, **numbered, protocol="market1501")
    np.testing.assert_equal(numbers_of(found), numbers_of(expected))
    # Items have names, and queries are in order.
    mixed = {name: value if name.startswith("query_") else named[name] for name, value in labels.items()}
    found = evaluate_lists([retrieved[name] for name in queries], **mixed, protocol="market1501")
    np.testing.assert_equal(numbers_of(found), numbers_of(expected))


def test_a_query_without_a_list_retrieved_nothing_or_is_left_out():
    labels = {"query_identities": {"a": 1, "b": 2}, "gallery_identities": {"x": 1, "y": 2}}
    assert evaluate_lists({"a": ["x"]}, **labels, reports=("map",))["map"] == 0.5
    assert evaluate_lists({"a": ["x"]}, **labels, reports=("map",), missing_queries="skip")["map"] == 1.0
    with pytest.raises(ValueError, match="`retrieved` must have no query that `query_identities` lacks; got 'c'"):
        evaluate_lists({"c": ["x"]}, **labels)


def test_repeated_items_are_counted_and_said():
    results = evaluate_lists([["a", "a", "b"], ["b", "c", "d"]], [["a", "b"], ["b"]], reports=("map",))
    assert results.list_counts.num_repeated == 1
    assert "items that are repeated in a list and count once: 1" in str(results)
    labels = {"query_identities": [1], "gallery_identities": [1, 2]}
    assert evaluate_lists([[0, 1, 0, 0]], **labels).list_counts.num_repeated == 2
    assert evaluate_lists(torch.tensor([[0, 1, -1, -1]]), **labels).list_counts.num_repeated == 0


def test_positives_may_be_a_bool_matrix():
    rng = np.random.default_rng(0)
    matrix = rng.random((4, 9)) < 0.4
    order = torch.from_numpy(np.stack([rng.permutation(9) for _ in range(4)]))
    expected = evaluate_lists(order, [np.flatnonzero(row).tolist() for row in matrix])
    for form in (matrix, torch.from_numpy(matrix)):
        np.testing.assert_equal(evaluate_lists(order, form).means, expected.means)


ARRAYS = {"query_identities": [7], "gallery_identities": [7, 8, 8]}
NAMES = {"query_identities": [7], "gallery_identities": {"a.jpg": 7, "b.jpg": 8}}
REFUSED = [
    (
        [["c.jpg", "a.jpg"]],
        ARRAYS,
        TypeError,
        "must hold positions in the gallery, as ints, .* got 'c.jpg'. Give names with",
    ),
    ([["10", "11"]], ARRAYS, TypeError, "must hold positions in the gallery"),
    ([["c.jpg"]], NAMES, ValueError, "must hold items that the labels of the gallery have; got 'c.jpg' for query 0"),
    ([[0, 3]], ARRAYS, ValueError, "`retrieved` must"),
    ({"q": [0]}, ARRAYS, TypeError, "`retrieved` and `query_identities` must both be mappings of queries, or neither"),
    ([[0]], {**ARRAYS, "query_identities": {"q": 7}}, TypeError, "must both be mappings of queries, or neither"),
    ([[0]], {**NAMES, "query_cameras": [1], "gallery_cameras": [1, 2]}, TypeError, "must be a mapping of names, as"),
    (
        [["a.jpg"]],
        {**NAMES, "query_cameras": [1], "gallery_cameras": {"a.jpg": 1}},
        ValueError,
        "`gallery_cameras` must have the keys of `gallery_identities`; got a difference in 'b.jpg'",
    ),
    ([[0]], {"query_identities": [7]}, ValueError, "`query_identities` and `gallery_identities` must be given unless"),
    ([[0]], {}, ValueError, "`positives` must be given, or labels such as `query_identities`; got neither"),
]


@pytest.mark.parametrize(("retrieved", "labels", "kind", "message"), REFUSED)
def test_labels_that_do_not_fit_the_lists_are_refused(retrieved, labels, kind, message):
    with pytest.raises(kind, match=message):
        evaluate_lists(retrieved, **labels)

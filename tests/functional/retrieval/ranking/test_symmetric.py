"""Leave-one-out multiplies each pair once: ranks are those of a loop over the definition, and of products both ways."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import ReIDMetrics, evaluate
from reid_torchmetrics.functional.retrieval import find_relevance
from reid_torchmetrics.functional.retrieval.ranking import count_ranks, query_blocks, ranks, symmetric
from reid_torchmetrics.functional.retrieval.scores import SymmetricScores, score_embeddings
from tests.profiles import examples
from tests.reference import retrieval as reference
from tests.strategies import ALL_TIES

COUNTED = ("pessimistic", "optimistic", "grouped", "expected")
SMALL = {
    "_MOST_ITEMS": 48,
    "_ROWS_AT_A_TIME": 20,
    "_FEWEST_BLOCKS": 2,
    "FEWEST_DIMENSIONS": 1,
    "_MOST_POSITIVES": 1000,
    "_POSITIVES_FOR_A_DIMENSION": 1000,
}
WAYS = {
    "as it costs": {},
    "comparing": {"_COST_OF_A_PICK": 1e9, "_COST_OF_SORTING": 1e9},
    "picking": {"_COST_OF_A_PICK": 0.0},
    "sorting": {"_COST_OF_A_PICK": 1e9, "_COST_OF_SORTING": 0.0, "_COST_OF_A_SEARCH": 0.0},
}


@pytest.fixture
def small(monkeypatch):
    """Blocks of 48 items, so that small problems have several."""
    for name, value in SMALL.items():
        monkeypatch.setattr(symmetric, name, value)


def ranks_of(problem, *, is_symmetric, ties="pessimistic", max_bytes=None):
    """The ranks with each pair multiplied once, or both ways, and whether the former was possible."""
    embeddings, labels, options, similarity = problem
    made = []

    def count(part):
        made.append(symmetric.count_symmetric(part) if is_symmetric else None)
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "count_symmetric", count)
        relevance = find_relevance(**labels, **options)
        scores = score_embeddings(embeddings, embeddings, relevance, similarity=similarity, max_bytes=max_bytes)
        return count_ranks(scores, relevance, ties=ties), made[0] is not None


def as_lists(result):
    """All that is counted."""
    groups = None
    if result.tied is not None:
        fields = result.tied.num_groups, result.tied.num_positives, result.tied.num_negatives
        groups = [values.tolist() for values in fields]
    return result.rank.tolist(), result.num_positives.tolist(), result.num_candidates.tolist(), groups


def problem_of(kind, seed, *, num_items=200, dimension=8, num_identities=40, similarity="dot", **options):
    """Embeddings of a kind, labels, options of relevance and a similarity."""
    rng = np.random.default_rng(seed)
    identities = rng.integers(-1, num_identities, num_items)
    values = rng.normal(size=(num_items, dimension))
    if kind == "whole":
        values = np.round(2 * values)
    if kind == "copies":
        values = values[rng.integers(0, max(1, num_items // 3), num_items)]
    if kind == "codes":
        values = np.sign(values)
    if kind == "good":
        values = rng.normal(size=(num_identities + 1, dimension))[identities] + 0.3 * values
    if kind == "zeros":
        values[::7] = 0
    if kind == "far":
        values += 100
    labels = {"query_identities": identities, "gallery_identities": identities}
    options = {"self_index": np.arange(num_items), **options}
    return torch.tensor(values, dtype=torch.float32), labels, options, similarity


@pytest.mark.sampled
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ties", COUNTED)
@pytest.mark.usefixtures("small")
def test_ranks_are_those_of_the_slow_reference(monkeypatch, way, ties):
    for name, value in WAYS[way].items():
        monkeypatch.setattr(query_blocks, name, value)
    for seed in range(3):
        problem = problem_of("whole", seed, junk_identities=(-1, 5))
        embeddings, labels, options, _ = problem
        result, was_symmetric = ranks_of(problem, is_symmetric=True, ties=ties)
        scores, identities = (embeddings @ embeddings.T).tolist(), labels["query_identities"].tolist()
        expected = []
        for query, identity in enumerate(identities):
            found = reference.candidates(
                identity, identities, junk_identities=options["junk_identities"], self_position=query
            )
            expected += reference.positive_ranks(scores[query], found.positive, found.negative, ties)
        assert was_symmetric
        assert result.rank.tolist() == expected


KINDS = ("floats", "whole", "copies", "codes", "good", "zeros", "far")


CASES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "seed": st.integers(0, 10**6),
        "num_items": st.integers(2, 220),
        "dimension": st.sampled_from([1, 3, 16, 64, 385, 512]),
        "num_identities": st.sampled_from([1, 5, 40, 150]),
        "similarity": st.sampled_from(["cosine", "euclidean", "dot"]),
        "same_camera": st.sampled_from(["same_identity", "keep"]),
    }
)


@examples(30)
@given(
    CASES,
    st.sampled_from([torch.float32, torch.float32, torch.float64, torch.float16]),
    st.sampled_from([None, 1 << 16, 1 << 18, 1 << 22]),
    st.sampled_from([1, 2]),
)
def test_to_multiply_each_pair_once_changes_no_rank(case, dtype, max_bytes, num_threads):
    embeddings, labels, *others = problem_of(**case)
    cameras = np.random.default_rng(case["seed"]).integers(0, 3, len(embeddings))
    labels = labels | {"query_cameras": cameras, "gallery_cameras": cameras}
    problem = embeddings.to(dtype), labels, *others
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in SMALL.items():
                patch.setattr(symmetric, name, value)
            for ties in ALL_TIES:
                once, _ = ranks_of(problem, is_symmetric=True, ties=ties, max_bytes=max_bytes)
                twice, _ = ranks_of(problem, is_symmetric=False, ties=ties, max_bytes=max_bytes)
                assert as_lists(once) == as_lists(twice)
    finally:
        torch.set_num_threads(before)


@pytest.mark.sampled
@pytest.mark.parametrize("dimension", [128, 384, 500, 512])
def test_blocks_of_full_size_change_no_rank(dimension):
    problem = problem_of(
        "good", 0, num_items=3100, dimension=dimension, num_identities=500, similarity="cosine", junk_identities=()
    )
    once, was_symmetric = ranks_of(problem, is_symmetric=True)
    assert was_symmetric
    assert as_lists(once) == as_lists(ranks_of(problem, is_symmetric=False)[0])


def count_products(monkeypatch):
    """The number of products of two items in blocks, filled in as they are made."""
    counts = {"products": 0}
    multiply = SymmetricScores.multiply

    def count(self, first, second, out):
        counts["products"] += out.numel()
        multiply(self, first, second, out)

    monkeypatch.setattr(SymmetricScores, "multiply", count)
    monkeypatch.setattr(symmetric, "_scores_of_listed", not_counted(symmetric._scores_of_listed, counts))
    return counts


def not_counted(read, counts):
    """Read the positives, without counting their small products."""

    def work(*arguments):
        before = counts["products"]
        values = read(*arguments)
        counts["products"] = before
        return values

    return work


@pytest.mark.usefixtures("small")
def test_blocks_on_the_diagonal_and_above_it_are_multiplied_once(monkeypatch):
    counts = count_products(monkeypatch)
    _, was_symmetric = ranks_of(problem_of("floats", 0, num_items=480), is_symmetric=True)
    assert was_symmetric
    # Ten blocks of 48 items: 55 of 100 products.
    assert counts["products"] <= 55 * 48 * 48


@pytest.mark.usefixtures("small")
def test_blocks_without_positives_are_not_multiplied(monkeypatch):
    counts = count_products(monkeypatch)
    embeddings, labels, options, similarity = problem_of("floats", 0, num_items=480)
    identities = np.arange(480)
    identities[:20] = np.repeat(np.arange(10), 2)
    labels = {"query_identities": identities, "gallery_identities": identities}
    problem = embeddings, labels, options, similarity
    once, was_symmetric = ranks_of(problem, is_symmetric=True)
    assert was_symmetric
    # Twenty items with a positive are in the first block, against all ten.
    assert counts["products"] == 10 * 48 * 48
    assert as_lists(once) == as_lists(ranks_of(problem, is_symmetric=False)[0])


@pytest.mark.usefixtures("small")
def test_products_that_depend_on_the_order_of_their_items_are_made_both_ways(monkeypatch):
    multiply = SymmetricScores.multiply

    def multiply_unevenly(self, first, second, out):
        multiply(self, first, second, out)
        out.view(-1)[1:2] += 1e-3

    problem = problem_of("floats", 0)
    expected = as_lists(ranks_of(problem, is_symmetric=False)[0])
    monkeypatch.setattr(SymmetricScores, "multiply", multiply_unevenly)
    result, was_symmetric = ranks_of(problem, is_symmetric=True)
    assert not was_symmetric
    assert as_lists(result) == expected


def copied_query(problem):
    embeddings, labels, options, similarity = problem
    relevance = find_relevance(**labels, **options)
    return relevance, score_embeddings(embeddings.clone(), embeddings, relevance, similarity=similarity)


def scores_in_float64(problem):
    embeddings, labels, options, _ = problem
    relevance = find_relevance(**labels, **options)
    return relevance, score_embeddings(embeddings.double(), embeddings.double(), relevance, similarity="dot")


def scores_by_a_function(problem):
    embeddings, labels, options, _ = problem
    relevance = find_relevance(**labels, **options)
    return relevance, score_embeddings(embeddings, embeddings, relevance, similarity=lambda a, b: a @ b.T)


def rules_for_all_pairs(problem):
    embeddings, labels, options, similarity = problem
    cameras = np.arange(len(embeddings)) % 3
    cameras_of_both = {"query_cameras": cameras, "gallery_cameras": cameras}
    relevance = find_relevance(**labels, **cameras_of_both, **options, same_camera="all")
    return relevance, score_embeddings(embeddings, embeddings, relevance, similarity=similarity)


def without_own_places(problem):
    embeddings, labels, _, similarity = problem
    relevance = find_relevance(**labels)
    return relevance, score_embeddings(embeddings, embeddings, relevance, similarity=similarity)


def with_another_place(problem):
    embeddings, labels, options, similarity = problem
    own, identities = options["self_index"].copy(), labels["query_identities"]
    first, second, *_ = np.flatnonzero(identities == identities.max())
    own[[first, second]] = second, first
    relevance = find_relevance(**labels, self_index=own)
    return relevance, score_embeddings(embeddings, embeddings, relevance, similarity=similarity)


def in_little_memory(problem):
    embeddings, labels, options, similarity = problem
    relevance = find_relevance(**labels, **options)
    return relevance, score_embeddings(embeddings, embeddings, relevance, similarity=similarity, max_bytes=20_000)


OTHERS = (
    copied_query,
    scores_in_float64,
    scores_by_a_function,
    rules_for_all_pairs,
    without_own_places,
    with_another_place,
    in_little_memory,
)


@pytest.mark.parametrize("make", OTHERS, ids=lambda make: make.__name__)
@pytest.mark.usefixtures("small")
def test_other_problems_are_multiplied_both_ways(make, monkeypatch):
    relevance, scores = make(problem_of("floats", 0))
    made = []
    count = symmetric.count_symmetric
    monkeypatch.setattr(ranks, "count_symmetric", lambda part: made.append(count(part)) or made[-1])
    count_ranks(scores, relevance, ties="pessimistic")
    assert made == [None]


@pytest.mark.parametrize("max_bytes", [1 << 18, 1 << 20, 1 << 24])
@pytest.mark.usefixtures("small")
def test_the_memory_that_is_held_fits_the_bound(monkeypatch, max_bytes):
    held = []
    problem = problem_of("floats", 0, num_items=600, num_identities=100)
    fits = symmetric._fits

    def look(relevance, scores, num_counts):
        is_small = fits(relevance, scores, num_counts)
        num_cells = relevance.run_length.sum() * (20 + 20 * num_counts)
        held.append((is_small, int(num_cells) + 2 * 4 * 48 * 48))
        return is_small

    monkeypatch.setattr(symmetric, "_fits", look)
    ranks_of(problem, is_symmetric=True, max_bytes=max_bytes)
    ((is_small, num_bytes),) = held
    assert num_bytes <= max_bytes or not is_small
    assert is_small == (max_bytes > 1 << 18)


@pytest.mark.usefixtures("small")
def test_a_protocol_and_a_metric_multiply_each_pair_once(monkeypatch):
    counts = count_products(monkeypatch)
    embeddings, labels, *_ = problem_of("good", 1, num_items=480, num_identities=60)
    identities = np.abs(labels["query_identities"])
    values = evaluate(embeddings, identities, protocol="cub200")
    assert 0 < counts["products"] <= 55 * 48 * 48
    counts["products"] = 0
    metrics = ReIDMetrics(protocol="cub200")
    for some in torch.arange(480).split(100):
        metrics.update(embeddings[some], torch.from_numpy(identities[some]))
    numbers = metrics.compute()
    assert 0 < counts["products"] <= 55 * 48 * 48
    monkeypatch.setattr(ranks, "count_symmetric", lambda _: None)
    expected = evaluate(embeddings, identities, protocol="cub200")
    assert values.ranks.rank.equal(expected.ranks.rank)
    assert float(numbers["map_at_r"]) == pytest.approx(float(expected["map_at_r"]), abs=1e-6)

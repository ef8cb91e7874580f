"""A gallery as a stream: ranks equal, bit for bit, to those of the whole gallery in memory."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.tasks import RankCounter
from tests.profiles import each_row, examples
from tests.reference.retrieval import evaluate as slow_evaluate
from tests.reference.retrieval import similarity as slow_similarity
from tests.strategies import SIMILARITIES_OF_ALL, STREAMED_TIES
from tests.stream_problems import QUERIES, assert_equal, counted, counter_of, drawn, joined, stored


@examples(12)
@given(st.integers(0, 10**6), st.sampled_from(STREAMED_TIES), st.sampled_from(["same_identity", "all", "keep"]))
def test_ranks_are_those_of_the_slow_reference(seed, ties, same_camera):
    query, positives, blocks = drawn(seed)
    counter = counter_of(query, positives, similarity="dot", ties=ties, same_camera=same_camera, max_bytes=2000)
    ranks = counter.ranks(counted(counter, blocks))
    gallery = joined(positives, blocks)
    scores = slow_similarity(query[0].numpy(), gallery[0].numpy(), "dot")
    labels = (query[1], gallery[1], query[2], gallery[2])
    expected = slow_evaluate(scores, *(each.tolist() for each in labels), ties=ties, same_camera=same_camera)
    assert [group.tolist() for group in ranks.rank.split(ranks.num_positives.tolist())] == expected.ranks
    assert ranks.num_candidates.tolist() == expected.num_candidates


@examples(25)
@given(
    st.integers(0, 10**6),
    st.sampled_from(STREAMED_TIES),
    st.sampled_from([*SIMILARITIES_OF_ALL, lambda q, g: -torch.cdist(q.double(), g.double()).float()]),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
    st.sampled_from([None, 2000]),
    st.randoms(use_true_random=False),
)
def test_counted_in_any_order_and_added_in_any_tree_bits_are_those_of_the_gallery_in_memory(
    seed, ties, similarity, dtype, max_bytes, random
):
    query, positives, blocks = drawn(seed, whole=False, dtype=dtype)
    options = {"similarity": similarity, "ties": ties, "same_camera": random.choice(["all", "same_identity"])}
    ways = [lambda each: each, copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))]
    anyhow = ways if isinstance(similarity, str) else ways[:3]

    def added(method):
        """What copies of one counter tell of all blocks, two at a time in any order."""
        each = [random.choice(anyhow)(method.__self__) for _ in blocks]
        named = zip(each, enumerate(random.sample(blocks, len(blocks))), strict=True)
        parts = [getattr(one, method.__name__)(*block, key=key) for one, (key, block) in named]
        while len(parts) > 1:
            one, two = (random.choice(ways)(parts.pop(random.randrange(len(parts)))) for _ in range(2))
            parts.append(one + two)
        return parts[0]

    nobody = counter_of(query, [values[:0] for values in positives], **options)
    counter = counter_of(query, positives, **options, statistics=added(nobody.statistics), max_bytes=max_bytes)
    assert_equal(counter.ranks(added(counter.count)), stored(query, positives, blocks, **options))


def test_an_item_of_a_query_belongs_in_positives():
    query, positives, blocks = drawn(3)
    counter = counter_of(query, positives)
    embeddings, identities, cameras = (values.clone() for values in joined(blocks[0], blocks[1:]))
    identities[4] = 0
    number = (query[1] == 0).nonzero()[0, 0]
    for method in (counter.count, counter.statistics):
        with pytest.raises(ValueError, match=rf"got row 4 with identity 0 of query {number}"):
            method(embeddings, identities, cameras, key=0)


def test_a_block_with_nan_is_named():
    query, positives, blocks = drawn(3)
    embeddings, *labels = joined(blocks[2], blocks[3:])
    embeddings[5, 1] = torch.nan
    with pytest.raises(ValueError, match=r"`embeddings` must be finite; got 1 rows with NaN or infinity, first \[5\]"):
        counter_of(query, positives).count(embeddings, *labels, key=0)


def test_a_function_that_fails_half_way_leaves_no_trace():
    query, positives, blocks = drawn(3, 4000)
    calls = []

    def similarity(q, g):
        calls.append(len(calls))
        scores = q @ g.T
        return scores if len(calls) != wrong else scores * torch.nan

    wrong = 0
    counter = counter_of(query, positives, similarity=similarity, max_bytes=20_000)
    first = counter.count(*blocks[0], key=0)
    wrong = len(calls) + 3
    rest = joined(blocks[1], blocks[2:])
    with pytest.raises(ValueError, match="`similarity` must give scores that can be ordered; got NaN"):
        counter.count(*rest, key=1)
    assert len(calls) > wrong - 1
    counts = first + counter.count(*rest, key=1)
    assert_equal(counter.ranks(counts), stored(query, positives, blocks, similarity="dot"))


def test_a_counter_is_pickled_without_its_positives_and_what_it_was_cut_from():
    random = torch.Generator().manual_seed(0)
    rows, labels = torch.randn(2000, 256, generator=random), torch.arange(2000) % 20
    counter = RankCounter(rows[:20], rows[20:], labels[:20], labels[20:])
    assert len(pickle.dumps(counter)) < rows[:20].nbytes + 20 * 1980 + 10_000


def test_a_block_that_asks_for_other_scores_is_refused_unless_its_statistics_were_passed():
    query, positives, blocks = drawn(3, whole=False)
    blocks = [(embeddings * (1e-20 if n == 2 else 1), *labels) for n, (embeddings, *labels) in enumerate(blocks)]
    counter = counter_of(query, positives)
    with pytest.raises(
        ValueError, match=r"`embeddings` must fit scores of torch.float32.*torch.float64, so pass the sum"
    ):
        counter.count(*blocks[2], key=0)
    statistics = sum(counter.statistics(*block, key=key) for key, block in enumerate(blocks))
    informed = counter_of(query, positives, statistics=statistics)
    assert_equal(informed.ranks(counted(informed, blocks)), stored(query, positives, blocks))
    with pytest.raises(ValueError, match="`counts` must be of a counter with the same"):
        counter.ranks(counted(informed, blocks))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ties": "stable"}, "`ties` must be one of 'pessimistic', 'optimistic', 'grouped', 'expected'; got 'stable'"),
        ({"junk_pairs": None}, "Unexpected keyword arguments: `junk_pairs`.*`RankCounter` takes"),
        ({"query_clothes": [0] * QUERIES}, "`positive_clothes` must be given if `query_clothes` is"),
        ({"clothes": "drop_same"}, "`query_clothes` and `positive_clothes` must be given for `clothes` 'drop_same'"),
        ({"query_sequences": [0]}, r"`query_sequences` must have shape \[7\]"),
        ({"max_bytes": 0}, "`max_bytes` must be"),
    ],
)
def test_options_are_checked(options, message):
    query, positives, _ = drawn(3)
    with pytest.raises(ValueError, match=message):
        counter_of(query, positives, **options)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (([[0.0, 1.0]], [9], [0]), "`query` and `embeddings` must have the same embedding dimension; got 3 and 2"),
        (([[0.0, 1.0, 2.0]], [9]), "`cameras` must be given if `query_cameras` is"),
        (([[0.0, 1.0, 2.0]], [9, 9], [0]), r"`identities` must have shape \[1\]"),
    ],
)
def test_blocks_are_checked(block, message):
    query, positives, _ = drawn(3)
    embeddings, *labels = block
    with pytest.raises(ValueError, match=message):
        counter_of(query, positives).count(torch.tensor(embeddings), *labels, key=0)


def test_labels_that_the_queries_lack_are_refused():
    query, positives, blocks = drawn(3)
    counter = RankCounter(*query[:1], *positives[:1], query[1], positives[1])
    with pytest.raises(ValueError, match="got `cameras` without `query_cameras`"):
        counter.count(*blocks[0], key=0)
    with pytest.raises(ValueError, match="got `positive_cameras` without `query_cameras`"):
        RankCounter(*query[:1], *positives[:1], query[1], positives[1], positive_cameras=positives[2])


def test_nothing_counted_and_no_positives_give_ranks_too():
    query, positives, blocks = drawn(3)
    assert_equal(counter_of(query, positives).ranks(0), stored(query, positives, []))
    none = tuple(values[:0] for values in positives)
    for ties in STREAMED_TIES:
        counter = counter_of(query, none, ties=ties)
        assert_equal(counter.ranks(counted(counter, blocks[:1])), stored(query, none, blocks[:1], ties=ties))
    assert counter_of(tuple(values[:0] for values in query), positives).ranks(0).num_queries == 0


def test_leave_one_out_has_the_places_of_queries_in_positives():
    _, positives, blocks = drawn(3)
    queries = tuple(values[:QUERIES] for values in positives)
    own = torch.arange(QUERIES)
    counter = counter_of(queries, positives, self_index=own, same_camera="keep")
    blocks = [(embeddings, identities + 10, cameras) for embeddings, identities, cameras in blocks]
    expected = stored(queries, positives, blocks, self_index=own, same_camera="keep")
    assert_equal(counter.ranks(counted(counter, blocks)), expected)


FAR = torch.tensor([[4096.0]]), torch.tensor([[4097.0], *[[-4096.0]] * 100]), [1], [1] + [2] * 100
DISTRACTORS = torch.full((1000, 1), 4098.0), [3] * 1000


@pytest.mark.parametrize("cuts", [[], [999], [1, 500]])
def test_statistics_decide_where_distances_are_measured_from(cuts):
    # From the mean of query and positives alone, -4096, float32 has no digit left to tell distances 1 and 2 apart.
    alone = RankCounter(*FAR, similarity="euclidean")
    parts = torch.arange(1000).tensor_split(cuts)
    statistics = sum(alone.statistics(DISTRACTORS[0][part], [3] * len(part), key=len(part)) for part in parts)
    informed = RankCounter(*FAR, similarity="euclidean", statistics=statistics)
    assert informed.ranks(informed.count(*DISTRACTORS, key=0)).rank.tolist() == [1]
    counts = alone.count(*DISTRACTORS, key=1)
    assert alone.ranks(counts).rank.tolist() == [1001]
    for add in (lambda: informed.ranks(counts), lambda: informed.count(*DISTRACTORS, key=0) + counts):
        with pytest.raises(
            ValueError, match=r"must be of a counter with the same .* statistics; got that of another one"
        ):
            add()


@pytest.mark.parametrize("ties", STREAMED_TIES)
@pytest.mark.parametrize("max_bytes", [None, 4096])
def test_all_negatives_of_a_wide_block_above_the_lowest_positive_count(ties, max_bytes):
    labels = {"query_identities": [1, 2], "positive_identities": [1, 1, 2]}
    options = {"similarity": "dot", "ties": ties, "max_bytes": max_bytes}
    counter = RankCounter(torch.ones(2, 1), torch.tensor([[100.0], [50.0], [10.0]]), **labels, **options)
    values = torch.zeros(20_000)
    values[torch.arange(0, 200, 20)] = 75.0  # ten of them
    ranks = counter.ranks(counter.count(values[:, None], torch.full((20_000,), 9), key=0))
    # The positive of query 2 is behind ten negatives and the two positives of query 1, which are negatives for it.
    assert ranks.rank.tolist() == [1, 12, 13]
    assert ranks.num_candidates.tolist() == [20_003] * 2


@pytest.mark.parametrize("max_bytes", [None, 64])
def test_a_positive_whose_score_is_nan_is_an_error(max_bytes):
    def similarity(q, g):
        return (q @ g.T).masked_fill(g[:, 0] == 2, torch.nan)

    query, positives = torch.tensor([[1.0]]), torch.tensor([[3.0], [2.0]])
    with pytest.raises(ValueError, match="`similarity` must give scores that can be ordered; got NaN"):
        RankCounter(query, positives, [1], [1, 1], similarity=similarity, max_bytes=max_bytes)


@each_row("similarity", [*SIMILARITIES_OF_ALL, lambda query, gallery: query @ gallery.T])
def test_a_block_is_free_once_it_was_counted(similarity):
    counter = RankCounter(torch.eye(2), torch.eye(2), [1, 2], [1, 2], similarity=similarity)
    block = torch.ones(3, 2)
    held = weakref.ref(block)
    gc.disable()  # a cycle would wait for it
    try:
        counter.statistics(block, [3, 3, 3], key=0)
        counter.count(block, [3, 3, 3], key=0)
        del block
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("items", [["a", None], [None, None]])
def test_a_block_without_any_identity_is_junk_beside_names_and_beside_numbers(items):
    embeddings = torch.eye(4)
    names = {"query_identities": ["a", "b"], "positive_identities": items}
    numbers = {"query_identities": [0, 1], "positive_identities": [None if item is None else 0 for item in items]}
    for labels in (names, numbers):
        counter = RankCounter(embeddings[:2], embeddings[:2], **labels, missing_identities="junk")
        counts = counter.count(embeddings[2:], [None, None], key=0)
        assert counter.ranks(counts).num_candidates.tolist() == [sum(item is not None for item in items)] * 2

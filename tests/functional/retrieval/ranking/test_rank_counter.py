"""A gallery as a stream: ranks equal, bit for bit, to those of the whole gallery in memory."""

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import (
    RankCounter,
    evaluate,
    find_protocol,
    find_relevance,
    rank_positives,
    score_embeddings,
)
from reid_torchmetrics.functional.retrieval.ranking import count_ranks
from tests.profiles import examples
from tests.reference.retrieval import evaluate as slow_evaluate
from tests.reference.retrieval import similarity as slow_similarity
from tests.stream_problems import QUERIES, assert_equal, counter_of, drawn, joined, stored

STREAMED = ("pessimistic", "optimistic", "grouped", "expected")


@examples(12)
@given(st.integers(0, 10**6), st.sampled_from(STREAMED), st.sampled_from(["same_identity", "all", "keep"]))
def test_ranks_are_those_of_the_slow_reference(seed, ties, same_camera):
    query, positives, blocks = drawn(seed)
    counter = counter_of(query, positives, similarity="dot", ties=ties, same_camera=same_camera, max_bytes=2000)
    for block in blocks:
        counter.update(*block)
    ranks = counter.ranks()
    gallery = joined(positives, blocks)
    scores = slow_similarity(query[0].numpy(), gallery[0].numpy(), "dot")
    labels = (query[1], gallery[1], query[2], gallery[2])
    expected = slow_evaluate(scores, *(each.tolist() for each in labels), ties=ties, same_camera=same_camera)
    assert [group.tolist() for group in ranks.rank.split(ranks.num_positives.tolist())] == expected.ranks
    assert ranks.num_candidates.tolist() == expected.num_candidates


@examples(25)
@given(
    st.integers(0, 10**6),
    st.sampled_from(STREAMED),
    st.sampled_from(["cosine", "euclidean", "dot", lambda q, g: -torch.cdist(q.double(), g.double()).float()]),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
    st.randoms(use_true_random=False),
)
def test_merged_from_three_counters_in_any_order_bits_are_those_of_the_gallery_in_memory(
    seed, ties, similarity, dtype, random
):
    query, positives, blocks = drawn(seed, whole=False, dtype=dtype)
    options = {"similarity": similarity, "ties": ties, "same_camera": random.choice(["all", "same_identity"])}
    surveying = [counter_of(query, positives, **options) for _ in range(2)]
    for block in blocks:
        random.choice(surveying).survey(*block)
    surveying[0].merge(surveying[1])
    counters = [pickle.loads(pickle.dumps(surveying[0])) if isinstance(similarity, str) else surveying[0]]
    counters += [pickle.loads(pickle.dumps(counters[0])) for _ in range(2)] if isinstance(similarity, str) else []
    for block in random.sample(blocks, len(blocks)):
        random.choice(counters).update(*block)
    for other in counters[1:]:
        counters[0].merge(other)
    assert_equal(counters[0].ranks(), stored(query, positives, blocks, **options))


def test_all_rules_that_read_labels_hold_for_a_stream():
    query, positives, blocks = drawn(5)
    gallery = joined(positives, blocks)
    sizes = [len(query[0]), len(positives[0]), *(len(block[0]) for block in blocks)]
    others = [{name: torch.randint(0, 4, (size,)) for name in ("sequences", "clothes")} for size in sizes]
    together = {name: torch.cat([each[name] for each in others[1:]]) for name in others[0]}
    options = {"search_cameras": (0, 1), "camera_map": {1: 0}, "clothes": "drop_same", "junk_identities": (-1, 5)}
    relevance = find_relevance(
        *(query[1], gallery[1], query[2], gallery[2]),
        **{f"query_{name}": values for name, values in others[0].items()},
        **{f"gallery_{name}": values for name, values in together.items()},
        **options,
    )
    expected = count_ranks(score_embeddings(query[0], gallery[0], relevance), relevance, ties="pessimistic")
    sides = [
        {f"{side}_{name}": other[name] for name in other}
        for side, other in zip(("query", "positive"), others[:2], strict=True)
    ]
    counter = counter_of(query, positives, **sides[0], **sides[1], **options)
    for block, labels in zip(blocks, others[2:], strict=True):
        counter.update(*block, **labels)
    assert_equal(counter.ranks(), expected)


def test_a_radius_and_the_options_of_a_protocol_hold_for_a_stream():
    positions = torch.arange(6.0)
    query, gallery = torch.randn(2, 4), torch.randn(6, 4)
    options = {"radius": 1.5, "similarity": "dot"}
    counter = RankCounter(
        query, gallery[:3], query_positions=positions[:2], positive_positions=positions[:3], **options
    )
    counter.update(gallery[4:], positions=positions[4:])
    counter.update(gallery[3:4], positions=positions[3:4])
    whole = evaluate(query, gallery, query_positions=positions[:2], gallery_positions=positions, **options)
    assert counter.ranks().rank.tolist() == whole.ranks.rank.tolist()
    with pytest.raises(ValueError, match=r"relevant to no query.*row 1 within the `radius` of query 0"):
        counter.update(gallery[:2], positions=[7.0, 1.0])
    assert RankCounter(query, gallery, [1, 2], [1] * 6, **find_protocol("cuhk03_openreid").relevance_options)


def test_an_item_of_a_query_belongs_in_positives():
    query, positives, blocks = drawn(3)
    counter = counter_of(query, positives)
    counter.update(*blocks[0])
    before = counter.ranks()
    embeddings, identities, cameras = (values.clone() for values in joined(blocks[0], blocks[1:]))
    identities[4] = 0
    number = (query[1] == 0).nonzero()[0, 0]
    with pytest.raises(ValueError, match=rf"got row 4 with identity 0 of query {number}"):
        counter.update(embeddings, identities, cameras)
    assert_equal(counter.ranks(), before)


def test_a_block_with_nan_is_named_and_not_counted():
    query, positives, blocks = drawn(3)
    counter = counter_of(query, positives)
    for block in blocks[:2]:
        counter.update(*block)
    embeddings, *labels = joined(blocks[2], blocks[3:])
    broken = embeddings.clone()
    broken[5, 1] = torch.nan
    with pytest.raises(ValueError, match=r"`embeddings` must be finite; got 1 rows with NaN or infinity, first \[5\]"):
        counter.update(broken, *labels)
    counter.update(embeddings, *labels)
    assert_equal(counter.ranks(), stored(query, positives, blocks))


def test_a_function_that_fails_half_way_leaves_nothing_of_the_block():
    query, positives, blocks = drawn(3, 4000)
    calls = []

    def similarity(q, g):
        calls.append(len(calls))
        scores = q @ g.T
        return scores if len(calls) != wrong else scores * torch.nan

    wrong = 0
    counter = counter_of(query, positives, similarity=similarity, max_bytes=20_000)
    counter.update(*blocks[0])
    wrong = len(calls) + 3
    rest = joined(blocks[1], blocks[2:])
    with pytest.raises(ValueError, match="`similarity` must give scores that can be ordered; got NaN"):
        counter.update(*rest)
    assert len(calls) > wrong - 1
    counter.update(*rest)
    assert_equal(counter.ranks(), stored(query, positives, blocks, similarity="dot"))


def test_a_block_that_asks_for_other_scores_is_refused_unless_it_was_surveyed():
    query, positives, blocks = drawn(3, whole=False)
    blocks = [(embeddings * (1e-20 if n == 2 else 1), *labels) for n, (embeddings, *labels) in enumerate(blocks)]
    counter = counter_of(query, positives)
    with pytest.raises(ValueError, match=r"`embeddings` must fit scores of torch.float32.*torch.float64, so `survey`"):
        counter.update(*blocks[2])
    with pytest.raises(ValueError, match="`survey` must see every block before the first `update`"):
        counter.survey(*blocks[2])
    surveyed = counter_of(query, positives)
    for block in blocks:
        surveyed.survey(*block)
    for block in blocks:
        surveyed.update(*block)
    assert_equal(surveyed.ranks(), stored(query, positives, blocks))
    with pytest.raises(ValueError, match="`other` must have surveyed the same blocks"):
        surveyed.merge(counter)


@pytest.mark.usefixtures("unannotated")
def test_only_counters_merge():
    counter = counter_of(*drawn(3)[:2])
    with pytest.raises(TypeError, match="`other` must be"):
        counter.merge(counter.ranks())


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
        counter_of(query, positives).update(torch.tensor(embeddings), *labels)


def test_nothing_counted_and_no_positives_give_ranks_too():
    query, positives, blocks = drawn(3)
    assert_equal(counter_of(query, positives).ranks(), stored(query, positives, []))
    none = tuple(values[:0] for values in positives)
    counter = counter_of(query, none)
    counter.update(*blocks[0])
    assert_equal(counter.ranks(), stored(query, none, blocks[:1]))
    assert counter_of(tuple(values[:0] for values in query), positives).ranks().num_queries == 0


def test_leave_one_out_has_the_places_of_queries_in_positives():
    _, positives, blocks = drawn(3)
    queries = tuple(values[:QUERIES] for values in positives)
    own = torch.arange(QUERIES)
    counter = counter_of(queries, positives, self_index=own, same_camera="keep")
    blocks = [(embeddings, identities + 10, cameras) for embeddings, identities, cameras in blocks]
    for block in blocks:
        counter.update(*block)
    assert_equal(counter.ranks(), stored(queries, positives, blocks, self_index=own, same_camera="keep"))


FAR = torch.tensor([[4096.0]]), torch.tensor([[4097.0], *[[-4096.0]] * 100]), [1], [1] + [2] * 100
DISTRACTORS = torch.full((1000, 1), 4098.0), [3] * 1000


@pytest.mark.parametrize("cuts", [[], [999], [1, 500]])
@pytest.mark.parametrize("num_counters", [1, 2])
def test_what_was_surveyed_decides_where_distances_are_measured_from(cuts, num_counters):
    # From the mean of query and positives alone, -4096, float32 has no digit left to tell distances 1 and 2 apart.
    counters = [RankCounter(*FAR, similarity="euclidean") for _ in range(num_counters)]
    alone = RankCounter(*FAR, similarity="euclidean")
    for part in torch.arange(1000).tensor_split(cuts):
        counters[-1].survey(DISTRACTORS[0][part], [3] * len(part))
    if num_counters > 1:
        counters[0].merge(counters[1])
    for counter in (counters[0], alone):
        counter.update(*DISTRACTORS)
    assert counters[0].ranks().rank.tolist() == [1]
    assert alone.ranks().rank.tolist() == [1001]
    for one, other in ((counters[0], alone), (alone, counters[0])):
        with pytest.raises(ValueError, match="`other` must have surveyed the same blocks before it counted"):
            one.merge(other)


@pytest.mark.parametrize("ties", STREAMED)
@pytest.mark.parametrize("max_bytes", [None, 4096])
def test_of_a_wide_block_all_negatives_above_the_lowest_positive_count(ties, max_bytes):
    labels = {"query_identities": [1, 2], "positive_identities": [1, 1, 2]}
    options = {"similarity": "dot", "ties": ties, "max_bytes": max_bytes}
    counter = RankCounter(torch.ones(2, 1), torch.tensor([[100.0], [50.0], [10.0]]), **labels, **options)
    values = torch.zeros(20_000)
    values[torch.arange(0, 200, 20)] = 75.0  # ten of them
    counter.update(values[:, None], torch.full((20_000,), 9))
    ranks = counter.ranks()
    # The positive of query 2 is behind ten negatives and the two positives of query 1, which are negatives for it.
    assert ranks.rank.tolist() == [1, 12, 13]
    assert ranks.num_candidates.tolist() == [20_003] * 2


@pytest.mark.parametrize("max_bytes", [None, 64])
def test_a_positive_whose_score_is_nan_is_an_error(max_bytes):
    def similarity(q, g):
        return (q @ g.T).masked_fill(g[:, 0] == 2, torch.nan)

    query, positives = torch.tensor([[1.0]]), torch.tensor([[3.0], [2.0]])
    counter = RankCounter(query, positives, [1], [1, 1], similarity=similarity, max_bytes=max_bytes)
    for count in (counter.ranks, lambda: counter.update(torch.ones(200, 1), [5] * 200)):
        with pytest.raises(ValueError, match="`similarity` must give scores that can be ordered; got NaN"):
            count()


@pytest.mark.slow
def test_queries_of_many_tiles_are_put_together():
    random = torch.Generator().manual_seed(0)
    query, positives, block = (torch.randint(0, 9, (size, 2), generator=random).float() for size in (2500, 2500, 30))
    identities = torch.arange(2500) % 1250
    counter = RankCounter(query, positives, identities, identities, similarity="dot")
    counter.update(block, [5000] * 30)
    gallery, labels = torch.cat([positives, block]), torch.cat([identities, torch.full((30,), 5000)])
    assert_equal(counter.ranks(), rank_positives(query, gallery, identities, labels, similarity="dot"))

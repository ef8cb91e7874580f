"""Counters add up where they counted other items of one problem, and say so where they did not."""

import copy
import itertools
import pickle
import threading
import warnings
from functools import partial

import pytest
import torch

from reid_torchmetrics.functional.retrieval import RankCounter, evaluate_stream, find_protocol
from tests.stream_problems import assert_equal, counter_of, drawn, joined, stored

TWICE = "A block of the gallery came twice, and its items count twice"


def counted(blocks, **options) -> RankCounter:
    """A counter of a problem, with some blocks."""
    counter = counter_of(*drawn(3)[:2], **options)
    for block in blocks:
        counter.update(*block)
    return counter


def large_block(seed=0, size=40):
    """A block of distractors that cannot be another one by chance."""
    random = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(size, 3, generator=random)
    return embeddings, torch.arange(10, 10 + size), torch.zeros(size, dtype=torch.int64)


def test_a_counter_does_not_merge_itself():
    for blocks in ([], [large_block()]):
        counter = counted(blocks)
        with pytest.raises(ValueError, match="`other` must be another counter; got the counter itself"):
            counter.merge(counter)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda counter: pickle.loads(pickle.dumps(counter))])
@pytest.mark.parametrize("method", ["update", "survey"])
@pytest.mark.parametrize("size", [1, 40])
@pytest.mark.slow
def test_a_copy_does_not_bring_back_the_blocks_from_before_it_was_made(copied, method, size):
    counter = counted([])
    getattr(counter, method)(*large_block(size=size))
    other = copied(counter)
    getattr(other, method)(*large_block(1))
    for one, two in ((counter, other), (other, counter)):
        with pytest.raises(ValueError, match="`other` must have seen none of the counter's blocks; got blocks that"):
            one.merge(two)
    if method == "update":
        assert_equal(counter.ranks(), counted([large_block(size=size)]).ranks())


def test_a_counter_is_merged_once():
    counter, other = counted([large_block()]), counted([large_block(1)])
    counter.merge(other)
    with pytest.raises(ValueError, match="or a second `merge`"):
        counter.merge(other)
    assert_equal(counter.ranks(), counted([large_block(), large_block(1)]).ranks())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("is_surveyed", [True, False])
def test_copies_of_a_counter_count_apart(copied, is_surveyed):
    counter, blocks = counted([]), [large_block(seed) for seed in range(3)]
    for block in blocks if is_surveyed else ():
        counter.survey(*block)
    if not is_surveyed:
        counter.ranks()
    one, two = copied(counter), copied(counter)
    one.update(*blocks[0])
    one.update(*blocks[1])
    two.update(*blocks[2])
    two.merge(one)
    assert_equal(two.ranks(), counted(blocks).ranks())


def test_the_same_block_in_two_calls_is_told_once():
    counter = counted([large_block(), large_block(1)])
    with pytest.warns(UserWarning, match=TWICE):
        counter.update(*large_block(1))
    counter.update(*large_block())
    assert counter.ranks().num_candidates.tolist() == [
        each + 160 for each in counted([]).ranks().num_candidates.tolist()
    ]
    other = counted([large_block(2)])
    other.merge(counted([large_block(3)]))
    with pytest.warns(UserWarning, match=TWICE):
        other.merge(pickle.loads(pickle.dumps(counted([large_block(3)]))))
    surveying = counted([])
    surveying.survey(*large_block())
    with pytest.warns(UserWarning, match=TWICE):
        surveying.survey(*large_block())


@pytest.mark.parametrize("size", [8, 64, 65, 200])
def test_eight_items_or_more_tell_a_block(size):
    with pytest.warns(UserWarning, match=TWICE):
        counted([large_block(size=size)]).merge(counted([large_block(size=size)]))


def test_a_block_that_is_refused_by_a_filter_of_warnings_is_not_counted():
    counter = counted([large_block()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=TWICE):
            counter.update(*large_block())
    assert_equal(counter.ranks(), counted([large_block()]).ranks())


@pytest.mark.parametrize(
    "change",
    [
        lambda embeddings, identities, cameras: (embeddings * 2, identities, cameras),
        lambda embeddings, identities, cameras: (embeddings, identities + 1, cameras),
        lambda embeddings, identities, cameras: (embeddings, identities, cameras + (identities == 49)),
        lambda embeddings, identities, cameras: (embeddings[:-1], identities[:-1], cameras[:-1]),
        lambda embeddings, identities, cameras: (embeddings.flip(0), identities, cameras),
    ],
)
def test_a_block_that_differs_in_anything_is_another_one(change):
    counter = counted([large_block()])
    counter.update(*change(*large_block()))


@pytest.mark.parametrize("size", [0, 1, 7, 40])
def test_few_or_equal_items_may_come_again(size):
    embeddings, identities, cameras = large_block(size=size)
    counter = counted([])
    for _ in range(3):
        counter.update(*((embeddings if size < 8 else embeddings * 0), identities * 0 + 9, cameras))
    merged = counted([(embeddings[:0], identities[:0], cameras[:0])])
    for _ in range(2):
        merged.merge(copy.deepcopy(merged))
    own = counted([]).ranks().num_candidates
    assert counter.ranks().num_candidates.tolist() == (own + 3 * size).tolist()


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"junk_identities": [-1, 5]}, {"junk_identities": (5, -1)}),
        ({"junk_identities": {5, -1, 70}}, {"junk_identities": [70, -1, 5, 5]}),
        ({}, {"junk_identities": [-1], "camera_map": None, "search_cameras": None, "clothes": "keep", "radius": None}),
        ({}, {"same_camera": "same_identity", "camera_map": {}, "self_index": None, "query_clothes": None}),
        ({}, {"camera_map": {1: 1}}),
        ({"camera_map": {1: 0, 2: 0}}, {"camera_map": {2: 0, 1: 0}}),
        ({"search_cameras": {2, 0}}, {"search_cameras": (0, 2)}),
        ({}, {"max_bytes": 2000}),
        ({}, find_protocol("market1501").relevance_options),
    ],
)
def test_rules_that_mean_the_same_merge_however_they_are_spelled(one, two):
    blocks = [large_block(), large_block(1)]
    counter, expected = counted(blocks[:1], **one), counted(blocks, **one)
    counter.merge(counted(blocks[1:], **two))
    assert_equal(counter.ranks(), expected.ranks())


@pytest.mark.usefixtures("unannotated")
def test_radii_merge_as_numbers():
    def near(radius):
        sides = {"query_positions": [0.0], "positive_positions": [5.0]}
        return RankCounter(torch.eye(2)[:1], torch.eye(2)[1:], radius=radius, **sides)

    near(25).merge(near(25.0))
    with pytest.raises(ValueError, match=r"`other` must have the same `radius` as the counter; got 24.0 for 25.0"):
        near(25).merge(near(24))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"same_camera": "all"}, "`same_camera` as the counter; got 'all' for 'same_identity'"),
        ({"junk_identities": (-1, 5)}, r"`junk_identities` as the counter; got \(-1, 5\) for \(-1,\)"),
        ({"junk_identities": ()}, r"`junk_identities` as the counter; got \(\) for \(-1,\)"),
        ({"search_cameras": ()}, r"`search_cameras` as the counter; got \(\) for None"),
        ({"search_cameras": (0, 1, 2)}, r"`search_cameras` as the counter; got \(0, 1, 2\) for None"),
        ({"camera_map": {1: 2}}, r"`camera_map` as the counter; got \{1: 2\} for None"),
        ({"ties": "optimistic"}, "`ties` as the counter; got 'optimistic' for 'pessimistic'"),
        ({"similarity": "dot"}, "`similarity` as the counter; got 'dot' for 'cosine'"),
        ({"similarity": torch.matmul}, "`similarity` as the counter; got .* of hash .* for 'cosine'"),
        ({"self_index": [-1] * 6 + [0], "query": 0}, r"`self_index` as the counter; got torch.int64 \[7\] .* for None"),
        ({"query": 0}, r"`query` as the counter; got torch.float32 \[7, 3\] of hash (\w+) for .* of hash (?!\1)"),
        ({"query": 1}, "`query_identities` as the counter"),
        ({"query": 2}, "`query_cameras` as the counter"),
        ({"positives": 0}, "`positives` as the counter"),
        ({"positives": 1}, "`positive_identities` as the counter"),
        ({"positives": 2}, "`positive_cameras` as the counter"),
    ],
)
def test_counters_of_other_problems_are_refused_by_the_argument_that_differs(options, message):
    query, positives, _ = drawn(3)
    sides = {"query": list(query), "positives": list(positives)}
    chosen = {name: value for name, value in options.items() if name not in sides}
    if "self_index" in chosen:  # of a query like the positive
        chosen["self_index"] = [-1] * 7
    else:
        for name in options.keys() & sides.keys():
            sides[name][options[name]] = sides[name][options[name]].roll(1, 0)
    with pytest.raises(ValueError, match=f"`other` must have the same {message}"):
        counted([]).merge(counter_of(sides["query"], sides["positives"], **chosen))


def scaled(factor):
    return lambda q, g: factor * (q @ g.T)


def times(q, g, *, factor):
    return factor * (q @ g.T)


class Metric(torch.nn.Linear):
    """A similarity that was learned."""

    def forward(self, query, gallery):
        return super().forward(query) @ gallery.T


def learned(seed):
    torch.manual_seed(seed)
    return Metric(3, 3).eval()


def locked():
    lock = threading.Lock()
    return lambda q, g: q @ g.T if lock else g


def default(q, g, factor=1.0):
    return factor * (q @ g.T)


def of_a_module():
    math = torch
    return lambda q, g: math.matmul(q, g.T)


def over(value):
    return lambda q, g: q @ g.T if value else g


def negated(q, g, factor=1.0):
    return factor * (q @ g.T)


WORDS = ["word" * number for number in (2, 2)]  # two objects
TWO_WORDS = itertools.cycle([WORDS, WORDS[:1] * 2])
TWO_SETS = itertools.cycle([{*each} for each in ([0, 8], [8, 0])])  # they list their items in this order

SAME = {
    "closures over equal values": lambda: scaled(2.0),
    "closures over equal tensors": lambda: scaled(torch.tensor([2.0])),
    "functions of a module": lambda: default,
    "partial functions": lambda: partial(times, factor=2.0),
    "modules with equal weights": lambda: learned(0),
    "methods": lambda: learned(0).forward,
    "closures over modules of Python": of_a_module,
    "functions of C": lambda: torch.matmul,
    "closures over equal strings": lambda: over(next(TWO_WORDS)),
    "closures over equal sets": lambda: over(next(TWO_SETS)),
}
OTHER = {
    "code": (lambda q, g: q @ g.T, lambda q, g: -torch.cdist(q, g)),
    "operators": (lambda q, g: (q @ g.T) * 2, lambda q, g: (q @ g.T) + 2),
    "functions that are called": (lambda q, g: torch.add(q @ g.T, 1), lambda q, g: torch.sub(q @ g.T, 1)),
    "defaults": (lambda q, g, factor=1.0: factor * (q @ g.T), lambda q, g, factor=2.0: factor * (q @ g.T)),
    "defaults by name": (
        lambda q, g, *, factor=1.0: factor * (q @ g.T),
        lambda q, g, *, factor=2.0: factor * (q @ g.T),
    ),
    "names, whose globals may differ": (default, negated),
    "constants": (lambda q, g: 1 * (q @ g.T), lambda q, g: 3 * (q @ g.T)),
    "closures": (scaled(2.0), scaled(3.0)),
    "closures over tensors": (scaled(torch.tensor([2.0])), scaled(torch.tensor([3.0]))),
    "partial functions": (partial(times, factor=2.0), partial(times, factor=3.0)),
    "weights": (learned(0), learned(1)),
    "functions that cannot be compared": (locked(), locked()),
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_functions_that_do_the_same_merge(make):
    one, two = (counter_of(*drawn(3)[:2], similarity=make()) for _ in range(2))
    one.merge(two)
    one.merge(copy.deepcopy(two))


@pytest.mark.parametrize("method", ["survey", "update"])
@pytest.mark.parametrize(("one", "two"), OTHER.values(), ids=OTHER)
def test_functions_that_do_something_else_do_not_merge(one, two, method):
    counters = [counter_of(*drawn(3)[:2], similarity=similarity) for similarity in (one, two)]
    for seed, counter in enumerate(counters):
        getattr(counter, method)(*large_block(seed))
    with pytest.raises(ValueError, match=r"`other` must have the same `similarity` as the counter; got .* of hash"):
        counters[0].merge(counters[1])


def test_a_function_that_cannot_be_compared_is_itself_and_that_of_a_copy():
    similarity = locked()
    one, two = (counter_of(*drawn(3)[:2], similarity=similarity) for _ in range(2))
    one.merge(two)
    other = copy.copy(one)
    other.similarity = locked()  # as it comes back from another process
    other.update(*large_block())
    one.merge(other)
    assert_equal(one.ranks(), counted([large_block()], similarity="dot").ranks())


def test_a_protocol_searches_all_cameras_where_a_counter_searches_none():
    counter = counted([], search_cameras=())
    with pytest.raises(ValueError, match=r"with search_cameras=None for a counter with \(\)"):
        evaluate_stream(counter)
    assert evaluate_stream(counted([], camera_map={2: 2}, junk_identities=[-1, -1]))
    other = find_protocol("market1501").changed({"junk_identities": (5, -1, 5)})
    assert evaluate_stream(counted([], junk_identities=[-1, 5]), protocol=other)


def test_the_same_blocks_in_one_counter_and_in_three_have_the_ranks_of_the_whole():
    query, positives, blocks = drawn(3)
    counters = [counter_of(query, positives) for _ in range(3)]
    for number, block in enumerate(blocks):
        counters[number % 3].update(*block)
    counters[1].merge(counters[2])
    counters[0].merge(counters[1])
    assert_equal(counters[0].ranks(), stored(query, positives, blocks))
    assert len(joined(positives, blocks)[0]) == 80

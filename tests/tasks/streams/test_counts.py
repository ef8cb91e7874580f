"""What counters count adds up: of one problem, each block once, wherever and however often it was counted."""

import functools
import pickle

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import find_protocol
from reid_torchmetrics.tasks import Counts, GalleryStatistics, RankCounter, evaluate_stream
from reid_torchmetrics.tasks.streams.counts import in_one_spelling
from tests.strategies import STREAMED_TIES
from tests.stream_problems import assert_equal, counted, counter_of, drawn, stored

OTHER = "must be of a counter with the same queries, positives, options and statistics; got that of another one"


def test_a_part_that_is_pickled_is_small():
    random = torch.Generator().manual_seed(0)
    query, positives, items = (torch.randn(size, 8, generator=random) for size in (100, 1000, 70_000))
    labels = {"query_identities": torch.arange(100), "positive_identities": torch.arange(1000) % 100}
    for ties in STREAMED_TIES:
        counter = RankCounter(query, positives, **labels, ties=ties)
        for size in (70_000, 100):
            counts = counter.count(items[:size], torch.full((size,), 100), key="part-17")
            sent = pickle.dumps(counts)
            assert len(sent) <= 8 * (100 + 1000) + 1000
            back = pickle.loads(sent)
            assert (back.numbers.dtype, back.numbers.tolist()) == (np.int64, counts.numbers.tolist())
            assert (back.digest, back.keys) == (counts.digest, {"part-17"})


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize("key", [3, "part-3", "", np.int64(3), np.str_("part-3"), -1])
@pytest.mark.parametrize("method", ["count", "statistics"])
def test_a_key_that_comes_twice_is_an_error(key, method):
    query, positives, blocks = drawn(3)
    take = getattr(counter_of(query, positives), method)
    one, two, again = take(*blocks[0], key=key), take(*blocks[1], key=4), take(*blocks[2], key=key)
    for bad in (lambda: one + one, lambda: sum([one, two, pickle.loads(pickle.dumps(one))]), lambda: two + one + again):
        with pytest.raises(ValueError, match=r"`other` must have no key in common, as .* once; got") as said:
            bad()
        assert f"got {(str(key) if isinstance(key, str) else int(key))!r} twice." in str(said.value)
    assert (one + two).keys == {key, 4}
    assert {type(each) for each in one.keys} <= {int, str}


@pytest.mark.usefixtures("unannotated")
def test_a_block_needs_a_key():
    counter = counter_of(*drawn(3)[:2])
    for take in (counter.count, counter.statistics):
        with pytest.raises(TypeError, match="key"):
            take(*drawn(3)[2][0])
        for key in (None, 1.0, ("a", 1)):
            with pytest.raises(TypeError, match="`key` must be an int or a string; got"):
                take(*drawn(3)[2][0], key=key)


@pytest.mark.usefixtures("unannotated")
def test_counts_and_statistics_do_not_add_up_and_no_block_is_0():
    query, positives, blocks = drawn(3)
    counter = counter_of(query, positives)
    counts, statistics = counter.count(*blocks[0], key=0), counter.statistics(*blocks[1], key=1)
    assert (type(counts), type(statistics)) == (Counts, GalleryStatistics)
    for other in (statistics, 1, None, "a", counts.numbers):
        with pytest.raises(TypeError):
            counts + other
    for other in (statistics, 1, None, counter.ranks(0), [counts]):
        with pytest.raises(TypeError, match="`counts` must be Counts, or 0 for no block; got"):
            counter.ranks(other)
    for other in (counts, 1, None):
        with pytest.raises(TypeError, match="`statistics` must be GalleryStatistics, or 0 for no block; got"):
            counter_of(query, positives, statistics=other)
    assert 0 + counts is counts + 0 is counts  # a process may have no block
    assert sum([]) == 0
    assert_equal(counter.ranks(sum([])), stored(query, positives, []))


def test_counting_changes_neither_counter_nor_counts():
    query, positives, blocks = drawn(3)
    counter = counter_of(query, positives)
    before, one = pickle.dumps(counter), counter.count(*blocks[0], key=0)
    numbers = one.numbers.copy()
    total = one + counter.count(*blocks[1], key=1)
    first = counter.ranks(total)
    first.num_positives.zero_()
    assert_equal(counter.ranks(total), stored(query, positives, blocks[:2]))
    assert (one.numbers == numbers).all()
    assert one.keys == {0}
    with pytest.raises(AttributeError):
        one.numbers = total.numbers
    again = pickle.loads(before)
    assert_equal(again.ranks(one), counter.ranks(one))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"junk_identities": [-1, 5]}, {"junk_identities": (5, -1)}),
        ({"junk_identities": {5, -1, 70}}, {"junk_identities": [70, -1, 5, 5]}),
        ({}, {"junk_identities": [-1], "camera_map": None, "search_cameras": None, "clothes": "keep", "radius": None}),
        ({}, {"same_camera": "same_identity", "camera_map": {}, "self_index": None, "query_clothes": None}),
        ({}, {"camera_map": {1: 1}}),
        ({"camera_map": {1: 0, 2: 0}}, {"camera_map": {2: 0, 1: 0}}),
        ({"search_cameras": {2, 0}}, {"search_cameras": (0, 2, 2)}),
        ({}, {"max_bytes": 2000}),
        ({}, find_protocol("market1501").relevance_options),
    ],
)
def test_rules_that_mean_the_same_add_up_however_they_are_spelled(one, two):
    query, positives, blocks = drawn(3)
    counters = [counter_of(query, positives, **options) for options in (one, two)]
    statistics = counters[0].statistics(*blocks[0], key=0) + counters[1].statistics(*blocks[1], key=1)
    counter_of(query, positives, **one, statistics=statistics)
    counts = counters[0].count(*blocks[0], key=0) + counters[1].count(*blocks[1], key=1)
    expected = counters[0].ranks(counted(counters[0], blocks[:2]))
    assert_equal(counters[1].ranks(counts), expected)


def test_equal_rules_have_one_spelling():
    written = {"camera_map": {3: 2, 1: 0}, "search_cameras": [2, 1, 2], "junk_identities": {0, -1}, "radius": 25}
    spelled = {"camera_map": {1: 0, 3: 2}, "search_cameras": (1, 2), "junk_identities": (-1, 0), "radius": 25.0}
    assert repr(in_one_spelling(written)) == repr(in_one_spelling({}) | spelled)


@pytest.mark.parametrize(
    "options",
    [
        {"same_camera": "all"},
        {"junk_identities": (-1, 5)},
        {"junk_identities": ()},
        {"search_cameras": ()},
        {"search_cameras": (0, 1, 2)},
        {"camera_map": {1: 2}},
        {"ties": "optimistic"},
        {"similarity": "dot"},
        {"similarity": lambda q, g: q @ g.T},
        {"query": 0},
        {"query": 1},
        {"query": 2},
        {"positives": 0},
        {"positives": 1},
        {"positives": 2},
    ],
)
def test_counts_of_other_problems_are_refused(options):
    query, positives, blocks = drawn(3)
    sides = {"query": list(query), "positives": list(positives)}
    chosen = {name: value for name, value in options.items() if name not in sides}
    for name in options.keys() & sides.keys():
        sides[name][options[name]] = sides[name][options[name]].roll(1, 0)
    counter, other = counter_of(query, positives), counter_of(sides["query"], sides["positives"], **chosen)
    mine, theirs = counter.count(*blocks[0], key=0), other.count(*blocks[1], key=1)
    for bad in (lambda: mine + theirs, lambda: counter.ranks(theirs), lambda: evaluate_stream(counter, theirs)):
        with pytest.raises(ValueError, match=OTHER):
            bad()
    mine, theirs = counter.statistics(*blocks[0], key=0), other.statistics(*blocks[1], key=1)
    if options.keys() & {"ties", "positives"}:  # a statistics does not depend on them
        assert (mine + theirs).keys == {0, 1}
        return
    for bad in (lambda: mine + theirs, lambda: counter_of(query, positives, statistics=theirs)):
        with pytest.raises(ValueError, match=OTHER):
            bad()


def scaled(factor):
    return lambda q, g: factor * (q @ g.T)


class Metric(torch.nn.Linear):
    """A similarity that was learned."""

    def forward(self, query, gallery):
        return super().forward(query) @ gallery.T


def learned(seed):
    torch.manual_seed(seed)
    return Metric(3, 3).eval()


def test_functions_are_told_apart_by_their_scores():
    query, positives, blocks = drawn(3)

    def counts_of(similarity, number):
        return counter_of(query, positives, similarity=similarity).count(*blocks[number], key=number)

    for one, two in [
        (scaled(2.0), scaled(2.0)),
        (scaled(1.0), lambda q, g: torch.matmul(q, g.T)),
        (learned(0), learned(0).forward),
        (functools.partial(lambda q, g, by: by * (q @ g.T), by=3), scaled(3)),
    ]:
        assert (counts_of(one, 0) + counts_of(two, 1)).keys == {0, 1}
    for one, two in [
        (scaled(2.0), scaled(3.0)),
        (learned(0), learned(1)),
        (lambda q, g: q @ g.T + 1, lambda q, g: q @ g.T - 1),
        (lambda q, g: q @ g.T, "dot"),
    ]:
        with pytest.raises(ValueError, match="`other` must be of a counter with the same"):
            counts_of(one, 0) + counts_of(two, 1)


def test_a_protocol_searches_all_cameras_where_a_counter_searches_none():
    def counter(**options):
        return counter_of(*drawn(3)[:2], **options)

    with pytest.raises(ValueError, match=r"with search_cameras=None for a counter with \(\)"):
        evaluate_stream(counter(search_cameras=()), 0)
    assert evaluate_stream(counter(camera_map={2: 2}, junk_identities=[-1, -1]), 0)
    other = find_protocol("market1501").with_options({"junk_identities": (5, -1, 5)})
    assert evaluate_stream(counter(junk_identities=[-1, 5]), 0, protocol=other)

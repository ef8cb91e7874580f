"""Segments, checked by hand and against loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional import segments

LENGTHS = torch.tensor([2, 0, 3])


def test_segments_are_laid_end_to_end():
    assert segments.starts(LENGTHS).tolist() == [0, 2, 2]
    assert segments.edges(LENGTHS).tolist() == [0, 2, 2, 5]
    assert segments.numbers(LENGTHS).tolist() == segments.numbers(LENGTHS, 5).tolist() == [0, 0, 2, 2, 2]


def test_runs_count_on_from_where_each_begins():
    segment, number = segments.runs(torch.tensor([7, 8, 9]), LENGTHS)
    assert (segment.tolist(), number.tolist()) == ([0, 0, 2, 2, 2], [7, 8, 9, 10, 11])
    assert segments.runs(1, LENGTHS, 5)[1].tolist() == [1, 2, 1, 2, 3]


def test_ranks_count_the_earlier_entries_with_the_same_key():
    assert segments.ranks(torch.tensor([5, 3, 5, 3, 5])).tolist() == [0, 0, 1, 1, 2]
    assert segments.ranks(LENGTHS[:0]).tolist() == []


def test_running_sums_are_over_any_axis():
    values = torch.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    assert segments.running_sums(values).tolist() == [[1, 2, 4], [9, 18, 36]]
    assert segments.running_sums(values, 1).tolist() == [[1, 3, 7], [8, 24, 56]]


def test_nothing_has_no_entries():
    none = LENGTHS[:0]
    assert [len(part) for part in (segments.starts(none), segments.numbers(none), *segments.runs(0, none))] == [0] * 4
    assert segments.edges(none).tolist() == [0]
    assert list(segments.ranges_within(none, 4)) == []


def test_a_segment_without_entries_sums_to_0():
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    assert segments.reduce(values, "sum", LENGTHS).tolist() == [3, 0, 12]


@pytest.mark.slow
@given(st.lists(st.integers(0, 9)), st.integers(1, 20))
def test_ranges_cover_all_segments_and_are_short_unless_one_segment_is_long(lengths, most):
    ranges = list(segments.ranges_within(torch.tensor(lengths, dtype=torch.int64), most))
    assert [place for part in ranges for place in range(part.start, part.stop)] == list(range(len(lengths)))
    for part in ranges:
        assert part.stop > part.start
        assert sum(lengths[part][1:]) < most


def test_ranges_cover_a_whole_and_the_last_is_shorter_or_overlaps():
    assert segments.ranges(7, 3) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert segments.equal_ranges(slice(2, 9), 3) == [slice(2, 5), slice(5, 8), slice(6, 9)]
    assert segments.equal_ranges(slice(2, 4), 3) == [slice(2, 4)]
    assert segments.ranges(0, 3) == segments.equal_ranges(slice(2, 2), 3) == []

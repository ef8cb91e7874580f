"""What must change nothing in matching: parts of the images or classes, memory, and the ways of many boxes."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection.matching import Matches, merge_matches
from tests.detection_strategies import IMAGES, problems
from tests.found_classes import match_images
from tests.paths import taking
from tests.profiles import examples

few = examples(20)

WITHOUT_ROWS = (
    "classes",
    "num_positives",
    "scores",
    "class_index",
    "images",
    "limits",
    "area_bits",
    "columns",
    "matched",
    "true_positive",
)


def same_matches(found: Matches, expected: Matches, *, with_rows: bool = True) -> bool:
    names = (*WITHOUT_ROWS, "rows", "ground_truths") if with_rows else WITHOUT_ROWS
    return all(torch.equal(getattr(found, name), getattr(expected, name)) for name in names)


@few
@given(problems(), st.integers(1, 9), st.booleans())
def test_many_detections_are_matched_a_few_classes_at_a_time(problem, at_a_time, has_classes):
    options = {} if has_classes else {"classes": None}
    with taking(many_to_match=1, matched_classes=at_a_time):
        found = problem.matched(**options)
    assert same_matches(found, problem.matched(**options))


@few
@given(problems(), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_parts_that_are_matched_apart_merge_to_the_whole(problem, part_of):
    """Each image is in one of three parts, some of which have no image, or lack classes that the others have."""
    options = {"classes": None}
    names = dict(zip(sorted(problem.images), part_of, strict=False))
    images = [{image for image, part in names.items() if part == number} for number in range(3)]
    parts = [problem.with_images(of_part).matched(**options) for of_part in images]
    merged, whole = merge_matches(parts), problem.matched(**options)
    assert same_matches(merged, whole, with_rows=False)


@few
@given(problems())
def test_merging_one_part_or_an_empty_one_changes_nothing(problem):
    whole = problem.matched()
    empty = problem.with_images(set()).matched()
    assert same_matches(merge_matches([whole]), whole)
    for parts in ([whole, empty], [empty, whole]):
        assert same_matches(merge_matches(parts), whole, with_rows=False)


@few
@given(problems(), problems())
def test_merged_rows_keep_the_numbers_of_their_parts(problem, other):
    """The other problem's images are numbered after those of the first."""
    shift = 10**6
    later = replace(other.mapped(lambda row: row._replace(image=row.image + shift)), setting=problem.setting)
    parts = [problem.matched(classes=None), later.matched(classes=None)]
    merged = merge_matches(parts)
    assert set(_rows_taken(merged)) == {row for part in parts for row in _rows_taken(part)}


def _rows_taken(matches: Matches) -> list[tuple[int, int, int, int, int]]:
    """Image, row, threshold and area range of each match, and the row of what was taken."""
    images, rows = (values.index_select(0, matches.columns).tolist() for values in (matches.images, matches.rows))
    return [
        (images[column], rows[column], t, a, int(matches.ground_truths[a, t, column]))
        for a, t, column in matches.matched.nonzero().tolist()
    ]


@few
@given(problems(), st.sets(st.sampled_from(IMAGES)))
def test_drawn_images_have_the_matches_that_they_have_alone(problem, drawn):
    expected = problem.with_images(drawn & {*problem.images}).matched()
    times = torch.zeros(max(IMAGES) + 1, dtype=torch.int64)
    times[[*drawn]] = 1
    whole = problem.matched()
    found = whole.drawn(times, expected.num_positives)
    names = {*WITHOUT_ROWS} - {"columns", "matched", "true_positive"}
    assert all(torch.equal(getattr(found, name), getattr(expected, name)) for name in names)
    twice = whole.drawn(2 * times, 2 * expected.num_positives)
    for once, both in zip(found.outcomes(), twice.outcomes(), strict=True):
        assert torch.equal(once.repeat_interleave(2, -1), both)


@few
@given(problems(), st.integers(0, 3), st.integers(0, 4), st.integers(0, 3))
def test_a_range_of_classes_has_the_matches_that_it_has_alone(problem, first, number, most):
    whole = problem.matched()
    some = slice(first, min(first + number, len(whole.classes)))
    found, expected = whole.of_classes(some), problem.matched(classes=whole.classes[some])
    assert found.outcomes()[0].tolist() == expected.outcomes()[0].tolist()
    assert found.outcomes()[1].tolist() == expected.outcomes()[1].tolist()
    assert torch.equal(found.num_positives, expected.num_positives)
    best = whole.first_of_classes(most)
    of_each = [(whole.class_index == label).nonzero()[:most, 0] for label in range(len(whole.classes))]
    rows = torch.cat([whole.rows.new_empty(0), *of_each])
    assert torch.equal(best.rows, whole.rows[rows])
    assert torch.equal(best.outcomes()[0], whole.outcomes()[0][:, rows])


@few
@given(problems(), st.sampled_from([1, 1000, 5000]))
def test_the_memory_bound_changes_nothing(problem, max_bytes):
    assert same_matches(problem.matched(max_bytes=max_bytes), problem.matched())


INTERNAL_SIZES = {
    "blocks of areas": {"area_block": 2},
    "blocks of pairs": {"cached_pairs": 2},
    "blocks of contested pairs": {"cached_contested_pairs": 2},
    "only near detections": {
        "cached_pairs": 2,
        "least_detections": 1,
        "least_ground_truths": 1,
        "least_crowded_pairs": 1,
        "most_nearby": 1.0,
    },
    "only rounds of proposals": {"few_proposals": -1},
    "keys and rows as one number": {"few_rows": 1},
    "too many rows for that": {"few_rows": 1, "key_bits": 33},
    "many labels": {"few_labels": 0},
    "large labels": {"few_labels": 0, "narrow_labels": 2},
}


@pytest.mark.parametrize("sizes", INTERNAL_SIZES.values(), ids=INTERNAL_SIZES.keys())
def test_boxes_that_are_matched_as_many_are_take_the_same(sizes):
    """Blocks, and the ways of larger labels and crowded images than small problems have."""

    @few
    @given(problems())
    def compare(problem):
        with taking(**sizes):
            taken = problem.taken()
        assert taken == problem.taken()

    compare()


@few
@given(problems())
def test_ground_truths_of_detections_are_kept_on_demand(problem):
    assert match_images(*problem.tensors).ground_truths is None
    assert problem.matched().ground_truths is not None

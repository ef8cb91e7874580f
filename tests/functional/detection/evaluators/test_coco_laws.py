"""What must change nothing in COCO's evaluation, and what may change only what it says."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection import Detections, GroundTruths, Matches, evaluate_boxes
from reid_torchmetrics.functional.detection.evaluators import ClassAverages, PrecisionGrid, coco, evaluate_matches
from reid_torchmetrics.functional.detection.matching import merge_matches
from tests.detection_strategies import problems
from tests.paths import taking
from tests.profiles import examples

few = examples(20)
pytestmark = pytest.mark.usefixtures("without_shapes")  # the tests against the reference execute them

ARRAYS = ("precision", "recall", "scores")
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


def same(found: PrecisionGrid, expected: PrecisionGrid) -> bool:
    return all(torch.equal(getattr(found, name), getattr(expected, name)) for name in ARRAYS)


def same_matches(found: Matches, expected: Matches, *, with_rows: bool = True) -> bool:
    names = (*WITHOUT_ROWS, "rows", "ground_truths") if with_rows else WITHOUT_ROWS
    return all(torch.equal(getattr(found, name), getattr(expected, name)) for name in names)


@few
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_in_which_images_come_changes_nothing(problem, random):
    """Boxes of different images may even alternate; in an image they keep their order, which decides ties."""
    mixed = replace(
        problem, detections=_mixed(problem.detections, random), ground_truths=_mixed(problem.ground_truths, random)
    )
    assert same(mixed.evaluated().coco, problem.evaluated().coco)


def _mixed(rows, random):
    images = [row.image for row in rows]
    waiting = {image: iter([row for row in rows if row.image == image]) for image in images}
    return [next(waiting[image]) for image in random.sample(images, len(images))]


@few
@given(problems())
def test_only_the_order_of_image_numbers_matters(problem):
    numbers = dict(zip(sorted(problem.images), (0, 5, 2**20, 2**31 - 1), strict=False))
    renumbered = problem.mapped(lambda row: row._replace(image=numbers[row.image]))
    assert same(renumbered.evaluated().coco, problem.evaluated().coco)


@few
@given(problems(), st.permutations([-7, 0, 2**40]))
def test_other_labels_only_reorder_the_classes(problem, labels):
    """Classes are in the order of their labels, whatever integers those are."""
    names = dict(zip(problem.setting.classes, labels, strict=False))
    classes = sorted(names.values())
    renamed = problem.mapped(lambda row: row._replace(label=names[row.label]))
    renamed = replace(renamed, setting=replace(problem.setting, classes=classes))
    before, after = problem.evaluated().coco, renamed.evaluated().coco
    places = [classes.index(names[label]) for label in problem.setting.classes]
    assert after.classes.tolist() == classes
    assert torch.equal(after.precision[:, :, places], before.precision)
    assert torch.equal(after.recall[:, places], before.recall)
    assert torch.equal(after.scores[:, :, places], before.scores)


@few
@given(problems())
def test_classes_have_nothing_to_do_with_each_other(problem):
    together = problem.evaluated().coco
    for place, label in enumerate(problem.setting.classes):
        alone = replace(problem, setting=replace(problem.setting, classes=[label])).evaluated().coco
        assert torch.equal(alone.precision[:, :, 0], together.precision[:, :, place])
        assert torch.equal(alone.recall[:, 0], together.recall[:, place])
        assert torch.equal(alone.scores[:, :, 0], together.scores[:, :, place])


@few
@given(problems(), st.integers(1, 9), st.booleans())
def test_many_detections_are_matched_and_averaged_a_few_classes_at_a_time(problem, at_a_time, has_classes):
    options = {} if has_classes else {"classes": None}
    whole = problem.matched(**options)
    grid, averages = evaluate_matches(whole, problem.grid), coco.average_matches(whole, problem.grid)
    many = {"many_to_match": 1, "many_to_average": 1, "matched_classes": at_a_time, "averaged_classes": at_a_time}
    with taking(**many, label_block=3, cached_curves=0):
        assert same_matches(problem.matched(**options), whole)
        assert same(evaluate_matches(whole, problem.grid), grid)
        few_at_a_time = coco.average_matches(whole, problem.grid)
    for found, expected in zip(_tables(few_at_a_time), _tables(averages), strict=True):
        assert torch.equal(found.nan_to_num(-1), expected.nan_to_num(-1))


def _tables(averages: ClassAverages) -> list[torch.Tensor]:
    return [averages.recall, *averages.average_precision.values()]


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
    of_parts = evaluate_matches(merged, problem.grid)
    assert same(of_parts, evaluate_matches(whole, problem.grid))
    assert same(of_parts, problem.evaluated(**options).coco)


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
    "one area range at a time": {"cached_curves": 0},
    "many curves": {"most_curves": 2},
    "long curves": {"most_counted": 2},
    "keys and rows as one number": {"few_rows": 1},
    "too many rows for that": {"few_rows": 1, "key_bits": 33},
    "many labels": {"few_labels": 0},
    "large labels": {"few_labels": 0, "narrow_labels": 2},
}


@pytest.mark.parametrize("sizes", INTERNAL_SIZES.values(), ids=INTERNAL_SIZES.keys())
def test_what_is_done_with_many_boxes_gives_the_same_with_few(sizes):
    """Blocks, and the ways of more curves, longer curves, larger labels and crowded images than small problems have."""

    @few
    @given(problems())
    def compare(problem):
        with taking(**sizes):
            found, taken = problem.evaluated().coco, problem.taken()
        assert same(found, problem.evaluated().coco)
        assert taken == problem.taken()

    compare()


@few
@given(problems())
def test_scores_matter_by_their_order_alone(problem):
    """Twice the score and 3 is exact here, and so is the way back."""
    rescaled = replace(problem, detections=[row._replace(score=2 * row.score + 3) for row in problem.detections])
    before, after = problem.evaluated().coco, rescaled.evaluated().coco
    assert torch.equal(after.precision, before.precision)
    assert torch.equal(after.recall, before.recall)
    assert torch.equal(torch.where(after.scores > 0, (after.scores - 3) / 2, before.scores), before.scores)
    assert rescaled.taken() == problem.taken()


@few
@given(problems(), st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
def test_the_dtype_of_scores_changes_nothing_where_it_holds_them(problem, dtype):
    """Scores from -1/8 to 2 in eighths are exact in all of them."""
    found = replace(problem, detections=[row._replace(score=min(row.score, 2.0)) for row in problem.detections])
    detections, truths = found.tensors
    other = Detections(detections.boxes, detections.scores.to(dtype), detections.labels, detections.images)
    assert same(evaluate_boxes(other, truths, **found.options).coco, found.evaluated().coco)


@few
@given(problems(), st.sampled_from([torch.uint8, torch.int16, torch.int32]))
def test_the_dtype_of_labels_and_images_changes_nothing(problem, dtype):
    problem = problem.with_images({image for image in problem.images if image < 200})
    detections, truths = problem.tensors
    found = Detections(detections.boxes, detections.scores, detections.labels.to(dtype), detections.images.to(dtype))
    narrow = replace(truths, labels=truths.labels.to(dtype), images=truths.images.to(dtype))
    assert same(evaluate_boxes(found, narrow, **problem.options).coco, problem.evaluated().coco)


@few
@given(problems())
def test_the_default_areas_are_those_of_the_boxes_and_by_default_nothing_is_a_crowd(problem):
    truths = problem.packed_ground_truths
    sizes = truths.boxes[:, 2].double() * truths.boxes[:, 3].double()
    said = GroundTruths(truths.boxes, truths.labels, truths.images, torch.zeros(len(sizes), dtype=torch.bool), sizes)
    unsaid = GroundTruths(truths.boxes, truths.labels, truths.images)
    found = problem.packed_detections
    options = problem.options
    assert same(evaluate_boxes(found, unsaid, **options).coco, evaluate_boxes(found, said, **options).coco)

"""What must change nothing in COCO's evaluation, and what may change only what it says."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.functional.detection.evaluators import ClassAverages, PrecisionGrid, coco, evaluate_matches
from tests.detection_strategies import problems
from tests.paths import taking
from tests.profiles import examples

few = examples(20)

ARRAYS = ("precision", "recall", "scores")


def same(found: PrecisionGrid, expected: PrecisionGrid) -> bool:
    return all(torch.equal(getattr(found, name), getattr(expected, name)) for name in ARRAYS)


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
@given(problems(), st.integers(1, 9))
def test_many_detections_are_averaged_a_few_classes_at_a_time(problem, at_a_time):
    whole = problem.matched()
    grid, averages = evaluate_matches(whole, problem.grid), coco.average_matches(whole, problem.grid)
    with taking(many_to_average=1, averaged_classes=at_a_time, cached_curves=0):
        assert same(evaluate_matches(whole, problem.grid), grid)
        few_at_a_time = coco.average_matches(whole, problem.grid)
    for found, expected in zip(_tables(few_at_a_time), _tables(averages), strict=True):
        assert torch.equal(found.nan_to_num(-1), expected.nan_to_num(-1))


def _tables(averages: ClassAverages) -> list[torch.Tensor]:
    return [averages.recall, *averages.average_precision.values()]


CURVES = {"one area range at a time": {"cached_curves": 0}, "many": {"most_curves": 2}, "long": {"most_counted": 2}}


@pytest.mark.parametrize("sizes", CURVES.values(), ids=CURVES.keys())
def test_curves_that_are_counted_as_many_are_give_the_same(sizes):
    @few
    @given(problems())
    def compare(problem):
        with taking(**sizes):
            found = problem.evaluated().coco
        assert same(found, problem.evaluated().coco)

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

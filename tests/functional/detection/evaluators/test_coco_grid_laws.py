"""Laws of COCO's grid: thresholds, area ranges and limits have nothing to do with each other; units do not matter."""

import pytest
import torch
from hypothesis import given

from reid_torchmetrics.functional.detection import COCO_AREA_RANGES, Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.functional.detection.evaluators import average_matches, evaluate_matches
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import find_pairs, merge_matches
from tests.detection_strategies import problems
from tests.found_classes import match_images
from tests.functional.detection.evaluators.test_coco_laws import few
from tests.profiles import examples


@examples(10)
@given(problems(default_setting=True))
def test_more_than_8_area_ranges_change_nothing_in_the_first_ones(problem):
    """They no longer fit into the bits of a byte."""
    more = {f"up to {limit}": (0.0, float(limit)) for limit in range(1, 59)}
    before, after = problem.evaluated().coco, problem.evaluated(area_ranges=dict(problem.setting.areas) | more).coco
    assert torch.equal(after.precision[..., :4, :], before.precision)
    assert torch.equal(after.recall[..., :4, :], before.recall)


@few
@given(problems(default_setting=True))
def test_limits_that_no_class_of_an_image_exceeds_are_one(problem):
    """There are at most 30 detections."""
    found = problem.evaluated(max_detection_thresholds=(30, 31, 10**6)).coco
    for array in (found.precision, found.recall, found.scores):
        assert torch.equal(array[..., 0], array[..., 1])
        assert torch.equal(array[..., 0], array[..., 2])


def test_nothing_at_all_has_no_classes_and_no_rows_unless_they_are_asked_for():
    nothing = torch.zeros(0, dtype=torch.int64)
    found = Detections(torch.zeros(0, 4), torch.zeros(0), nothing, nothing)
    truths = GroundTruths(torch.zeros(0, 4), nothing, nothing)
    evaluated = evaluate_boxes(found, truths)
    results = evaluated.coco
    assert [*results.precision.shape] == [*results.scores.shape] == [10, 101, 0, 4, 3]
    assert [*results.recall.shape] == [10, 0, 4, 3]
    assert {float(number) for number in evaluated.summary().values()} == {-1}
    part = match_images(found, truths)
    assert merge_matches([part, part]).ground_truths is None


@pytest.mark.slow
def test_there_may_be_more_limits_than_an_int8_counts():
    """A limit of m keeps m of 200 detections; the ground truth is found by the one that scores least."""
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0]]).repeat(200, 1)
    boxes[:199, 0] = 50
    zeros = torch.zeros(200, dtype=torch.int64)
    found = Detections(boxes, torch.arange(200, 0, -1).float(), zeros, zeros)
    true = GroundTruths(boxes[199:], zeros[:1], zeros[:1])
    recall = evaluate_boxes(found, true, max_detection_thresholds=tuple(range(1, 201))).coco.recall
    assert recall[0, 0, 0].tolist() == [0.0] * 199 + [1.0]


def test_limits_may_be_the_largest_integers():
    boxes, zeros = torch.tensor([[0.0, 0.0, 10.0, 10.0]]), torch.zeros(1, dtype=torch.int64)
    found, true = Detections(boxes, torch.ones(1), zeros, zeros), GroundTruths(boxes, zeros, zeros)
    results = evaluate_boxes(found, true, max_detection_thresholds=(2**63 - 1, 2**70))
    assert results.coco.recall.flatten().tolist()[0] == 1


def test_boxes_that_carry_gradients_give_results_that_do_not():
    boxes, zeros = torch.tensor([[0.0, 0.0, 10.0, 10.0]], requires_grad=True), torch.zeros(1, dtype=torch.int64)
    found, true = Detections(boxes, boxes[:, 2], zeros, zeros), GroundTruths(boxes, zeros, zeros)
    assert not evaluate_boxes(found, true).coco.scores.requires_grad
    assert not find_pairs(found, true, at_least=0.5).iou.requires_grad


@pytest.mark.parametrize("evaluate", [evaluate_matches, average_matches])
@pytest.mark.parametrize(
    "options", [{"iou_thresholds": (0.5,)}, {"max_detection_thresholds": (1,)}, {"area_ranges": {"all": (0.0, 1.0)}}]
)
def test_a_grid_that_matches_were_not_made_for_is_refused(evaluate, options):
    boxes, zeros = torch.tensor([[0.0, 0.0, 10.0, 10.0]]).repeat(2, 1), torch.zeros(2, dtype=torch.int64)
    matches = match_images(Detections(boxes, torch.ones(2), zeros, zeros), GroundTruths(boxes, zeros, zeros))
    with pytest.raises(ValueError, match="`grid` must be the one that `matches` were made with; got"):
        evaluate(matches, CocoGrid(**options))


def test_the_ranges_of_a_result_are_its_own():
    assert CocoGrid(area_ranges=COCO_AREA_RANGES).area_ranges is not COCO_AREA_RANGES

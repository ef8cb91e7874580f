"""Laws of COCO's grid: thresholds, area ranges and limits have nothing to do with each other; units do not matter."""

import pytest
import torch

from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.functional.detection.evaluators import average_matches, evaluate_matches
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import find_pairs, merge_matches
from tests.found_classes import match_images


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
def test_classes_that_occur_need_not_be_named_and_one_that_does_not_is_undefined():
    """Class 0 has no ground truth and class 2 no detection, so each occurs on one side only."""
    boxes, labels = torch.tensor([[0.0, 0, 9, 9], [20, 0, 9, 9], [40, 0, 9, 9]]), torch.tensor([0, 1, 2])
    scores, images = torch.tensor([0.9, 0.8]), torch.zeros(3, dtype=torch.int64)
    sides = Detections(boxes[:2], scores, labels[:2], images[:2]), GroundTruths(boxes[1:], labels[1:], images[1:])
    unnamed = evaluate_boxes(*sides)
    assert unnamed.classes.tolist() == [0, 1, 2]
    more = evaluate_boxes(*sides, classes=torch.tensor([99, 0, 1, 2]))
    assert more.classes.tolist() == [0, 1, 2, 99]
    assert torch.equal(more.coco.precision[:, :, :-1], unnamed.coco.precision)
    assert (more.coco.precision[:, :, -1] == -1).all()
    assert more.summary() == unnamed.summary()
    assert float(more.summary()["map"]) == pytest.approx(1 / 2, abs=1e-12)


def test_there_may_be_more_limits_than_an_int8_counts():
    """A limit of m keeps m of 200 detections; the ground truth is found by the one that scores least."""
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0]]).repeat(200, 1)
    boxes[:199, 0] = 50
    zeros = torch.zeros(200, dtype=torch.int64)
    found = Detections(boxes, torch.arange(200, 0, -1).float(), zeros, zeros)
    true = GroundTruths(boxes[199:], zeros[:1], zeros[:1])
    recall = evaluate_boxes(found, true, max_detection_thresholds=tuple(range(1, 201))).coco.recall
    assert recall[0, 0, 0].tolist() == [0.0] * 199 + [1.0]


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

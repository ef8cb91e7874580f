"""What each box in an image is: right, wrong, missed or ignored."""

from collections import Counter

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.plot.judged_boxes import JudgedBox
from tests.functional.detection.detection_samples import fed, images
from tests.plot.box_samples import CROWD, IN_CROWD, MISSED, RIGHT, WRONG, detections, ground_truths, judge, nothing


def outcomes(boxes: list[JudgedBox]) -> list[tuple[str, int, float | None]]:
    return [(box.outcome, box.label, None if box.score is None else round(box.score, 4)) for box in boxes]


EXPECTED = [("ignored", 2, None), ("ignored", 2, 0.75), ("right", 1, 0.9), ("missed", 2, None), ("wrong", 1, 0.6)]


def test_boxes_are_right_wrong_missed_or_ignored():
    boxes = judge()
    assert outcomes(boxes) == EXPECTED
    assert [list(box.corners) for box in boxes] == [CROWD, IN_CROWD, RIGHT, MISSED, WRONG]


def test_a_float32_score_reaches_the_same_number_in_float64():
    assert ("right", 1, 0.9) in outcomes(judge(min_score=0.9))
    assert ("missed", 1, None) in outcomes(judge(min_score=0.9000001))


def test_a_label_decides_unless_all_classes_are_one():
    other = detections(labels=torch.tensor([3, 1, 2]))
    assert outcomes(judge(other))[2:4] == [("missed", 1, None), ("missed", 2, None)]
    assert outcomes(judge(other))[4:] == [("wrong", 3, 0.9), ("wrong", 1, 0.6)]
    assert ("right", 3, 0.9) in outcomes(judge(other, average="micro"))


def test_an_image_may_have_no_boxes_of_either_kind():
    without_shape = {"boxes": torch.zeros(0), "labels": torch.zeros(0), "scores": torch.zeros(0)}
    assert judge(without_shape, nothing()) == judge(nothing(), without_shape) == []
    assert [box.outcome for box in judge(nothing(), ground_truths())] == ["ignored", "missed", "missed"]


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_the_outcomes_are_those_of_the_metric(average):
    preds, target = images(41, 15)
    results = fed(DetectionMAP(average=average), preds, target).results()
    counted = results.image_errors(iou_threshold=0.75)
    scores = results.best_confidences(iou_threshold=0.75)
    for image, (found, true) in enumerate(zip(preds, target, strict=True)):
        boxes = judge(found, true, min_score=scores, iou_threshold=0.75, average=average)
        counts = Counter(box.outcome for box in boxes)
        assert counts["right"] == counted.num_true_positives[image]
        assert counts["wrong"] == counted.num_false_positives[image]
        assert counts["missed"] == counted.num_misses[image]

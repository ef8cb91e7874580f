"""What each box in an image is: right, wrong, missed or ignored."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.plot import draw_box_grid, draw_boxes
from reid_torchmetrics.plot.judged_boxes import JudgedBox
from reid_torchmetrics.report import write_report
from tests.functional.detection.batches.test_invalid_detections import spoilt
from tests.functional.detection.detection_samples import fed, images
from tests.plot.box_samples import (
    CROWD,
    IN_CROWD,
    MISSED,
    PICTURE,
    RIGHT,
    SIDE,
    WRONG,
    detections,
    ground_truths,
    judge,
    nothing,
)
from tests.plot.test_boxes import RED, edge


def outcomes(boxes: list[JudgedBox]) -> list[tuple[str, int, float | None]]:
    return [(box.outcome, box.label, None if box.score is None else round(box.score, 4)) for box in boxes]


EXPECTED = [("ignored", 2, None), ("ignored", 2, 0.75), ("right", 1, 0.9), ("missed", 2, None), ("wrong", 1, 0.6)]


def test_boxes_are_right_wrong_missed_or_ignored():
    boxes = judge()
    assert outcomes(boxes) == EXPECTED
    assert [sum(box.corners, []) for box in boxes] == [CROWD, IN_CROWD, RIGHT, MISSED, WRONG]


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


NAN, INF = math.nan, math.inf
LEFT, TOP, RIGHT_EDGE, BOTTOM = WRONG
INVERTED = {
    "both": ([RIGHT_EDGE, BOTTOM, LEFT, TOP], "wrong"),
    "one": ([RIGHT_EDGE, TOP, LEFT, BOTTOM], "ignored"),
    "infinite": ([LEFT, TOP, INF, BOTTOM], "ignored"),
    "NaN": ([LEFT, TOP, NAN, BOTTOM], "wrong"),
}


def with_box(box: list[float]) -> dict[str, torch.Tensor]:
    found = detections()
    found["boxes"][1] = torch.tensor(box)
    return found


@pytest.mark.parametrize("name", INVERTED)
def test_inverted_boxes_are_wrong_or_ignored_as_in_the_evaluation(name):
    box, outcome = INVERTED[name]
    (judged,) = (each for each in judge(with_box(box)) if each.score is not None and round(each.score, 4) == 0.6)
    assert judged.outcome == outcome
    if name in {"both", "one"}:
        assert [*map(sorted, zip(*judged.corners, strict=True))] == [[LEFT, RIGHT_EDGE], [TOP, BOTTOM]]


def test_an_inverted_box_is_drawn_between_its_corners():
    image = draw_boxes(PICTURE, with_box(INVERTED["both"][0]), nothing(), height=SIDE)
    expected = draw_boxes(PICTURE, detections(), nothing(), height=SIDE)
    assert edge(image, WRONG) == {RED}
    assert np.array_equal(image, expected)


@pytest.mark.parametrize(("name", "legend"), [("NaN", ["1 right", "1 wrong"]), ("infinite", ["1 right", "0 wrong"])])
def test_a_box_without_a_place_is_counted(written, name, legend):
    image = draw_boxes(PICTURE, with_box(INVERTED[name][0]), ground_truths(), height=320)
    assert written[-4:-2] == legend
    assert image.dtype == np.uint8


@pytest.mark.filterwarnings("ignore:.* are not finite or have")
@pytest.mark.slow
def test_the_worst_images_are_drawn_and_reported_with_them(tmp_path):
    preds, target = spoilt(given=images(7, 6, with_ids=True))
    metric = fed(DetectionMAP(), preds, target)
    results = metric.results(across_classes=True, boxes=True)
    worst = results.worst_images(4)
    grid = draw_box_grid([PICTURE] * 4, *metric.boxes_of(worst.image), min_score=results.best_confidences())
    assert grid.ndim == 3
    text = write_report(results, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "24" in text

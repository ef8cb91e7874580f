"""Detected boxes that are inverted or not finite, in pictures: they are drawn where they can be, and counted."""

import math

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.plot import draw_box_grid, draw_boxes
from reid_torchmetrics.report import write_report
from tests.functional.detection.batches.test_invalid_detections import spoilt
from tests.functional.detection.detection_samples import fed, images
from tests.plot.box_samples import PICTURE, SIDE, WRONG, detections, ground_truths, judge, nothing
from tests.plot.test_drawn_boxes import RED, edge

NAN, INF = math.nan, math.inf
LEFT, TOP, RIGHT, BOTTOM = WRONG
INVERTED = {
    "both": ([RIGHT, BOTTOM, LEFT, TOP], "wrong"),
    "one": ([RIGHT, TOP, LEFT, BOTTOM], "ignored"),
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
        assert list(judged.corners) == WRONG


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

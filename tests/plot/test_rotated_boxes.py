"""Rotated boxes in images: drawn by their corners, and judged by their own overlaps."""

import math

import numpy as np
import pytest
import torch

from reid_torchmetrics import VocMAP
from reid_torchmetrics.plot import draw_boxes, judged_like
from reid_torchmetrics.plot.judged_boxes import Judgment
from reid_torchmetrics.tasks.rotated_boxes import rotated_corners
from tests.plot.box_samples import PICTURE, SIDE, judge

EIGHTH = math.pi / 4
RISING, FALLING = [110.0, 110, 120, 20, -EIGHTH], [110.0, 110, 120, 20, EIGHTH]  # in the same upright box
BESIDE = [50.0, 180, 40, 20, 0.0]
RED, BLUE, GROUND = (215, 48, 39), (33, 102, 230), (90,) * 3


def boxes(*listed: list[float], as_corners: bool = False, **more) -> dict[str, torch.Tensor]:
    given = torch.tensor(listed, dtype=torch.float64)
    shapes = rotated_corners(given).flatten(1) if as_corners else given
    labels = torch.ones(len(given), dtype=torch.int64)
    return {"rotated_boxes": shapes, "labels": labels, "scores": torch.linspace(0.9, 0.5, len(given))} | more


def outcomes(*sides) -> list[str]:
    return [each.outcome for each in judge(*sides)]


@pytest.mark.parametrize("as_corners", [False, True])
def test_a_box_that_overlaps_only_as_upright_is_wrong(as_corners):
    true = boxes(RISING, BESIDE, as_corners=as_corners)
    assert outcomes(boxes(FALLING), true) == ["missed", "missed", "wrong"]
    assert outcomes(boxes(RISING), true) == ["right", "missed"]
    assert outcomes(boxes(FALLING), true | {"iscrowd": torch.tensor([1, 0])}) == ["ignored", "missed", "wrong"]
    (wrong,) = judge(boxes(FALLING), nothing())
    for coordinates in zip(*wrong.corners, strict=True):
        assert (min(coordinates), max(coordinates)) == pytest.approx((60.5, 159.5), abs=0.1)


def nothing() -> dict[str, torch.Tensor]:
    return {"rotated_boxes": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.int64), "scores": torch.zeros(0)}


def test_the_edges_are_between_the_corners():
    image = draw_boxes(PICTURE, boxes(RISING), nothing(), height=SIDE)[:SIDE]
    assert np.array_equal(image, draw_boxes(PICTURE, boxes(RISING, as_corners=True), nothing(), height=SIDE)[:SIDE])
    rows, columns = (image == RED).all(2)[70:].nonzero()  # below the label
    # The axis rises from the center to both sides by 60, and the long edges are 10 beside it.
    along, beside = np.abs(columns - rows - 70) / math.sqrt(2), np.abs(columns + rows + 70 - 220) / math.sqrt(2)
    assert len(rows) > 300
    assert (np.minimum(abs(along - 60), abs(beside - 10)) <= 2).all()
    assert tuple(image[110, 110]) == GROUND


def test_missed_boxes_have_dashes_and_boxes_that_are_not_finite_are_only_counted():
    image = draw_boxes(PICTURE, nothing(), boxes(BESIDE), height=SIDE)
    colors = {tuple(pixel) for pixel in image[170, 32:68].tolist()}
    assert colors >= {BLUE, (255,) * 3}
    lost = boxes([math.nan, 110, 120, 20, 0.0])
    lines = draw_boxes(PICTURE, lost, nothing(), height=SIDE)
    assert {tuple(pixel) for pixel in lines[:SIDE].reshape(-1, 3).tolist()} == {GROUND}
    assert outcomes(lost, nothing()) == ["wrong"]
    assert outcomes(boxes([110.0, 110, -120, 20, 0]), boxes([110.0, 110, 120, 20, 0])) == ["missed", "wrong"]
    far = draw_boxes(PICTURE, boxes([110.0, 110, 1e8, 20, 0.0]), nothing(), height=SIDE)
    assert {tuple(pixel) for pixel in far[120, :SIDE].tolist()} == {RED}


def test_boxes_of_a_metric_are_judged_as_it_counts_them():
    metric = VocMAP("xywh", iou_type="rotated")
    metric.update([boxes(FALLING, BESIDE)], [boxes(RISING, BESIDE, difficult=torch.tensor([0, 1]))])
    results = metric.results(boxes=True)
    worst = results.worst_images(1)
    (found,), (true,) = results.boxes_of([0])
    judged = Judgment(0.0, 0.5, "xywh", average="macro", evaluator=judged_like(results)["evaluator"]).judge(found, true)
    assert [each.outcome for each in judged] == ["ignored", "ignored", "missed", "wrong"]
    assert (worst.num_false_positives.tolist(), worst.num_misses.tolist()) == ([1], [1])


@pytest.mark.parametrize(
    ("found", "true", "message"),
    [
        ({"boxes": torch.zeros(1, 4)}, boxes(BESIDE), "`detections` must have a tensor of rotated_boxes; got none."),
        (boxes(BESIDE), {"boxes": torch.zeros(1, 4)}, "`ground_truths` must have a tensor of rotated_boxes; got none."),
        (
            boxes(BESIDE) | {"rotated_boxes": torch.zeros(1, 7)},
            boxes(BESIDE),
            r"`detections\['rotated_boxes'\]` must have shape \[N, 5 or 8\] or \[N, 4, 2\]; got \[1, 7\].",
        ),
    ],
)
def test_a_value_that_is_no_rotated_box_is_named(found, true, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw_boxes(PICTURE, found, true)

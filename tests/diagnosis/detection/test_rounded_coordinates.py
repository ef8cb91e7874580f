"""Coordinates that were rounded to bfloat16 or float16 are told once by their values, on either side."""

import warnings

import pytest
import torch

from reid_torchmetrics import DetectionMAP

LIMITS = {torch.bfloat16: 256, torch.float16: 2048}
LABELS = torch.zeros(60, dtype=torch.int64)
SCORES = torch.linspace(0.9, 0.5, 60)


def boxes_within(size):
    """Boxes at any place of an image."""
    generator = torch.Generator().manual_seed(0)
    corners = size * 0.9 * torch.rand(60, 2, generator=generator)
    return torch.cat([corners, corners + size * (0.02 + 0.08 * torch.rand(60, 2, generator=generator))], 1)


def by_metric(make):
    def evaluate(preds, target):
        metric = make()
        for _ in range(3):
            metric.update(preds, target)
        metric.compute()

    return evaluate


def texts(evaluate, detected, true, key="boxes"):
    preds = {key: detected, "scores": SCORES, "labels": LABELS}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluate([preds], [{key: true, "labels": LABELS}])
    return [str(warning.message) for warning in caught if "rounded to" in str(warning.message)]


@pytest.mark.parametrize("dtype", LIMITS)
def test_rounded_boxes_are_told_once_by_the_side_that_was_rounded(dtype):
    boxes, near = boxes_within(4 * LIMITS[dtype]), boxes_within(LIMITS[dtype])
    rounded, name = boxes.to(dtype), str(dtype).removeprefix("torch.")
    for argument, sides in (
        ("preds", (rounded, boxes)),
        ("preds", (rounded.float(), boxes.double())),
        ("target", (boxes, rounded)),
        ("target", (boxes.double(), rounded.double())),
        ("preds", (rounded, rounded)),
    ):
        (text,) = texts(by_metric(DetectionMAP), *sides)
        assert text.startswith(f"`boxes` of `{argument}` were rounded to {name}: ")
        assert f"above {LIMITS[dtype]:,}, where {name} cannot" in text
    for right in (near.to(dtype), boxes, boxes.double(), boxes.round(), (boxes / 8).round() * 8):
        assert texts(by_metric(DetectionMAP), right, right) == []


def test_thirty_different_coordinates_are_enough_to_say():
    boxes = boxes_within(2000).bfloat16().float()
    for num, is_told in ((20, True), (5, False)):
        some = boxes[:num].repeat(12, 1)[:60]
        assert bool(texts(by_metric(DetectionMAP), some, some)) is is_told


def rotated(boxes):
    return torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2], torch.full((60, 1), 0.5)], 1)


def test_an_angle_is_no_coordinate():
    boxes = torch.cat([rotated(boxes_within(200))[:, :4], torch.linspace(300, 900, 60)[:, None]], 1)
    assert texts(by_metric(lambda: DetectionMAP(iou_type="rotated")), boxes.bfloat16(), boxes, "rotated_boxes") == []

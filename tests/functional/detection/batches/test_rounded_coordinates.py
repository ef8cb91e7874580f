"""Detected coordinates in bfloat16 or float16 that cannot hold them to a pixel are told once, and nothing else is."""

import warnings

import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics, LvisMAP, VocMAP, YoloMAP
from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes, evaluate_images
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS

LIMITS = {torch.bfloat16: 256, torch.float16: 2048}
LABELS = torch.zeros(5, dtype=torch.int64)
SCORES = torch.linspace(0.9, 0.5, 5)


def boxes_at(place):
    """Five boxes of 8 x 8 pixels whose coordinates are all above a place."""
    corners = place + 16 + torch.arange(5.0)[:, None] * torch.tensor([16.0, 16.0])
    return torch.cat([corners, corners + 8], 1)


def by_metric(make):
    def evaluate(preds, target):
        metric = make()
        for _ in range(3):
            metric.update(preds, target)
        metric.compute()

    return evaluate


def by_function(evaluator):
    return lambda preds, target: evaluate_images(preds, target, evaluator=evaluator)


def of_tensors(evaluator):
    def evaluate(preds, target):
        columns = {"labels": LABELS, "images": LABELS}
        detections = Detections(boxes=preds[0]["boxes"], scores=preds[0]["scores"], **columns)
        evaluate_boxes(detections, GroundTruths(boxes=target[0]["boxes"], **columns), evaluator=evaluator)

    return evaluate


DOORS = {kind.__name__: by_metric(kind) for kind in (DetectionMAP, VocMAP, YoloMAP, LvisMAP)}
DOORS["DetectionMetrics"] = by_metric(lambda: DetectionMetrics(("map", "map_50")))
DOORS |= {name: by_function(name) for name in EVALUATORS}
DOORS |= {f"{name} of tensors": of_tensors(name) for name in ("coco", "voc", "ultralytics")}


def texts(evaluate, detected, true, key="boxes"):
    preds = {key: detected, "scores": SCORES, "labels": LABELS}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluate([preds], [{key: true, "labels": LABELS}])
    return [str(warning.message) for warning in caught if "coordinates" in str(warning.message)]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("door", DOORS)
def test_boxes_beyond_the_whole_pixels_of_their_dtype_are_told_once(door, dtype):
    evaluate = DOORS[door]
    far, near = boxes_at(LIMITS[dtype]), boxes_at(100)
    (text,) = texts(evaluate, far.to(dtype), far)
    name = str(dtype).removeprefix("torch.")
    assert text.startswith(f"Detected `boxes` are {name}, ground truths are float32: 100% of the detected coordinates")
    assert f"above {LIMITS[dtype]:,}, where {name} cannot" in text
    assert len(texts(evaluate, far.to(dtype), far.double())) == 1
    for detected, true in ((far.to(dtype), far.to(dtype)), (near.to(dtype), near), (far, far), (far, far.double())):
        assert texts(evaluate, detected, true) == []


def test_more_than_one_in_ten_coordinates_must_be_larger():
    boxes = boxes_at(100)
    boxes[0, 2:] = 300  # two of twenty
    assert texts(DOORS["DetectionMAP"], boxes.bfloat16(), boxes) == []
    boxes[1, 3] = 300
    assert len(texts(DOORS["DetectionMAP"], boxes.bfloat16(), boxes)) == 1


def test_ground_truths_of_integers_have_more_bits():
    far = boxes_at(300)
    assert len(texts(DOORS["DetectionMAP"], far.bfloat16(), far.long())) == 1


SHAPES = {
    "keypoints": torch.rand(5, 17, 3, generator=torch.Generator().manual_seed(0)) + torch.tensor([300.0, 300.0, 1.0]),
    "rotated_boxes": torch.tensor([[300.0, 300.0, 8.0, 4.0, 0.5]]).repeat(5, 1),
}
SHAPES["corners"] = torch.tensor([[300.0, 300, 308, 300, 308, 304, 300, 304]]).repeat(5, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_other_shapes_are_told_by_their_key(shape):
    key = "keypoints" if shape == "keypoints" else "rotated_boxes"
    iou_type = "keypoints" if shape == "keypoints" else "rotated"
    values = SHAPES[shape]
    by_call = lambda preds, target: evaluate_images(preds, target, iou_type=iou_type)  # noqa: E731
    for evaluate in (by_metric(lambda: DetectionMAP(iou_type=iou_type)), by_call):
        (text,) = texts(evaluate, values.bfloat16(), values, key)
        assert text.startswith(f"Detected `{key}` are bfloat16")
        assert texts(evaluate, values, values, key) == []
        assert texts(evaluate, values.half(), values, key) == []
        assert texts(evaluate, values.bfloat16(), values.bfloat16(), key) == []


def test_an_angle_is_no_coordinate():
    boxes = torch.tensor([[100.0, 100.0, 8.0, 4.0, 400.0]]).repeat(5, 1)
    assert texts(by_metric(lambda: DetectionMAP(iou_type="rotated")), boxes.bfloat16(), boxes, "rotated_boxes") == []


def test_boxes_beside_masks_are_told():
    far = boxes_at(300)
    masks = torch.ones(5, 4, 4, dtype=torch.bool)

    def evaluate(preds, target):
        metric = DetectionMAP(iou_type=("bbox", "segm"))
        metric.update([item | {"masks": masks} for item in preds], [item | {"masks": masks} for item in target])
        metric.compute()

    assert len(texts(evaluate, far.bfloat16(), far)) == 1

"""Detected keypoints and rotated boxes that are not finite or of negative size, and boxes so beside masks."""

import math
from dataclasses import replace
from random import Random

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from tests.functional.detection.batches.test_unsound_shapes import three
from tests.functional.detection.detection_samples import fed
from tests.functional.detection.mask_samples import compressed
from tests.shape_problems import ShapeProblem, draw_shapes

NAN, INF = math.nan, math.inf

pytestmark = pytest.mark.filterwarnings("ignore:.* are not finite or have")


def spoilt(seed: int) -> ShapeProblem:
    """Keypoints of which some are infinitely far, in one direction or in all."""
    random = Random(seed)  # noqa: S311 - no secret
    problem = draw_shapes(random, "keypoints")
    for item in problem.preds:
        for points in item["keypoints"]:
            place, axis = random.randrange(len(points)), random.choice((0, 1, slice(0, 2)))
            if random.random() < 0.4:
                points[random.choice((place, slice(None))), axis] = random.choice((INF, -INF))
    return problem


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # of pycocotools
@pytest.mark.slow
def test_infinite_keypoints_count_as_in_pycocotools():
    num_spoilt = 0
    for seed in range(120):
        problem = spoilt(seed)
        assert problem.largest_difference() <= 1e-12, seed
        num_spoilt += sum(int(item["keypoints"].isinf().any((1, 2)).sum()) for item in problem.preds)
    assert num_spoilt > 150


def test_one_keypoint_that_is_nan_is_enough_and_one_that_is_infinite_is_far():
    image = three("keypoints")
    image["target"]["keypoints"][..., 2] = 1.0
    image["target"]["iscrowd"][:] = 0
    image["preds"]["keypoints"][0, 3, 0] = INF  # 16 of 17 are right
    image["preds"]["keypoints"][1, 3, 0] = NAN
    metric = DetectionMAP(iou_type="keypoints", iou_thresholds=[0.5, 0.93, 0.95])
    metric.update([image["preds"]], [image["target"]])
    recall = metric.results().coco.recall[:, :, 0, -1]  # 16 / 17 is 0.941; class 1 has two objects, class 2 one
    assert recall.tolist() == [[1.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
    assert metric.num_invalid == 2


BAD = {
    "NaN": (4.0, NAN, 8.0, 8.0, 0.0),
    "NaN as angle": (4.0, 4.0, 8.0, 8.0, NAN),
    "both negative": (4.0, 4.0, -8.0, -8.0, 0.0),
    "one negative": (4.0, 4.0, -8.0, 8.0, 0.0),
    "infinite": (4.0, 4.0, INF, 8.0, 0.0),
    "infinitely far": (INF, 4.0, 8.0, 8.0, 0.0),
}
WRONG = {"NaN", "NaN as angle", "both negative", "infinitely far"}
"""the others are ignored: their area is negative, or above 1e10"""


@pytest.mark.parametrize("name", BAD)
def test_rotated_boxes_count_as_boxes_do(name):
    label = torch.zeros(2, dtype=torch.int64)
    good = torch.tensor([4.0, 4.0, 8.0, 8.0, 0.0])
    boxes = torch.stack([torch.tensor(BAD[name]), good])
    found = {"rotated_boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": label}
    metric = DetectionMAP(iou_type="rotated", metric="map")
    metric.update([found], [{"rotated_boxes": good[None], "labels": label[:1]}])
    assert float(metric.compute()) == pytest.approx(0.5 if name in WRONG else 1.0)
    assert metric.num_invalid == 1


def test_random_rotated_boxes_that_are_inverted_overlap_nothing():
    generator = torch.Generator().manual_seed(3)
    found = 10 * torch.rand(300, 5, generator=generator)
    found[torch.arange(300), 2 + torch.arange(300) % 2] *= -1
    label = torch.zeros(300, dtype=torch.int64)
    true = found[:40].abs()
    limits = [1, 10, 300]
    metric = DetectionMAP("xyxy", "rotated", [1e-9], extended_summary=True, max_detection_thresholds=limits)
    preds = {"rotated_boxes": found, "scores": torch.rand(300, generator=generator), "labels": label}
    values = fed(metric, [preds], [{"rotated_boxes": true, "labels": label[:40]}]).compute()
    assert values["ious"][0, 0].shape == (300, 40)
    assert not values["ious"][0, 0].any()
    assert (float(values["mar_300"]), metric.num_invalid) == (0.0, 300)


@pytest.mark.parametrize("as_lists", [False, True])
def test_boxes_beside_masks_count_and_their_masks_too(as_lists):
    image = three(("bbox", "segm"))
    expected = DetectionMAP(iou_type="segm", metric="map")
    expected.update([image["preds"]], [image["target"]])
    image["preds"]["boxes"][0] = NAN
    if as_lists:
        image["preds"]["masks"] = compressed(image["preds"]["masks"])
    metric = DetectionMAP(iou_type=("bbox", "segm"))
    metric.update([image["preds"]], [image["target"]])
    values = metric.compute()
    assert float(values["segm_map"]) == float(expected.compute()) > float(values["bbox_map"])
    assert metric.num_invalid == 1


def test_the_batch_is_the_same_in_any_size():
    problem = spoilt(2)
    values = [replace(problem, batch_size=size).evaluated()[1] for size in (1, 4)]
    assert values[0] == values[1]

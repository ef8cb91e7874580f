"""Keypoints and rotated boxes in `DetectionMAP`."""

import json
import math

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from tests.functional.detection.detection_samples import fed, is_same
from tests.functional.detection.keypoint_samples import SIGMAS, coco_rows, keypoint_images


def test_files_of_coco_are_read_with_keypoints(tmp_path):
    preds, target = keypoint_images(4, 9)
    results, annotations, images = coco_rows(preds, target)
    files = {"results": results, "truth": {"images": images, "annotations": annotations}}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    paths = [str(tmp_path / name) for name in files]
    read = DetectionMAP.coco_to_tm(*paths, iou_type="keypoints")
    expected = fed(DetectionMAP("xywh", iou_type="keypoints", sigmas=SIGMAS), preds, target).compute()
    assert is_same(fed(DetectionMAP("xywh", iou_type="keypoints", sigmas=SIGMAS), *read).compute(), expected)
    with pytest.raises(
        ValueError, match="must have `rotated_box` in every row of `annotations`; got the keys image_id, "
    ):
        DetectionMAP.coco_to_tm(*paths, iou_type="rotated")


def test_keypoints_have_cocos_limits_and_area_ranges():
    metric = DetectionMAP(iou_type="keypoints")
    assert (metric.max_detection_thresholds, [*metric.area_ranges]) == ([1, 10, 20], ["all", "medium", "large"])
    other = DetectionMAP(iou_type="keypoints", max_detection_thresholds=[2, 3, 4], area_ranges={"all": (0, 9)})
    assert (other.max_detection_thresholds, [*other.area_ranges]) == ([2, 3, 4], ["all"])


def test_without_boxes_and_areas_those_of_the_labeled_keypoints_count():
    true = torch.tensor([[[0.0, 0.0, 2.0], [40.0, 40.0, 2.0], [900.0, 0.0, 0.0]]])
    items = {"keypoints": true, "labels": torch.tensor([1])}
    metric = DetectionMAP(iou_type="keypoints", sigmas=SIGMAS)
    metric.update([items | {"scores": torch.tensor([0.5]), "keypoints": true[:, :, :2]}], [items])
    value = metric.compute()
    assert (value["map"], value["map_medium"], value["map_large"]) == (1, 1, -1)
    assert metric.boxes_of(torch.tensor([0]))[1][0]["boxes"].tolist() == [[0, 0, 40, 40]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sigmas": SIGMAS}, ValueError, "`sigmas` must be None where iou_type is not 'keypoints'; got (0.05"),
        ({"iou_type": "keypoints", "sigmas": [-1]}, ValueError, "`sigmas` must be positive and finite; got -1."),
        (
            {"iou_type": ("bbox", "keypoints")},
            ValueError,
            "`iou_type` must be one of 'bbox', 'segm', 'keypoints', 'rot",
        ),
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_a_bad_option_is_named(options, error, message):
    with pytest.raises(error) as caught:
        DetectionMAP(**options)
    assert message in str(caught.value)


def rotated_images(seed, num_images):
    generator = torch.Generator().manual_seed(seed)
    preds, target = [], []
    for _ in range(num_images):
        num = int(torch.randint(1, 6, (1,), generator=generator))
        true = torch.rand(num, 5, generator=generator, dtype=torch.float64) * torch.tensor([90, 90, 60, 60, 3.0])
        found = true + torch.randn(num, 5, generator=generator, dtype=torch.float64) * torch.tensor([2, 2, 2, 2, 0.1])
        labels = torch.arange(num) % 2
        scores = torch.rand(num, generator=generator)
        preds.append({"rotated_boxes": found.abs(), "scores": scores, "labels": labels})
        target.append({"rotated_boxes": true, "labels": labels})
    return preds, target


def upright(items, swapped):
    """Boxes that are not turned, once given as such, once as lying on the side and turned by a right angle."""
    order = [0, 1, 3, 2] if swapped else [0, 1, 2, 3]
    angle = math.pi / 2 if swapped else 0.0
    rows = [torch.cat([i["rotated_boxes"][:, order], torch.full((len(i["labels"]), 1), angle)], 1) for i in items]
    return [item | {"rotated_boxes": row.double()} for item, row in zip(items, rows, strict=True)]


@pytest.mark.parametrize("swapped", [False, True])
def test_rotated_boxes_that_are_not_turned_have_the_values_of_boxes(swapped):
    preds, target = rotated_images(1, 12)
    plain = [[item | {"boxes": item["rotated_boxes"][:, :4]} for item in side] for side in (preds, target)]
    expected = fed(DetectionMAP("cxcywh"), *plain).compute()
    metric = fed(DetectionMAP("cxcywh", iou_type="rotated"), upright(preds, swapped), upright(target, swapped))
    assert is_same(metric.compute(), expected)


def test_a_box_that_is_turned_is_held_by_a_larger_one_and_given_by_its_corners():
    side = math.sqrt(2)
    items = {"rotated_boxes": torch.tensor([[5.0, 5.0, side, side, math.pi / 4]]).double(), "labels": torch.tensor([1])}
    metric = DetectionMAP(iou_type="rotated")
    metric.update([items | {"scores": torch.tensor([0.5])}], [items])
    assert metric.compute()["map"] == 1
    assert metric.detection_boxes[0][0].tolist() == pytest.approx([4, 4, 6, 6])
    corners = metric.boxes_of(torch.tensor([0]))[0][0]["rotated_boxes"][0]
    assert corners.tolist() == pytest.approx([5, 4, 6, 5, 5, 6, 4, 5])


def test_an_object_without_labeled_keypoints_is_ignored_across_classes():
    points = torch.zeros(2, 17, 3)
    points[:, :, :2] = torch.arange(2 * 17 * 2).view(2, 17, 2)
    points[0, :, 2] = 2  # the second object has none
    found = {"keypoints": points, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([1, 1])}
    metric = fed(DetectionMAP(iou_type="keypoints"), [found], [{"keypoints": points, "labels": torch.tensor([1, 2])}])
    matrix = metric.results(across_classes=True).confusion_matrix(confidence=0.5)
    assert matrix.counts[:-1].sum() == 1  # of ground truths only the first counts, and is found
    assert matrix.counts[0, 0] == 1

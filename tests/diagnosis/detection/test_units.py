"""Input in other units than it is read in gets a warning, once, and nothing that may be meant does."""

import copy
import re

import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics, VocMAP, YoloMAP
from tests.diagnosis.contract import warned_by
from tests.functional.detection.detection_samples import changed, fed, images
from tests.functional.detection.keypoint_samples import SIGMAS, keypoint_images

pytestmark = pytest.mark.usefixtures("every_warning_is_an_error")

NORMALIZED = torch.tensor([1 / 200, 1 / 150, 1 / 200, 1 / 150])


def in_shares(items):
    return changed(items, "boxes", lambda boxes: boxes.clamp(0, 150) * NORMALIZED)


def without(items, *keys):
    return [{key: value for key, value in item.items() if key not in keys} for item in items]


GIVEN = images(3, 12)
METRICS = [DetectionMAP, DetectionMetrics, VocMAP, YoloMAP]


def keypoint_metric(preds, target):
    return fed(DetectionMAP("xywh", iou_type="keypoints", sigmas=SIGMAS), preds, target)


def boxed(items, *box):
    return [item | {"boxes": item["boxes"] * 0 + torch.tensor(box)} for item in items]


@pytest.mark.parametrize(
    ("metric", "is_told"),
    [
        (DetectionMAP(), True),
        (DetectionMAP(metric="map_small"), True),
        (DetectionMAP(metric="mar_large/2"), True),
        (DetectionMetrics(), True),
        (DetectionMAP(metric="map"), False),
        (DetectionMAP(metric="map_50/3"), False),
        (DetectionMAP(area_ranges={"all": (0, 1e10)}), False),
        (DetectionMetrics(("map", "f1_50")), False),
        (VocMAP(), False),
        (YoloMAP(), False),
    ],
)
def test_shares_on_both_sides_are_told_where_sizes_are_asked_for(metric, is_told):
    preds, target = map(in_shares, GIVEN)
    texts = warned_by(fed(metric, preds, without(target, "area")).compute)
    assert len(texts) == is_told
    message = r"lie within \[0, 1\], but area ranges are in square pixels, so .* `area_ranges=\{\"all\": \(0, 1e10"
    assert all(re.search(message, text) for text in texts)


@pytest.mark.parametrize("share", [1 / 40_000, 0.0])
def test_areas_that_are_shares_or_0_get_a_warning(share):
    preds, target = GIVEN
    target = [item | {"area": (item["boxes"][:, 2] - item["boxes"][:, 0])} for item in target]
    with pytest.warns(UserWarning, match=r"`area` of \d+ of \d+ checked ground truths is "):
        fed(
            DetectionMAP(), preds, changed(target, "area", lambda area: area * share + 1.2e-38)
        ).compute()  # 0 in a file
    fed(DetectionMAP(), preds, target).compute()


def test_keypoints_in_shares_outside_of_their_boxes_get_a_warning():
    preds, target = keypoint_images(5, 12)
    for true in (boxed(target, 0.0, 0.0, 90.0, 90.0), without(target, "boxes")):
        keypoint_metric(preds, true).compute()
    shares = changed(boxed(target, 30.0, 30.0, 90.0, 90.0), "keypoints", times(1 / 90, 1 / 90, 1.0))
    with pytest.warns(UserWarning, match=r"Most labeled keypoints of ground truths, \d+ of \d+, lie within \[0, 1\]"):
        keypoint_metric(preds, shares).compute()


def test_unlabeled_keypoints_are_no_shares():
    preds, target = keypoint_images(5, 12)

    def labeled_first(points):
        """The first at the middle of the box, the others, at 0, without a label."""
        points = points * 0
        points[:, 0] = torch.tensor([75.0, 75.0, 2.0])
        return points

    far = boxed(target, 30.0, 30.0, 90.0, 90.0)
    keypoint_metric(preds, changed(far, "keypoints", labeled_first)).compute()


def test_a_batch_of_keypoints_without_ground_truths_is_looked_at():
    preds, target = keypoint_images(5, 12)
    metric = DetectionMAP("xywh", iou_type="keypoints", sigmas=SIGMAS)
    nothing = {name: values[:0] for name, values in target[0].items() if getattr(values, "ndim", 0)}
    metric.update(preds[:1], [target[0] | nothing])
    metric.update(preds[1:], target[1:])
    metric.compute()


@pytest.mark.parametrize(("share", "is_odd"), [(0.0, True), (1.005, True), (1.02, False), (-0.02, False)])
def test_keypoints_at_the_edge_of_the_image_are_shares(share, is_odd):
    boxes = torch.tensor([[30.0, 30.0, 90.0, 90.0]]).repeat(12, 1)
    points = torch.full((12, len(SIGMAS), 3), share)
    points[:, :, 2] = 2
    true = {"boxes": boxes, "labels": torch.ones(12, dtype=torch.int64), "keypoints": points}
    found = {"keypoints": points, "labels": true["labels"], "scores": torch.linspace(0.1, 0.9, 12)}
    texts = warned_by(keypoint_metric([found], [true]).compute)
    assert ["labeled keypoints" in text for text in texts] == [True] * is_odd


def times(*factors):
    return lambda values: values * torch.tensor(factors)


def rotated(seed, num_images=12, *, of_found=1.0, of_true=1.0):
    """Images with rotated boxes, whose angles are multiplied."""
    generator = torch.Generator().manual_seed(seed)
    target, preds = [], []
    for _ in range(num_images):
        boxes = torch.rand(3, 5, generator=generator) * torch.tensor([90, 90, 60, 60, 3.0])
        target.append({"rotated_boxes": boxes, "labels": torch.tensor([0, 1, 1])})
        preds.append(target[-1] | {"scores": torch.rand(3, generator=generator)})
    sides = zip((preds, target), (of_found, of_true), strict=True)
    return [changed(side, "rotated_boxes", times(1, 1, 1, 1, factor)) for side, factor in sides]


@pytest.mark.parametrize(("of_found", "of_true"), [(57.3, 57.3), (57.3, 1), (1, 57.3)])
def test_angles_in_degrees_get_a_warning(of_found, of_true):
    metric = DetectionMAP(iou_type="rotated")
    with pytest.warns(
        UserWarning, match=r"Most angles of `rotated_boxes`, \d+ of 36, are beyond 2 pi: they seem to be d"
    ):
        fed(metric, *rotated(1, of_found=of_found, of_true=of_true)).compute()


@pytest.mark.slow
def test_angles_that_are_seldom_beyond_a_turn_are_meant():
    fed(DetectionMAP(iou_type="rotated"), *rotated(1, of_found=3, of_true=1)).compute()
    almost = [changed(side, "rotated_boxes", lambda boxes: boxes.clamp(min=6.2)) for side in rotated(1)]
    fed(DetectionMAP(iou_type="rotated"), *almost).compute()  # almost a turn
    fed(DetectionMAP(iou_type="rotated"), *rotated(1, of_found=0, of_true=0)).compute()


def masked(masks):
    """An image."""
    num = len(masks)
    return {"masks": masks, "labels": torch.arange(num) % 2, "scores": torch.linspace(0.1, 0.9, num)}


@pytest.mark.parametrize("value", [True, 1, 255])
def test_masks_of_whole_images_are_meant(value):
    """A collapsed model, and data whose objects fill their images."""
    dtype = torch.bool if value is True else torch.uint8
    whole = [masked(torch.full((2, 9, 9), value, dtype=dtype)) for _ in range(12)]
    fed(DetectionMAP(iou_type="segm"), whole, whole).compute()


def test_masks_that_number_their_objects_are_meant():
    """All that is not 0 belongs to the mask."""
    masks = torch.zeros(3, 9, 9, dtype=torch.uint8)
    for number in range(3):
        masks[number, 2 * number :, :5] = number + 1
    fed(DetectionMAP(iou_type="segm"), [masked(masks)] * 12, [masked(masks)] * 12).compute()


@pytest.mark.parametrize("metric", METRICS)
def test_one_class_that_is_taken_for_another_gets_no_warning(metric):
    boxes = torch.arange(20.0)[:, None] * 30 + torch.tensor([0.0, 0.0, 20.0, 20.0])
    found = torch.tensor([1] * 19 + [0])
    pred = {"boxes": boxes, "scores": torch.linspace(0.1, 0.9, 20), "labels": found}
    fed(metric(), [pred], [{"boxes": boxes, "labels": 0 * found}]).compute()


def test_labels_do_not_matter_where_all_are_one_class():
    preds, target = GIVEN
    target = changed(target, "labels", lambda labels: labels + 70)
    fed(DetectionMAP(average="micro"), preds, target).compute()


def box_model(kind, seed):
    """Detections of a model that learned nothing, for the ground truths of `images`."""
    generator = torch.Generator().manual_seed(seed)
    preds, target = images(seed, 12)
    found = []
    for item in preds:
        num = max(len(item["boxes"]), 1)
        boxes = {
            "zero": torch.zeros(num, 4),
            "pixel": torch.tensor([[0.0, 0.0, 1.0, 1.0]]).expand(num, 4),
            "constant": torch.tensor([[0.1, 0.2, 0.6, 0.9]]).expand(num, 4),
            "image": torch.tensor([[0.0, 0.0, 120.0, 120.0]]).expand(num, 4),
            "tiny": torch.cat([torch.rand(num, 2, generator=generator) * 100] * 2, 1) + torch.tensor([0, 0, 0.1, 0.1]),
            "now and then": torch.rand(num, 4, generator=generator).sort(1).values * (1 + 99 * (seed % 3 > 0)),
            "nothing": torch.zeros(0, 4),
        }[kind]
        labels = torch.full((len(boxes),), 17) if seed % 2 else torch.randint(4, (len(boxes),), generator=generator)
        found.append({"boxes": boxes, "scores": torch.rand(len(boxes), generator=generator), "labels": labels})
        seed += 1
    return found, target


@pytest.mark.parametrize("kind", ["zero", "pixel", "constant", "image", "tiny", "now and then", "nothing"])
@pytest.mark.slow
def test_a_model_that_learned_nothing_gets_no_warning(kind):
    for seed in range(1, 4):
        for metric in (DetectionMAP(), DetectionMetrics(("map", "map_50")), VocMAP(), YoloMAP()):
            metric.warn_on_many_detections = False
            fed(metric, *box_model(kind, seed)).compute()


def test_images_of_one_pixel_get_no_warning():
    box, labels = torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([1])
    item = {"boxes": box, "labels": labels, "scores": torch.tensor([0.5])}
    fed(DetectionMAP(), [item] * 20, [item] * 20).compute()
    masks = masked(torch.ones(1, 1, 1, dtype=torch.uint8))
    fed(DetectionMAP(iou_type="segm"), [masks] * 20, [masks] * 20).compute()


def test_points_of_one_pixel_get_no_warning():
    """Their area is 1."""
    corners = torch.randint(90, (24, 1, 2)).float()
    items = [
        {"boxes": torch.cat([corner, corner + 1], 1), "labels": torch.tensor([1]), "scores": torch.tensor([0.5])}
        for corner in corners
    ]
    fed(DetectionMAP(), items, items).compute()


def test_a_single_small_image_gets_no_warning():
    found = {"boxes": torch.tensor([[0.1, 0.1, 0.5, 0.4]]), "scores": torch.tensor([0.5]), "labels": torch.tensor([3])}
    true = {"boxes": torch.tensor([[10.0, 10.0, 50.0, 40.0]]), "labels": torch.tensor([1])}
    fed(DetectionMAP(), [found], [true]).compute()
    fed(DetectionMAP(), [found], [found]).compute()


def test_copies_of_a_metric_do_not_share_what_was_told():
    metric = DetectionMAP()
    other = copy.deepcopy(metric)
    for each in (metric, other):
        with pytest.warns(UserWarning, match="lie within"):
            fed(each, in_shares(GIVEN[0]), GIVEN[1]).compute()

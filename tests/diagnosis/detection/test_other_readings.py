"""Another reading of shapes of every kind is named; poor networks fit no reading."""

import math
import re

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.coco import COCO, COCOeval
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.tasks.rotated_boxes import rotated_corners
from tests.diagnosis.contract import told_by
from tests.functional.detection.detection_samples import fed

NUM_IMAGES, NUM_OBJECTS = 20, 4
MIRRORED = [0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15]
NUM = NUM_IMAGES * NUM_OBJECTS
SOME = rf"(7\d|80) of {NUM} ground truths are found\."


def problem(iou_type):
    """Images with ground truths, detections that are slightly off, and as many wrong detections of low scores."""
    generator = torch.Generator().manual_seed(0)

    def rand(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    def shapes(num):
        corner, size = rand(num, 2) * torch.tensor([440.0, 300.0]), 50 + 100 * rand(num, 2)
        if iou_type == "rotated":
            sides = torch.tensor([1.0, 0.3]) * size
            return torch.cat([corner + 60, sides, math.pi * (rand(num, 1) - 0.25)], 1)
        points = corner[:, None] + rand(num, 17, 2) * size[:, None]
        return torch.cat([points, 2.0 * (rand(num, 17, 1) > 0.1)], 2)

    key = {"rotated": "rotated_boxes", "keypoints": "keypoints"}[iou_type]
    preds, target = [], []
    for image in range(NUM_IMAGES):
        true = shapes(NUM_OBJECTS)
        found = true.clone()
        found[..., :2] += rand(*found[..., :2].shape) - 0.5
        found = torch.cat([found, shapes(NUM_OBJECTS)])
        scores = torch.cat([0.5 + 0.5 * rand(NUM_OBJECTS), 0.5 * rand(NUM_OBJECTS)])
        labels = torch.ones(2 * NUM_OBJECTS, dtype=torch.int64)
        preds.append({key: found, "scores": scores, "labels": labels})
        target.append({key: true, "labels": labels[:NUM_OBJECTS], "image_id": image})
        if iou_type == "keypoints":
            low, high = true[:, :, :2].amin(1), true[:, :, :2].amax(1)
            target[-1] |= {"boxes": torch.cat([low, high], 1), "area": (high - low).prod(1)}
    return preds, target


def columns(*places):
    return lambda numbers: numbers[:, places]


def times(*factors):
    return lambda numbers: numbers * torch.tensor(factors, dtype=torch.float64)


def at_corner(boxes):
    return torch.cat([boxes[:, :2] - boxes[:, 2:4] / 2, boxes[:, 2:]], 1)


def at_turned_corner(boxes):
    return torch.cat([rotated_corners(boxes)[:, 0], boxes[:, 2:]], 1)


def moved(right, below):
    def change(numbers):
        numbers = numbers.clone()
        numbers[..., 0] += right
        numbers[..., 1] += below
        return numbers

    return change


ROTATED = {
    "angles in the other direction": (times(1, 1, 1, 1, -1), "angles in the other direction"),
    "width and height exchanged": (columns(0, 1, 3, 2, 4), "width and height exchanged"),
    "corner": (at_corner, "corner instead of center"),
    "turned corner": (at_turned_corner, "rotated corner instead of center"),
    "twice as large": (times(2, 2, 2, 2, 1), r"0\.5\d* x [+-] \S+ and 0\.[45]\d* y [+-] \S+"),
    "80 rows below": (moved(0, 80), r"1 x [+-] \S+ and 1 y - \d+\S*"),
    "centers with y before x": (columns(1, 0, 2, 3, 4), "y before x"),
}
KEYPOINTS = {
    "half as large": (lambda points: points * torch.tensor([0.5, 0.5, 1]), r"(2|1\.9\d*|2\.0\d*) x .* and \S+ y .*"),
    "letterbox": (moved(0, 80), r"1 x [+-] \S+ and 1 y - \d+\S*"),
    "y before x": (lambda points: points[:, :, [1, 0, 2]], "y before x"),
    "left and right exchanged": (lambda points: points[:, MIRRORED], f"keypoints in the order {str(MIRRORED)[1:-1]}"),
    "another order": (
        lambda points: points.roll(3, 1),
        r"keypoints in the order 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0, 1, 2",
    ),
}
CHANGES = {("rotated", name): change for name, change in ROTATED.items()}
CHANGES |= {("keypoints", name): change for name, change in KEYPOINTS.items()}


def changed(items, iou_type, change):
    key = "keypoints" if iou_type == "keypoints" else "rotated_boxes"
    return [item | {key: change(item[key])} for item in items]


def by_function(preds, target, iou_type):
    evaluate_images(preds, target, iou_type=iou_type)


@pytest.mark.parametrize(("iou_type", "change"), CHANGES, ids=str)
def test_another_reading_of_detections_is_named(iou_type, change):
    apply, name = CHANGES[iou_type, change]
    preds, target = problem(iou_type)
    (text,) = told_by(lambda: by_function(changed(preds, iou_type, apply), target, iou_type))
    assert re.search(rf"With `preds` read as {name}, {SOME}", text), text


@pytest.mark.parametrize("num_columns", [2, 3])
def test_detected_keypoints_may_have_two_numbers_or_three(num_columns):
    preds, target = problem("keypoints")
    found = changed(preds, "keypoints", lambda points: points[:, :, :num_columns])
    assert told_by(lambda: by_function(found, target, "keypoints")) == []
    mirrored = changed(found, "keypoints", lambda points: points[:, MIRRORED])
    (text,) = told_by(lambda: by_function(mirrored, target, "keypoints"))
    assert f"read as keypoints in the order {str(MIRRORED)[1:-1]}" in text


@pytest.mark.parametrize("change", ["corner", "turned corner"])
def test_another_reading_of_ground_truths_is_named(change):
    apply, name = ROTATED[change]
    preds, target = problem("rotated")
    (text,) = told_by(lambda: by_function(preds, changed(target, "rotated", apply), "rotated"))
    assert re.search(rf"With `target` read as {name}, {SOME}", text), text


@pytest.mark.parametrize("argument", ["preds", "target"])
def test_two_conventions_that_differ_are_found_together(argument):
    sides = dict(zip(("preds", "target"), problem("rotated"), strict=True))
    sides[argument] = changed(sides[argument], "rotated", lambda boxes: at_corner(times(1, 1, 1, 1, -1)(boxes)))
    (text,) = told_by(lambda: by_function(sides["preds"], sides["target"], "rotated"))
    name = "angles in the other direction and corner instead of center"
    assert f"With `{argument}` read as {name}, " in text


def test_keypoints_in_images_that_were_resized_are_told_by_the_sizes_of_the_images():
    preds, target = problem("keypoints")
    sizes = [[480 + 40 * (image % 5), 640] for image in range(NUM_IMAGES)]
    for found, true, (height, width) in zip(preds, target, sizes, strict=True):
        true["orig_size"] = [height, width]
        found["keypoints"] = found["keypoints"] * torch.tensor([256 / width, 256 / height, 1])
    (text,) = told_by(lambda: by_function(preds, target, "keypoints"))
    assert re.search(rf"read as coordinates in images stretched to 2[56]\d\S* x 2[56]\d\S*, {SOME}", text), text


def squares(generator, num):
    """Masks of rectangles in a square image."""
    corner = 25 + torch.randint(40, (num, 2), generator=generator)
    size = 5 + torch.randint(25, (num, 2), generator=generator)
    places = torch.arange(120)
    across, down = ((places >= corner[:, axis, None]) & (places < (corner + size)[:, axis, None]) for axis in (0, 1))
    return down[:, :, None] & across[:, None]


MASKS = {
    "columns before rows": (lambda masks: masks.transpose(1, 2), "y before x"),
    "moved": (lambda masks: masks.roll((20, -25), (1, 2)), r"1 x \+ 25 and 1 y - 20"),
}


@pytest.mark.parametrize("change", MASKS)
def test_another_reading_of_masks_is_told_by_the_boxes_around_them(change):
    apply, name = MASKS[change]
    generator = torch.Generator().manual_seed(0)
    labels = torch.ones(4, dtype=torch.int64)
    target = [{"masks": squares(generator, 4), "labels": labels} for _ in range(12)]
    preds = [item | {"masks": apply(item["masks"]), "scores": torch.rand(4, generator=generator)} for item in target]
    (text,) = told_by(fed(DetectionMAP(iou_type="segm"), preds, target).compute)
    assert re.search(rf"With `preds` read as {name}, \d+ of 48 ground truths are found", text), text
    assert told_by(fed(DetectionMAP(iou_type="segm"), with_scores(target), target).compute) == []


def with_scores(target):
    return [item | {"scores": torch.ones(len(item["labels"]))} for item in target]


@pytest.mark.parametrize(("share", "overlap"), [(0.2, 0.5), (0.6, 0.75)])
def test_angles_in_the_other_direction_are_told_for_boxes_of_any_share_of_height_and_width(share, overlap):
    preds, target = problem("rotated")
    for found, true in zip(preds, target, strict=True):
        for item in (found, true):
            item["rotated_boxes"][:, 3] = share * item["rotated_boxes"][:, 2]
        found["rotated_boxes"][:, 4] *= -1
    (text,) = told_by(lambda: by_function(preds, target, "rotated"))
    assert (
        f"ground truths are found at an overlap of {overlap}, regardless of labels. With `preds` read as angles" in text
    )


def test_angles_that_were_not_learned_are_no_other_reading():
    """In degrees they would be about 0, and boxes would be found whatever their angle is."""
    preds, target = problem("rotated")
    generator = torch.Generator().manual_seed(1)
    for found in preds:
        found["rotated_boxes"][:, 4] = 3 * torch.rand(len(found["labels"]), generator=generator)
    assert told_by(lambda: by_function(preds, target, "rotated")) == []


@pytest.mark.parametrize("key", ["bbox", "segmentation"])
def test_another_reading_of_polygons_is_told_whatever_boxes_are_beside_them(key):
    """With `iou_type="segm"` only the polygons count; boxes in another reading are no reason for advice."""
    generator = torch.Generator().manual_seed(0)
    annotations, results = [], []
    for number in range(40):
        x, y = (300 * torch.rand(2, generator=generator)).tolist()
        w, h = (30 + 80 * torch.rand(2, generator=generator)).tolist()
        row = {"image_id": number // 4, "category_id": 1, "bbox": [x, y, w, h]}
        row["segmentation"] = [[x, y, x + w, y, x + w, y + h, x, y + h]]
        annotations.append(row | {"id": number + 1, "iscrowd": 0, "area": w * h})
        swapped = {"bbox": [y, x, h, w], "segmentation": [[y, x, y, x + w, y + h, x + w, y + h, x]]}
        results.append(row | {"score": 1 - number / 100, key: swapped[key]})
    images = [{"id": image, "height": 500, "width": 500} for image in range(10)]
    truth = COCO({"images": images, "categories": [{"id": 1, "name": "one"}], "annotations": annotations})
    evaluation = COCOeval(truth, truth.loadRes(results), "segm")
    evaluation.evaluate()
    texts = told_by(evaluation.accumulate)
    assert ["read as y before x" in text for text in texts] == ([True] if key == "segmentation" else [])

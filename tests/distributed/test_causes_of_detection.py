"""A likely mistake in the images of any process is told, once, by the first one."""

import warnings

import pytest
import torch

from reid_torchmetrics import AdviceWarning, DetectionMAP
from tests.profiles import each_row

NUM_IMAGES = 12


def images_of(iou_type="bbox"):
    """Images of a good detector of one class, as dicts of `preds` and of `target`."""
    generator = torch.Generator().manual_seed(0)
    preds, target = [], []
    for _ in range(NUM_IMAGES):
        corner = 300 * torch.rand(2, 2, generator=generator)
        size = 20 + 60 * torch.rand(2, 2, generator=generator)
        item = {"boxes": torch.cat([corner, corner + size], 1), "labels": torch.tensor([1, 1])}
        if iou_type == "rotated":
            item = {"rotated_boxes": torch.cat([corner, size, torch.ones(2, 1)], 1), "labels": item["labels"]}
        elif iou_type == "keypoints":
            points = corner[:, None] + size[:, None] * torch.rand(2, 17, 2, generator=generator)
            item["keypoints"] = torch.cat([points, torch.full((2, 17, 1), 2.0)], 2)
        elif iou_type == "segm":
            item = {"masks": torch.rand(2, 9, 9, generator=generator) > 0.5, "labels": item["labels"]}
        preds.append(item | {"scores": torch.tensor([0.9, 0.8])})
        target.append(dict(item))
    return preds, target


def with_key(key, value):
    def change(metric, preds, target):
        metric.update(preds, [item | {key: value} for item in target])

    return change


def changed(key, change, sides=(0, 1)):
    def update(metric, *given):
        parts = [[item | {key: change(item[key])} for item in part] for part in given]
        metric.update(*(parts[side] if side in sides else given[side] for side in (0, 1)))

    return update


def evaluated_twice(metric, preds, target):
    """Give the same images again after an evaluation."""
    metric.update(preds, target)
    metric.compute()
    metric.update(preds, target)


def with_other_detections(metric, preds, target):
    named = [item | {"image_id": 100 + place} for place, item in enumerate(target)]
    metric.update(preds, named)
    metric.update([item | {"boxes": item["boxes"] + 200} for item in preds], named)


def rounded(metric, preds, target):
    large = [[item | {"boxes": 7 * item["boxes"]} for item in part] for part in (preds, target)]
    metric.update([item | {"boxes": item["boxes"].bfloat16()} for item in large[0]], large[1])


SHARES = torch.tensor([1 / 400, 1 / 400, 1.0])
MISTAKES = {
    "unused_difficult": ("bbox", with_key("difficult", torch.tensor([1, 0])), "`difficult` marks"),
    "unused_lists": ("bbox", with_key("neg_category_ids", [3]), "`neg_category_ids` is given"),
    "mixed_units": ("bbox", changed("boxes", lambda boxes: boxes / 400, (0,)), "Most of 24 checked boxes of `preds`"),
    "rounded": ("bbox", rounded, "`boxes` of `preds` were rounded to bfloat16"),
    "degrees": ("rotated", changed("rotated_boxes", lambda boxes: boxes * 57), "Most angles of `rotated_boxes`"),
    "soft_masks": ("segm", changed("masks", lambda masks: 10 + 90 * masks.byte()), "The masks of 24 of 24 images"),
    "keypoints": ("keypoints", changed("keypoints", lambda points: points * SHARES), "Most labeled keypoints"),
    "forgotten_reset": ("bbox", evaluated_twice, "The last 12 images have the labels"),
    "other_detections": ("bbox", with_other_detections, "Images that came again on their process, 12 of 12"),
}
"""the type of shapes, a function that gives a process images with the mistake, and the begin of the warning"""


def told_with_mistake(process, size, name):
    """The texts that a process tells if the last one is given the mistake, and the others images without one."""
    iou_type, give, _ = MISTAKES[name]
    preds, target = images_of(iou_type)
    metric = DetectionMAP(iou_type=iou_type, metric="map")
    if name == "other_detections":
        target = [item | {"image_id": place} for place, item in enumerate(target)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if process == size - 1:
            give(metric, preds, target)
        else:
            for item in preds:  # otherwise the processes have the same images
                item["labels"] = item["labels"] + 1
            for item in target:
                item["labels"] = item["labels"] + 1
            metric.update(preds[:5], target[:5])
            if name == "forgotten_reset":
                metric.compute()
            metric.update(preds[5:], target[5:])
        for _ in range(2):
            metric.compute()
            metric._computed = None
    return [str(each.message) for each in caught if each.category is AdviceWarning]


@each_row("name", MISTAKES)
def test_a_mistake_on_another_process_is_told_once_by_the_first_one(processes, name):
    first, second = processes.run(2, told_with_mistake, name)
    (text,) = first
    assert text.startswith(MISTAKES[name][2])
    assert second == []


def told_without_images(process, size):
    preds, target = images_of()
    metric = DetectionMAP(metric="map")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if process:
            metric.update([item | {"labels": item["labels"] + 1} for item in preds], target)
        metric.compute()
    return [str(each.message) for each in caught if each.category is AdviceWarning]


def test_a_first_process_without_images_tells_of_the_others(processes):
    first, second = processes.run(2, told_without_images)
    assert [text[:30] for text in first] == ["Only 0 of 24 ground truths tha"]
    assert second == []


@pytest.mark.parametrize("iou_type", ["bbox", "segm", "keypoints", "rotated"])
def test_right_images_of_any_shape_are_silent(processes, iou_type):
    assert processes.run(2, told_of_right_images, iou_type) == [[], []]


def told_of_right_images(process, size, iou_type):
    preds, target = images_of(iou_type)
    own = slice(process, None, size)
    metric = DetectionMAP(iou_type=iou_type, metric="map")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric.update(preds[own], target[own])
        metric.compute()
    return [str(each.message) for each in caught if each.category is AdviceWarning]

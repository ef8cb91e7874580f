"""Right detections whose values look like mistakes, and networks that have learned little."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import DetectionMAP, VocMAP, YoloMAP
from reid_torchmetrics.functional.detection import evaluate_images

Items = list[dict[str, Any]]
SIZE = 900.0


def _boxes(random: Random, num: int) -> Tensor:
    """Boxes of any size within an image."""
    sides = SIZE * random.choice((0.05, 0.2, 0.5, 0.9)) * (0.2 + 0.8 * torch.rand(num, 2))
    corners = (SIZE - sides) * torch.rand(num, 2)
    return torch.cat([corners, corners + sides], 1)


def _valid(boxes: Tensor) -> Tensor:
    return torch.cat([boxes[:, :2], torch.maximum(boxes[:, 2:], boxes[:, :2] + 1)], 1)


def detector(random: Random) -> tuple[Items, Items]:
    """A detector with some noise, which misses some objects and finds some that are not there."""
    torch.manual_seed(random.getrandbits(32))
    number, most, num_classes = random.choice((1, 4, 12, 40)), random.choice((1, 3, 8)), random.choice((1, 2, 5))
    noise, found, extra = random.choice((0.01, 0.1)), random.choice((0.3, 0.9)), random.choice((0, 1, 4))
    preds, target = [], []
    for image in range(number):
        true, labels = _boxes(random, random.randint(1, most)), None
        labels = torch.randint(num_classes, (len(true),))
        is_found = torch.rand(len(true)) < found
        sides = (true[:, 2:] - true[:, :2]).repeat(1, 2)
        boxes = torch.cat([_valid(true + noise * sides * torch.randn(len(true), 4))[is_found], _boxes(random, extra)])
        own = torch.cat([labels[is_found], torch.randint(num_classes, (extra,))])
        preds.append({"boxes": boxes, "scores": torch.rand(len(boxes)), "labels": own})
        target.append({"boxes": true, "labels": labels, "image_id": image})
    return preds, target


def _each(change: Callable[[Tensor], Tensor]) -> Callable[[Random], tuple[Items, Items]]:
    """Change the boxes on both sides."""

    def make(random: Random) -> tuple[Items, Items]:
        sides = detector(random)
        for items in sides:
            for item in items:
                item["boxes"] = _valid(change(item["boxes"]))
        return sides

    return make


def _one_size(boxes: Tensor) -> Tensor:
    return torch.cat([boxes[:, :2], boxes[:, :2] + 48], 1)


def _on_grid(step: int) -> Callable[[Tensor], Tensor]:
    return lambda boxes: (boxes / step).round() * step


def of_few_scores(random: Random) -> tuple[Items, Items]:
    preds, target = detector(random)
    number = random.choice((2, 3, 10))
    for item in preds:
        item["scores"] = (item["scores"] * number).floor() / number
    preds[0]["scores"][:1] = 1
    return preds, target


def without_suppression(random: Random) -> tuple[Items, Items]:
    """Each object has several detections, in whole pixels and scores of two digits: some are equal."""
    preds, target = detector(random)
    for item in preds:
        rows = torch.arange(len(item["labels"])).repeat(random.choice((2, 5)))
        item["boxes"] = _valid((item["boxes"][rows] + 0.6 * torch.randn(len(rows), 4)).round())
        item["scores"] = ((item["scores"][rows] + 0.01 * torch.randn(len(rows))).clamp(0, 1) * 100).round() / 100
        item["labels"] = item["labels"][rows]
    return preds, target


def constant(random: Random) -> tuple[Items, Items]:
    """A network that has the same answer for all images, with one score or several."""
    preds, target = detector(random)
    boxes = _boxes(random, random.choice((1, 3, 20)))
    scores = torch.full((len(boxes),), 0.5) if random.random() < 0.5 else torch.rand(len(boxes))
    labels = torch.randint(2, (len(boxes),))
    for item in preds:
        item |= {"boxes": boxes.clone(), "scores": scores.clone(), "labels": labels.clone()}
    return preds, target


def collapsed(random: Random) -> tuple[Items, Items]:
    """A network whose queries all have the same answer for an image."""
    preds, target = detector(random)
    number = random.choice((2, 3, 10, 100))
    for item in preds:
        box, score, label = _boxes(random, 1), torch.rand(1), torch.randint(2, (1,))
        item |= {"boxes": box.repeat(number, 1), "scores": score.repeat(number), "labels": label.repeat(number)}
    return preds, target


def one_scene(random: Random) -> tuple[Items, Items]:
    """All images show the same objects, or one of two sets of objects."""
    preds, target = detector(random)
    scenes = [target[0], target[-1]]
    for item in target:
        scene = random.choice(scenes)
        item |= {"boxes": scene["boxes"] + torch.randn(1), "labels": scene["labels"]}
    return preds, target


def true_boxes(random: Random) -> tuple[Items, Items]:
    """The ground truths as detections of one score."""
    _, target = detector(random)
    return [
        {"boxes": item["boxes"], "labels": item["labels"], "scores": torch.ones(len(item["labels"]))} for item in target
    ], target


def confused(random: Random) -> tuple[Items, Items]:
    """A third of the objects of two classes are taken for the other class, or most of one class."""
    preds, target = detector(random)
    share, is_one_sided = random.choice((0.2, 0.35)), random.random() < 0.5
    for item in preds:
        labels = item["labels"]
        other = torch.where(labels == 0, 1, torch.where(labels == 1, 0, labels))
        is_wrong = torch.rand(len(labels)) < (0.8 * (labels == 0) if is_one_sided else share)
        item["labels"] = torch.where(is_wrong, other, labels)
    return preds, target


def with_areas(random: Random) -> tuple[Items, Items]:
    """Areas of boxes, of pixels that touch them, of masks within them, or of thin objects; some are not given."""
    preds, target = detector(random)
    kind = random.choice(("boxes", "outer pixels", "masks", "thin", "ellipses", "half"))
    for item in target:
        sides = item["boxes"][:, 2:] - item["boxes"][:, :2]
        areas = sides.prod(1)
        item["area"] = {
            "boxes": areas,
            "outer pixels": (sides.floor() + 1).prod(1),
            "masks": areas * (0.1 + 0.8 * torch.rand(len(areas))),
            "thin": 2 * sides.amax(1),
            "ellipses": areas * 0.785,
            "half": areas * 0.53 * (torch.rand(len(areas)) < 0.5),
        }[kind]
    return preds, target


def points_of_people(random: Random) -> tuple[Items, Items]:
    """Keypoints with areas of whole people, beyond the keypoints that are labeled; without boxes, or with them."""
    preds, target = detector(random)
    has_boxes = random.random() < 0.5
    for items in (preds, target):
        for item in items:
            near, far = item["boxes"][:, None, :2], item["boxes"][:, None, 2:]
            shares = torch.rand(len(item["labels"]), 17, 2)
            is_labeled = (torch.rand(len(item["labels"]), 17, 1) < 0.5) | (torch.arange(17)[:, None] < 2)
            item["keypoints"] = torch.cat([near + shares * (far - near), 2.0 * is_labeled], 2)
    for item in target:
        item["area"] = (item["boxes"][:, 2:] - item["boxes"][:, :2]).prod(1) * 0.6
        if not has_boxes:
            del item["boxes"]
    return preds, target


RIGHT: dict[str, Callable[[Random], tuple[Items, Items]]] = {
    "any boxes": detector,
    "whole pixels": _each(torch.round),
    "multiples of 8": _each(_on_grid(8)),
    "multiples of 2": _each(_on_grid(2)),
    "large images": _each(lambda boxes: (10 * boxes).round()),
    "shares": _each(lambda boxes: boxes / SIZE),
    "one size": _each(_one_size),
    "one size in whole pixels": _each(lambda boxes: _one_size(boxes.round())),
    "few scores": of_few_scores,
    "without suppression": without_suppression,
    "constant": constant,
    "collapsed": collapsed,
    "one scene": one_scene,
    "true boxes": true_boxes,
    "confused": confused,
    "with areas": with_areas,
    "keypoints": points_of_people,
}
"""functions that draw detections and ground truths"""


def values(random: Random, kind: str) -> None:
    """Right detections whose values look like mistakes, by metrics and in one call."""
    preds, target = RIGHT[kind](random)
    options = {"iou_type": "keypoints"} if kind == "keypoints" else {}
    if kind == "shares":  # areas in square pixels have no meaning
        options["area_ranges"] = {"all": (0.0, 1e10)}
    size = random.choice((1, 7, 20))
    for metric in [DetectionMAP(**options), *([] if options else [VocMAP(), YoloMAP()])]:
        for first in range(0, len(preds), size):
            metric.update(preds[first : first + size], target[first : first + size])
        metric.compute()
    evaluate_images(preds, target, **options)

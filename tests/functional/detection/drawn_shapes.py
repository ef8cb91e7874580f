"""Detectors of rotated boxes and keypoints that are drawn: right ones, and networks that have learned little."""

import math
from random import Random

import torch
from torch import Tensor

NETWORKS = ("right", "right", "untrained", "collapsed", "of one place", "small", "noisy", "without order")


def drawn_shapes(random: Random, iou_type: str) -> tuple[list[dict], list[dict], dict]:
    """Images with rotated boxes or keypoints, in some scenes in about the same places, and detections of a network."""
    torch.manual_seed(random.getrandbits(32))
    number, most = random.choice((1, 3, 20, 70)), random.choice((1, 4, 12))
    network, is_static = random.choice(NETWORKS), random.random() < 0.2
    num_keypoints, key = random.choice((1, 5, 17)), "rotated_boxes" if iou_type == "rotated" else "keypoints"
    scale, wide = random.choice((1, 1, 0.01, 5)), random.choice((1, 3))
    pose = torch.rand(num_keypoints, 2)
    scene = torch.rand(most, 4)

    def objects(num: int, at: Tensor | None = None) -> Tensor:
        place = torch.rand(num, 4) if at is None else at[:num] + 0.003 * torch.randn(num, 4)
        corner, size = 600 * place[:, :2], 20 + 100 * place[:, 2:]
        if iou_type == "rotated":
            sides = size * torch.tensor([1.0, 1 / wide])
            return torch.cat([scale * corner, scale * sides, math.pi * (torch.rand(num, 1) - 0.5)], 1)
        points = corner[:, None] + (pose + 0.1 * torch.randn(num, num_keypoints, 2)) * size[:, None]
        visibility = torch.randint(3, (num, num_keypoints, 1))
        return torch.cat([scale * points, visibility], 2)

    target, preds = [], []
    for _ in range(number):
        true = objects(random.randint(1, most), scene if is_static else None)
        target.append({key: true, "labels": torch.randint(3, (len(true),))})
    for item in target:
        true = item[key]
        found = torch.cat([true, objects(random.randint(0, 5))])
        found = detected(network, found, objects)
        preds.append({key: found, "scores": torch.rand(len(found)), "labels": torch.randint(3, (len(found),))})
        num = min(len(found), len(true))
        preds[-1]["labels"][:num] = item["labels"][:num]
    options = {"iou_type": iou_type}
    if iou_type == "keypoints":
        options["sigmas"] = [random.choice((0.025, 0.07, 0.1))] * num_keypoints
        for item in target:
            points = item[key][:, :, :2]
            low, high = points.amin(1), points.amax(1) + scale
            item |= {"boxes": torch.cat([low, high], 1), "area": 0.6 * (high - low).prod(1)}
    return preds, target, options


def detected(network: str, found: Tensor, objects) -> Tensor:
    """The detections of an image, given the objects there."""
    places = found[..., :2]
    middle = places.mean(tuple(range(places.ndim - 1)))
    if network == "untrained":
        return objects(30)
    found = found.clone()
    if network == "collapsed":
        found[:] = objects(1)  # not the size and angle of the object that is there
        found[..., :2] = 50
    if network == "of one place":
        found[..., :2] = middle + 0.01 * (places - middle)
    if network == "small":
        found[..., :2] = middle + 0.5 * (places - middle) + 0.3 * places.std() * torch.randn(2)  # no one change of all
    if network == "noisy":
        found[..., :2] += 0.3 * places.std() * torch.randn_like(places)
    if network == "without order" and found.ndim == 3:
        found = torch.stack([points[torch.randperm(len(points))] for points in found])
    return found

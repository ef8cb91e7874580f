"""Detectors that are drawn: with errors of place and of label, on images with objects of any size and number."""

from random import Random

import torch
from torch import Tensor


def drawn_detector(random: Random, shape: str) -> tuple[list[dict], list[dict], dict]:
    """Images with objects of any size and number, and a detector with errors of place and label and low scores."""
    torch.manual_seed(random.getrandbits(32))
    number, classes, first = random.choice((1, 3, 20, 60)), random.choice((1, 2, 3, 12, 80)), random.choice((0, 1))
    wrong, noise, extra = random.choice((0, 0.1, 0.5, 0.9)), random.choice((0, 0.02, 0.1)), random.choice((0, 1, 3))
    share, most, weights = random.choice((0.05, 0.2, 0.5, 0.8)), random.choice((1, 6, 20)), torch.rand(classes) ** 3
    wide, size = random.choice((1, 4)), 48 if shape == "masks" else 640
    preds, target, sizes = [], [], []
    for _ in range(number):
        num = random.randint(1, most)
        image = size * torch.ones(2) if shape == "masks" else torch.rand(1) * size * wide + 60 + torch.zeros(2)
        sides = image * (share * (0.5 + torch.rand(num, 2))).clamp(max=1)
        starts = (image - sides) * torch.rand(num, 2)
        labels = torch.multinomial(weights + 1e-3, num, replacement=True) + first
        true = torch.cat([starts, starts + sides], 1)
        rows = torch.arange(num).repeat(1 + extra)
        found = true[rows] + torch.randn(len(rows), 4) * noise * sides[rows].repeat(1, 2)
        found = torch.cat([found[:, :2], found[:, 2:].maximum(found[:, :2] + 1e-3)], 1)
        other = torch.randint(classes, rows.shape) + first
        guessed = torch.where((torch.rand(len(rows)) < wrong) | (torch.arange(len(rows)) >= num), other, labels[rows])
        scores = torch.rand(len(rows)) * (1 - 0.5 * (torch.arange(len(rows)) >= num))
        sizes.append(image.flip(0))
        preds.append({"scores": scores, "labels": guessed})
        target.append({"labels": labels})
        for item, boxes in ((preds[-1], found), (target[-1], true)):
            item[shape] = as_masks(boxes, size) if shape == "masks" else boxes
    if shape == "masks":
        return preds, target, {"iou_type": "segm"}
    if box_format := random.choice(("", "xywh")):
        for item in (*preds, *target):
            item["boxes"] = torch.cat([item["boxes"][:, :2], item["boxes"][:, 2:] - item["boxes"][:, :2]], 1)
    if random.random() < 0.5:  # height and width are known
        for place, item in enumerate(target):
            item |= {"image_id": torch.tensor(place), "orig_size": sizes[place]}
    return preds, target, {"box_format": box_format or "xyxy"}


def as_masks(boxes: Tensor, size: int) -> Tensor:
    places = torch.arange(size)
    rows, columns = (
        (places >= low[:, None]) & (places <= high[:, None]) for low, high in (boxes[:, 1::2].T, boxes[:, ::2].T)
    )
    return rows[:, :, None] & columns[:, None]

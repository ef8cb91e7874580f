"""Right detections of any shape, and what users do wrong with their values."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

Items = list[dict[str, Any]]
KEYS = {"bbox": "boxes", "segm": "masks", "keypoints": "keypoints", "rotated": "rotated_boxes"}
SIZE = {"bbox": 900, "segm": 64, "keypoints": 900, "rotated": 900}


def right(iou_type: str, num_images: int = 24, *, seed: int = 0, with_sizes: bool = True) -> tuple[Items, Items]:
    """Images with three objects of three classes, most of which are found, and a wrong detection in each."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    size = SIZE[iou_type]
    preds, target = [], []
    for image in range(num_images):
        sides = size * (0.1 + 0.2 * uniform(3, 2))
        corners = (size - sides) * uniform(3, 2)
        true = torch.cat([corners, corners + sides], 1)
        labels = torch.arange(3) % 3 + 1
        is_found = torch.arange(3) != image % 4
        noise = 0.02 * sides.repeat(1, 2) * torch.randn(3, 4, generator=generator)
        wrong = torch.cat([0.2 * size * uniform(1, 2), size * (0.5 + 0.2 * uniform(1, 2))], 1)
        found = torch.cat([(true + noise)[is_found], wrong])
        found_labels = torch.cat([labels[is_found], torch.tensor([1 + image % 3])])
        scores = torch.cat([0.5 + 0.5 * uniform(int(is_found.sum())), 0.4 * uniform(1)])
        preds.append({"scores": scores, "labels": found_labels})
        target.append({"labels": labels, "image_id": image + 1})
        for item, boxes in ((preds[-1], found), (target[-1], true)):
            item["boxes"] = boxes
            if iou_type != "bbox":
                item[KEYS[iou_type]] = _shapes(iou_type, boxes)
        if with_sizes:
            target[-1]["area"] = (true[:, 2:] - true[:, :2]).prod(1) * (0.5 + 0.4 * uniform(3))
        if iou_type in ("segm", "rotated"):
            del preds[-1]["boxes"], target[-1]["boxes"]
        if iou_type == "keypoints":
            del preds[-1]["boxes"]
    return preds, target


def _shapes(iou_type: str, boxes: Tensor) -> Tensor:
    near, far = boxes[:, :2], boxes[:, 2:]
    if iou_type == "segm":
        places = torch.arange(SIZE["segm"])
        columns, rows = ((places >= near[:, axis, None]) & (places <= far[:, axis, None]) for axis in (0, 1))
        return rows[:, :, None] & columns[:, None]
    if iou_type == "rotated":
        return torch.cat([(near + far) / 2, (far - near) * 0.8, torch.full((len(boxes), 1), 0.3)], 1)
    shares = torch.rand(17, 2, generator=torch.Generator().manual_seed(1))
    places = near[:, None] + shares * (far - near)[:, None]
    return torch.cat([places, torch.full((len(boxes), 17, 1), 2.0)], 2)


def changed(items: Items, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Items:
    return [item | change(item) for item in items]


def repeated(items: Items, is_repeated: Callable[[int], bool], times: int = 2) -> Items:
    """Objects of some images again."""
    images = []
    for place, item in enumerate(items):
        number = times if is_repeated(place) else 1
        columns = {key: value for key, value in item.items() if isinstance(value, Tensor)}
        images.append(item | {key: torch.cat([value] * number) for key, value in columns.items()})
    return images


def with_areas(change: Callable[[Tensor], Tensor]) -> Callable[..., tuple[Items, Items]]:
    def make(iou_type: str, preds: Items, target: Items) -> tuple[Items, Items]:
        return preds, changed(target, lambda item: {"area": change(item["area"])})

    return make


def rounded(side: int | None, dtype: torch.dtype = torch.bfloat16) -> Callable[..., tuple[Items, Items]]:
    def make(iou_type: str, *items: Items) -> tuple[Items, Items]:
        sides = list(items)
        factor = 10.0 if dtype == torch.float16 else 1.0
        for place, images in enumerate(items):
            keys = {KEYS[iou_type], "boxes"}
            sides[place] = changed(
                images, partial(_rounded, keys=keys, is_rounded=side in (place, None), factor=factor, dtype=dtype)
            )
        return sides[0], sides[1]

    return make


def _rounded(
    item: dict[str, Any], *, keys: set[str], is_rounded: bool, factor: float, dtype: torch.dtype
) -> dict[str, Any]:
    values = {key: factor * item[key] for key in keys & item.keys()}
    if "area" in item:
        values["area"] = item["area"] * factor**2
    if not is_rounded:
        return values
    return values | {key: value.to(dtype).float() for key, value in values.items() if key != "area"}


def without_extent(iou_type: str, preds: Items, target: Items) -> tuple[Items, Items]:
    """Every second image has objects without a pixel, or with one labeled keypoint and no sizes."""
    images = []
    for place, item in enumerate(target):
        value = item[KEYS[iou_type]].clone()
        if place % 2 and iou_type == "segm":
            value[:] = False
        if place % 2 and iou_type == "keypoints":
            value[:, 1:] = 0
        if place % 2 and iou_type == "bbox":
            value[:, 2] = value[:, 0]
        image = item | {KEYS[iou_type]: value}
        if iou_type == "keypoints":
            image = {key: column for key, column in image.items() if key not in ("area", "boxes")}
        images.append(image)
    return preds, images


def copied_ground_truths(iou_type: str, preds: Items, target: Items) -> tuple[Items, Items]:
    return preds, repeated(target, lambda place: place % 3 == 0)


def copied_detections(every: int, times: int = 2) -> Callable[..., tuple[Items, Items]]:
    def make(iou_type: str, preds: Items, target: Items) -> tuple[Items, Items]:
        return repeated(preds, lambda place: place % every == 0, times), target

    return make


def equal_scores(iou_type: str, preds: Items, target: Items) -> tuple[Items, Items]:
    return changed(preds, lambda item: {"scores": torch.ones_like(item["scores"])}), target


def exchanged_labels(iou_type: str, preds: Items, target: Items) -> tuple[Items, Items]:
    other = torch.tensor([0, 2, 1, 3])
    return changed(preds, lambda item: {"labels": other[item["labels"]]}), target


def in_another_order(iou_type: str, preds: Items, target: Items) -> tuple[Items, Items]:
    return random.Random(3).sample(preds, len(preds)), target  # noqa: S311 - no secret


def of_the_neighbor(iou_type: str, preds: Items, target: Items) -> tuple[Items, Items]:
    return preds[1:] + preds[:1], target


AREAS = ("bbox", "segm", "keypoints", "rotated")
MISTAKES: dict[str, tuple[str, tuple[str, ...], Callable[..., tuple[Items, Items]]]] = {
    "areas of 1": ("areas", AREAS, with_areas(torch.ones_like)),
    "areas of a million": ("areas", AREAS, with_areas(lambda area: torch.full_like(area, 1e6))),
    "areas as shares": ("areas", AREAS, with_areas(lambda area: area / 900**2)),
    "areas as percentages": ("areas", ("bbox", "keypoints"), with_areas(lambda area: 100 * area / 900**2)),
    "areas of a larger image": ("areas", AREAS, with_areas(lambda area: 9 * area)),
    "detections in bfloat16": ("rounded_coordinates", ("bbox", "keypoints", "rotated"), rounded(0)),
    "ground truths in bfloat16": ("rounded_coordinates", ("bbox", "keypoints", "rotated"), rounded(1)),
    "both in bfloat16": ("rounded_coordinates", ("bbox", "keypoints", "rotated"), rounded(None)),
    "both in float16": ("rounded_coordinates", ("bbox", "keypoints"), rounded(None, torch.float16)),
    "without extent": ("without_extent", ("segm", "keypoints", "bbox"), without_extent),
    "ground truths twice": ("copied_objects", AREAS, copied_ground_truths),
    "detections twice": ("copied_objects", AREAS, copied_detections(1)),
    "detections of some images three times": ("copied_objects", AREAS, copied_detections(3, 3)),
    "one score": ("equal_scores", AREAS, equal_scores),
    "two classes exchanged": ("labels", AREAS, exchanged_labels),
    "images in another order": ("other_images", AREAS, in_another_order),
    "detections of the neighbor": ("other_images", AREAS, of_the_neighbor),
}
"""for each mistake the cause that is found, the shapes that may have it, and a function that makes it"""

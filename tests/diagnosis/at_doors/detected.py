"""Examples of every cause of detection, as what users pass."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tests.diagnosis.at_doors.doors import Data
from tests.diagnosis.at_doors.image_doors import OF_IMAGES, SHAPES, Images
from tests.diagnosis.at_doors.ranked import Example
from tests.diagnosis.detection.value_problems import MISTAKES, right

NUM_IMAGES, NUM_OBJECTS, NUM_CLASSES = 24, 5, 6
MIRRORED = [0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15]


def drawn(shape: str, num: int, generator: torch.Generator) -> Tensor:
    """Some objects of a shape, between 20 and 100 pixels long."""

    def rand(*sizes: int) -> Tensor:
        return torch.rand(*sizes, generator=generator, dtype=torch.float64)

    corner, size = rand(num, 2) * torch.tensor([500.0, 360.0]), 20 + 80 * rand(num, 2)
    if shape == "bbox":
        return torch.cat([corner, corner + size], 1)
    if shape == "rotated":
        sides = torch.tensor([1.0, 0.3]) * size
        return torch.cat([corner + 60, sides, math.pi * (rand(num, 1) - 0.25)], 1)
    if shape == "keypoints":
        return torch.cat([corner[:, None] + rand(num, 17, 2) * size[:, None], torch.full((num, 17, 1), 2.0)], 2)
    rows, columns = torch.arange(60)[:, None], torch.arange(80)
    low, high = (corner / 10)[..., None, None], ((corner + size) / 10)[..., None, None]
    return (rows >= low[:, 1]) & (rows < high[:, 1]) & (columns >= low[:, 0]) & (columns < high[:, 0])


def detector(shape: str = "bbox", **options: Any) -> Data:
    """Objects that are found nearly where they are, each with its label."""
    generator = torch.Generator().manual_seed(0)
    preds, target = [], []
    for _ in range(NUM_IMAGES):
        true = drawn(shape, NUM_OBJECTS, generator)
        found = true.clone()
        if shape != "segm":
            noise = torch.randn(found.shape, generator=generator, dtype=torch.float64)
            places = {"bbox": slice(None), "rotated": slice(2), "keypoints": slice(2)}[shape]
            found[..., places] += noise[..., places]
        labels = torch.randint(NUM_CLASSES, (NUM_OBJECTS,), generator=generator) + 1
        scores = 0.3 + 0.7 * torch.rand(NUM_OBJECTS, generator=generator)
        preds.append({SHAPES[shape]: found, "scores": scores, "labels": labels})
        target.append({SHAPES[shape]: true, "labels": labels.clone()})
        if shape == "keypoints":
            low, high = true[..., :2].amin(1), true[..., :2].amax(1)
            target[-1] |= {"boxes": torch.cat([low, high], 1), "area": (high - low).prod(1)}
    given = {"preds": preds, "target": target, **options}
    return given if shape == "bbox" else {"iou_type": shape, **given}


def untrained(shape: str) -> Data:
    """Objects that are nowhere near the ground truths."""
    data, generator = detector(shape), torch.Generator().manual_seed(9)
    return data | {"preds": [{**item, SHAPES[shape]: drawn(shape, NUM_OBJECTS, generator)} for item in data["preds"]]}


def changed(items: Images, key: str, change: Callable[[Any], Any]) -> Images:
    return [{**item, key: change(item[key])} for item in items]


def with_change(side: str, key: str, change: Callable[[Any], Any], shape: str = "bbox", **options: Any) -> Data:
    """A detector of which one side is changed."""
    data = detector(shape, **options)
    return data | {side: changed(data[side], key, change)}


def of_change(key: str, change: Callable[[Any], Any], shape: str = "bbox") -> Example:
    """An example of detections that are changed."""
    return Example("images", partial(with_change, "preds", key, change, shape))


def with_key(key: str, make: Callable[[dict[str, Any]], Any], **options: Any) -> Data:
    """A detector with a further key in `target`."""
    data = detector(**options)
    return data | {"target": [{**item, key: make(item)} for item in data["target"]]}


def in_shares(boxes: Tensor) -> Tensor:
    return boxes / 640


def as_center_and_size(boxes: Tensor) -> Tensor:
    return torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)


def as_sizes(boxes: Tensor) -> Tensor:
    return torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)


def both_in_shares() -> Data:
    data = with_change("preds", "boxes", in_shares)
    return data | {"target": changed(data["target"], "boxes", in_shares)}


def in_bfloat16() -> Data:
    """Detections in large images, in 16 bits."""
    data = with_change("preds", "boxes", lambda boxes: (8 * boxes).bfloat16())
    return data | {"target": changed(data["target"], "boxes", lambda boxes: 8 * boxes)}


def beyond_images() -> Data:
    """Few detections as two corners that are read as position and size, and images of known sizes."""
    data = detector(box_format="xywh")
    target = changed(data["target"][:3], "boxes", as_sizes)
    sized = [{**item, "image_id": number, "orig_size": (480, 640)} for number, item in enumerate(target, 1)]
    return data | {"preds": data["preds"][:3], "target": sized}


def centers() -> Data:
    """Detections as center and size that are read as position and size."""
    data = with_change("preds", "boxes", as_center_and_size, box_format="xywh")
    return data | {"target": changed(data["target"], "boxes", as_sizes)}


def without_lists() -> Data:
    """Images of LVIS without lists of classes, and detections of classes without ground truths in their image."""
    data = detector(without_lists=True)
    return data | {"preds": changed(data["preds"], "labels", lambda labels: labels.flip(0) % NUM_CLASSES + 1)}


def keypoints_in_shares() -> Data:
    """Keypoints as shares of the image, with boxes in pixels."""

    def change(points: Tensor) -> Tensor:
        return points * torch.tensor([1 / 640, 1 / 480, 1])

    data = with_change("target", "keypoints", change, "keypoints")
    return data | {"preds": changed(data["preds"], "keypoints", change)}


def stretched() -> Data:
    """Detections in images that were resized to 320 x 320."""
    data = detector()
    sizes = [(480, 640), (640, 480), (600, 800)]
    preds, target = [], []
    for number, (found, true) in enumerate(zip(data["preds"], data["target"], strict=True)):
        height, width = sizes[number % 3]
        scale = torch.tensor([320 / width, 320 / height] * 2)
        preds.append({**found, "boxes": found["boxes"] * scale})
        target.append({**true, "image_id": number + 1, "orig_size": (height, width)})
    return data | {"preds": preds, "target": target}


def with_mistake(mistake: str, shape: str) -> Data:
    """Right detections of a shape, with a mistake of their values."""
    preds, target = MISTAKES[mistake][2](shape, *right(shape))
    return {"preds": preds, "target": target} | ({} if shape == "bbox" else {"iou_type": shape})


def ignored() -> Data:
    """The first object of each image marked by `ignore`, and no crowd."""
    data = with_key("iscrowd", lambda item: torch.zeros(len(item["labels"]), dtype=torch.int64))
    target = [{**item, "ignore": torch.arange(len(item["labels"])) == 0} for item in data["target"]]
    return data | {"target": target}


def gathered() -> Data:
    data = detector()
    return {"images": [images_of(data), images_of(data)]}


def padded() -> Data:
    """The first image again at the end of the last process."""
    preds, target = images_of(detector())
    parts = range(0, NUM_IMAGES, 2), [*range(1, NUM_IMAGES - 2, 2), 0]
    return {"images": [([preds[place] for place in part], [target[place] for place in part]) for part in parts]}


def images_of(data: Data) -> tuple[Images, Images]:
    return data["preds"], data["target"]


def numbered(data: Data) -> tuple[Images, Images]:
    return data["preds"], [{**item, "image_id": number} for number, item in enumerate(data["target"])]


def other_scores(data: Data) -> tuple[Images, Images]:
    preds = changed(changed(data["preds"], "scores", lambda scores: scores / 2), "boxes", lambda boxes: boxes + 3)
    return preds, data["target"]


def repeated(images: Callable[[Data], tuple[Images, Images]], *between: None) -> Data:
    """The same images with other detections, in a second epoch, or by their ids."""
    preds, target = images(detector())
    again, _ = other_scores({"preds": preds, "target": target})
    return {"batches": [(preds, target), *between, (again, target)]}


def without(*names: str, reason: str) -> dict[str, str]:
    """The entry points that begin with one of some names."""
    return {door: reason for door in OF_IMAGES if door.startswith(names)}


NO_SIZES = without(
    "VocMAP",
    "YoloMAP",
    "evaluate_images, voc",
    "evaluate_images, ultra",
    "evaluate_boxes, voc",
    reason="no area ranges",
)
LVIS_ALONE = {
    door: "it has no lists of classes" for door in (*OF_IMAGES, "two processes") if "lvis" not in door.lower()
}
GROUPED = ("evaluate_images, coco", "evaluate_images, lvis")
IN_JSON = without("COCOeval", "command", reason="JSON has no such key or dtype")
PACKED = without("evaluate_boxes", reason="packed objects have no such key")

DETECTION_EXAMPLES: dict[str, list[Example]] = {
    "missing_lists": [Example("images", without_lists, LVIS_ALONE)],
    "class_groups": [
        Example(
            "images",
            lambda: detector(options={"class_groups": {"rare": [70, 80]}}),
            {name: "an option of functions" for name in (*OF_IMAGES, "two processes") if name not in GROUPED},
        ),
        Example(
            "images",
            lambda: detector(options={"frequencies": {70: "r"}}),
            {name: "an option of LVIS" for name in (*OF_IMAGES, "two processes") if name != "LvisMAP.compute"},
        ),
    ],
    "keypoints_in_shares": [Example("images", keypoints_in_shares)],
    "mixed_units": [of_change("boxes", in_shares)],
    "sizes_of_shares": [Example("images", both_in_shares, NO_SIZES)],
    "corners_as_sizes": [
        Example("images", lambda: detector(box_format="xywh")),
        Example("images", beyond_images, PACKED),
    ],
    "rounded_coordinates": [Example("images", in_bfloat16, IN_JSON)],
    "labels": [of_change("labels", lambda labels: labels - 1)],
    "other_reading": [
        Example("images", centers),
        of_change("boxes", lambda boxes: boxes[:, [1, 0, 3, 2]]),
        of_change("boxes", lambda boxes: boxes / 2 + torch.tensor([0, 80, 0, 80])),
        Example("images", stretched, PACKED),
        of_change("rotated_boxes", lambda boxes: boxes[:, [0, 1, 3, 2, 4]], "rotated"),
        of_change("keypoints", lambda points: points[:, MIRRORED], "keypoints"),
    ],
    "angles_in_degrees": [
        of_change("rotated_boxes", lambda boxes: boxes * torch.tensor([1, 1, 1, 1, 180 / math.pi]), "rotated")
    ],
    "soft_masks": [of_change("masks", lambda masks: (masks * 200 + 20).to(torch.uint8), "segm")],
    "unused_difficult": [
        Example(
            "images",
            lambda: with_key("difficult", lambda item: torch.arange(len(item["labels"])) == 0),
            IN_JSON | PACKED | without("VocMAP", "evaluate_images, voc", reason="it uses them"),
        )
    ],
    "unused_lists": [
        Example(
            "images",
            lambda: with_key("neg_category_ids", lambda _: [NUM_CLASSES + 1]),
            IN_JSON | PACKED | without("LvisMAP", "evaluate_images, lvis", reason="it uses them"),
        )
    ],
    "unused_ignore": [Example("images", ignored, IN_JSON | PACKED)],
    "forgotten_reset": [Example("image batches", lambda: repeated(images_of, None))],
    "gathered_images": [Example("parts", gathered)],
    "padded_images": [Example("parts", padded)],
    "other_detections": [Example("image batches", lambda: repeated(numbered))],
}
for _mistake, (_cause, _shapes, _) in MISTAKES.items():
    if _cause != "rounded_coordinates":
        not_seen = NO_SIZES if _cause == "areas" else {}
        if _cause == "other_images" or _mistake == "two classes exchanged":
            not_seen = {"two processes": "a process looks at its own images alone, which are too few"}
        examples = [Example("images", partial(with_mistake, _mistake, shape), not_seen) for shape in _shapes]
        DETECTION_EXAMPLES.setdefault(_cause, []).extend(examples)

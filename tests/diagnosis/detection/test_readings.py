"""Boxes in another reading are recognized, and detectors that are poor in any way are not."""

import random
import re
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.diagnosis.causes import NotHeldError
from reid_torchmetrics.diagnosis.detection import DetectionCase, MatchedImages
from reid_torchmetrics.diagnosis.detection.pairings import other_reading
from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_images
from reid_torchmetrics.functional.detection.evaluation import EvaluatedObjects
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import match_on_grid
from tests.diagnosis.contract import told_by
from tests.functional.detection.detection_samples import fed
from tests.paths import taking
from tests.reference.detection import iou

SIZES = torch.tensor([[640.0, 480.0], [480.0, 640.0], [500.0, 375.0], [1200.0, 900.0]], dtype=torch.float64)
NUM_IMAGES = 24


def problem(seed=0, noise=0.03, num_images=NUM_IMAGES, num_objects=4):
    """Corners of ground truths and of a good detector, with one more detection of low score for each, and sizes."""
    generator = torch.Generator().manual_seed(seed)

    def draw(number, size):
        sides = size * (0.05 + 0.3 * torch.rand(number, 2, generator=generator, dtype=torch.float64) ** 2)
        near = (size - sides) * torch.rand(number, 2, generator=generator, dtype=torch.float64)
        return torch.cat([near, near + sides], 1)

    preds, target, sizes = [], [], []
    for image in range(num_images):
        size = SIZES[image % len(SIZES)]
        true = draw(num_objects, size)
        lengths = (true[:, 2:] - true[:, :2]).repeat(1, 2)
        found = true + noise * lengths * torch.randn(true.shape, generator=generator, dtype=torch.float64)
        wrong = draw(num_objects, size)
        preds.append(torch.cat([found, wrong]))
        target.append(true)
        sizes.append(size)
    return preds, target, torch.stack(sizes)


def find_reading(detections, ground_truths, box_format, image_sizes=None):
    """The reading of boxes x, y, width and height, whatever other rows would say."""
    grid = CocoGrid()
    images = MatchedImages.of_objects(EvaluatedObjects(detections, ground_truths, grid))
    shown = images.shown()
    for side in (shown.preds, shown.target):
        side.columns["boxes"] = WRITTEN[box_format](side.columns["boxes"])
    if image_sizes is not None:
        shown = shown._replace(sizes=image_sizes[: len(shown.sizes)].flip(1))
    images = replace(images, box_format=box_format, shown=lambda: shown)
    with suppress(NotHeldError):
        return other_reading(DetectionCase(match_on_grid(detections, ground_truths, grid), images))
    return None


def sized(boxes):
    return torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)


def centered(boxes):
    return torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)


FORMATS = {"xyxy": lambda boxes: boxes, "xywh": sized, "cxcywh": centered}
WRITTEN = {
    "xyxy": lambda boxes: torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1),
    "xywh": lambda boxes: boxes,
    "cxcywh": lambda boxes: torch.cat([boxes[:, :2] + boxes[:, 2:] / 2, boxes[:, 2:]], 1),
}
NAMES = {"xyxy": "two corners", "xywh": "corner and size", "cxcywh": "center and size"}
PAIRS = [(given, read) for given in FORMATS for read in FORMATS if given != read]


def packed(preds, target):
    """Detections and ground truths of boxes x, y, width and height."""
    images = [torch.arange(len(side)).repeat_interleave(torch.tensor([*map(len, side)])) for side in (preds, target)]
    scores = torch.cat([torch.linspace(0.9, 0.1, len(boxes), dtype=torch.float64) for boxes in preds])
    boxes, true_boxes = torch.cat(preds), torch.cat(target)
    detections = Detections(boxes, scores, torch.zeros(len(boxes), dtype=torch.int64), images[0])
    return detections, GroundTruths(true_boxes, torch.zeros(len(true_boxes), dtype=torch.int64), images[1])


def dicts(preds, target, labels=1):
    found = [
        {"boxes": boxes, "scores": torch.linspace(0.9, 0.1, len(boxes)), "labels": torch.full((len(boxes),), labels)}
        for boxes in preds
    ]
    true = [{"boxes": boxes, "labels": torch.full((len(boxes),), labels)} for boxes in target]
    return found, true


def count_found(preds, target):
    """Ground truths that are found by the definition, corners: the best free one of each detection, by score."""
    num_found = 0
    for boxes, true in zip(preds, target, strict=True):
        free = set(range(len(true)))
        rows = sized(true).tolist()
        for box in sized(boxes).tolist():
            overlaps = {place: iou(box, rows[place]) for place in free}
            best = max(overlaps, key=overlaps.get, default=None)
            if best is not None and overlaps[best] >= 0.5:
                free.remove(best)
                num_found += 1
    return num_found


def advice_on(preds, target, box_format):
    return told_by(lambda: evaluate_images(*dicts(preds, target), box_format=box_format))


@pytest.mark.parametrize(("given", "read"), PAIRS)
def test_another_format_of_detections_is_named(given, read):
    preds, target, _ = problem()
    given_preds = [FORMATS[given](boxes) for boxes in preds]
    read_target = [FORMATS[read](boxes) for boxes in target]
    (text,) = advice_on(given_preds, read_target, read)
    if "two corners that are read as position and size" in text:  # told by the boxes alone
        assert given == "xyxy"
        return
    num = NUM_IMAGES * 4
    assert f"read as {NAMES[given]}, {count_found(preds, target)} of {num} ground truths are found." in text
    assert "Pass `preds` and `target` in one format, and name it as `box_format`" in text


@pytest.mark.parametrize(("given", "read"), [("xyxy", "xywh"), ("cxcywh", "xywh"), ("xyxy", "cxcywh")])
def test_another_format_of_ground_truths_is_named(given, read):
    preds, target, _ = problem()
    read_preds = [FORMATS[read](boxes) for boxes in preds]
    given_target = [FORMATS[given](boxes) for boxes in target]
    (text,) = advice_on(read_preds, given_target, read)
    assert "`target`" in text
    assert "two corners" in text or f"read as {NAMES[given]}, {count_found(preds, target)} of" in text


def swapped(boxes):
    return boxes[:, [1, 0, 3, 2]]


CHANGES = {
    "y before x": (swapped, "read as y before x, "),
    "images twice as large": (lambda boxes: 2 * boxes, r"read as 0\.[45]\d* x [+-] \S+ and 0\.[45]\d* y [+-] \S+, "),
    "80 rows above": (lambda boxes: boxes + torch.tensor([0, 80, 0, 80]), r"read as 1 x [+-] \S+ and 1 y - \d\d.\d+, "),
    "cropped": (lambda boxes: boxes - 50, r"read as 1 x \+ \d\d.\d+ and 1 y \+ \d\d.\d+, "),
    "twice as large, y first": (lambda boxes: 2 * swapped(boxes), r"read as 0\.[45]\d* x .* y .*, with y before x, "),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_reading_of_all_images_is_named(change):
    preds, target, _ = problem()
    apply, pattern = CHANGES[change]
    (text,) = advice_on([apply(boxes) for boxes in preds], target, "xyxy")
    assert re.search(pattern + r"9\d of 96 ground truths are found\.", text), text


@pytest.mark.parametrize("change", CHANGES)
def test_readings_that_are_compared_one_by_one_are_named_alike(change):
    preds, target, _ = problem()
    changed = [CHANGES[change][0](boxes) for boxes in preds]
    with taking(compared_points=1):
        one_by_one = advice_on(changed, target, "xyxy")
    assert one_by_one == advice_on(changed, target, "xyxy")


def resized(side):
    return lambda boxes, size: boxes * (side / size).repeat(2)


def letterboxed(boxes, size):
    ratio = 640 / size.max()
    return boxes * ratio + ((640 - ratio * size) / 2).repeat(2)


RESIZED = {
    "squashed": (resized(320), r"coordinates in images stretched to 3[12]\d\S* x 3[12]\d\S*, "),
    "of vision-language models": (
        lambda boxes, size: swapped(resized(1000)(boxes, size)),
        r"coordinates in images stretched to \S+ x \S+, with y before x, ",
    ),
    "of a longest side": (
        lambda boxes, size: boxes * (1333 / size.max()),
        r"coordinates in images resized to a longest side of 1[23]\d\d\S*, ",
    ),
    "padded": (letterboxed, r"coordinates in images resized to a longest side of 6[34]\d\S*, and padded around, "),
}


@pytest.mark.parametrize("change", RESIZED)
def test_images_that_were_resized_in_another_way_are_named_where_their_sizes_are_known(change):
    preds, target, sizes = problem()
    apply, pattern = RESIZED[change]
    found, true = dicts([apply(boxes, size) for boxes, size in zip(preds, sizes, strict=True)], target)
    true = [item | {"image_id": image, "orig_size": sizes[image].flip(0)} for image, item in enumerate(true)]
    (text,) = told_by(lambda: evaluate_images(found, true))
    assert re.search(pattern + r"9\d of 96 ground truths are found\.", text), text


def test_all_of_at_most_256_images_are_looked_at():
    preds, target, _ = problem(num_images=300, num_objects=2)
    sides = packed([swapped(sized(boxes)) for boxes in preds], [sized(boxes) for boxes in target])
    reading = find_reading(*sides, "xywh")
    assert reading["name"] == "y before x"
    assert reading["num_ground_truths"] == 2 * 256


def poor(random, true, sizes):
    """Boxes of a detector that is poor in one way, for corners of ground truths of each image."""
    draw = lambda number, *shape: torch.rand(number, *shape, dtype=torch.float64)  # noqa: E731
    kind = random.choice(["shares", "anywhere", "constant", "anchors", "sizes", "noise", "mean", "shuffled", "heads"])
    factor = random.choice([0.3, 0.5, 2.0, 3.0])
    step, length = random.choice([1, 20, 40]), random.choice([1, 20, 60, 150])
    mean = torch.cat(true).mean(0)
    boxes = []
    for place, (corners, size) in enumerate(zip(true, sizes, strict=True)):
        center, sides = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
        if kind == "shares":
            near = draw(50, 2)
            boxes.append(torch.cat([near, near + draw(50, 2)], 1))
        elif kind == "anywhere":
            near = draw(100, 2) * size
            boxes.append(torch.cat([near, near + draw(100, 2) * size / 2], 1))
        elif kind == "constant":
            boxes.append(torch.tensor([[3.0, 4.0, 8.0, 10.0]], dtype=torch.float64))
        elif kind == "anchors":
            grid = torch.cartesian_prod(torch.arange(16.0), torch.arange(12.0)).double() * step
            boxes.append(torch.cat([grid, grid + length], 1))
        elif kind == "sizes":
            boxes.append(torch.cat([center - factor * sides / 2, center + factor * sides / 2], 1))
        elif kind == "noise":
            shift = torch.randn(sides.shape, dtype=torch.float64) * sides
            boxes.append(corners + shift.repeat(1, 2))
        elif kind == "mean":
            boxes.append(mean + 0.3 * (corners - mean))
        elif kind == "shuffled":
            boxes.append(true[(place + 1) % len(true)])
        else:
            head = center - sides * torch.tensor([0.2, 0.5], dtype=torch.float64)
            boxes.append(torch.cat([head, head + sides * torch.tensor([0.4, 0.2], dtype=torch.float64)], 1))
    return boxes


def scene(random):
    """Corners of ground truths of each image, and sizes: anywhere, crowded, large, or always in the same places."""
    number, kind = random.choice([2, 3, 12, 40]), random.choice(["anywhere", "crowded", "large", "centered", "static"])
    size = torch.tensor([640.0, 480.0], dtype=torch.float64)
    places = torch.rand(4, 2, dtype=torch.float64) * 300
    true = []
    for _ in range(number):
        if kind == "static":
            near = places + torch.randn(4, 2, dtype=torch.float64)
            sides = 60 + torch.arange(4, dtype=torch.float64)[:, None] * torch.tensor([10.0, 5.0], dtype=torch.float64)
        elif kind == "centered":
            sides = size * (0.3 + 0.1 * torch.rand(1, 2, dtype=torch.float64))
            near = size / 2 - sides / 2 + 10 * torch.randn(1, 2, dtype=torch.float64)
        else:
            count, share = {"anywhere": (4, 0.3), "crowded": (30, 0.1), "large": (2, 0.8)}[kind]
            sides = size * share * (0.5 + 0.5 * torch.rand(count, 2, dtype=torch.float64))
            near = (size - sides) * torch.rand(count, 2, dtype=torch.float64)
        true.append(torch.cat([near, near + sides], 1))
    return true, size.expand(number, 2)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_poor_detectors_fit_no_reading(first):
    for seed in range(first, first + (8 if first == 0 else 25)):
        draw = random.Random(seed)  # noqa: S311 - no secret
        torch.manual_seed(seed)
        true, sizes = scene(draw)
        preds = poor(draw, true, sizes)
        sides = packed([sized(boxes) for boxes in preds], [sized(boxes) for boxes in true])
        box_format = draw.choice([*FORMATS])
        assert find_reading(*sides, box_format, sizes if draw.random() < 0.5 else None) is None, seed


def test_a_single_image_is_compared_with_its_mirror():
    preds, target, _ = problem(num_images=1, num_objects=12)
    sides = packed([swapped(sized(boxes)) for boxes in preds], [sized(boxes) for boxes in target])
    assert find_reading(*sides, "xywh")["name"] == "y before x"
    grid = torch.cartesian_prod(torch.arange(0.0, 400, 20), torch.arange(0.0, 300, 20)).double()
    everywhere = torch.cat([grid, torch.full_like(grid, 60)], 1)[:290]
    true = torch.cat([torch.rand(12, 2, dtype=torch.float64) * 300, torch.full((12, 2), 60.0, dtype=torch.float64)], 1)
    assert find_reading(*packed([everywhere / 500], [true]), "xywh") is None


def test_invalid_detections_and_crowds_are_left_out():
    preds, target, _ = problem()
    detections, ground_truths = packed([swapped(sized(boxes)) for boxes in preds], [sized(boxes) for boxes in target])
    expected = find_reading(detections, ground_truths, "xywh")
    boxes = torch.cat([detections.boxes, torch.tensor([[np.nan, 0, 1, 1], [np.inf, 1, 2, 2]])])
    more = Detections(
        boxes,
        torch.cat([detections.scores, torch.tensor([0.99, 0.98])]),
        torch.cat([detections.labels, torch.tensor([0, 0])]),
        torch.cat([detections.images, torch.tensor([0, 1])]),
    )
    crowd = GroundTruths(
        torch.cat([ground_truths.boxes, torch.tensor([[0.0, 0, 900, 900]])]),
        torch.cat([ground_truths.labels, torch.tensor([0])]),
        torch.cat([ground_truths.images, torch.tensor([0])]),
        is_crowd=torch.arange(len(ground_truths.boxes) + 1) == len(ground_truths.boxes),
    )
    assert find_reading(more, crowd, "xywh") == expected


@pytest.mark.parametrize("names", [False, True])
def test_sizes_of_images_are_known_from_their_dicts(names):
    preds, target, sizes = problem()
    changed = [resized(320)(boxes, size) for boxes, size in zip(preds, sizes, strict=True)]
    found, true = dicts(changed, target)
    for image, (item, (width, height)) in enumerate(zip(true, sizes.tolist(), strict=True)):
        item["image_id"] = f"{9 - image % 10}/{image}.jpg" if names else 900 - image
        item["orig_size"] = (height, width) if image % 2 else torch.tensor([height, width])
    pattern = RESIZED["squashed"][1] + r"9\d of 96 ground truths are found"
    for evaluate in (lambda: fed(DetectionMAP(), found, true).compute(), lambda: evaluate_images(found, true)):
        (text,) = told_by(evaluate)
        assert re.search(pattern, text), text
    for item in true[:1]:
        del item["orig_size"]
    assert not any("stretched" in text for text in told_by(lambda: fed(DetectionMAP(), found, true).compute()))

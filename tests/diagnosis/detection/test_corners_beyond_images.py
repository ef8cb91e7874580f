"""Corners that are read as sizes are told by the edges of the images, where the sizes of images are known."""

import pytest
import torch

from reid_torchmetrics.functional.detection import evaluate_images
from tests.diagnosis.contract import told_by

WIDTH, HEIGHT = 500, 400
INSIDE, BEYOND = [100.0, 50.0, 300.0, 200.0], [200.0, 150.0, 440.0, 330.0]
TRUE = [0.0, 0.0, 40.0, 40.0]


def text_of(num=10, names="`preds`"):
    return (
        f"Sizes exceed the image, but would not as corners, in {num} checked boxes of {names}: they seem to be two"
        ' corners that are read as position and size. Pass `box_format="xyxy"`; COCO files must hold x, y, width and'
        " height."
    )


def images_of(boxes, true_boxes=(TRUE,), size=(HEIGHT, WIDTH)):
    """One image; `size` is height and width."""
    scores = torch.linspace(0.9, 0.1, len(boxes))
    preds = {"boxes": torch.tensor(boxes), "scores": scores, "labels": torch.zeros(len(boxes), dtype=torch.int64)}
    target = {"boxes": torch.tensor(true_boxes), "labels": torch.zeros(len(true_boxes), dtype=torch.int64)}
    target["image_id"] = torch.tensor([1])
    if size is not None:
        target["orig_size"] = torch.tensor(size)
    return [preds], [target]


def told(images, box_format="xywh"):
    """The advice that an evaluation gives."""
    return told_by(lambda: evaluate_images(*images, box_format=box_format))


@pytest.mark.parametrize(
    ("boxes", "is_told"),
    [
        ([INSIDE] * 9 + [BEYOND], True),  # 200 + 440 > 500
        ([INSIDE] * 9 + [[50.0, 50.0, 150.0, 150.0]], False),  # does not leave the image
        ([INSIDE] * 9 + [[480.0, 380.0, 30.0, 30.0]], False),  # leaves it, and is no pair of corners
        ([BEYOND] * 9, False),  # too few to say
        ([BEYOND] * 10, True),
        ([INSIDE] * 19 + [BEYOND], False),  # one box in ten must leave its image
        ([INSIDE] * 18 + [BEYOND] * 2, True),
        ([[300.0, 200.0, 501.0, 401.0]] * 10, True),  # one pixel beyond the last ones, as whole pixels are counted
        ([[300.0, 200.0, 501.0, 402.0]] * 10, False),
        ([[300.0, 200.0, 502.0, 401.0]] * 10, False),
    ],
)
def test_ten_corners_beyond_their_images_that_are_one_in_ten_are_told(boxes, is_told):
    assert told(images_of(boxes)) == [text_of(len(boxes))] * is_told


def test_nothing_is_told_without_the_sizes_of_images():
    assert told(images_of([BEYOND] * 10, size=None)) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_corners_that_are_read_as_center_and_size_are_told(dtype):
    preds, target = images_of([[320.0, 150.0, 440.0, 330.0]] * 10)  # from x = 100 to 540
    preds[0]["boxes"] = preds[0]["boxes"].to(dtype)
    assert told((preds, target), "cxcywh") == [text_of(10)]


def test_ground_truths_as_corners_are_told_by_their_own_name():
    assert told(images_of([TRUE] * 10, [BEYOND] * 10)) == [text_of(10, "`target`")]
    both = told(images_of([INSIDE] * 9 + [BEYOND], [[150.0, 350.0, 480.0, 390.0]] * 10))
    assert both == [text_of(20, "`preds` and `target`")]


def test_a_detector_that_does_not_clip_its_boxes_but_finds_objects_is_not_told():
    """Objects that fill their image: each box could be two corners, and leaves the image by a few pixels."""
    objects = [[10.0 + number, 12.0, 480.0, 380.0] for number in range(10)]
    found = [[x, y, width + 30, height] for x, y, width, height in objects]
    assert told(images_of(found, objects)) == []


def test_corners_on_both_sides_are_told_although_they_find_each_other():
    assert told(images_of([BEYOND] * 10, [BEYOND] * 10)) == [text_of(20, "`preds` and `target`")]
    assert told(images_of([BEYOND] * 10, [BEYOND] * 9)) == []  # too few on one side

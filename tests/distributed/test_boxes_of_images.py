"""Boxes of chosen images, which several processes hold."""

import torch

from reid_torchmetrics import DetectionMAP, VocMAP
from tests import executed_shapes
from tests.distributed.failures import message_of
from tests.functional.detection.detection_samples import fed, images
from tests.tasks.test_image_boxes import turned

NUM_IMAGES = 7
SLANTED = [0, 0, 4, 0, 5, 3, 1, 3]


def given() -> tuple[list[dict], list[dict]]:
    return images(5, NUM_IMAGES, with_ids=True)


def chosen() -> torch.Tensor:
    return torch.tensor([given()[1][place]["image_id"] for place in (6, 0, 3)])


def asks_for_corners(process: int, size: int) -> list[object]:
    """All processes; the first has no image."""
    preds, target = turned()
    metric = VocMAP(iou_type="rotated")
    if process:
        metric.update(preds[process - 1 : process], target[process - 1 : process])
    results = metric.results(boxes=True)
    sides = [*metric.boxes_of(["a", "b"]), *results.boxes_of(["a", "b"])]
    return [[each["rotated_boxes"].tolist() for each in side] for side in sides] + [results.detections().boxes.tolist()]


def test_all_processes_get_the_corners_of_all(processes):
    sides = [[[], [SLANTED]], [[[8, 7, 10, 7, 10, 11, 8, 11]], [SLANTED]]]
    assert processes.run(3, asks_for_corners) == [[*sides, *sides, [SLANTED]]] * 3


def asks_for_others(process: int, size: int) -> str:
    return message_of(lambda: fed(DetectionMAP(), *given()).boxes_of(chosen()[process : process + 1]))


def test_processes_that_ask_for_other_images_are_told(processes):
    numbers = chosen().tolist()
    text = f"All processes must have the same `image`; got process 0: [{numbers[0]}]; process 1: [{numbers[1]}]."
    assert processes.run(2, asks_for_others) == [text] * 2


def asks_for_no_tensor(process: int, size: int) -> str:
    executed_shapes.execute(0)  # a user has no annotations executed before the checks
    return message_of(lambda: fed(DetectionMAP(), *given()).boxes_of([1, None] if process else chosen()))


def test_a_wrong_argument_on_one_process_is_an_error_on_all(processes):
    text = "process 1: TypeError: `image` must hold integers or be a list of names; got a list with int."
    assert processes.run(2, asks_for_no_tensor) == [text] * 2

"""Pascal VOC and the YOLO family on several processes: the same values however the images are spread."""

import pytest
import torch

from reid_torchmetrics import VocMAP, YoloMAP
from tests.distributed.detection_shards import at, prints
from tests.distributed.failures import message_of
from tests.distributed.shards import SHARDINGS
from tests.functional.detection.detection_samples import fed, images

NUM_IMAGES = 17
METRICS = {
    "voc": (VocMAP, {"iou_thresholds": (0.5, 0.75), "class_metrics": True}),
    "voc07 between pixels": (VocMAP, {"rule": "voc07", "whole_pixels": False, "class_metrics": True}),
    "dota": (VocMAP, {"iou_type": "rotated", "rule": "voc07", "class_metrics": True}),
    "ultralytics": (YoloMAP, {"class_metrics": True}),
    "scaled_yolov4": (YoloMAP, {"matching": "scaled_yolov4", "class_metrics": True}),
    "yolov4": (YoloMAP, {"matching": "yolov4", "class_metrics": True, "confidence": 0.4}),
}


def problem(*, with_ids: bool = True):
    preds, target = images(81, NUM_IMAGES, num_levels=4, with_ids=with_ids)
    for item in target[::2]:
        item["difficult"] = torch.arange(len(item["labels"])) % 3 == 1
    for item in (*preds, *target):  # x0, y0, x1, y1 as corners in turn
        item["rotated_boxes"] = item["boxes"].view(-1, 4)[:, [0, 1, 2, 1, 2, 3, 0, 3]].double()
    return preds, target


def outcome(make, options, given) -> list[object]:
    metric = fed(make(**options), *given)
    results = metric.results()
    return [
        prints(metric.compute()),
        prints({"ap": results.average_precision}),
        prints({name: value for name, value in vars(results.ranked).items() if isinstance(value, torch.Tensor)}),
    ]


def evaluates(process: int, size: int, sharding: str, with_ids: bool) -> dict[str, list[object]]:
    own = at(problem(with_ids=with_ids), SHARDINGS[sharding](NUM_IMAGES, size)[process])
    return {name: outcome(*each, own) for name, each in METRICS.items()}


@pytest.mark.parametrize(
    ("size", "sharding"), [(1, "round_robin"), (2, "empty_first"), (3, "uneven"), (3, "round_robin")]
)
def test_the_values_are_those_of_one_process(processes, size, sharding):
    expected = {
        name: outcome(make, options | {"sync_on_compute": False}, problem())
        for name, (make, options) in METRICS.items()
    }
    for found in processes.run(size, evaluates, sharding, True):
        assert found == expected


def test_without_image_id_images_are_numbered_as_processes_lay_them_down_in_turn(processes):
    expected = {
        name: outcome(make, options | {"sync_on_compute": False}, problem(with_ids=False))
        for name, (make, options) in METRICS.items()
    }
    for found in processes.run(2, evaluates, "round_robin", False):
        assert found == expected


DIFFERENT = {
    "`matching`; got process 0: 'scaled_yolov4'; process 1: 'yolov4'.": (
        lambda process: YoloMAP(matching="yolov4" if process else "scaled_yolov4", rule="voc")
    ),
    "`iou_type`; got process 0: ('bbox',); process 1: ('rotated',).": (
        lambda process: VocMAP(iou_type="rotated" if process else "bbox", whole_pixels=False)
    ),
    "`rule`; got process 0: 'voc'; process 1: 'voc07'.": (
        lambda process: VocMAP(iou_type="rotated", rule="voc07" if process else "voc")
    ),
}


def differs(process: int, size: int) -> list[str]:
    given = at(problem(), [*range(process, NUM_IMAGES, size)])
    return [message_of(fed(make(process), *given).compute) for make in DIFFERENT.values()]


def test_other_options_on_two_processes_are_an_error_on_both(processes):
    assert processes.run(2, differs) == [[f"All processes must have the same {each}" for each in DIFFERENT]] * 2

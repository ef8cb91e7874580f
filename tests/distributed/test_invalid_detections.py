"""Detected boxes that are inverted or not finite on several processes: the value of one, and numbers of their own."""

import warnings

import pytest
import torch

from reid_torchmetrics import DetectionMAP, VocMAP, YoloMAP
from tests.distributed.detection_shards import NUM_IMAGES, at, prints, shards
from tests.functional.detection.batches.test_invalid_detections import spoilt
from tests.functional.detection.detection_samples import fed, images

METRICS = {"coco": DetectionMAP, "voc": VocMAP, "yolo": YoloMAP}


def told(given, name: str, **options: object) -> tuple[object, int]:
    """The value, and what the metric says of its own boxes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric = fed(METRICS[name](**options), *given, size=3)
    return prints(metric.compute()), metric.num_invalid


def of_process(process: int, size: int, sharding: str, name: str) -> tuple[object, int]:
    return told(at(problem(), shards(sharding, size)[process]), name)


def problem():
    return spoilt(given=images(7, NUM_IMAGES, with_ids=True))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(("size", "sharding"), [(2, "round_robin"), (2, "empty_first"), (3, "uneven")])
def test_the_value_is_that_of_one_process_and_each_counts_its_own(processes, size, sharding, name):
    value, num_invalid = told(problem(), name, sync_on_compute=False)
    found = processes.run(size, of_process, sharding, name)
    assert [each for each, _ in found] == [value] * size
    assert [number for _, number in found] == [4 * len(part) for part in shards(sharding, size)]
    assert num_invalid == 4 * NUM_IMAGES


def crossed_on_the_last(process: int, size: int) -> tuple[object, int]:
    """The value where each process finds its rotated box, and the last one has its corners in a crossing order."""
    corners = torch.tensor([[0.0, 0, 8, 0, 8, 4, 0, 4]])
    crossed = torch.tensor([[0.0, 0, 8, 0, 0, 4, 8, 4]])
    labels = torch.tensor([1])
    found = {"rotated_boxes": crossed if process == size - 1 else corners, "labels": labels}
    metric = VocMAP(iou_type="rotated", metric="map")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        score = torch.tensor([0.9 - 0.1 * process])
        truth = {"rotated_boxes": corners, "labels": labels, "image_id": process}
        metric.update([found | {"scores": score}], [truth])
        return float(metric.compute()), metric.num_invalid


def test_a_crossing_order_on_one_process_is_a_false_positive_on_all(processes):
    assert processes.run(2, crossed_on_the_last) == [(0.5, 0), (0.5, 1)]

"""Masks on several processes: each overlaps its own, and none is sent."""

import pytest

from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.distributed.detection_shards import OPTIONS, at, prints
from tests.distributed.shards import SHARDINGS
from tests.functional.detection.detection_samples import fed
from tests.functional.detection.mask_samples import mask_images

NUM_IMAGES = 9


def evaluates(process: int, size: int, sharding: str, iou_type: str | tuple[str, ...]) -> list[object]:
    metric = DetectionMAP(iou_type=iou_type, **OPTIONS)
    fed(metric, *at(mask_images(7, NUM_IMAGES, with_boxes=True), SHARDINGS[sharding](NUM_IMAGES, size)[process]), 2)
    return [prints(metric.compute()), prints(metric.results("segm").summary())]


@pytest.mark.parametrize("iou_type", ["segm", ("bbox", "segm")])
@pytest.mark.parametrize(("size", "sharding"), [(2, "uneven"), (3, "empty_first")])
def test_the_values_are_the_same_however_images_are_spread(processes, size, sharding, iou_type):
    alone = fed(DetectionMAP(iou_type=iou_type, **OPTIONS), *mask_images(7, NUM_IMAGES, with_boxes=True))
    expected = [prints(alone.compute()), prints(alone.results("segm").summary())]
    for found in processes.run(size, evaluates, sharding, iou_type):
        assert found == expected


def evaluates_areas(process: int, size: int) -> list[object]:
    metric = DetectionMAP(iou_type="segm", **OPTIONS)
    fed(metric, *at(with_areas(), SHARDINGS["empty_first"](NUM_IMAGES, size)[process]), 2)
    results = metric.results()
    return [prints(metric.compute()), prints(results.summary()), results.averages.grid.has_given_areas]


def with_areas() -> tuple[list[dict], list[dict]]:
    """Images with areas of detections that are not those of the masks."""
    preds, target = mask_images(7, NUM_IMAGES)
    return [item | {"detection_area": 2000.0 * item["scores"].double()} for item in preds], target


def test_areas_of_detections_count_on_all_processes_and_all_results_know_of_them(processes):
    alone = fed(DetectionMAP(iou_type="segm", **OPTIONS), *with_areas())
    without = fed(DetectionMAP(iou_type="segm", **OPTIONS), *mask_images(7, NUM_IMAGES))
    expected = [prints(alone.compute()), prints(alone.results().summary()), True]
    assert expected[0] != prints(without.compute())
    for found in processes.run(3, evaluates_areas):  # the first process has no images
        assert found == expected

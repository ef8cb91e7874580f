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

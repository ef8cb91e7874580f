"""The constants of COCO's grid."""

import pytest

from reid_torchmetrics.functional.detection.inputs import (
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    COCO_RECALL_THRESHOLDS,
)


def test_thresholds_and_area_ranges_are_those_of_pycocotools():
    params = pytest.importorskip("pycocotools.cocoeval").Params("bbox")
    assert list(COCO_AREA_RANGES.items()) == [*zip(params.areaRngLbl, map(tuple, params.areaRng), strict=True)]
    assert list(COCO_MAX_DETECTIONS) == params.maxDets
    assert list(COCO_IOU_THRESHOLDS) == params.iouThrs.tolist()
    assert list(COCO_RECALL_THRESHOLDS) == params.recThrs.tolist()

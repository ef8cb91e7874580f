"""A number at an IoU threshold that is not among the metric's is left out, but in `compute`, as in TorchMetrics."""

import json

import pytest

from reid_torchmetrics import DetectionMAP, LvisMAP, VocMAP, YoloMAP
from reid_torchmetrics.functional.detection import evaluate_images
from tests.functional.detection.detection_samples import fed, images, with_lists

METRICS = {
    "coco": lambda: DetectionMAP(iou_thresholds=[0.5, 0.6]),
    "voc at 0.75": lambda: VocMAP(iou_thresholds=[0.75]),
    "yolo": lambda: YoloMAP(iou_thresholds=[0.5]),
    "lvis": lambda: LvisMAP(iou_thresholds=[0.5]),
}
LACKING = {"voc at 0.75": {"map_50"}}


@pytest.mark.parametrize("name", METRICS)
def test_a_number_at_a_threshold_that_is_not_the_metrics_is_left_out(name):
    preds, target = images(0)
    metric, lacking = fed(METRICS[name](), preds, with_lists(target)), LACKING.get(name, {"map_75"})
    results = metric.results()
    names = {"map", "map_50", "map_75"} - lacking
    for each in ("map", "map_50", "map_75"):
        is_there = each in names
        assert [each in of for of in (results, results.means, results.conventions)] == [is_there] * 3, each
        assert (each in results.to_dict()["numbers"]) == (f"  {each}\n" in str(results)) == is_there
        # TorchMetrics gives -1.
        assert each in metric.compute()
        if not is_there:
            assert float(metric.compute()[each]) == float(results.summary()[each]) == -1
    json.dumps(results.to_dict(), allow_nan=False)


def test_the_number_of_an_area_range_with_the_name_of_a_threshold_is_there():
    options = {"iou_thresholds": (0.5,), "area_ranges": {"all": (0.0, 1e10), "75": (0.0, 5625.0)}}
    means = evaluate_images(*images(0), **options).means
    assert [*means] == ["map", "map_50", "map_75", "mar_1", "mar_10", "mar_100", "mar_75"]
    others = options | {"area_ranges": {"all": (0.0, 1e10), "some": (0.0, 5625.0)}}
    assert means["map_75"] == evaluate_images(*images(0), **others)["map_some"]

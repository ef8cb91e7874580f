"""What validation loops and files hold besides good boxes: NaN, negative sizes, numbers of NumPy, masks, names."""

import json
import math
import warnings

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP
from tests.functional.detection.detection_samples import fed, images, is_same

NAN, INF = math.nan, math.inf


def spoiled():
    """Good images, and the same with boxes that cannot be evaluated between theirs."""
    good, bad = images(91, 6, with_ids=True), images(91, 6, with_ids=True)
    wrong = torch.tensor([[NAN, 0, 1, 1], [5, 5, 4, 9], [5, 5, 9, 4], [0, 0, INF, 1], [0, 0, 9, 9], [0, 0, 9, 9]])
    scores = torch.tensor([0.9, 0.9, 0.9, 0.9, NAN, INF])
    labels = torch.arange(6) % 2
    for place in (1, 4):
        item = bad[0][place]
        bad[0][place] = {
            "boxes": torch.cat([wrong[:3], item["boxes"], wrong[3:]]),
            "scores": torch.cat([scores[:3], item["scores"], scores[3:]]),
            "labels": torch.cat([labels[:3], item["labels"], labels[3:]]),
        }
    item = bad[1][3]
    bad[1][3] = item | {
        "boxes": torch.cat([wrong[:1], item["boxes"]]),
        "labels": torch.cat([labels[:1], item["labels"]]),
        "area": torch.cat([torch.ones(1), item["area"]]),
    }
    bad[1][3].pop("iscrowd", None)
    good[1][3].pop("iscrowd", None)
    return good, bad


def test_boxes_that_cannot_be_evaluated_are_left_out_with_one_warning_and_counted():
    good, bad = spoiled()
    metric = DetectionMAP(invalid="drop", class_metrics=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fed(metric, *bad, size=2)
    (warning,) = caught
    assert str(warning.message).startswith("Dropped 6 boxes that are not finite or have a negative size. Later drops")
    assert warning.filename.endswith("detection_samples.py")
    assert metric.num_dropped == 13
    assert is_same(metric.compute(), fed(DetectionMAP(class_metrics=True), *good, size=2).compute())
    metric.reset()
    assert metric.num_dropped == 0


@pytest.mark.filterwarnings("ignore:.* are not finite or have")
@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_a_box_that_is_nowhere_is_left_out_whatever_its_size(box_format):
    metric = DetectionMAP(box_format, invalid="drop")
    boxes, labels = torch.tensor([[torch.nan, 1, 5, 5], [1, 1, 5, 5]]), torch.zeros(2, dtype=torch.int64)
    found = {"boxes": boxes, "scores": torch.ones(2), "labels": labels}
    metric.update([found], [{"boxes": boxes[1:], "labels": labels[1:]}])
    assert metric.num_dropped == 1
    assert metric.compute()["map"] == 1


def test_thresholds_and_limits_may_be_numbers_of_numpy_and_tensors():
    options = {
        "iou_thresholds": [np.float32(0.75), torch.tensor(0.5), np.float64(0.5)],
        "rec_thresholds": [torch.tensor(0.5), np.float64(0), 0.5, np.float32(1)],
        "max_detection_thresholds": [torch.tensor(10), np.float64(1), 100],
    }
    plain = {
        "iou_thresholds": [0.75, 0.5, 0.5],
        "rec_thresholds": [0.0, 0.5, 0.5, 1.0],
        "max_detection_thresholds": [1, 10, 100],
    }
    given = images(92, 5)
    found, expected = (fed(DetectionMAP(**each, extended_summary=True), *given) for each in (options, plain))
    assert is_same(found.compute(), expected.compute())
    assert found.max_detection_thresholds == [1, 10, 100]


GOOD_ROW = {"image_id": 1, "category_id": 2, "bbox": [0, 0, 5, 5], "score": 0.5}


def written(folder, row, images=({"id": 1},)):
    results, data_set = folder / "results.json", folder / "data_set.json"
    results.write_text(json.dumps([row]), encoding="utf-8")
    data_set.write_text(
        json.dumps({"images": images, "annotations": [GOOD_ROW | {"segmentation": [[0, 0, 5, 5, 5, 0]]}]}),
        encoding="utf-8",
    )
    return str(results), str(data_set)


def test_boxes_beside_masks_are_read(tmp_path):
    preds, target = DetectionMAP.coco_to_tm(*written(tmp_path, GOOD_ROW | {"segmentation": {}, "category_id": 2.0}))
    assert float(fed(DetectionMAP(box_format="xywh", metric="map"), preds, target).compute()) == 1

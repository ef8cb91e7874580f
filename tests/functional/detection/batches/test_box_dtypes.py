"""Boxes are converted in the dtype in which they came, those of whole numbers in float64."""

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from tests.functional.detection.detection_samples import box


def test_boxes_of_two_dtypes_are_each_converted_in_their_own():
    # float16 rounds the width from -1 to 2048 to 2048, twice that of the ground truth; float32 keeps 2049: too wide.
    label, metric = torch.zeros(1, dtype=torch.int64), DetectionMAP(iou_thresholds=[0.5])
    for dtype, score in ((torch.float16, 0.9), (torch.float32, 0.8)):
        found = {"boxes": box(-1, 0, 2048, 1).to(dtype), "scores": torch.tensor([score]), "labels": label}
        metric.update([found], [{"boxes": box(-1, 0, 1023, 1).to(dtype), "labels": label}])
    assert float(metric.compute()["map"]) == pytest.approx(51 / 101)  # precision 1 at the recalls 0, .01, ..., .5


def test_boxes_of_whole_numbers_are_converted_in_float64():
    label, metric = torch.zeros(1, dtype=torch.int64), DetectionMAP(box_format="cxcywh")
    center = torch.tensor([[2**24 + 1, 1, 2, 2]])  # which float32 does not have
    found = {"boxes": center, "scores": torch.ones(1), "labels": label}
    metric.update([found], [{"boxes": center.double(), "labels": label}])
    assert float(metric.compute()["map"]) == 1

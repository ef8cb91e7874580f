"""Pairs of objects across classes: what is checked when they come from a file."""

import math
from dataclasses import replace

import pytest
import torch

from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.tasks.detection_errors import pair_objects


def test_scores_of_objects_that_are_nan_are_named():
    boxes, number = torch.tensor([[0.0, 0.0, 4.0, 4.0]]), torch.tensor([1])
    objects = pair_objects(Detections(boxes, torch.ones(1), number, number), GroundTruths(boxes, number, number))
    assert objects.check().keys() == {"images", "true_images"}
    with pytest.raises(ValueError, match=r"^`objects\.scores` must give scores that can be ordered; got NaN\.$"):
        replace(objects, scores=torch.tensor([math.nan])).check()

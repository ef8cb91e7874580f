"""Each evaluator takes the shapes and the options that it knows, and refuses all others by name."""

import pytest
import torch

from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS

BOX = torch.tensor([[10.0, 10.0, 40.0, 30.0]])
PERSON = torch.tensor([[[10.0 + place, 10.0 + place, 2.0] for place in range(17)]])
SHAPES = {
    "bbox": {"boxes": BOX},
    "rotated": {"rotated_boxes": torch.tensor([[25.0, 20.0, 30.0, 20.0, 0.5]])},
    "segm": {"masks": torch.ones(1, 4, 5, dtype=torch.bool)},
    "keypoints": {"keypoints": PERSON, "boxes": BOX},
}
"""one object of each shape"""
KNOWN = {
    "coco": {*SHAPES},
    "lvis": {*SHAPES},
    "lvis_fixed": {*SHAPES},
    "voc": {"bbox", "rotated"},
    "ultralytics": {"bbox"},
    "scaled_yolov4": {"bbox"},
    "yolov4": {"bbox"},
}
"""the shapes that each evaluator knows"""


def evaluated(evaluator, iou_type, **options):
    """Evaluate one image with one object, which is found exactly."""
    shape = SHAPES[iou_type]
    label = torch.tensor([0])
    detection = {"scores": torch.tensor([0.9]), "labels": label, **shape}
    if iou_type == "keypoints":
        del detection["boxes"]
    lists = {"neg_category_ids": [], "not_exhaustive_category_ids": []}
    ground_truth = {"labels": label, **shape, **(lists if EVALUATORS[evaluator].is_federated else {})}
    return evaluate_images([detection], [ground_truth], evaluator=evaluator, iou_type=iou_type, **options)


def test_every_evaluator_finds_the_shapes_that_it_knows_and_refuses_the_others():
    lacking = EVALUATORS.keys() - KNOWN.keys()
    assert not lacking, f"add the shapes that {sorted(lacking)} know to `KNOWN`"
    for evaluator, known in KNOWN.items():
        for iou_type in SHAPES:
            if iou_type in known:
                # One object found exactly: 1, or by the 101 points of the YOLO family at least 0.99.
                assert evaluated(evaluator, iou_type).means["map"] >= 0.99, (evaluator, iou_type)
                continue
            message = f"^`iou_type` must be left out with evaluator '{evaluator}'; got '{iou_type}'"
            with pytest.raises(ValueError, match=message):
                evaluated(evaluator, iou_type)

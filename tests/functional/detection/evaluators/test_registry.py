"""The registry: evaluators by their names, and what each says of a right box beside a class without ground truths."""

import pytest
import torch

from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from tests.profiles import each_row

BOXES = torch.tensor([[0.0, 0.0, 10.0, 10.0], [20.0, 20.0, 40.0, 40.0]])
FOUND = {"boxes": BOXES, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([1, 2])}
TRUE = {"boxes": BOXES[:1], "labels": torch.tensor([1])}


def test_errors_have_no_kinds_for_a_reason():
    none = {name: each.why_no_breakdown for name, each in EVALUATORS.items() if not each.has_breakdown}
    assert none.keys() >= {"lvis", "lvis_fixed", "voc", "scaled_yolov4", "yolov4"}
    assert none["lvis"] == none["lvis_fixed"] == "images are annotated for some classes only"
    best = "a detection takes the best ground truth of all, whether it is left or not"
    assert none["voc"] == none["yolov4"] == best


@each_row("name", [name for name, row in EVALUATORS.items() if not row.is_federated])
def test_a_class_without_ground_truths_changes_no_mean(name):
    results = evaluate_images([FOUND], [TRUE], evaluator=name)
    assert results["map_50"] == pytest.approx(1.0, abs=0.006)  # YOLO's curves end below 1
    if EVALUATORS[name].reports_confidence:
        assert all(each.isnan().tolist() == [False, True] for each in results.averages.at_confidence.values())

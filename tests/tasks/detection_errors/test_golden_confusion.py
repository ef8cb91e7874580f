"""Confusion matrices and F1 as Ultralytics, supervision and hotcoco have them, recorded in `tests/golden`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.functional.detection.inputs import to_xywh
from reid_torchmetrics.tasks.detection_errors import confusion_matrix, pair_objects
from reid_torchmetrics.tasks.operating_points import at_confidence
from tests.found_classes import match_images

CASES = json.loads((Path(__file__).parents[2] / "golden" / "confusion.json").read_text(encoding="utf-8"))
SCORES = torch.from_numpy(np.linspace(0, 1, 1000))
FLOAT32 = 1e-7  # supervision rounds F1 to it


def packed(case: dict[str, Any]) -> tuple[Detections, GroundTruths]:
    found, true = (
        torch.tensor([[image, *row] for image, each in enumerate(case["images"]) for row in each[side]]).double()
        for side in ("detections", "ground_truths")
    )
    images, labels = found[:, 0].long(), found[:, 1].long()
    return (
        Detections(to_xywh(found[:, 2:6], "xyxy"), SCORES[found[:, 6].long()], labels, images),
        GroundTruths(to_xywh(true[:, 2:], "xyxy"), true[:, 1].long(), true[:, 0].long()),
    )


@pytest.mark.parametrize("rule", ["ultralytics", "supervision", "hotcoco"])
@pytest.mark.parametrize("case", CASES)
def test_a_rule_gives_the_matrices_of_whose_it_is(case, rule):
    objects = pair_objects(*packed(case))
    assert len(case[rule]) == 3
    for each in case[rule]:
        found = confusion_matrix(objects, each["confidence"], iou_threshold=each["iou_threshold"], rule=rule)
        assert found.classes.tolist() == [0, 1, 2, 3]
        assert found.counts.tolist() == each["matrix"]


def test_the_rules_differ_on_these_problems():
    found = {
        rule: [
            confusion_matrix(pair_objects(*packed(case)), 0.001, rule=rule).counts.flatten().tolist() for case in CASES
        ]
        for rule in ("ultralytics", "supervision")
    }
    assert found["ultralytics"] != found["supervision"]


@pytest.mark.parametrize("case", CASES)
def test_f1_with_all_detections_is_that_of_supervision(case):
    recorded, f1 = case["supervision_f1"], at_confidence(match_images(*packed(case)), 0.0).f1
    for threshold, name in ((0, "f1_50"), (5, "f1_75")):
        assert f1[threshold, recorded["classes"]].tolist() == pytest.approx(recorded[name], abs=FLOAT32)


@pytest.mark.parametrize("case", CASES)
def test_f1_at_the_scores_of_a_class_is_that_of_ultralytics(case):
    """Between scores Ultralytics reads it on a line, and here it is that of the higher score."""
    matches, num_compared = match_images(*packed(case)), 0
    for label, values in zip(case["ultralytics_f1"]["classes"], case["ultralytics_f1"]["f1_at_scores"], strict=True):
        for place, value in values:
            f1 = at_confidence(matches, float(SCORES[place])).f1[0, int(label)]
            assert float(f1) == pytest.approx(value, abs=1e-12)
            num_compared += 1
    assert num_compared

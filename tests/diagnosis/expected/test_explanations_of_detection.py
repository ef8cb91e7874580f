"""`diagnose(expected=...)` of detection names the conventions that give a number, at every entry point."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, diagnose
from reid_torchmetrics.coco import COCO, COCOeval
from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes, evaluate_images

BOX, BESIDE = [0.0, 0.0, 50.0, 50.0], [100.0, 0.0, 150.0, 50.0]


def images():
    """One object of two is found, after a wrong detection: precision 1/2 up to recall 1/2, then 0."""
    preds = {"boxes": torch.tensor([[300.0, 0, 350, 50], BOX]), "scores": torch.tensor([0.9, 0.8])}
    preds["labels"] = torch.zeros(2, dtype=torch.long)
    return [preds], [{"boxes": torch.tensor([BOX, BESIDE]), "labels": torch.zeros(2, dtype=torch.long)}]


AREA = 1 / 2 * 1 / 2
"""under the envelope; at 101 recalls it is 51/101 of 1/2"""


def of_metric():
    metric = DetectionMAP()
    metric.update(*images())
    return metric, None


def of_samples():
    preds, target = images()
    return evaluate_images(preds, target), {"preds": preds, "target": target}


def of_boxes():
    preds, target = images()
    columns = {"boxes": preds[0]["boxes"] - torch.tensor([0, 0, 0, 0]), "scores": preds[0]["scores"]}
    boxes = [torch.cat([side[:, :2], side[:, 2:] - side[:, :2]], 1) for side in (columns["boxes"], target[0]["boxes"])]
    zeros = torch.zeros(2, dtype=torch.long)
    samples = {
        "detections": Detections(boxes[0], columns["scores"], zeros, zeros),
        "ground_truths": GroundTruths(boxes[1], zeros, zeros),
    }
    return evaluate_boxes(**samples), samples


def of_results():
    return evaluate_images(*images()), None


def of_coco_eval():
    sizes = {"area": 2500, "iscrowd": 0, "image_id": 1, "category_id": 1}
    rows = [{"id": 1, "bbox": [0, 0, 50, 50]}, {"id": 2, "bbox": [100, 0, 50, 50]}]
    truth = COCO()
    truth.dataset = {"images": [{"id": 1}], "categories": [{"id": 1}], "annotations": [row | sizes for row in rows]}
    truth.createIndex()
    found = [{"bbox": [300, 0, 50, 50], "score": 0.9}, {"bbox": [0, 0, 50, 50], "score": 0.8}]
    evaluation = COCOeval(truth, truth.loadRes([row | {"image_id": 1, "category_id": 1} for row in found]), "bbox")
    return evaluation, None


@pytest.mark.parametrize("way", [of_metric, of_samples, of_boxes, of_results, of_coco_eval])
def test_another_rule_is_the_answer_at_every_entry_point(way):
    results, samples = way()
    explanation = diagnose(results, samples, expected=f"{AREA:.4f}", measure="map")
    first, *_ = explanation.conventions
    assert dict(first.options) == {"rule": "voc"}
    assert first.call == "evaluate_images(..., rule='voc')['map']"
    needs_images = "Conventions that need images were not tried." in str(explanation)
    assert needs_images == (way is of_results)


def test_objects_are_matched_again_where_a_convention_needs_it():
    explanation = diagnose(of_metric()[0], expected="0.2525", measure="map")
    assert explanation.conventions[0].options == {}
    pixel = [{"boxes": torch.tensor([[0.0, 0, 10, 4.8]]), "scores": torch.tensor([0.9]), "labels": torch.tensor([1])}]
    target = [{"boxes": torch.tensor([[0.0, 0, 10, 10]]), "labels": torch.tensor([1])}]
    # 11 x 5.8 of 11 x 11 pixels: above 0.5.
    results = evaluate_images(pixel, target)
    explanation = diagnose(results, {"preds": pixel, "target": target}, expected=1.0, measure="map_50")
    assert ("both edges of a box are pixels of it",) in [convention.words for convention in explanation.conventions]


def test_mistakes_of_the_input_are_tried():
    preds, target = images()
    corners = torch.tensor([[5.0, 5, 55, 55]])
    sizes = torch.tensor([[5.0, 5, 50, 50]])
    label = torch.tensor([3])
    wrong = [{"boxes": sizes, "scores": torch.tensor([0.9]), "labels": label}], [{"boxes": corners, "labels": label}]
    explanation = diagnose(metric_of(*wrong), expected="100.0", measure="map")
    assert ("detected boxes are in the format 'xywh'",) in [convention.words for convention in explanation.conventions]
    shifted = [preds[0] | {"labels": preds[0]["labels"] + 1}]
    explanation = diagnose(metric_of(shifted, target), expected="0.2525", measure="map")
    assert ("labels of detections are 1 too high",) in [convention.words for convention in explanation.conventions]


def metric_of(preds, target):
    metric = DetectionMAP()
    metric.update(preds, target)
    return metric


def test_precision_and_recall_of_all_detections_are_numbers():
    explanation = diagnose(of_results()[0], expected="0.5")
    assert any("recall" in convention.title for convention in explanation.conventions)


@pytest.mark.parametrize(("measure", "message"), [("mAP", "`measure` must be one of 'map'"), ("rank_1", "rank_1")])
def test_an_unknown_measure_is_an_error(measure, message):
    with pytest.raises(ValueError, match=message):
        diagnose(of_results()[0], expected=0.5, measure=measure)


def test_a_search_changes_nothing():
    metric = of_metric()[0]
    before = {name: value.clone() for name, value in metric.compute().items()}
    diagnose(metric, expected="0.2500")
    for name, value in metric.compute().items():
        np.testing.assert_array_equal(value, before[name])

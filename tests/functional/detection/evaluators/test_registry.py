"""The registry: evaluators by their names, and what each says of a right box beside a class without ground truths."""

from dataclasses import fields, replace

import pytest
import torch

from reid_torchmetrics.functional.detection import DetectionResults, evaluate_images
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator, own_options
from reid_torchmetrics.tasks.evaluators import VOC_EVALUATOR, VocEvaluator, with_voc_options
from tests.profiles import each_row

BOXES = torch.tensor([[0.0, 0.0, 10.0, 10.0], [20.0, 20.0, 40.0, 40.0]])
FOUND = {"boxes": BOXES, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([1, 2])}
TRUE = {"boxes": BOXES[:1], "labels": torch.tensor([1])}


@each_row("name", [name for name, row in EVALUATORS.items() if not row.is_federated])
def test_a_class_without_ground_truths_changes_no_mean(name):
    results = evaluate_images([FOUND], [TRUE], evaluator=name)
    assert results["map_50"] == pytest.approx(1.0, abs=0.006)  # YOLO's curves end below 1
    if EVALUATORS[name].reports_confidence:
        assert all(each.isnan().tolist() == [False, True] for each in results.averages.at_confidence.values())


def test_options_of_pascal_voc_are_fields_of_its_own_type_alone():
    own = {field.name for field in fields(VocEvaluator)} - {field.name for field in fields(Evaluator)}
    assert own == {"claim", "whole_pixels"}
    assert [name for name, row in EVALUATORS.items() if isinstance(row, VocEvaluator)] == ["voc"]


@each_row("name", EVALUATORS)
def test_matching_gets_the_options_of_the_evaluator_alone(name):
    expected = {"whole_pixels": True, "claim": "voc"} if name == "voc" else {}
    assert own_options(EVALUATORS[name]) == expected


def test_rotated_boxes_of_voc_are_matched_as_in_dota():
    row = with_voc_options(VOC_EVALUATOR, "rotated", whole_pixels=None)
    assert (row.title, row.claim, row.whole_pixels) == ("DOTA", "dota", False)
    assert with_voc_options(VOC_EVALUATOR, ["bbox"], whole_pixels=None) == VOC_EVALUATOR
    assert with_voc_options(VOC_EVALUATOR, "bbox", whole_pixels=False) == replace(VOC_EVALUATOR, whole_pixels=False)


NAMED = [*EVALUATORS.items(), ("voc", with_voc_options(VOC_EVALUATOR, "rotated", whole_pixels=None))]
NAMED += [
    ("voc", replace(VOC_EVALUATOR, whole_pixels=False)),
    ("yolov4", replace(EVALUATORS["yolov4"], confidence=0.5)),
]


def saved_fields(name: str, row: Evaluator) -> dict:
    """The fields of a file with results of an evaluator."""
    lists = {"neg_category_ids": [], "not_exhaustive_category_ids": []} if row.is_federated else {}
    results = evaluate_images([FOUND], [TRUE | lists], evaluator=name)
    return replace(results, evaluator=row)._to_fields()


@pytest.mark.parametrize(("name", "row"), NAMED)
def test_an_evaluator_is_its_name_and_options(name, row):
    fields_of_file = saved_fields(name, row)
    saved_name, options = fields_of_file["evaluator"]
    assert saved_name == name
    assert options.keys() == {"title", "confidence"} | ({"claim", "whole_pixels"} if name == "voc" else set())
    assert DetectionResults._from_fields(fields_of_file).evaluator == row


@pytest.mark.parametrize("name", [name for name in EVALUATORS if name != "voc"])
def test_files_of_any_evaluator_may_have_options_of_voc_that_say_nothing(name):
    fields_of_file = saved_fields(name, EVALUATORS[name])
    fields_of_file["evaluator"][1].update(claim="voc", whole_pixels=False)
    assert DetectionResults._from_fields(fields_of_file).evaluator == EVALUATORS[name]


@pytest.mark.parametrize(
    ("name", "option", "value"), [("coco", "whole_pixels", True), ("yolov4", "claim", "dota"), ("voc", "match", "voc")]
)
def test_an_option_of_another_evaluator_is_refused(name, option, value):
    names = "title, confidence" + ", claim, whole_pixels" * (name == "voc")
    message = f"^`option` of evaluator '{name}' must be one of {names}; got {option}={value!r}\\.$"
    with pytest.raises(ValueError, match=message):
        DetectionResults._from_fields({"evaluator": (name, {option: value})})

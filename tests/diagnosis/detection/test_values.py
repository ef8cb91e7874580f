"""Values that cannot be meant get one warning for each shape, and right ones none."""

import warnings
from random import Random

import pytest
import torch

from reid_torchmetrics import AdviceWarning, DetectionMAP
from tests.diagnosis.contract import told_by
from tests.diagnosis.detection.right_values import RIGHT, values
from tests.diagnosis.detection.value_problems import right, with_areas


@pytest.mark.parametrize("kind", RIGHT)
def test_right_detections_of_odd_values_and_poor_networks_get_no_warning(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", AdviceWarning)
        for seed in range(3):
            values(Random(seed), kind)  # noqa: S311 - no secret


def told_of(preds, target, **options):
    def evaluate():
        metric = DetectionMAP(**options)
        metric.update(preds, target)
        metric.compute()

    return told_by(evaluate)


@pytest.mark.parametrize(("num_images", "is_told"), [(4, True), (3, False)])
def test_areas_of_ten_ground_truths_are_enough_to_say(num_images, is_told):
    preds, target = right("bbox", num_images)
    assert bool(told_of(*with_areas(torch.ones_like)("bbox", preds, target))) is is_told


def test_areas_of_people_may_exceed_the_boxes_around_their_keypoints():
    preds, target = right("keypoints")
    for item in target:
        del item["boxes"]
        item["keypoints"][:, 5:] = 0
        item["area"] = item["area"] * 3
    assert told_of(preds, target, iou_type="keypoints") == []


def test_areas_that_no_number_uses_are_not_judged():
    preds, target = with_areas(torch.ones_like)("bbox", *right("bbox"))
    assert told_of(preds, target, area_ranges={"all": (0.0, 1e10)}) == []
    assert len(told_of(preds, target)) == 1


@pytest.mark.parametrize(("share", "is_told"), [(0.95, True), (0.7, False)])
def test_classes_are_exchanged_if_nearly_all_of_their_objects_are(share, is_told):
    preds, target = right("bbox", 60)
    generator = torch.Generator().manual_seed(2)
    other = torch.tensor([0, 2, 1, 3])
    for item in preds:
        is_wrong = torch.rand(len(item["labels"]), generator=generator) < share
        item["labels"] = torch.where(is_wrong, other[item["labels"]], item["labels"])
    texts = told_of(preds, target)
    assert ["2 for 1" in text and "1 for 2" in text for text in texts] == [True] * is_told


def test_three_of_four_classes_that_are_exchanged_in_a_cycle_are_named():
    preds, target = right("bbox", 60)
    for place, (found, true) in enumerate(zip(preds, target, strict=True)):
        if place % 2:  # half of the images have the fourth class alone
            for item in (found, true):
                item["labels"] = torch.full_like(item["labels"], 4)
        else:
            found["labels"] = found["labels"] % 3 + 1
    (text,) = told_of(preds, target)
    assert "have the label of their detection; most frequent are " in text
    assert all(pair in text for pair in ("2 for 1", "3 for 2", "1 for 3"))


def test_detections_of_no_label_numbering_are_judged_by_no_class():
    preds, target = right("bbox", 60)
    for item in preds:
        item["labels"] = torch.tensor([0, 2, 1, 3])[item["labels"]]
    assert told_of(preds, target, average="micro") == []


def test_a_few_ground_truths_without_a_pixel_are_no_mistake():
    preds, target = right("segm", 40)
    target[0]["masks"][0] = False
    assert told_of(preds, target, iou_type="segm") == []


def test_a_score_that_all_detections_share_does_not_matter_where_all_are_right():
    _, target = right("bbox")
    preds = [{"boxes": item["boxes"], "labels": item["labels"], "scores": torch.ones(3)} for item in target]
    assert told_of(preds, target) == []


def test_five_ground_truths_without_an_extent_are_enough_to_say():
    preds, target = right("bbox", 2)
    for item in target:
        item["boxes"][:, 2] = item["boxes"][:, 0]
    (text,) = told_of(preds, target)
    assert "6 of 6 checked ground truths have a width or height of 0" in text


@pytest.mark.parametrize("num_images", [12, 80, 100])
@pytest.mark.parametrize("order", ["reversed", "halves exchanged"])
def test_images_in_an_order_of_another_kind_are_told_however_many_there_are(num_images, order):
    preds, target = right("bbox", num_images)
    half = num_images // 2
    preds = preds[::-1] if order == "reversed" else preds[half:] + preds[:half]
    (text,) = told_of(preds, target)
    assert "find most ground truths of another image" in text

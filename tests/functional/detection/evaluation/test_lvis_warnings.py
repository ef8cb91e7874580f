"""LVIS: one warning if no image has lists of classes that detections need, one if no group has a ground truth."""

import warnings

import pytest
import torch

from reid_torchmetrics import LvisMAP
from reid_torchmetrics.functional.detection import evaluate_images
from tests.functional.detection.detection_samples import fed


def box(x: float) -> list[float]:
    return [x, 0.0, 50.0, 50.0]


def on_ten_images(lists, labels=(1,)):
    """Ten images with one object of each label that is found, and a detection of a class that is not there."""
    given = zip(("neg_category_ids", "not_exhaustive_category_ids"), lists, strict=True)
    boxes, labels = torch.tensor([box(60.0 * place) for place in range(len(labels) + 1)]), torch.tensor([*labels, 3])
    found = {"boxes": boxes, "scores": torch.full((len(boxes),), 0.9), "labels": labels}
    true = {"boxes": boxes[:-1], "labels": labels[:-1]} | {key: each for key, each in given if each is not None}
    return [found] * 10, [true] * 10


def told_by(work) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in told]


DOORS = {
    "metric": lambda preds, target: fed(LvisMAP("xywh"), preds, target).compute(),
    "in batches": lambda preds, target: fed(LvisMAP("xywh"), preds, target, size=3).results(),
    "fixed": lambda preds, target: fed(LvisMAP("xywh", fixed=True), preds, target).compute(),
    "lvis": lambda *given: evaluate_images(*given, evaluator="lvis", box_format="xywh"),
    "lvis_fixed": lambda *given: evaluate_images(*given, evaluator="lvis_fixed", box_format="xywh"),
}
NO_LISTS = (
    "None of 10 images has `neg_category_ids` or `not_exhaustive_category_ids`: detections of classes without ground"
    " truths in their image do not count. Pass the lists in `target`, or use `DetectionMAP` if all classes are"
    " annotated in all images."
)


@pytest.mark.needs("diagnosis")
@pytest.mark.parametrize("door", DOORS)
def test_images_without_any_list_get_a_warning_at_every_door(door):
    for lists in ((None, None), ([], []), (None, [])):
        assert told_by(lambda lists=lists: DOORS[door](*on_ten_images(lists))) == [NO_LISTS]
    for lists in (([3], None), ([], [1])):
        preds, target = on_ten_images((None, None))
        DOORS[door](preds, [*target[1:], on_ten_images(lists)[1][0]])
    DOORS[door](*(side[:9] for side in on_ten_images(([], []))))  # a few images may have none
    preds, target = on_ten_images(([], []))
    DOORS[door]([{name: each[:1] for name, each in item.items()} for item in preds], target)  # and need none


def test_a_batch_of_forward_without_lists_says_nothing():
    metric, (preds, target) = LvisMAP("xywh"), on_ten_images((None, None))
    metric(preds, target)
    metric(preds, on_ten_images(([3], []))[1])
    metric.compute()


GROUPS = [
    ({1: "r", 3: "f"}, None),
    ({3: "r", 2: "c"}, "`map_rare`, `map_common`: the groups have the labels [2, 3], and the ground truths have [1]"),
    (dict.fromkeys(range(9, 4, -1), "f"), "`map_frequent`: the groups have the labels [5, 6, 7], and the ground tr"),
]


@pytest.mark.needs("diagnosis")
@pytest.mark.parametrize(("frequencies", "text"), GROUPS)
def test_groups_without_a_label_of_ground_truths_get_a_warning(frequencies, text):
    given = on_ten_images(([3], []))
    groups = {
        name: [k for k, each in frequencies.items() if each == name[0]] for name in ("rare", "common", "frequent")
    }
    for work in (
        lambda: fed(LvisMAP("xywh", frequencies=frequencies), *given).compute(),
        lambda: fed(LvisMAP("xywh", frequencies=frequencies, metric="map"), *given).compute(),
        lambda: evaluate_images(*given, evaluator="lvis", box_format="xywh", class_groups=groups),
    ):
        told = told_by(work)
        assert len(told) == (text is not None)
        assert all(each.startswith(f"No ground truth has a label of {text}") for each in told)
    fed(LvisMAP("xywh", frequencies=frequencies), *(side[:9] for side in given)).compute()  # too few to say

"""Boxes of chosen images, as they were given, whichever process holds them."""

import pickle
import re

import pytest
import torch

from reid_torchmetrics import AdviceWarning, DetectionMAP, VocMAP
from tests.functional.detection.detection_samples import fed, images

KEYS = (("boxes", "scores", "labels"), ("boxes", "labels", "iscrowd"))


def numbers_of(sides) -> list[list[dict]]:
    """Both sides as Python's numbers."""
    return [
        [{key: each[key].tolist() for key in keys} for each in side] for keys, side in zip(KEYS, sides, strict=True)
    ]


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_boxes_of_images_are_as_they_were_given(box_format):
    preds, target = images(3, with_ids=True)
    metric = fed(DetectionMAP(box_format=box_format), preds, target)
    chosen = [5, 0, 7]
    image = torch.tensor([target[place]["image_id"] for place in chosen])
    found, true = metric.boxes_of(image)
    expected = [preds[place] for place in chosen], [{"iscrowd": no_crowds(each)} | each for each in at(target, chosen)]
    assert numbers_of((found, true)) == numbers_of(expected)
    assert [int(each["image_id"]) for each in true] == image.tolist()


def at(side, places) -> list[dict]:
    return [side[place] for place in places]


def no_crowds(each):
    return torch.zeros(len(each["labels"]), dtype=torch.bool)


def test_without_ids_images_are_asked_for_by_their_numbers():
    preds, target = images(3)
    found, _ = fed(DetectionMAP(), preds, target).boxes_of(torch.tensor([2]))
    assert found[0]["boxes"].tolist() == preds[2]["boxes"].tolist()


@pytest.mark.needs("diagnosis")
def test_the_first_of_images_with_the_same_id_is_returned():
    preds, target = images(3, with_ids=True)
    metric = fed(DetectionMAP(), [preds[0], preds[1], preds[2]], [target[0], target[1], target[0] | {}])
    found, true = metric.boxes_of(torch.tensor([target[0]["image_id"]]))
    assert found[0]["scores"].tolist() == preds[0]["scores"].tolist()
    assert len(true) == 1
    with pytest.warns(AdviceWarning, match="^Images that came again on their process, 1 of 1, have other detections"):
        metric.compute()


def test_boxes_of_voc_say_which_ground_truths_are_difficult():
    preds, target = images(3, with_ids=True)
    flags = [torch.arange(len(each["labels"])) % 2 == 1 for each in target]
    # One image does not say it, and has none.
    given = [target[0], *(each | {"difficult": flag.int()} for each, flag in zip(target[1:], flags[1:], strict=True))]
    metric = fed(VocMAP(), preds, given)
    image = torch.tensor([each["image_id"] for each in target])
    held = pickle.loads(pickle.dumps(metric.results(boxes=True)))
    for _, true in (metric.boxes_of(image), held.boxes_of(image)):
        said = [each["difficult"].tolist() for each in true]
        assert said == [[False] * len(flags[0]), *(flag.tolist() for flag in flags[1:])]
        again = fed(VocMAP(), preds, true)
        assert again.compute() == metric.compute()
    _, true = fed(DetectionMAP(), preds, target).boxes_of(image)
    assert {*true[0]} == {"boxes", "labels", "iscrowd", "image_id"}


def turned() -> tuple[list[dict], list[dict]]:
    """Two images: one of corners and numbers, and one without detections."""
    corners, none = torch.tensor([[0.0, 0, 4, 0, 5, 3, 1, 3]]), torch.zeros(0)
    first = {"rotated_boxes": corners, "labels": torch.tensor([1])}
    second = {"rotated_boxes": torch.tensor([[9.0, 9, 2, 4, 0]]), "labels": torch.tensor([2])}
    found = first | {"scores": torch.tensor([0.5])}
    nothing = {"rotated_boxes": none, "labels": none.long(), "scores": none}
    return [found, nothing], [first | {"image_id": "b"}, second | {"image_id": "a"}]


@pytest.mark.parametrize(("make", "box_format"), [(VocMAP, "xywh"), (DetectionMAP, "cxcywh")])
def test_boxes_that_are_turned_are_given_by_their_corners_in_any_format(make, box_format, tmp_path):
    metric = fed(make(box_format, iou_type="rotated"), *turned())
    results = metric.results(boxes=True)
    results.save(tmp_path / "results.npz")
    again = type(results).load(tmp_path / "results.npz")
    for held in (metric, results, again, pickle.loads(pickle.dumps(results))):
        found, true = held.boxes_of(["b", "a"])
        corners = [[each["rotated_boxes"].tolist() for each in side] for side in (found, true)]
        assert corners == [
            [[[0, 0, 4, 0, 5, 3, 1, 3]], []],
            [[[0, 0, 4, 0, 5, 3, 1, 3]], [[8, 7, 10, 7, 10, 11, 8, 11]]],
        ]
        assert fed(make(iou_type="rotated"), found, true).compute()["map"] == metric.compute()["map"]
    assert again.detections().boxes.tolist() == [[0, 0, 4, 0, 5, 3, 1, 3]]


def test_results_without_images_that_are_turned_are_saved(tmp_path):
    results = VocMAP(iou_type="rotated").results(boxes=True)
    results.save(tmp_path / "results.npz")
    assert type(results).load(tmp_path / "results.npz").boxes_of([]) == ([], [])


def test_no_images_have_no_boxes():
    assert DetectionMAP().boxes_of(torch.zeros(0, dtype=torch.int64)) == ([], [])


@pytest.mark.parametrize(
    ("image", "kind", "message"),
    [
        (torch.tensor([99]), ValueError, "`image` must hold images that were given to `update`; got 99."),
        (torch.tensor([0.0]), TypeError, "`image` must have an integer dtype; got torch.float32."),
        ([0, None], TypeError, "`image` must hold integers or be a list of names; got a list with int."),
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_a_bad_image_is_refused(image, kind, message):
    metric = fed(DetectionMAP(), *images(3))
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        metric.boxes_of(image)

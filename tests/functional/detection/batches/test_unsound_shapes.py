"""What cannot be evaluated among masks, keypoints and rotated boxes: named, or left out and counted."""

import re
import warnings

import pytest
import torch

from reid_torchmetrics import DetectionMAP, VocMAP
from tests.functional.detection.detection_samples import is_same
from tests.functional.detection.mask_samples import compressed

NAN, INF = float("nan"), float("inf")
SHAPES = {
    "boxes": torch.tensor([[0.0, 0.0, 8.0, 8.0], [1.0, 1.0, 5.0, 5.0], [2.0, 0.0, 9.0, 7.0]]),
    "masks": torch.ones(3, 10, 10, dtype=torch.bool).tril(2),
    "keypoints": torch.arange(3 * 17 * 3).view(3, 17, 3).float(),
    "rotated_boxes": torch.tensor([[4.0, 4.0, 8.0, 8.0, 0.0], [9.0, 4.0, 5.0, 8.0, 1.0], [5.0, 4.0, 8.0, 7.0, 2.0]]),
}
KEYS = {
    "bbox": ("boxes",),
    "segm": ("masks",),
    "keypoints": ("keypoints", "boxes"),
    "rotated": ("rotated_boxes",),
    ("bbox", "segm"): ("boxes", "masks"),
}


def three(iou_type):
    """The dicts of one image with three detections and three ground truths."""
    found, true = ({key: SHAPES[key].clone() for key in KEYS[iou_type]} for _ in range(2))
    labels = torch.tensor([1, 2, 1])
    found |= {"scores": torch.tensor([0.9, 0.8, 0.7]), "labels": labels}
    true |= {"labels": labels, "area": torch.tensor([64.0, 16.0, 49.0]), "iscrowd": torch.tensor([0, 0, 1])}
    return {"preds": found, "target": true | {"image_id": 4}}


def without_row(item, row):
    return {key: value if key == "image_id" else value[torch.arange(3) != row] for key, value in item.items()}


SPOILED = [
    ("bbox", "preds", "boxes", (1, 2), NAN),
    ("segm", "preds", "scores", (1,), NAN),
    ("segm", "preds", "scores", (2,), -INF),
    ("segm", "target", "area", (0,), INF),
    ("keypoints", "preds", "keypoints", (0, 3, 1), NAN),
    ("keypoints", "target", "keypoints", (2, 16, 2), INF),
    ("keypoints", "target", "boxes", (1, 2), -9.0),  # left of where it begins
    ("keypoints", "preds", "scores", (0,), NAN),
    ("rotated", "preds", "rotated_boxes", (1, 3), -1.0),
    ("rotated", "target", "rotated_boxes", (1, 4), NAN),
    ("rotated", "target", "area", (2,), NAN),
    (("bbox", "segm"), "preds", "boxes", (2, 3), -9.0),
    (("bbox", "segm"), "target", "boxes", (0, 0), INF),
    (("bbox", "segm"), "preds", "scores", (1,), NAN),
]


@pytest.mark.parametrize(("iou_type", "side", "key", "place", "value"), SPOILED)
def test_an_object_that_cannot_be_evaluated_is_left_out_with_one_warning_or_refused(iou_type, side, key, place, value):
    spoiled, sound = three(iou_type), three(iou_type)
    spoiled[side][key][place] = value
    sound[side] = without_row(sound[side], place[0])
    metric = DetectionMAP(iou_type=iou_type, invalid="drop", extended_summary=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(2):
            metric.update([spoiled["preds"]], [spoiled["target"] | {"image_id": number}])
    (warning,) = caught
    what = "boxes" if iou_type == "bbox" else "objects"
    assert str(warning.message).startswith(f"Dropped 1 {what} that are not finite")
    assert warning.filename == __file__
    assert metric.num_dropped == 2
    expected = DetectionMAP(iou_type=iou_type, extended_summary=True)
    for number in range(2):
        expected.update([sound["preds"]], [sound["target"] | {"image_id": number}])
    assert is_same(metric.compute(), expected.compute())
    metric.reset()
    assert metric.num_dropped == 0

    strict = DetectionMAP(iou_type=iou_type, invalid="raise")
    with pytest.raises(ValueError, match=re.escape(f"`{side}[0]['{key}']` must ")):
        strict.update([spoiled["preds"]], [spoiled["target"]])
    assert not any(getattr(strict, name) for name in strict._defaults if name != "_update_key")


@pytest.mark.filterwarnings("ignore:.* are not finite or have")
def test_run_lengths_are_left_out_with_their_scores():
    image = three("segm")
    image["preds"]["scores"][1] = NAN
    listed = image["preds"] | {"masks": compressed(image["preds"]["masks"])}
    values = []
    for preds in (image["preds"], listed):
        metric = DetectionMAP(iou_type="segm", invalid="drop")
        metric.update([preds], [image["target"]])
        values.append(metric.compute())
    assert is_same(*values)
    assert metric.num_dropped == 1


@pytest.mark.usefixtures("unannotated")
def test_other_mistakes_are_refused_although_invalid_shapes_are_dropped():
    metric = DetectionMAP(iou_type="segm", invalid="drop")
    image = three("segm")
    bad = {"masks": torch.ones(3, 10, dtype=torch.bool), "scores": torch.ones(2), "labels": torch.ones(3).int()}
    with pytest.raises(ValueError, match=re.escape("`preds[0]['masks']` must have shape [N, H, W]; got [3, 10].")):
        metric.update([bad], [image["target"]])
    with pytest.raises(ValueError, match=re.escape("`preds[0]['scores']` must have shape [3], one for each box")):
        metric.update([image["preds"] | {"scores": torch.tensor([NAN, 1.0])}], [image["target"]])
    with pytest.raises(ValueError, match=re.escape("`preds[0]['scores']` must have shape [3], one for each box")):
        metric.update([image["preds"] | {"scores": torch.tensor(NAN)}], [image["target"]])
    with pytest.raises(TypeError, match=re.escape("`preds[0]` must be a dict of tensors; got int.")):
        metric.update([3], [image["target"]])


ODD = {
    "sparse": (torch.Tensor.to_sparse, "must be a dense tensor; got a sparse one."),
    "nested": (lambda value: torch.nested.nested_tensor([value] * 2), "must be a dense tensor; got a nested one."),
    "jagged": (
        lambda value: torch.nested.nested_tensor([value] * 2, layout=torch.jagged),
        "must be a dense tensor; got a nested one.",
    ),
    "meta": (lambda value: value.to("meta"), "must have values; got a meta tensor."),
}
SIDES = {"preds": ("labels", "scores"), "target": ("labels", "iscrowd", "area", "image_id")}


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("invalid", ["count", "drop", "raise"])
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("iou_type", KEYS)
def test_tensors_that_hold_no_block_of_values_are_named_wherever_they_are(iou_type, odd, invalid):
    make, message = ODD[odd]
    for side, keys in SIDES.items():
        for key in (*KEYS[iou_type], *keys):
            if (iou_type, side, key) == ("keypoints", "preds", "boxes"):  # which are not looked at
                continue
            image = three(iou_type)
            image["target"]["image_id"] = torch.tensor([4])
            image[side][key] = make(image[side][key])
            with pytest.raises((TypeError, ValueError)) as caught:
                DetectionMAP(iou_type=iou_type, invalid=invalid).update([image["preds"]], [image["target"]])
            name = re.escape(f"`{side}[0]['{key}']`")
            other_device = "must be on the device of the other tensors, cpu; got meta."
            assert re.fullmatch(f"{name} ({re.escape(message)}|{re.escape(other_device)})", str(caught.value))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("odd", ODD)
def test_objects_that_are_difficult_are_told_by_a_block_of_values(odd):
    image = three("bbox")
    image["target"]["difficult"] = ODD[odd][0](torch.tensor([0, 1, 0]))
    with pytest.raises((TypeError, ValueError), match=r"`target\[0\]\['difficult'\]` must"):
        VocMAP().update([image["preds"]], [image["target"]])

"""What `DetectionMAP.update` accepts, what it refuses in which words, and what it stores."""
# ruff: noqa: E501 - a message stays on one line, to be searched for

import gc
import re
import weakref
from collections import UserDict
from unittest import mock

import numpy as np
import pytest
import torch

from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.metrics.detection.detection_samples import box, fed, images

NAN, INF = float("nan"), float("inf")
EMPTY = torch.tensor([])


def batch(change: dict[str, object]) -> tuple[list[dict], list[dict]]:
    """Three images with one detection and one ground truth each; the last with some changes."""
    preds = [{"boxes": box(1, 1, 5, 5), "scores": torch.ones(1), "labels": torch.tensor([2])} for _ in range(3)]
    target = [{"boxes": box(1, 1, 5, 5), "labels": torch.tensor([2])} for _ in range(3)]
    for key, value in change.items():
        side, name = key.split(".")
        item = (preds if side == "preds" else target)[2]
        item[name] = value
        if value is None:
            del item[name]
    return preds, target


# change of the last of three images; the error; what it says
BAD_IMAGES = [
    ({"preds.boxes": None}, ValueError, "Expected all dicts in `preds` to contain the `boxes` key; got `preds[2]` with the keys scores, labels."),
    ({"preds.scores": None}, ValueError, "Expected all dicts in `preds` to contain the `scores` key; got `preds[2]` with the keys boxes, labels."),
    ({"preds.labels": None}, ValueError, "Expected all dicts in `preds` to contain the `labels` key; got `preds[2]` with the keys boxes, scores."),
    ({"target.boxes": None}, ValueError, "Expected all dicts in `target` to contain the `boxes` key; got `target[2]` with the keys labels."),
    ({"target.labels": None}, ValueError, "Expected all dicts in `target` to contain the `labels` key; got `target[2]` with the keys boxes."),
    ({"preds.boxes": [[1, 1, 5, 5]]}, ValueError, "Expected all boxes in `preds` to be of type Tensor; got list in `preds[2]['boxes']`."),
    ({"preds.scores": [1.0]}, ValueError, "Expected all scores in `preds` to be of type Tensor; got list in `preds[2]['scores']`."),
    ({"preds.scores": np.ones(1)}, ValueError, "Expected all scores in `preds` to be of type Tensor; got ndarray in `preds[2]['scores']`."),
    ({"target.labels": 2}, ValueError, "Expected all labels in `target` to be of type Tensor; got int in `target[2]['labels']`."),
    ({"target.iscrowd": [0]}, TypeError, "`target[2]['iscrowd']` must be a tensor; got list."),
    ({"target.area": 16.0}, TypeError, "`target[2]['area']` must be a tensor; got float."),
    ({"preds.boxes": torch.ones(4)}, ValueError, "`preds[2]['boxes']` must have shape [boxes, 4]; got [4]."),
    ({"preds.boxes": torch.ones(4, 1)}, ValueError, "`preds[2]['boxes']` must have shape [boxes, 4]; got [4, 1]."),
    ({"target.boxes": torch.ones(1, 5)}, ValueError, "`target[2]['boxes']` must have shape [boxes, 4]; got [1, 5]."),
    ({"preds.labels": torch.tensor([1, 2])}, ValueError, "`preds[2]['labels']` must have shape [1], one for each box; got [2]."),
    ({"preds.scores": torch.ones(1, 1)}, ValueError, "`preds[2]['scores']` must have shape [1], one for each box; got [1, 1]."),
    ({"preds.labels": torch.tensor(2)}, ValueError, "`preds[2]['labels']` must have shape [1], one for each box; got []."),
    ({"preds.boxes": EMPTY}, ValueError, "`preds[2]['labels']` must have shape [0], one for each box; got [1]."),
    ({"target.labels": EMPTY}, ValueError, "`target[2]['labels']` must have shape [1], one for each box; got [0]."),
    ({"target.iscrowd": torch.zeros(2)}, ValueError, "`target[2]['iscrowd']` must have shape [1], one for each box; got [2]."),
    ({"target.area": torch.zeros(0)}, ValueError, "`target[2]['area']` must have shape [1], one for each box; got [0]."),
    ({"preds.labels": torch.ones(1)}, TypeError, "`preds[2]['labels']` must have an integer dtype; got torch.float32."),
    ({"preds.boxes": box(1, 1, NAN, 5)}, ValueError, "`preds[2]['boxes']` must be finite; got [1.0, 1.0, nan, 5.0] in row 0."),
    ({"target.boxes": box(1, 1, 5, INF)}, ValueError, "`target[2]['boxes']` must be finite; got [1.0, 1.0, 5.0, inf] in row 0."),
    ({"preds.boxes": box(1, 1, 0, 5)}, ValueError, "`preds[2]['boxes']` must have a width and height of at least 0; got -1 x 4 in row 0."),
    ({"target.boxes": torch.tensor([[1, 5, 5, 1]])}, ValueError, "`target[2]['boxes']` must have a width and height of at least 0; got 4 x -4 in row 0."),
    ({"preds.scores": torch.tensor([NAN])}, ValueError, "`preds[2]['scores']` must be finite; got nan in row 0."),
    ({"preds.scores": torch.tensor([-INF])}, ValueError, "`preds[2]['scores']` must be finite; got -inf in row 0."),
    ({"target.area": torch.tensor([INF])}, ValueError, "`target[2]['area']` must be finite; got inf in row 0."),
    ({"target.area": torch.tensor([NAN])}, ValueError, "`target[2]['area']` must be finite; got nan in row 0."),
    ({"target.boxes": torch.tensor([[5, 5, 3, 6]]).byte()}, ValueError, "`target[2]['boxes']` must have a width and height of at least 0; got -2 x 1 in row 0."),
    ({"target.iscrowd": torch.tensor([NAN])}, ValueError, "`target[2]['iscrowd']` must be finite; got nan in row 0."),
    ({"preds.boxes": torch.ones(1, 4).cfloat()}, TypeError, "`preds[2]['boxes']` must have an integer dtype or a floating point dtype of 16 to 64 bits; got torch.complex64."),
    ({"preds.labels": torch.ones(1).bool()}, TypeError, "`preds[2]['labels']` must have an integer dtype; got torch.bool."),
    ({"preds.scores": torch.ones(1).int()}, TypeError, "`preds[2]['scores']` must have a floating point dtype of 16 to 64 bits; got torch.int32."),
    ({"preds.boxes": torch.ones(1, 4, device="meta")}, ValueError, "`preds[2]['boxes']` must be on the device of the other tensors, cpu; got meta."),
    ({"target.labels": torch.ones(1, device="meta").int()}, ValueError, "`target[2]['labels']` must be on the device of the other tensors, cpu; got meta."),
    ({"target.image_id": 3}, ValueError, "`target[0]['image_id']` must be given because `target` gives it elsewhere; got nothing."),
]  # fmt: skip


@pytest.mark.parametrize("method", ["update", "forward"])
@pytest.mark.parametrize(("change", "error", "message"), BAD_IMAGES)
def test_bad_images_are_named_and_nothing_of_their_batch_is_stored(method, change, error, message):
    metric = fed(DetectionMAP(), *batch({}))
    before = {name: list(getattr(metric, name)) for name in metric._defaults}
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        getattr(metric, method)(*batch(change))
    assert {name: getattr(metric, name) for name in metric._defaults} == before
    assert metric.compute()["map"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("7", TypeError, "`target[2]['image_id']` must be an int like `target[0]['image_id']`; got '7'."),
        (b"7", TypeError, "`target[2]['image_id']` must be an int, a tensor of one int or a str; got bytes."),
        (1.0, TypeError, "`target[2]['image_id']` must be an int, a tensor of one int or a str; got float."),
        (2**63, ValueError, "`target[2]['image_id']` must fit int64; got 9223372036854775808."),
        (torch.tensor([1, 2]), ValueError, "`target[2]['image_id']` must be one int; got [2]."),
        (torch.tensor(1.0), TypeError, "`target[2]['image_id']` must have an integer dtype; got torch.float32."),
    ],
)
def test_a_bad_image_id_is_named(value, error, message):
    preds, target = batch({"target.image_id": value})
    for number, item in enumerate(target[:2]):
        item["image_id"] = number
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        DetectionMAP().update(preds, target)


@pytest.mark.parametrize(
    ("preds", "target", "error", "message"),
    [
        (torch.ones(3), [], ValueError, "Expected argument `preds` to be of type Sequence; got Tensor."),
        ([], "images", ValueError, "Expected argument `target` to be of type Sequence; got str."),
        (
            [{}],
            [{}, {}],
            ValueError,
            "Expected argument `preds` and `target` to have the same length, one dict for each image; got 1 and 2.",
        ),
        ([[1]], [{}], TypeError, "`preds[0]` must be a dict of tensors; got list."),
        (batch({})[0], [{}, None, {}], TypeError, "`target[1]` must be a dict of tensors; got NoneType."),
        (
            batch({})[0],
            [{}] * 3,
            ValueError,
            "Expected all dicts in `target` to contain the `boxes` key; got `target[0]` with the keys of an empty dict.",
        ),
    ],
)
def test_a_batch_that_is_no_batch_is_refused(preds, target, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        DetectionMAP().update(preds, target)


@pytest.mark.parametrize(
    ("side", "key", "value", "message"),
    [
        ("target", "labels", torch.ones(1).bool(), "must have an integer dtype; got torch.bool."),
        ("preds", "scores", torch.ones(1).int(), "must have a floating point dtype of 16 to 64 bits; got torch.int32."),
        ("preds", "scores", torch.ones(1).cfloat(), "must have a floating point dtype of 16 to 64 bits; got torch.complex64."),
        ("preds", "boxes", torch.ones(1, 4).bool(), "must have an integer dtype or a floating point dtype of 16 to 64 bits; got torch.bool."),
        ("target", "iscrowd", torch.ones(1).cfloat(), "must have a real dtype; got torch.complex64."),
        ("target", "area", torch.ones(1).cfloat(), "must have a real dtype; got torch.complex64."),
    ],
)  # fmt: skip
def test_dtypes_that_say_nothing_are_refused(side, key, value, message):
    given = dict(zip(("preds", "target"), batch({f"{side}.{key}": value}), strict=True))
    with pytest.raises(TypeError, match=re.escape(f"`{side}[0]['{key}']` {message}")):
        DetectionMAP().update(given["preds"][2:], given["target"][2:])


@pytest.mark.parametrize("shape", [(0,), (0, 4), (1, 0)])
def test_a_bad_image_is_named_after_images_without_boxes(shape):
    empty = {"boxes": torch.empty(shape), "scores": torch.empty(shape), "labels": EMPTY, "area": torch.empty(shape)}
    preds, target = batch({"preds.scores": torch.tensor([NAN])})
    with pytest.raises(ValueError, match=r"`preds\[3\]\['scores'\]` must be finite; got nan in row 0\."):
        DetectionMAP().update([empty, *preds], [empty, *target])


def test_a_size_that_overflows_its_dtype_is_refused():
    preds, target = batch({"preds.boxes": box(-6e4, 0, 6e4, 1).half()})
    message = r"`preds\[0\]\['boxes'\]` must have a width and height that fit torch.float16; got more in row 0."
    with pytest.raises(ValueError, match=message):
        DetectionMAP().update(preds[2:], target[2:])


@pytest.mark.parametrize("box_format", ["xywh", "cxcywh"])
def test_a_negative_size_is_refused_in_every_format(box_format):
    preds, target = batch({"preds.boxes": box(9, 9, 3, -2)})
    with pytest.raises(
        ValueError, match=r"`preds\[2\]\['boxes'\]` must have a width and height .* got 3 x -2 in row 0"
    ):
        DetectionMAP(box_format=box_format).update(preds, target)


@pytest.mark.parametrize("given_first", [True, False])
def test_image_ids_are_given_in_every_batch_or_in_none(given_first):
    preds, target = images(1, 8, with_ids=True)
    without = [{key: value for key, value in item.items() if key != "image_id"} for item in target]
    metric = fed(DetectionMAP(), preds, target if given_first else without)
    for method in (metric.update, metric.forward):
        with pytest.raises(ValueError, match="`image_id` must be given in every batch or in none; got a batch with"):
            method(preds, without if given_first else target)


def test_merged_metrics_of_which_one_has_no_image_ids_are_refused():
    preds, target = images(1, 8, with_ids=True)
    without = [{key: value for key, value in item.items() if key != "image_id"} for item in target]
    metric = fed(DetectionMAP(), preds, target)
    metric.merge_state(fed(DetectionMAP(), preds, without))
    with pytest.raises(ValueError, match="`image_id` must be given for all samples or for none; got it for 8 of 16"):
        metric.compute()


def values(metric: DetectionMAP) -> list[float]:
    return [float(metric.compute()[name]) for name in ("map", "map_50", "map_75", "mar_1", "mar_100", "map_small")]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8, torch.float16, torch.float64])
def test_boxes_of_whole_pixels_may_have_any_dtype(dtype):
    preds, target = images(2)
    expected = values(fed(DetectionMAP(), preds, target))
    low = min(float(item["boxes"].min()) for item in preds + target if len(item["boxes"]))
    for item in preds + target:
        item["boxes"] = (item["boxes"] - min(low, 0)).to(dtype)
    assert values(fed(DetectionMAP(), preds, target)) == expected


def test_dtypes_may_differ_between_images_and_batches():
    preds, target = images(2)
    expected = values(fed(DetectionMAP(), preds, target))
    for number, (found, true) in enumerate(zip(preds, target, strict=True)):
        found["boxes"] = found["boxes"].to((torch.float32, torch.int64, torch.float64)[number % 3])
        found["labels"] = found["labels"].to((torch.uint8, torch.int64, torch.int16)[number % 3])
        true["labels"] = true["labels"].to((torch.int64, torch.int8)[number % 2])
        if "iscrowd" in true:
            true["iscrowd"] = true["iscrowd"].to((torch.bool, torch.float32)[number // 3 % 2])
        if "area" in true:
            true["area"] = true["area"].to((torch.float64, torch.float32)[number // 2 % 2])
    assert values(fed(DetectionMAP(), preds, target)) == expected
    assert values(fed(DetectionMAP(), preds, target, size=1)) == expected


def test_whole_numbers_beyond_float32_stay_what_they_are_beside_floats():
    preds, target = batch({"preds.boxes": torch.tensor([[2**24 + 1, 0, 2**24 + 3, 2]])})
    metric = fed(DetectionMAP(), preds, target)
    assert metric.detection_boxes[0][2].tolist() == [2**24 + 1, 0, 2**24 + 3, 2]


@pytest.mark.parametrize("boxes", [EMPTY, torch.empty(0, 4), torch.empty(1, 0), torch.empty(0, dtype=torch.int64)])
@pytest.mark.parametrize("labels", [EMPTY, torch.empty(0, dtype=torch.int32)])
def test_an_image_without_boxes_may_have_empty_tensors_of_any_kind(boxes, labels):
    empty = {"boxes": boxes, "scores": EMPTY, "labels": labels}
    full_preds, full_target = batch({})
    for preds, target in (([empty], [empty]), ([*full_preds, empty], [empty | {"iscrowd": EMPTY}, *full_target])):
        metric = fed(DetectionMAP(), preds, target)
        metric.compute()
        assert metric.detection_labels[0].dtype == metric.ground_truth_labels[0].dtype == torch.int64
        assert metric.detection_boxes[0].shape == (len(preds) - 1, 4)


def test_boxes_without_area_are_accepted():
    preds, target = batch({"preds.boxes": box(3, 3, 3, 3), "target.boxes": box(3, 3, 3, 8)})
    assert fed(DetectionMAP(), preds, target).compute()["mar_100"] == pytest.approx(2 / 3)


def test_a_batch_without_images_adds_nothing():
    metric = DetectionMAP()
    metric.update([], [])
    metric.update((), ())
    assert not any(getattr(metric, name) for name in metric._defaults)


def test_a_batch_may_be_tuples_of_mappings_with_other_keys():
    preds, target = batch({})
    odd = tuple(UserDict(item | {"masks": "none", "scores_of_all_classes": 3}) for item in preds)
    assert values(fed(DetectionMAP(), odd, tuple(map(UserDict, target)))) == values(fed(DetectionMAP(), preds, target))


def test_ids_may_be_numbers_of_any_kind():
    kinds = [int, np.int64, np.uint8, torch.tensor, lambda number: torch.tensor([[number]], dtype=torch.int16)]
    preds, target = images(3, 5)
    for number, (kind, item) in enumerate(zip(kinds, target, strict=True)):
        item["image_id"] = kind(10 + number)
    assert fed(DetectionMAP(), preds, target).image_ids[0].tolist() == [10, 11, 12, 13, 14]
    for item in target:
        item["image_id"] = int(item["image_id"]) - 2**40
    assert fed(DetectionMAP(), preds, target).image_ids[0].tolist() == [number - 2**40 for number in range(10, 15)]


@pytest.mark.parametrize("kind", [int, str])
def test_a_batch_is_one_tensor_for_each_state_that_holds_nothing_of_the_input_alive(kind):
    preds, target = images(4, 6, with_ids=True)
    target = [item | {"image_id": kind(item["image_id"])} for item in target]
    metric = fed(DetectionMAP(), preds, target, size=6)
    unused = ("image_name_bytes", "image_name_lengths") if kind is int else ("image_ids",)
    assert [getattr(metric, name) for name in unused] == [[]] * len(unused)
    for name in metric._defaults.keys() - {*unused}:
        (block,) = getattr(metric, name)
        assert block.untyped_storage().nbytes() == block.numel() * block.element_size()
    assert metric.detection_counts[0].tolist() == [len(item["labels"]) for item in preds]
    assert torch.equal(metric.detection_boxes[0], torch.cat([item["boxes"] for item in preds]))


def test_boxes_that_a_model_gave_carry_no_gradient():
    preds, target = batch({"preds.boxes": box(1, 1, 5, 5).requires_grad_()})
    metric = DetectionMAP()
    metric(preds, target)
    assert not metric.detection_boxes[0].requires_grad


def test_a_good_batch_is_not_looked_at_image_by_image():
    with mock.patch("reid_torchmetrics.metrics.detection.batch_checks.check_each_image") as look:
        fed(DetectionMAP(), *images(5, with_ids=True))
        fed(DetectionMAP(), *images(6))
    assert not look.called


def test_values_whose_difference_overflows_are_accepted():
    preds, target = batch({"preds.scores": torch.tensor([3e38]), "preds.labels": torch.tensor([7])})
    preds[0]["scores"] = torch.tensor([-3e38])
    assert fed(DetectionMAP(), preds, target).compute()["mar_100"] == pytest.approx(2 / 3)


def test_the_dtype_of_a_tensor_without_entries_changes_nothing():
    preds, target = images(7)
    half = [item | {"boxes": item["boxes"].half()} for item in preds]
    nothing = {"boxes": torch.zeros(0, 4, dtype=torch.int64), "scores": EMPTY, "labels": EMPTY}
    metric = fed(DetectionMAP(), [*half, nothing], [*target, {"boxes": EMPTY, "labels": EMPTY}], size=len(half) + 1)
    assert metric.detection_boxes[0].dtype == torch.float16


def test_an_area_that_is_too_large_for_the_dtype_of_the_boxes_is_accepted_at_once():
    preds, target = batch({"target.area": torch.tensor([70_000])})
    for item in (*preds, *target):
        item["boxes"] = item["boxes"].half()
    with mock.patch("reid_torchmetrics.metrics.detection.batch_checks.check_each_image") as look:
        DetectionMAP().update(preds, target)
    assert not look.called


def test_a_batch_that_is_refused_is_not_kept_alive():
    preds, target = batch({"preds.labels": torch.tensor([1, 2])})
    metric, boxes = DetectionMAP(), weakref.ref(preds[0]["boxes"])
    gc.disable()
    try:
        with pytest.raises(ValueError, match="labels"):
            metric.update(preds, target)
        del preds
        assert boxes() is None
    finally:
        gc.enable()

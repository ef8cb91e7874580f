"""What `DetectionMAP.update` refuses, and in which words."""

# ruff: noqa: E501 - a message stays on one line, to be searched for

import gc
import re
import weakref
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import torch

from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.functional.detection.detection_samples import batch, box, fed, images
from tests.profiles import of_each

NAN, INF = float("nan"), float("inf")
EMPTY = torch.tensor([])


# change of the last of three images; the error; what it says
BAD_IMAGES = [
    ({"preds.boxes": None}, ValueError, "Expected all dicts in `preds` to contain the `boxes` key; got `preds[2]` with the keys scores, labels."),
    ({"preds.scores": None}, ValueError, "Expected all dicts in `preds` to contain the `scores` key; got `preds[2]` with the keys boxes, labels."),
    ({"preds.labels": None}, ValueError, "Expected all dicts in `preds` to contain the `labels` key; got `preds[2]` with the keys boxes, scores."),
    ({"target.boxes": None}, ValueError, "Expected all dicts in `target` to contain the `boxes` key; got `target[2]` with the keys labels."),
    ({"target.labels": None}, ValueError, "Expected all dicts in `target` to contain the `labels` key; got `target[2]` with the keys boxes."),
    ({"preds.boxes": [[1, 1], [5, 5, 6]]}, ValueError, "Expected all boxes in `preds` to be of type Tensor; got list in `preds[2]['boxes']`."),
    ({"preds.scores": ["1.0"]}, ValueError, "Expected all scores in `preds` to be of type Tensor; got list in `preds[2]['scores']`."),
    ({"preds.scores": np.array([None])}, ValueError, "Expected all scores in `preds` to be of type Tensor; got ndarray in `preds[2]['scores']`."),
    ({"preds.labels": ["dog"]}, ValueError, "Expected all labels in `preds` to be of type Tensor; got list of names, which must be numbered, such as `data.number_identities` does, in `preds[2]['labels']`."),
    ({"target.labels": 2}, ValueError, "Expected all labels in `target` to be of type Tensor; got int in `target[2]['labels']`."),
    ({"target.iscrowd": [None]}, TypeError, "`target[2]['iscrowd']` must be a tensor; got list."),
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
    ({"preds.boxes": box(1, 1, 0, 5)}, ValueError, "`preds[2]['boxes']` must have a width and height of at least 0; got -1 x 4 in row 0, if `box_format` is right."),
    ({"target.boxes": torch.tensor([[1, 5, 5, 1]])}, ValueError, "`target[2]['boxes']` must have a width and height of at least 0; got 4 x -4 in row 0, if `box_format` is right."),
    ({"preds.scores": torch.tensor([NAN])}, ValueError, "`preds[2]['scores']` must be finite; got nan in row 0."),
    ({"preds.scores": torch.tensor([-INF])}, ValueError, "`preds[2]['scores']` must be finite; got -inf in row 0."),
    ({"target.area": torch.tensor([INF])}, ValueError, "`target[2]['area']` must be finite; got inf in row 0."),
    ({"target.area": torch.tensor([NAN])}, ValueError, "`target[2]['area']` must be finite; got nan in row 0."),
    ({"target.boxes": torch.tensor([[5, 5, 3, 6]]).byte()}, ValueError, "`target[2]['boxes']` must have a width and height of at least 0; got -2 x 1 in row 0, if `box_format` is right."),
    ({"target.iscrowd": torch.tensor([NAN])}, ValueError, "`target[2]['iscrowd']` must be finite; got nan in row 0."),
    ({"target.iscrowd": torch.tensor([-1])}, ValueError, "`target[2]['iscrowd']` must be 0 or 1; got -1 in row 0."),
    ({"target.iscrowd": torch.tensor([200]).byte()}, ValueError, "`target[2]['iscrowd']` must be 0 or 1; got 200 in row 0."),
    ({"target.iscrowd": torch.tensor([0.5])}, ValueError, "`target[2]['iscrowd']` must be 0 or 1; got 0.5 in row 0."),
    ({"preds.boxes": torch.ones(1, 4).cfloat()}, TypeError, "`preds[2]['boxes']` must have an integer dtype or a floating point dtype of 16 to 64 bits; got torch.complex64."),
    ({"preds.boxes": torch.ones(1, 4).bool()}, TypeError, "`preds[2]['boxes']` must have an integer dtype or a floating point dtype of 16 to 64 bits; got torch.bool."),
    ({"preds.scores": torch.ones(1).cfloat()}, TypeError, "`preds[2]['scores']` must have a floating point dtype of 16 to 64 bits; got torch.complex64."),
    ({"target.iscrowd": torch.ones(1).cfloat()}, TypeError, "`target[2]['iscrowd']` must have a real dtype; got torch.complex64."),
    ({"target.area": torch.ones(1).cfloat()}, TypeError, "`target[2]['area']` must have a real dtype; got torch.complex64."),
    ({"preds.labels": torch.ones(1).bool()}, TypeError, "`preds[2]['labels']` must have an integer dtype; got torch.bool."),
    ({"preds.scores": torch.ones(1).int()}, TypeError, "`preds[2]['scores']` must have a floating point dtype of 16 to 64 bits; got torch.int32."),
    ({"preds.boxes": torch.ones(1, 4, device="meta")}, ValueError, "`preds[2]['boxes']` must be on the device of the other tensors, cpu; got meta."),
    ({"target.labels": torch.ones(1, device="meta").int()}, ValueError, "`target[2]['labels']` must be on the device of the other tensors, cpu; got meta."),
    ({"target.image_id": 3}, ValueError, "`target[0]['image_id']` must be given because `target` gives it elsewhere; got nothing."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "change", "error", "message"),
    of_each(
        [
            (method, *row)
            for methods in (("update", "forward"), ("forward", "update"))
            for method, row in zip(cycle(methods), BAD_IMAGES, strict=False)
        ],
        suite=len(BAD_IMAGES),
    ),
)
@pytest.mark.slow
def test_bad_images_are_named_and_nothing_of_their_batch_is_stored(method, change, error, message):
    metric = fed(DetectionMAP(invalid="raise"), *batch({}))
    before = {name: list(getattr(metric, name)) for name in metric._defaults}
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        getattr(metric, method)(*batch(change))
    assert {name: getattr(metric, name) for name in metric._defaults} == before
    assert metric.compute()["map"] == pytest.approx(1)


OTHER_KIND = "must be an int, a whole float below 2^53, a tensor of one int, a str or a path; got"


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("7", TypeError, "must be an int like `target[0]['image_id']`; got '7'."),
        (b"7", TypeError, f"{OTHER_KIND} bytes."),
        (1.5, TypeError, f"{OTHER_KIND} 1.5."),
        (float("nan"), TypeError, f"{OTHER_KIND} nan."),
        (2.0**53, TypeError, f"{OTHER_KIND} 9007199254740992.0."),
        (Path("a"), TypeError, "must be an int like `target[0]['image_id']`; got 'a'."),
        (None, ValueError, "must be given because `target` gives it elsewhere; got nothing."),
        (2**63, ValueError, "must fit int64; got 9223372036854775808."),
        (-(2**63) - 1, ValueError, "must fit int64; got -9223372036854775809."),
        (torch.tensor([1, 2]), ValueError, "must be one int; got [2]."),
        (torch.tensor(1.0), TypeError, "must have an integer dtype; got torch.float32."),
    ],
)
def test_a_bad_image_id_is_named(value, error, message):
    preds, target = batch({"target.image_id": value})
    for number, item in enumerate(target[:2]):
        item["image_id"] = number
    with pytest.raises(error, match=rf"^`target\[2\]\['image_id'\]` {re.escape(message)}$"):
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
@pytest.mark.usefixtures("unannotated")
def test_a_batch_that_is_no_batch_is_refused(preds, target, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        DetectionMAP().update(preds, target)


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
        DetectionMAP(invalid="raise").update(preds[2:], target[2:])


@pytest.mark.parametrize("box_format", ["xywh", "cxcywh"])
def test_a_negative_size_is_refused_in_every_format(box_format):
    preds, target = batch({"preds.boxes": box(9, 9, 3, -2)})
    with pytest.raises(
        ValueError, match=r"`preds\[2\]\['boxes'\]` must have a width and height .* got 3 x -2 in row 0"
    ):
        DetectionMAP(box_format=box_format, invalid="raise").update(preds, target)


@pytest.mark.parametrize("given_first", [True, False])
def test_image_ids_are_given_in_every_batch_or_in_none(given_first):
    preds, target = images(1, 8, with_ids=True)
    without = [{key: value for key, value in item.items() if key != "image_id"} for item in target]
    metric = fed(DetectionMAP(), preds, target if given_first else without)
    for method in (metric.update, metric.forward):
        with pytest.raises(ValueError, match="`image_id` must be given in every batch or in none; got a batch with"):
            method(preds, without if given_first else target)


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


def test_a_crowd_that_is_neither_0_nor_1_is_an_error_where_boxes_are_dropped_too():
    preds, target = batch({"target.iscrowd": torch.tensor([2]), "preds.boxes": box(1, 1, NAN, 5)})
    with pytest.raises(ValueError, match=r"`target\[2\]\['iscrowd'\]` must be 0 or 1; got 2 in row 0\."):
        DetectionMAP(invalid="drop").update(preds, target)


@pytest.mark.parametrize(("found", "true"), [(4, 3), ("b", "a"), (torch.tensor(4), torch.tensor([3])), ("3", 3)])
def test_detections_with_the_id_of_another_image_are_refused(found, true):
    preds, target = (
        [item | {"image_id": value} for item in side] for side, value in zip(batch({}), (found, true), strict=True)
    )
    if isinstance(true, torch.Tensor):
        found, true = int(found), int(true)
    message = re.escape(f"`preds[0]['image_id']` must be that of `target[0]`, {true!r}; got {found!r}.")
    metric = DetectionMAP()
    with pytest.raises(ValueError, match=f"^{message}$"):
        metric.update(preds[:1], target[:1])
    assert not metric.detection_counts


@pytest.mark.parametrize(
    ("found", "true"), [(3, 3), ("a", "a"), (torch.tensor([3]), 3), (3, torch.tensor(3)), (np.int64(3), 3)]
)
def test_detections_may_have_the_id_of_their_image(found, true):
    preds, target = (
        [item | {"image_id": value} for item in side] for side, value in zip(batch({}), (found, true), strict=True)
    )
    metric = DetectionMAP()
    metric.update(preds[:1], target[:1])
    assert metric.compute()["map"] == 1

"""What `DetectionMAP.update` accepts, and how it stores it."""

from collections import UserDict

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.detection.batches import ImageColumns
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.functional.detection.detection_samples import batch, box, fed, images
from tests.paths import path

EMPTY = torch.tensor([])


def values(metric: DetectionMAP) -> list[float]:
    return [float(metric.compute()[name]) for name in ("map", "map_50", "map_75", "mar_1", "mar_100", "map_small")]


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
    assert not any(getattr(metric, name) for name in metric._defaults if name != "_update_key")


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
    unused = ["detection_areas", *(("image_name_bytes", "image_name_lengths") if kind is int else ("image_ids",))]
    assert [getattr(metric, name) for name in unused] == [[]] * len(unused)
    for name in metric._defaults.keys() - {*unused}:
        (block,) = getattr(metric, name)
        assert block.untyped_storage().nbytes() == block.numel() * block.element_size()
    assert metric.detection_counts[0].tolist() == [len(item["labels"]) for item in preds]
    assert torch.equal(metric.detection_boxes[0], torch.cat([item["boxes"] for item in preds]))


@pytest.mark.parametrize(("area", "size"), [(None, "small"), (0, "small"), (-1, "small"), (5000, "medium")])
def test_a_mask_without_an_area_has_that_of_its_pixels(area, size):
    """A triangle of 820 pixels, whose box has 1,600."""
    mask, label = torch.ones(1, 40, 40, dtype=torch.bool).tril(), torch.tensor([2])
    target = {"masks": mask, "labels": label} | ({} if area is None else {"area": torch.tensor([area])})
    metric = DetectionMAP(iou_type="segm")
    values = fed(metric, [{"masks": mask, "scores": torch.ones(1), "labels": label}], [target]).compute()
    assert {each for each in ("small", "medium", "large") if values[f"map_{each}"] == 1} == {size}


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [([-(2**31), 2**31 - 1], torch.int32), ([0, 2**31], torch.int64), ([-(2**31) - 1, 0], torch.int64)],
)
def test_many_labels_take_half_the_memory_if_they_fit(labels, dtype, monkeypatch):
    monkeypatch.setattr(*path("many_labels"), 2)
    boxes, labels = torch.zeros(2, 4), torch.tensor(labels)
    metric = fed(DetectionMAP(), [{"boxes": boxes, "scores": torch.ones(2), "labels": labels}], [batch({})[1][0]])
    assert metric.detection_labels[0].dtype == dtype
    assert metric.detection_labels[0].tolist() == labels.tolist()


def test_boxes_of_two_dtypes_are_each_converted_in_their_own():
    # float16 rounds the width from -1 to 2048 to 2048, twice that of the ground truth; float32 keeps 2049: too wide.
    label, metric = torch.zeros(1, dtype=torch.int64), DetectionMAP(iou_thresholds=[0.5])
    for dtype, score in ((torch.float16, 0.9), (torch.float32, 0.8)):
        found = {"boxes": box(-1, 0, 2048, 1).to(dtype), "scores": torch.tensor([score]), "labels": label}
        metric.update([found], [{"boxes": box(-1, 0, 1023, 1).to(dtype), "labels": label}])
    assert float(metric.compute()["map"]) == pytest.approx(51 / 101)  # precision 1 at the recalls 0, .01, ..., .5


def test_boxes_of_whole_numbers_are_converted_in_float64():
    label, metric = torch.zeros(1, dtype=torch.int64), DetectionMAP(box_format="cxcywh")
    center = torch.tensor([[2**24 + 1, 1, 2, 2]])  # which float32 does not have
    found = {"boxes": center, "scores": torch.ones(1), "labels": label}
    metric.update([found], [{"boxes": center.double(), "labels": label}])
    assert float(metric.compute()["map"]) == 1


def test_images_of_columns_in_a_row_are_columns_again():
    columns = ImageColumns(torch.tensor([1, 0, 2]), {"labels": torch.arange(3)}, {"image_id": [7, 8, None]})
    some, odd = columns[1:], columns[::2]
    assert isinstance(some, ImageColumns)
    assert [item["labels"].tolist() for item in some] == [[], [1, 2]]
    assert [(item["labels"].tolist(), item.get("image_id")) for item in odd] == [([0], 7), ([1, 2], None)]

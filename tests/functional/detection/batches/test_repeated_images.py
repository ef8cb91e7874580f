"""Images with the same `image_id`: repetitions count once, and other images are an error."""

import itertools
import re

import pytest
import torch

from reid_torchmetrics.functional.detection.batches.images import fingerprints
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.functional.detection.detection_samples import box, fed, images, is_same

TWO = torch.cat([box(0, 0, 10, 10), box(20, 20, 50, 60)])
TRUE = {
    "boxes": TWO,
    "labels": torch.tensor([1, 2]),
    "iscrowd": torch.tensor([0, 1]),
    "area": torch.tensor([90.0, 0.0]),
    "image_id": 7,
}
FOUND = {"boxes": TWO, "scores": torch.tensor([0.9, 0.8]), "labels": torch.tensor([1, 2])}


def message(number: int, more: int = 0) -> str:
    text = f"`image_id` must be the same only for repetitions of an image; got {number} for images whose ground truths"
    return re.escape(f"{text} differ{f', and {more} more such numbers' if more else ''}.")


def test_ids_that_are_counted_in_each_batch_are_refused():
    preds, target = images(22, 12)
    target = [item | {"image_id": place % 4} for place, item in enumerate(target)]
    metric = fed(DetectionMAP(), preds, target, size=4)
    with pytest.raises(ValueError, match=f"^{message(0, 3)}$"):
        metric.compute()
    with pytest.raises(ValueError, match="`image_id`"):
        metric.results()
    metric.reset()
    assert fed(metric, preds[:4], target[:4]).compute()["map"] >= 0


CHANGES = {
    "a box": {"boxes": TWO + torch.tensor([[0, 0, 0, 0], [0, 0, 0, 1e-5]])},
    "a label": {"labels": torch.tensor([1, 3])},
    "labels in another order": {"labels": torch.tensor([2, 1])},
    "a crowd": {"iscrowd": torch.tensor([0, 0])},
    "an area": {"area": torch.tensor([91.0, 0.0])},
    "no boxes": {
        "boxes": torch.empty(0, 4),
        "labels": torch.tensor([]),
        "iscrowd": torch.tensor([]),
        "area": torch.tensor([]),
    },
    "a box less": {name: TRUE[name][:1] for name in ("boxes", "labels", "iscrowd", "area")},
    "a box twice": {name: TRUE[name][[0, 1, 1]] for name in ("boxes", "labels", "iscrowd", "area")},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("size", [1, 2])
def test_one_difference_of_the_ground_truths_is_enough(change, size):
    metric = fed(DetectionMAP(), [FOUND, FOUND], [TRUE, TRUE | CHANGES[change]], size=size)
    with pytest.raises(ValueError, match=f"^{message(7)}$"):
        metric.compute()


SAME = {
    "boxes in float64": {"boxes": TWO.double()},
    "boxes of whole pixels": {"boxes": TWO.long()},
    "labels in uint8": {"labels": TRUE["labels"].byte()},
    "crowds as bools": {"iscrowd": TRUE["iscrowd"] > 0},
    "an area below 0": {"area": torch.tensor([90.0, -1.0])},
    "an edge at -0.0": {"boxes": TWO * torch.tensor([[-1, 1, 1, 1], [1, 1, 1, 1]])},
    "boxes in another order": {name: TRUE[name].flip(0) for name in ("boxes", "labels", "iscrowd", "area")},
}


@pytest.mark.parametrize("same", SAME)
@pytest.mark.parametrize("size", [1, 2])
def test_the_same_ground_truths_in_another_form_are_a_repetition(same, size):
    value = fed(DetectionMAP(), [FOUND], [TRUE]).compute()
    given = [TRUE, TRUE | SAME[same]]
    for repeated in (given, given[::-1]):
        assert is_same(fed(DetectionMAP(), [FOUND, FOUND], repeated, size=size).compute(), value)


def test_a_size_that_is_rounded_in_float32_but_not_in_float64_is_the_same():
    boxes = torch.tensor([[0.1, 0.1, 30.7, 0.3]])
    assert float(boxes[0, 2] - boxes[0, 0]) != float(boxes.double()[0, 2] - boxes.double()[0, 0])
    target = [
        {"boxes": given, "labels": torch.tensor([1]), "image_id": number}
        for given, number in ((boxes, 3), (boxes, 3), (boxes.double(), 4))
    ]
    preds = [{"boxes": boxes, "scores": torch.ones(1), "labels": torch.tensor([1])}] * 3
    metric = DetectionMAP()
    metric.update(preds[:1], target[:1])
    metric.update(preds[1:], target[1:])  # the second image is in one batch with float64
    assert metric.compute()["map"] == pytest.approx(1)


def test_detections_may_differ_as_they_do_in_another_batch():
    again = FOUND | {"boxes": TWO + 1e-4, "scores": FOUND["scores"] + 1e-6}
    value = fed(DetectionMAP(), [FOUND], [TRUE]).compute()
    assert is_same(fed(DetectionMAP(), [FOUND, again], [TRUE, TRUE]).compute(), value)


@pytest.mark.needs("diagnosis")
def test_a_warning_of_repeated_images_counts_those_that_differ_and_all_that_do_not_count():
    target = [TRUE | {"image_id": number} for number in range(5)]
    metric = fed(DetectionMAP(), [FOUND] * 5, target)
    metric.update([FOUND] * 2 + [FOUND | {"boxes": TWO + 300}] * 3, target)  # two of five came again as they were
    with pytest.warns(UserWarning, match="^Images that came again .*, 3 of 5, .*, and none of the 5 counts: "):
        metric.compute()


def test_images_that_a_sampler_repeats_have_no_warning_about_other_detections():
    """Rounding moves boxes and scores, and takes one weak detection of one image."""
    preds, target = images(3, 20, with_ids=True)
    again = [
        {"boxes": item["boxes"] * 1.003, "scores": item["scores"] * 0.997, "labels": item["labels"]} for item in preds
    ]
    again[0] = {name: values[:-1] for name, values in again[0].items()}
    fed(DetectionMAP(), preds + again, target + target).compute()


def test_merged_images_of_other_data_sets_are_refused():
    metric, other = fed(DetectionMAP(), [FOUND], [TRUE]), fed(DetectionMAP(), [FOUND], [TRUE | CHANGES["a label"]])
    metric.merge_state(other)
    with pytest.raises(ValueError, match=f"^{message(7)}$"):
        metric.compute()


def test_files_of_images_that_share_an_id_are_not_written(tmp_path):
    metric = fed(DetectionMAP(), [FOUND, FOUND], [TRUE, TRUE | CHANGES["a box"]])
    with pytest.raises(ValueError, match=f"^{message(7)}$"):
        metric.tm_to_coco(str(tmp_path / "files"))
    assert not [*tmp_path.iterdir()]


def test_fingerprints_of_small_whole_numbers_all_differ():
    """Of one box [x, y, x + w, y + h] with a label: 5^5 images."""
    rows = torch.tensor([*itertools.product(range(5), repeat=5)])
    corners = torch.cat([rows[:, :2], rows[:, :2] + rows[:, 2:4]], 1).float()
    target = [{"boxes": box[None], "labels": label[None]} for box, label in zip(corners, rows[:, 4], strict=True)]
    nothing = dict.fromkeys(("boxes", "scores", "labels"), torch.tensor([]))
    metric = fed(DetectionMAP(), [nothing] * len(target), target, size=1000)
    found = fingerprints({name: getattr(metric, name) for name in metric._defaults}, torch.device("cpu"))
    assert len(found.unique()) == 5**5
    assert not bool((found == 0).any())
    nothing = {name: [] for name in metric._defaults}
    assert fingerprints(nothing, torch.device("cpu")).shape == (0,)

"""Images whose `image_id` is a name: they are what images with ids in the order of the names are."""

import re
from pathlib import Path, PureWindowsPath

import numpy as np
import pytest
import torch
from torch import Tensor

from reid_torchmetrics import DetectionMAP
from tests.functional.detection.detection_samples import box, fed, images, is_same, named
from tests.metrics.held_samples import check_held_samples

NAMES = (
    *("", "a", "ab", "a b", "b/a.jpg", "b/á.jpg", "B", "10", "9", "\0", "a\0", "日本", "\ud7ff", "\ue000"),
    *("\udcff", "\uffff", "\U00010000", "😀.png"),
)
"""empty, prefixes, folders, what sorts otherwise in UTF-16, and a byte of a file's name that is no text"""
PREDS, TARGET = images(21, len(NAMES), num_levels=3, with_ids=True)
TARGET[0]["neg_category_ids"] = [3]  # LVIS knows it
NAMED = named(TARGET, NAMES)
OPTIONS = {"class_metrics": True, "extended_summary": True, "average": "micro"}


def metric(first: int = 0, last: int = len(NAMES), target=NAMED) -> DetectionMAP:
    return fed(DetectionMAP(**OPTIONS), PREDS[first:last], target[first:last])


def without_names(value: dict) -> dict:
    """The value with the ids of `TARGET` in the keys of `ious`."""
    numbers = dict(zip(sorted(NAMES), sorted(item["image_id"] for item in TARGET), strict=True))
    return value | {"ious": {(numbers[name], label): each for (name, label), each in value["ious"].items()}}


VALUE = metric().compute()


def test_ids_are_taken_to_the_ends_of_int64_and_not_beyond():
    for number in (-(2**63), 2**63 - 1):
        with_number = fed(DetectionMAP(), PREDS[:5], [*TARGET[:4], TARGET[4] | {"image_id": number}])
        assert with_number.compute()["map"] >= 0
    for number in (-(2**63) - 1, 2**63):
        message = re.escape(f"`target[0]['image_id']` must fit int64; got {number}.")
        with pytest.raises(ValueError, match=f"^{message}$"):
            fed(DetectionMAP(), PREDS[:1], [TARGET[0] | {"image_id": number}])


def test_values_are_those_of_ids_in_the_order_of_the_names():
    assert is_same(without_names(VALUE), metric(target=TARGET).compute())
    other = fed(DetectionMAP(**OPTIONS), PREDS, named(TARGET, NAMES)[::-1])  # other names of the images
    assert not is_same(without_names(other.compute()), without_names(VALUE))


def tensors(value: object) -> dict:
    return {
        name: each for name, each in vars(value).items() if isinstance(each, Tensor) and name not in ("image", "images")
    }


def test_results_number_the_images_by_their_names():
    ours, plain = (fed(DetectionMAP(), PREDS, target).results(boxes=True) for target in (NAMED, TARGET))
    assert ours.image_names == tuple(sorted(NAMES))
    assert (ours.images.tolist(), ours.image_ids) == ([*range(len(NAMES))], sorted(NAMES))
    assert (plain.image_names, plain.image_ids) == (None, plain.images.tolist())
    assert ours.to_dict() == plain.to_dict()
    pairs = [(ours, plain), *((each(ours), each(plain)) for each in (type(ours).detections, type(ours).image_errors))]
    for named_one, plain_one in pairs:
        assert is_same(tensors(named_one), tensors(plain_one))
    for each in (ours.detections(), ours.worst_images(5)):
        assert each.image_ids == [sorted(NAMES)[number] for number in each.image.tolist()]
    assert plain.worst_images(5).image_ids == plain.worst_images(5).image.tolist()


def test_boxes_are_asked_for_by_names_or_by_their_numbers():
    held = metric()
    results = fed(DetectionMAP(), PREDS, NAMED).results(boxes=True)
    for chosen in (["b/á.jpg", "", "😀.png"], ("ab",), []):
        places = [[item["image_id"] for item in NAMED].index(name) for name in chosen]
        numbers = torch.tensor([sorted(NAMES).index(name) for name in chosen], dtype=torch.int64)
        for boxes_of in (held.boxes_of, results.boxes_of):
            for image in (chosen, numbers):
                found, true = boxes_of(image)
                assert [each["scores"].tolist() for each in found] == [
                    PREDS[place]["scores"].tolist() for place in places
                ]
                assert [each["boxes"].tolist() for each in true] == [NAMED[place]["boxes"].tolist() for place in places]
                assert [each["image_id"] for each in true] == [*chosen]
    assert is_same(held.compute(), VALUE)


@pytest.mark.parametrize(
    ("image", "kind", "message"),
    [
        (["a", "aa"], ValueError, "`image` must hold images that were given to `update`; got 'aa'."),
        (torch.tensor([0, 99]), ValueError, "`image` must hold images that were given to `update`; got 99."),
        ("a", TypeError, "`image` must hold integers or be a list of names; got str."),
        (["a", 1], TypeError, "`image` must hold integers or be a list of names; got a list with int."),
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_images_that_cannot_be_asked_for_are_refused(image, kind, message):
    for boxes_of in (metric().boxes_of, fed(DetectionMAP(), PREDS, NAMED).results(boxes=True).boxes_of):
        with pytest.raises(kind, match=f"^{re.escape(message)}$"):
            boxes_of(image)


def test_copies_checkpoints_and_steps_keep_the_names():
    given = [{"preds": PREDS[part], "target": NAMED[part]} for part in (slice(8), slice(8, None))]
    check_held_samples(lambda: DetectionMAP(**OPTIONS), given, is_same)
    held = metric(0, 8)
    held.merge_state(metric(6))  # two images are in both
    assert is_same(held.compute(), VALUE)
    held.reset()
    assert is_same(fed(held, PREDS, TARGET).compute(), metric(target=TARGET).compute())  # ids are no mixture then


def test_casts_and_moves_change_no_name():
    held = metric()
    held.set_dtype(torch.float16)
    assert [block.dtype for block in (held.image_name_bytes[0], held.image_name_lengths[0])] == [
        torch.uint8,
        torch.int64,
    ]
    assert held.results().image_names == tuple(sorted(NAMES))
    assert is_same(fed(DetectionMAP(compute_on_cpu=True, **OPTIONS), PREDS, NAMED).compute(), VALUE)


def test_a_name_that_comes_again_counts_once_and_other_ground_truths_are_an_error():
    again = metric()
    fed(again, PREDS[2:7], NAMED[2:7])
    assert is_same(again.compute(), VALUE)
    place = next(place for place, item in enumerate(NAMED) if len(item["labels"]) and "a" in item["image_id"])
    name = NAMED[place]["image_id"]
    again.update(PREDS[place : place + 1], [NAMED[place] | {"labels": NAMED[place]["labels"] + 1}])
    said = f"`image_id` must be the same only for repetitions of an image; got {name!r} for images whose ground truths"
    with pytest.raises(ValueError, match=f"^{re.escape(said)} differ\\.$"):
        again.compute()
    fed(again, PREDS, [item | {"boxes": item["boxes"] + 1} for item in NAMED])
    with pytest.raises(ValueError, match=r" differ, and \d+ more such names\.$"):
        again.results()


FOUND = {"boxes": box(0, 0, 5, 5), "scores": torch.ones(1), "labels": torch.ones(1, dtype=torch.int64)}
ONE = FOUND["labels"]
TRUE = {"boxes": FOUND["boxes"], "labels": FOUND["labels"]}


def of(*ids: object) -> tuple[list[dict], list[dict]]:
    """A batch of images with such ids."""
    return [FOUND] * len(ids), [TRUE | {"image_id": each} for each in ids]


def test_the_first_name_comes_first_where_scores_are_equal():
    nothing = {"boxes": torch.empty(0, 4), "labels": torch.tensor([])}
    metrics = [DetectionMAP(metric="map") for _ in range(4)]  # which are there together, with the same boxes
    for held, names in zip(metrics, (("a", "b"), ("b", "a"), ("9", "10"), ("é", "ê")), strict=True):
        held.update([FOUND, FOUND], [TRUE | {"image_id": names[0]}, nothing | {"image_id": names[1]}])
    assert [float(held.compute()) for held in metrics] == [1, 0.5, 0.5, 1]  # right first, or wrong first


@pytest.mark.parametrize(
    ("ids", "kind", "message"),
    [
        (("a", 3), TypeError, "`target[1]['image_id']` must be a str like `target[0]['image_id']`; got 3."),
        ((3, 4, "b"), TypeError, "`target[2]['image_id']` must be an int like `target[0]['image_id']`; got 'b'."),
        (("a", ONE), TypeError, "`target[1]['image_id']` must be a str like `target[0]['image_id']`; got tensor([1])."),
        (("a", None), ValueError, "`target[1]['image_id']` must be given because `target` gives it elsewhere"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["update", "forward"])
def test_names_and_numbers_in_one_batch_are_refused(ids, kind, message, method):
    held = fed(DetectionMAP(metric="map"), *of("z"))
    with pytest.raises(kind, match=f"^{re.escape(message)}"):
        getattr(held, method)(*of(*ids))
    assert held.compute() == 1


def values_of(*ids: object) -> dict[str, object]:
    """By the metric, of images in two batches with their ids in the detections, too."""
    held = DetectionMAP(extended_summary=True)
    for begin in (0, 2):
        _, target = of(*ids[begin : begin + 2])
        held.update([FOUND | {"image_id": each["image_id"]} for each in target], target)
    return held.compute()


@pytest.mark.parametrize(
    ("ids", "same"),
    [
        ((7.0, np.float64(3), 5, -2.0), (7, 3, 5, -2)),
        ((2.0**53 - 1, 0.0, 1, 2), (2**53 - 1, 0, 1, 2)),
        ((Path("b", "2.png"), "a.png", PureWindowsPath("a\\c"), "b"), ("b/2.png", "a.png", "a\\c", "b")),
        ((Path("a"), "a", "b", Path("b")), ("a", "a", "b", "b")),
    ],
)
def test_whole_floats_are_ints_and_paths_are_names(ids, same):
    assert is_same(values_of(*ids), values_of(*same))


@pytest.mark.parametrize(("first", "then"), [("str", "int"), ("int", "str")])
def test_names_and_numbers_in_two_batches_are_refused(first, then):
    batches = {"str": of("a"), "int": of(3)}
    held = fed(DetectionMAP(), *batches[first])
    said = f"`image_id` must be an int in every batch or a str in every batch; got {then} after batches of {first}."
    for method in (held.update, held.forward):
        with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
            method(*batches[then])


def test_merged_names_and_numbers_are_refused():
    for other, said in (
        (of(1, 2), "`image_id` must be an int for all samples or a str for all; got int for 2 and str for 1."),
        (([FOUND], [TRUE]), "`image_id` must be given for all samples or for none; got it for 1 of 2."),
    ):
        held = fed(DetectionMAP(), *of("a"))
        held.merge_state(fed(DetectionMAP(), *other))
        for method in (held.compute, held.results, held.tm_to_coco):
            with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
                method()

"""A likely mistake in the images of another process alone is told, once, by the first one."""

import warnings

import torch

from reid_torchmetrics import AdviceWarning, DetectionMAP
from tests.profiles import each_row

NUM_IMAGES = 12


def images_of_a_good_detector():
    """Images with boxes of one class, as dicts of `preds` and of `target`."""
    generator = torch.Generator().manual_seed(0)
    preds, target = [], []
    for _ in range(NUM_IMAGES):
        corner = 300 * torch.rand(2, 2, generator=generator)
        size = 20 + 60 * torch.rand(2, 2, generator=generator)
        item = {"boxes": torch.cat([corner, corner + size], 1), "labels": torch.tensor([1, 1])}
        preds.append(item | {"scores": torch.tensor([0.9, 0.8])})
        target.append(dict(item))
    return preds, target


def with_a_key_of_others(metric, preds, target):
    metric.update(preds, [item | {"difficult": torch.tensor([1, 0])} for item in target])


def evaluated_twice(metric, preds, target):
    """Give the same images again after an evaluation."""
    metric.update(preds, target)
    metric.compute()
    metric.update(preds, target)


def with_other_detections(metric, preds, target):
    named = [item | {"image_id": 100 + place} for place, item in enumerate(target)]
    metric.update(preds, named)
    metric.update([item | {"boxes": item["boxes"] + 200} for item in preds], named)


def rounded(metric, preds, target):
    large = [[item | {"boxes": 7 * item["boxes"]} for item in part] for part in (preds, target)]
    metric.update([item | {"boxes": item["boxes"].bfloat16()} for item in large[0]], large[1])


MISTAKES = {
    "unused_difficult": (with_a_key_of_others, "`difficult` marks"),
    "rounded": (rounded, "`boxes` of `preds` were rounded to bfloat16"),
    "forgotten_reset": (evaluated_twice, "The last 12 images have the labels"),
    "other_detections": (with_other_detections, "Images that came again on their process, 12 of 12"),
}
"""a function that gives a process images with the mistake, and the begin of the warning"""


def told_with_mistake(process, size, name):
    """The texts that a process tells if the last one is given the mistake, and the others images without one."""
    give, _ = MISTAKES[name]
    preds, target = images_of_a_good_detector()
    metric = DetectionMAP(metric="map")
    if name == "other_detections":
        target = [item | {"image_id": place} for place, item in enumerate(target)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if process == size - 1:
            give(metric, preds, target)
        else:
            for item in preds:  # otherwise the processes have the same images
                item["labels"] = item["labels"] + 1
            for item in target:
                item["labels"] = item["labels"] + 1
            metric.update(preds[:5], target[:5])
            if name == "forgotten_reset":
                metric.compute()
            metric.update(preds[5:], target[5:])
        for _ in range(2):
            metric.compute()
            metric._computed = None
    return [str(each.message) for each in caught if each.category is AdviceWarning]


@each_row("name", MISTAKES)
def test_a_mistake_on_another_process_is_told_once_by_the_first_one(processes, name):
    first, second = processes.run(2, told_with_mistake, name)
    (text,) = first
    assert text.startswith(MISTAKES[name][1])
    assert second == []


def told_without_images(process, size):
    preds, target = images_of_a_good_detector()
    metric = DetectionMAP(metric="map")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if process:
            metric.update([item | {"labels": item["labels"] + 1} for item in preds], target)
        metric.compute()
    return [str(each.message) for each in caught if each.category is AdviceWarning]


def test_a_first_process_without_images_tells_of_the_others(processes):
    first, second = processes.run(2, told_without_images)
    assert [text[:30] for text in first] == ["Only 0 of 24 ground truths tha"]
    assert second == []

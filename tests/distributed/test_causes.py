"""A likely mistake in what one process alone is given is told once, by the first one."""

import warnings

import pytest
import torch

from reid_torchmetrics import AdviceWarning, DetectionMAP, ReIDMeanAP
from tests.profiles import each_row

EMBEDDINGS = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
IDENTITIES = torch.arange(40) % 5


def mix_roles(metric, process, *, is_wrong):
    """Leave the roles out in the second batch."""
    own, roles = slice(process, None, 2), torch.arange(20) % 2 == 0
    metric.update(EMBEDDINGS[own], IDENTITIES[own], is_query=roles)
    metric.update(-EMBEDDINGS[own], IDENTITIES[own], is_query=None if is_wrong else roles)


def forget_reset(metric, process, *, is_wrong):
    """Give the samples of a second time."""
    own = slice(process, None, 2)
    metric.update(EMBEDDINGS[own], IDENTITIES[own])
    metric.compute()
    metric.update(EMBEDDINGS[own] + 1, IDENTITIES[own] if is_wrong else (IDENTITIES[own] + 1) % 5)


def images_of(process):
    """Images of a good detector, with boxes of one class, another one on each process."""
    generator = torch.Generator().manual_seed(0)
    preds, target = [], []
    for _ in range(12):
        corner, size = 300 * torch.rand(2, 2, generator=generator), 20 + 60 * torch.rand(2, 2, generator=generator)
        item = {"boxes": torch.cat([corner, corner + size], 1), "labels": torch.full((2,), process)}
        preds.append(item | {"scores": torch.tensor([0.9, 0.8])})
        target.append(dict(item))
    return preds, target


def give_flags(metric, process, *, is_wrong):
    preds, target = images_of(process)
    metric.update(preds, [item | {"difficult": torch.tensor([1, 0])} if is_wrong else item for item in target])


def give_images_again(metric, process, *, is_wrong):
    preds, target = images_of(process)
    first, second = (slice(12), slice(12)) if is_wrong else (slice(5), slice(5, 12))
    metric.update(preds[first], target[first])
    metric.compute()
    metric.update(preds[second], target[second])


def give_other_detections(metric, process, *, is_wrong):
    """Give images again under their ids, with other detections."""
    preds, target = images_of(process)
    named = [item | {"image_id": 100 * process + place} for place, item in enumerate(target)]
    metric.update(preds, named)
    if is_wrong:
        metric.update([item | {"boxes": item["boxes"] + 200} for item in preds], named)


def give_rounded_boxes(metric, process, *, is_wrong):
    preds, target = ([item | {"boxes": 7 * item["boxes"]} for item in side] for side in images_of(process))
    metric.update([item | {"boxes": item["boxes"].bfloat16()} for item in preds] if is_wrong else preds, target)


def give_other_labels(metric, process, *, is_wrong):
    """Give images to this process alone."""
    preds, target = images_of(process)
    if is_wrong:
        metric.update([item | {"labels": item["labels"] + 1} for item in preds], target)


MISTAKES = {
    "mixed roles": (ReIDMeanAP, mix_roles, "and some without"),
    "forgotten reset": (ReIDMeanAP, forget_reset, "`reset` forgotten"),
    "unused flags": (DetectionMAP, give_flags, "`difficult` marks"),
    "images again": (DetectionMAP, give_images_again, "The last 12 images have the labels"),
    "other detections": (
        DetectionMAP,
        give_other_detections,
        "Images that came again on their process, 12 of 12",
    ),
    "rounded boxes": (DetectionMAP, give_rounded_boxes, "`boxes` of `preds` were rounded to bfloat16"),
    "labels on one process": (DetectionMAP, give_other_labels, "Only 0 of 24 ground truths that are found"),
}
"""a metric, what gives it the samples or images of a process with or without the mistake, and a part of the warning"""


def told(process, size, name, wrong):
    make, give, _ = MISTAKES[name]
    metric = make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        give(metric, process, is_wrong=process == wrong)
        for _ in range(2):
            metric.compute()
            metric._computed = None
    return [str(warning.message) for warning in caught if warning.category is AdviceWarning]


@each_row("name", MISTAKES)
@pytest.mark.parametrize("wrong", [0, 1])
def test_a_mistake_on_one_process_is_told_once_by_the_first(processes, name, wrong):
    first, second = processes.run(2, told, name, wrong)
    assert [MISTAKES[name][2] in text for text in first] == [True]
    assert second == []

"""Masks of floats, as networks give them: the error says how to make them bool, wherever masks are taken."""

import re

import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics, LvisMAP
from reid_torchmetrics.functional.detection.inputs import checked_masks

SOFT = torch.tensor([[[0.9, 0.1], [0.6, 0.0]]])
"""probabilities [1, 2, 2]"""
HARD = SOFT > 0.5
LABELS, SCORES = torch.tensor([1]), torch.tensor([0.5])
LISTS = {"neg_category_ids": [], "not_exhaustive_category_ids": []}


def updated(make, masks, true_masks) -> None:
    found = {"masks": masks, "scores": SCORES, "labels": LABELS, "boxes": torch.zeros(1, 4)}
    true = {"masks": true_masks, "labels": LABELS, "image_id": 1, "boxes": torch.zeros(1, 4)}
    metric = make()
    if isinstance(metric, LvisMAP):
        true |= LISTS
    metric.update([found], [true])


def metric_takes(make):
    return {"preds": lambda masks: updated(make, masks, HARD), "target": lambda masks: updated(make, HARD, masks)}


DOORS = {
    # The check of `mask_iou`: its annotations would be checked before.
    "checked_masks": {"masks": lambda masks: checked_masks("masks", torch.as_tensor(masks))},
    "DetectionMAP": metric_takes(lambda: DetectionMAP(iou_type="segm")),
    "DetectionMAP of boxes and masks": metric_takes(lambda: DetectionMAP(iou_type=("bbox", "segm"))),
    "DetectionMetrics": metric_takes(lambda: DetectionMetrics(iou_type="segm")),
    "LvisMAP": metric_takes(lambda: LvisMAP(iou_type="segm")),
}
PLACES = [(door, side) for door, sides in DOORS.items() for side in sides]
FORMS = {
    "float32 [N, 1, H, W]": (SOFT[:, None], "masks[:, 0] > 0.5"),
    "float32 [N, H, W]": (SOFT, "masks > 0.5"),
    "float16": (SOFT[:, None].half(), "masks[:, 0] > 0.5"),
    "bfloat16": (SOFT.bfloat16(), "masks > 0.5"),
    "float64": (SOFT.double(), "masks > 0.5"),
    "NumPy": (SOFT[:, None].numpy(), "masks[:, 0] > 0.5"),
    "floats of 0 and 1": (HARD.float(), "masks > 0.5"),
    "bool [N, 1, H, W]": (HARD[:, None], "masks[:, 0]"),
    "integers [N, 1, H, W]": (HARD[:, None].byte(), "masks[:, 0]"),
}


@pytest.mark.parametrize(
    ("door", "side", "form"),
    [
        *(("checked_masks", "masks", form) for form in FORMS),
        *((door, side, form) for door, side in PLACES for form in ("float32 [N, H, W]", "bool [N, 1, H, W]")),
    ],
)
def test_masks_that_are_not_bool_or_have_a_channel_are_refused_with_the_remedy(door, side, form):
    masks, remedy = FORMS[form]
    with pytest.raises((TypeError, ValueError), match=re.escape(f"give `{remedy}`")):
        DOORS[door][side](masks)


@pytest.mark.parametrize(("door", "side"), PLACES)
def test_the_remedy_is_accepted(door, side):
    DOORS[door][side](SOFT[:, None][:, 0] > 0.5)


def test_masks_of_complex_numbers_have_no_remedy():
    with pytest.raises(TypeError, match=r"must have dtype bool or an integer dtype; got torch.complex64\.$"):
        checked_masks("masks", HARD.to(torch.complex64))

"""Curves of detections that are already judged: which are right and which do not count, at each threshold."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional.detection.curves.precision_recall import Curves


@dataclass(frozen=True)
class TruePositiveFlags:
    """Whether detections are right, for some of those of an order; all others are false positives."""

    places: Int[Tensor, " flagged"]
    """ascending"""
    is_true_positive: Bool[Tensor, "thresholds flagged"]
    is_ignored: Bool[Tensor, "thresholds flagged"] | None = None


def curves_from_flags(
    flags: TruePositiveFlags,
    class_index: Int[Tensor, " detections"],
    num_positives: Int[Tensor, " classes"],
) -> Curves:
    """Precision-recall curves of shape [thresholds, classes] of detections by class and descending score."""
    # Detections of the class up to each flagged one, and of each class, as if all of them counted.
    shape = len(flags.is_true_positive), len(num_positives)
    starts = torch.searchsorted(class_index.long(), torch.arange(shape[1] + 1, device=class_index.device))
    classes = class_index.long()[flags.places]
    counts = (flags.places - starts[classes] + 1).expand(shape[0], -1)
    num_detections = starts.diff().expand(shape)
    # Less the ignored ones, of which there are so many before each flagged detection, [thresholds, flagged + 1].
    if flags.is_ignored is not None:
        dropped = functional.pad(flags.is_ignored.cumsum(1), (1, 0))
        before = dropped[:, torch.searchsorted(flags.places, starts)]
        counts = counts - (dropped[:, 1:] - before[:, classes])
        num_detections = num_detections - before.diff(dim=1)
    row, column = flags.is_true_positive.nonzero(as_tuple=True)
    found = (row * shape[1] + classes[column]).bincount(minlength=shape[0] * shape[1])
    return Curves(
        num_true_positives=found.view(shape),
        num_positives=num_positives.expand(shape),
        num_detections=num_detections,
        counts=counts[row, column],
        places=flags.places[column],
    )

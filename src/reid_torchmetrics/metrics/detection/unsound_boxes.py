"""Boxes that cannot be evaluated, left out of a batch: what a network gives while it learns may be NaN."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.metrics.detection.batch_checks import sides_of

INVALID = ("raise", "drop")
"""What becomes of boxes, scores and areas that are not finite, and of boxes of negative size."""
_VALUES = {"detection": "detection_scores", "ground_truth": "ground_truth_areas"}


def are_sound_boxes(boxes: Tensor, box_format: str) -> Tensor:
    """Which boxes [boxes, 4] are finite and have a width and height of at least 0."""
    sides = sides_of(boxes, box_format)
    return boxes.isfinite().all(1) & sides.isfinite().all(1) & (sides >= 0).all(1)


def without_unsound(states: Mapping[str, Tensor], box_format: str) -> tuple[dict[str, Tensor], int]:
    """The states of a batch without such boxes, and how many there were."""
    kept, num_dropped = dict(states), 0
    for side, values in _VALUES.items():
        boxes, counts = states[f"{side}_boxes"], states[f"{side}_counts"]
        is_sound = are_sound_boxes(boxes, box_format) & states[values].isfinite()
        rows = is_sound.nonzero()[:, 0]
        num_dropped += len(boxes) - len(rows)
        image = segments.numbers(counts, len(boxes))[rows]
        columns = [name for name in states if name.startswith(side) and name != f"{side}_counts"]
        kept |= {name: states[name].index_select(0, rows) for name in columns}
        kept[f"{side}_counts"] = image.bincount(minlength=len(counts))
    return kept, num_dropped

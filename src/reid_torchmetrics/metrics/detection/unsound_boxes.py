"""Boxes that are not finite or of negative size, as a network gives them while it learns: counted or left out."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from reid_torchmetrics.functional import segments

from .batch_checks import sides_of

INVALID = ("count", "drop", "raise")
"""What becomes of detected boxes that are not finite or of negative size: they count, overlapping nothing, are left out
or are an error. Scores that are not finite, and such ground truths, are left out by "drop" and otherwise an error."""
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


def text_of_warning(num_dropped: int, num_invalid: int, what: str) -> str:
    """What a metric says of the first batch in which there are such boxes, or other objects."""
    if num_dropped:
        return (
            f"Of this batch {num_dropped} {what} were dropped, which are not finite or have a negative size. Others"
            " will be without a warning; `num_dropped` of the metric counts them."
        )
    return (
        f"Of this batch {num_invalid} detected {what} are not finite or have a negative size, as those of a network"
        " that has not learned yet, or in another `box_format`. They overlap nothing, so they are false positives or,"
        " for their area, ignored. Others will be without a warning; `num_invalid` of the metric counts them."
        ' invalid="raise" makes them an error, "drop" leaves them out, which flatters the detector.'
    )

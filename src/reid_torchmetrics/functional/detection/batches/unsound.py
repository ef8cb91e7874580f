"""Objects that cannot be evaluated, left out of a batch of images with masks or other shapes.

Boxes that are not finite or of negative size, as a network gives them while it learns: counted or left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.batches import checks as batch_checks

from .checks import sides_of
from .shape_types import ShapeType

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


Dicts = Sequence[Mapping[str, Any]]
Rule = Callable[[Tensor], Tensor]
"""which of some values [objects, ...] can be evaluated"""

_OF_EACH = ("boxes", "scores", "labels", "iscrowd", "area", "num_keypoints")


def without_unsound_objects(
    preds: Dicts, target: Dicts, types: Mapping[str, ShapeType], *, box_format: str, has_boxes: bool
) -> tuple[Dicts, Dicts, int]:
    """A batch without objects whose score, area, box or shape cannot be evaluated, and how many there were.

    What has the wrong type or shape stays, for the checks to name.

    Args:
        preds: as `update` takes them.
        target: as `update` takes them.
        types: the shapes that are evaluated.
        box_format: how boxes are given.
        has_boxes: whether boxes are evaluated, too; those of ground truths may be looked at even so.
    """
    batch_checks.check_lengths(preds, target)
    of_boxes: dict[str, Rule] = {"boxes": partial(_are_sound_boxes, box_format=box_format)}
    rules: dict[str, Rule] = {"scores": torch.isfinite, "area": torch.isfinite}
    rules |= {kind.key: kind.are_sound for kind in types.values()} | (of_boxes if has_boxes else {})
    keeps_boxes = any(kind.keeps_boxes for kind in types.values())
    found, num_found = _without_unsound(preds, rules)
    true, num_true = _without_unsound(target, rules | of_boxes if keeps_boxes else rules)
    return found, true, num_found + num_true


def _without_unsound(items: Dicts, rules: Mapping[str, Rule]) -> tuple[Dicts, int]:
    kept, num_dropped = [], 0
    for item in items:
        is_sound = _are_sound(item, rules)
        num_dropped += 0 if is_sound is None else int((~is_sound).sum())
        kept.append(item if is_sound is None else _rows(item, {*_OF_EACH, *rules}, is_sound))
    return kept, num_dropped


def _are_sound(item: Mapping[str, Any], rules: Mapping[str, Rule]) -> Tensor | None:
    """Which objects of an image can be evaluated, on the CPU; None if all can, or if that cannot be asked."""
    labels = item.get("labels") if isinstance(item, Mapping) else None
    if not isinstance(labels, Tensor) or not _is_held(labels):
        return None
    is_sound = torch.ones(labels.numel(), dtype=torch.bool, device="cpu")
    for key, rule in rules.items():
        value = item.get(key)
        if isinstance(value, Tensor) and _is_of_each(value, len(is_sound)):
            is_sound &= rule(value).cpu()
    return None if bool(is_sound.all()) else is_sound


def _is_of_each(value: Tensor, num_objects: int) -> bool:
    return _is_held(value) and value.ndim > 0 and len(value) == num_objects


def _is_held(value: Tensor) -> bool:
    return not value.is_nested and value.layout == torch.strided and not value.is_meta


def _are_sound_boxes(boxes: Tensor, box_format: str) -> Tensor:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        return torch.ones(len(boxes), dtype=torch.bool, device="cpu")
    return are_sound_boxes(boxes, box_format)


def _rows(item: Mapping[str, Any], keys: Collection[str], is_sound: Tensor) -> dict[str, Any]:
    """An image with some of its objects."""
    rows = is_sound.nonzero()[:, 0]
    chosen = dict(item)
    for key in keys:
        value = item.get(key)
        if isinstance(value, Tensor) and _is_of_each(value, len(is_sound)):
            chosen[key] = value[rows.to(value.device)]
        elif isinstance(value, (list, tuple)) and len(value) == len(is_sound):
            chosen[key] = [value[row] for row in rows.tolist()]
    return chosen

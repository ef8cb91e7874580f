"""Invalid objects of a batch: boxes, shapes, scores and areas that are not finite, or sizes that are negative.

A network gives such boxes while it learns. By `_names.InvalidAction` detected boxes that are not finite or of negative
size count, with no overlap, are dropped, or are an error, and so do four corners whose edges cross. Invalid ground
truths, and scores that are not finite, are dropped by "drop" and an error otherwise. A batch of boxes is filtered after
packing, for the speed of one mask; masks and other shapes are filtered image by image, before they are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import ShapeType

_FLOATS = ("detection_boxes", "ground_truth_boxes", "detection_scores", "ground_truth_areas")  # states
# Beside the boxes of each side, the column that must be finite.
_VALUES = {"detection": "detection_scores", "ground_truth": "ground_truth_areas"}
Dicts = Sequence[Mapping[str, Any]]
IsSound = Callable[[Tensor], Tensor]
"""whether values [objects, ...] can be evaluated"""

# Keys with a value for each object, besides the keys of the shapes.
_OF_EACH = ("boxes", "scores", "labels", "iscrowd", "area", "difficult", "num_keypoints")


def sides_of(boxes: Tensor, box_format: str) -> Tensor:
    """Width and height of boxes in their own format."""
    return boxes[:, 2:] - boxes[:, :2] if box_format == "xyxy" else boxes[:, 2:]


def are_sound(batch: Mapping[str, Tensor], box_format: str) -> bool:
    """Whether all values are finite, no box has a negative size, and crowds are 0 or 1 unless bool.

    States of detections may be left out. All extremes go to the host together, in one synchronization. A NaN among the
    values is both extremes.
    """
    values = [batch[name] for name in _FLOATS if name in batch and len(batch[name])]
    sides = [sides_of(boxes, box_format) for boxes in values if boxes.ndim > 1]
    if box_format == "xyxy":  # a side is finite only between finite corners
        values = [column for column in values if column.ndim == 1]
    # What must be 0 or 1, then what must not be negative, widths and heights.
    crowds, flags = batch["ground_truth_crowds"], []
    if crowds.dtype != torch.bool and len(crowds):
        flags = [2.0 * (crowds != crowds.bool()) if crowds.is_floating_point() else crowds.float()]
    ends = [end for column in (*flags, *sides, *values) for end in column.aminmax()]
    if not ends:
        return True
    if ends[0].dtype not in (torch.float32, torch.float64):
        ends[0] = ends[0].float()  # in float16 an area of 65536 is infinite
    extremes = torch.stack(ends).tolist()
    least = min(extremes[: 2 * len(flags + sides)], default=0)
    return all(map(math.isfinite, extremes)) and least >= 0 and max(extremes[: 2 * len(flags)], default=0) <= 1


def are_sound_boxes(boxes: Tensor, box_format: str) -> Tensor:
    """Whether boxes are finite and have a width and height of at least 0; True for all if they are not [boxes, 4]."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        return torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
    sides = sides_of(boxes, box_format)
    return boxes.isfinite().all(1) & sides.isfinite().all(1) & (sides >= 0).all(1)


def without_unsound(states: Mapping[str, Tensor], box_format: str) -> tuple[dict[str, Tensor], int]:
    """The states of a batch without invalid boxes, and the number of boxes dropped."""
    kept, num_dropped = dict(states), 0
    for side, values in _VALUES.items():
        boxes, counts = states[f"{side}_boxes"], states[f"{side}_counts"]
        is_sound = are_sound_boxes(boxes, box_format) & states[values].isfinite()
        rows = is_sound.nonzero()[:, 0]
        num_dropped += len(boxes) - len(rows)
        # Columns lose the rows, and each image counts the rows that are left.
        image = segments.numbers(counts, len(boxes))[rows]
        columns = [name for name in states if name.startswith(side) and name != f"{side}_counts"]
        kept |= {name: states[name].index_select(0, rows) for name in columns}
        kept[f"{side}_counts"] = image.bincount(minlength=len(counts))
    return kept, num_dropped


def text_of_warning(num_dropped: int, num_invalid: int, what: str, *, is_rotated: bool) -> str:
    """Return the warning for the first batch with invalid objects."""
    fault = "are not finite or have a negative size"
    reason = "the network has not learned yet, or `box_format` is another one"
    if is_rotated:
        fault += " or corners that are not in turn, so that edges cross"
        reason = "the network has not learned yet, or corners come in another order"
    if num_dropped:
        return f"Dropped {num_dropped} {what} that {fault}. Later drops are silent; see `metric.num_dropped`."
    return (
        f"{num_invalid} detected {what} {fault}: {reason}. They overlap nothing, so they are false positives or, for"
        " their area, ignored."
        " Later ones are silent; see `metric.num_invalid`."
        ' invalid="raise" makes them an error, "drop" leaves them out, but flatters the detector.'
    )


def without_unsound_objects(
    preds: Dicts, target: Dicts, types: Mapping[str, ShapeType], box_format: str, *, has_boxes: bool
) -> tuple[Dicts, Dicts, int]:
    """A batch without objects of an invalid score, area, box or shape, and the number of objects dropped.

    Values of the wrong type or shape stay, for the checks to name.

    Args:
        preds: as `update` takes them.
        target: as `update` takes them.
        types: of the shapes that are evaluated.
        box_format: of the boxes.
        has_boxes: whether boxes are evaluated, too; boxes of ground truths may be needed either way.
    """
    of_boxes: dict[str, IsSound] = {"boxes": lambda boxes: are_sound_boxes(boxes, box_format)}
    rules: dict[str, IsSound] = {"scores": torch.isfinite, "area": torch.isfinite}
    rules |= {kind.key: kind.are_sound for kind in types.values()} | (of_boxes if has_boxes else {})
    keeps_boxes = any(kind.keeps_boxes for kind in types.values())
    preds, num_detections = _without_unsound(preds, rules)
    target, num_ground_truths = _without_unsound(target, rules | of_boxes if keeps_boxes else rules)
    return preds, target, num_detections + num_ground_truths


def _without_unsound(items: Dicts, rules: Mapping[str, IsSound]) -> tuple[Dicts, int]:
    masks = [_are_sound(item, rules) for item in items]
    kept = [
        item if is_sound is None else _rows(item, {*_OF_EACH, *rules}, is_sound)
        for item, is_sound in zip(items, masks, strict=True)
    ]
    return kept, sum(int((~is_sound).sum()) for is_sound in masks if is_sound is not None)


def _are_sound(item: Mapping[str, Any], rules: Mapping[str, IsSound]) -> Tensor | None:
    """Whether each object of an image can be evaluated, on the CPU; None if all can, or if labels are malformed."""
    labels = item.get("labels") if isinstance(item, Mapping) else None
    if not isinstance(labels, Tensor) or not _has_values(labels):
        return None
    is_sound = torch.ones(labels.numel(), dtype=torch.bool, device="cpu")
    for key, rule in rules.items():
        value = item.get(key)
        if isinstance(value, Tensor) and _is_of_each(value, len(is_sound)):
            is_sound &= rule(value).cpu()
    return None if bool(is_sound.all()) else is_sound


# One value for each object, in a form that rows can be taken of.
def _is_of_each(value: Tensor, num_objects: int) -> bool:
    return _has_values(value) and value.ndim > 0 and len(value) == num_objects


def _has_values(value: Tensor) -> bool:
    return not value.is_nested and value.layout == torch.strided and not value.is_meta


def _rows(item: Mapping[str, Any], keys: Collection[str], is_sound: Tensor) -> dict[str, Any]:
    """The sound objects of an image."""
    rows = is_sound.nonzero()[:, 0]
    selected = dict(item)
    # Tensors by rows, lists such as COCO's run lengths item by item; all else is left for the checks.
    for key in keys:
        value = item.get(key)
        if isinstance(value, Tensor) and _is_of_each(value, len(is_sound)):
            selected[key] = value[rows.to(value.device)]
        elif isinstance(value, (list, tuple)) and len(value) == len(is_sound):
            selected[key] = [value[row] for row in rows.tolist()]
    return selected

"""Invalid objects of a batch: boxes, shapes, scores and areas that are not finite, or sizes that are negative.

A network gives such boxes while it learns. By `_names.InvalidAction` detected boxes that are not finite or of negative
size count, with no overlap, are dropped, or are an error, and so do four corners whose edges cross. Invalid ground
truths, and scores that are not finite, are dropped by "drop", image by image before they are read, and an error
otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.inputs import ShapeType

from .image_columns import Dicts

_FLOATS = ("detection_boxes", "ground_truth_boxes", "detection_scores", "ground_truth_areas")  # states
IsValid = Callable[[Tensor], Tensor]
"""a function that returns whether each of values [objects, ...] can be evaluated"""

_OBJECT_KEYS = ("boxes", "scores", "labels", "iscrowd", "area", "detection_area", "difficult", "num_keypoints")
"""keys with a value for each object, besides the keys of the shapes"""


def sides_of(boxes: Tensor, box_format: str) -> Tensor:
    """Return the width and height of boxes in their own format."""
    if box_format == "xyxy":
        return boxes[:, 2:] - boxes[:, :2]
    return boxes[:, 2:]


def are_valid(batch: Mapping[str, Tensor], box_format: str) -> bool:
    """Return whether all values are finite, no box has a negative size, and crowds are 0 or 1 unless bool.

    States of detections may be left out. All extremes go to the host together, in one synchronization. A NaN among the
    values is both extremes.
    """
    values = [batch[name] for name in _FLOATS if name in batch and len(batch[name])]
    sizes = [sides_of(boxes, box_format) for boxes in values if boxes.ndim > 1]
    if box_format == "xyxy":  # a size is finite only between finite corners
        values = [column for column in values if column.ndim == 1]
    crowds = batch["ground_truth_crowds"]
    flags = []
    if crowds.dtype != torch.bool and len(crowds):
        if crowds.is_floating_point():
            flags.append(2.0 * (crowds != crowds.bool()))  # 2 for any value but 0 and 1, such as 0.5 or NaN
        else:
            flags.append(crowds.float())

    # First the extremes of values that must be 0 or 1, then of values that must not be negative.
    extremes: list[Tensor] = []
    for column in (*flags, *sizes, *values):
        extremes.extend(column.aminmax())
    if not extremes:
        return True
    if extremes[0].dtype not in (torch.float32, torch.float64):
        extremes[0] = extremes[0].float()  # in float16 an area of 65536 is infinite
    numbers = torch.stack(extremes).tolist()
    num_flags = 2 * len(flags)
    least = min(numbers[: num_flags + 2 * len(sizes)], default=0)
    most_flag = max(numbers[:num_flags], default=0)
    return all(map(math.isfinite, numbers)) and least >= 0 and most_flag <= 1


def are_valid_boxes(boxes: Tensor, box_format: str) -> Tensor:
    """Return whether boxes are finite, with a width and height of at least 0; True for all if not [boxes, 4]."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        return torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
    sizes = sides_of(boxes, box_format)
    return boxes.isfinite().all(1) & sizes.isfinite().all(1) & (sizes >= 0).all(1)


def text_of_warning(num_dropped: int, num_invalid: int, types: Mapping[str, ShapeType]) -> str:
    """Return the warning for the first batch with invalid objects: boxes, or shapes of some types."""
    what = "objects" if types else "boxes"
    kind: Any = next(iter(types.values()), ShapeType)
    fault = kind.fault
    reason = kind.reason
    if num_dropped:
        return f"Dropped {num_dropped} {what} that {fault}. Later drops are silent; see `metric.num_dropped`."
    return (
        f"{num_invalid} detected {what} {fault}: {reason}. They overlap nothing, so they are false positives or, for"
        " their area, ignored."
        " Later ones are silent; see `metric.num_invalid`."
        ' `invalid="raise"` makes them an error, "drop" leaves them out, but flatters the detector.'
    )


def drop_invalid_objects(
    preds: Dicts, target: Dicts, types: Mapping[str, ShapeType], box_format: str, *, has_boxes: bool
) -> tuple[Dicts, Dicts, int]:
    """Leave out objects with an invalid score, area, box or shape.

    Values of the wrong type or shape stay, for the checks to name.

    Args:
        preds: the detections in the form of `update`.
        target: the ground truths in the form of `update`.
        types: the types of the shapes to evaluate.
        box_format: the format of the boxes.
        has_boxes: whether boxes are evaluated, too; boxes of ground truths may be needed either way.

    Returns:
        The detections, the ground truths, and the number of objects dropped.
    """

    def are_valid_in_format(boxes: Tensor) -> Tensor:
        return are_valid_boxes(boxes, box_format)

    rules: dict[str, IsValid] = {kind.key: kind.are_valid for kind in types.values()}
    if has_boxes:
        rules["boxes"] = are_valid_in_format
    preds, num_detections = _drop_invalid(preds, rules | {"scores": torch.isfinite})
    if any(kind.keeps_boxes for kind in types.values()):
        rules["boxes"] = are_valid_in_format
    target, num_ground_truths = _drop_invalid(target, rules | {"area": torch.isfinite})
    return preds, target, num_detections + num_ground_truths


def _drop_invalid(items: Dicts, rules: Mapping[str, IsValid]) -> tuple[Dicts, int]:
    """Return the dicts of images without invalid objects, and the number of objects dropped."""
    keys = {*_OBJECT_KEYS, *rules}
    valid_items = []
    num_dropped = 0
    for item in items:
        is_valid = _are_valid(item, rules)
        if is_valid is None:
            valid_items.append(item)
            continue
        num_dropped += int((~is_valid).sum())
        # Rows of tensors, items of lists such as COCO's run lengths; the checks name any other value.
        rows = is_valid.nonzero()[:, 0]
        selected = dict(item)
        for key in keys:
            value = item.get(key)
            if _has_row_per_object(value, len(is_valid)):
                selected[key] = value[rows.to(value.device)]
            elif isinstance(value, (list, tuple)) and len(value) == len(is_valid):
                selected[key] = [value[row] for row in rows.tolist()]
        valid_items.append(selected)
    return valid_items, num_dropped


def _are_valid(item: Mapping[str, Any], rules: Mapping[str, IsValid]) -> Tensor | None:
    """Return whether each object of an image can be evaluated, on the CPU; None for all, or for malformed labels."""
    labels = item.get("labels") if isinstance(item, Mapping) else None
    if not _has_values(labels):
        return None
    is_valid = torch.ones(labels.numel(), dtype=torch.bool, device="cpu")
    for key, rule in rules.items():
        value = item.get(key)
        if _has_row_per_object(value, len(is_valid)):
            is_valid &= rule(value).cpu()
    return None if bool(is_valid.all()) else is_valid


def _has_row_per_object(value: Any, num_objects: int) -> TypeGuard[Tensor]:
    """Return whether a value is a tensor with one row for each object, and rows can be selected."""
    return _has_values(value) and value.ndim > 0 and len(value) == num_objects


def _has_values(value: Any) -> TypeGuard[Tensor]:
    """Return whether a value is a dense tensor that is not on the meta device."""
    if not isinstance(value, Tensor):
        return False
    return not value.is_nested and value.layout == torch.strided and not value.is_meta

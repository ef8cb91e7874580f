"""Objects that cannot be evaluated, left out of a batch of images with masks or other shapes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.metrics.detection import batch_checks

from .iou_types import ShapeType
from .unsound_boxes import are_sound_boxes

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

"""Records of the input that `update` does not store: facts about all images, and the first images as they were given.

No number depends on it. A metric keeps it outside of its states, until `reset`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._arrays import as_tensors
from reid_torchmetrics.functional.detection.inputs import COCO_SIGMAS, KeypointType

from .invalid_objects import Dicts
from .key_names import LISTS
from .shape_batches import ShapeBatch

_MOST_IMAGES = 256  # that are shown
_MOST_OBJECTS = 1 << 15  # that are shown: a few megabytes
_MASKS = "masks"
_SIDES = ("detection", "ground_truth")
_COLUMNS = (
    {"boxes": "boxes", "scores": "scores", "labels": "labels"},
    {"boxes": "boxes", "labels": "labels", "crowds": "iscrowd", "areas": "area"},
)
"""for each side, the keys of states"""
_OPTIONAL = ("iscrowd", "area")  # their states are zeros if no image has them
_SIZE = "orig_size"

ShownImage: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Any]]
"""the dicts of an image in `preds` and in `target`"""


class GivenBatch(NamedTuple):
    """A checked batch, as it was given."""

    preds: Dicts
    target: Dicts
    keys: Collection[Any]
    """the keys of all dicts in `target`"""
    extras: Sequence[str]
    """columns that the evaluation uses beside boxes, see `pack`"""
    shapes: ShapeBatch | None
    """masks, keypoints or rotated boxes, with boxes around them"""
    states: Mapping[str, Tensor]
    """the rows for the states of boxes"""


class ShownMasks(NamedTuple):
    """Facts about the masks in an image, which are not kept themselves."""

    extremes: Tensor | None
    """the lowest and the highest value in all masks, [2]; None for bool masks, for run lengths, and without masks"""
    num_pixels: Tensor
    """numbers of pixels of each mask, [masks]"""


class _ShownBatch(NamedTuple):
    """A batch with images that are shown."""

    states: Mapping[str, Tensor]
    """the rows for the states of boxes, which the metric holds anyway"""
    keys: Collection[Any]
    """the keys of all dicts in `target`"""
    others: tuple[list[dict[str, Any]], list[dict[str, Any]]]
    """other keys of each image that are kept, in `preds` and in `target`; empty if there are none"""

    def items(self, side: int, counts: list[int]) -> list[dict[str, Any]]:
        """Return the dicts of the first images on one side, given their numbers of objects."""
        columns = {}
        for name, key in _COLUMNS[side].items():
            column = self.states.get(f"{_SIDES[side]}_{name}")
            if column is not None and (key in self.keys or key not in _OPTIONAL):
                columns[key] = column[: sum(counts)].split(counts)
        items = [dict(zip(columns, parts, strict=True)) for parts in zip(*columns.values(), strict=True)]
        for item, other in zip(items, self.others[side], strict=False):
            item.update(other)
        return items


class GivenImages:
    """Facts about the images that a process was given since `reset`, and the first images."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.num_difficult = 0
        """number of difficult ground truths in the first batch with any, if the evaluation ignores them"""
        self.unused_list: str | None = None
        """key of a list of classes that the evaluation ignores"""
        self.sigmas: Sequence[float] = COCO_SIGMAS
        """sigmas of keypoints, if there are any"""
        self._shown: list[_ShownBatch] = []
        self._num_images = self._num_objects = 0  # in these batches

    def add(self, batch: GivenBatch) -> None:
        """Add a batch, without waiting for a device."""
        self._find_unused_keys(batch)
        kind = None if batch.shapes is None else batch.shapes.types.get("keypoints")
        if isinstance(kind, KeypointType):
            self.sigmas = kind.sigmas
        if self._num_images < _MOST_IMAGES and self._num_objects < _MOST_OBJECTS:
            num_images = min(len(batch.preds), _MOST_IMAGES - self._num_images)
            others = _others(batch, 0, num_images), _others(batch, 1, num_images)
            self._shown.append(_ShownBatch(batch.states, batch.keys, others))
            self._num_images += len(batch.preds)
            self._num_objects += sum(len(batch.states[f"{side}_labels"]) for side in _SIDES)

    def shown(self) -> list[ShownImage]:
        """Return the first images, at most 256: `preds` and `target` by the users' keys.

        `boxes` are those around other shapes, if they were not given. `masks` are `ShownMasks`. `iscrowd` and `area`
        are there if an image of the batch had them, with zeros where another one lacked them.
        """
        images: list[ShownImage] = []
        num_objects = 0
        for batch, *counts in zip(self._shown, self._counts(0), self._counts(1), strict=True):
            first: list[tuple[int, int]] = []
            for numbers in zip(*(part[: _MOST_IMAGES - len(images)] for part in counts), strict=True):
                num_objects += sum(numbers)
                if num_objects <= _MOST_OBJECTS:
                    first.append(numbers)
            sides = [batch.items(side, [numbers[side] for numbers in first]) for side in (0, 1)]
            images += zip(*sides, strict=True)
        return images

    def _find_unused_keys(self, batch: GivenBatch) -> None:
        """Find difficult ground truths and lists of classes that the evaluation ignores."""
        if "difficult" in batch.keys and "difficult" not in batch.extras and not self.num_difficult:
            self.num_difficult = sum(_num_flags(item.get("difficult")) for item in batch.target)
        if "lists" in batch.extras or self.unused_list is not None:
            return
        for key in LISTS:
            if key in batch.keys and any(_has_entries(item.get(key)) for item in batch.target):
                self.unused_list = key
                return

    def _counts(self, side: int) -> list[list[int]]:
        """Return the numbers of objects in the images of each batch on one side; the device is waited for once."""
        if not self._shown:
            return []
        counts = [batch.states[f"{_SIDES[side]}_counts"] for batch in self._shown]
        joined = torch.cat([part.to(counts[0].device) for part in counts]).cpu()
        return [part.tolist() for part in joined.split([len(part) for part in counts])]


def _others(batch: GivenBatch, side: int, num_images: int) -> list[dict[str, Any]]:
    """Return what is kept of the other keys of the first images, on one side."""
    items = (batch.preds, batch.target)[side][:num_images]
    keys = [_SIZE] if side and _SIZE in batch.keys else []
    shapes = batch.shapes
    if shapes is None and not keys:
        return []
    if shapes is not None:
        keys += [kind.key for kind in shapes.types.values() if kind.key != _MASKS]
    others = [{key: _kept(item[key]) for key in keys if key in item} for item in items]
    if shapes is not None and "segm" in shapes.shapes:
        for other, item, masks in zip(others, items, shapes.shapes["segm"][side], strict=False):
            other[_MASKS] = _shown_masks(item[_MASKS], masks.areas)
    return others


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _shown_masks(masks: Any, num_pixels: Tensor) -> ShownMasks:
    if not isinstance(masks, Tensor):
        return ShownMasks(None, num_pixels)
    is_numeric = masks.dtype != torch.bool and masks.numel() > 0
    return ShownMasks(torch.stack(masks.aminmax()) if is_numeric else None, num_pixels)


def _num_flags(value: Any) -> int:
    """Return the number of nonzero values; 0 unless the value is an array of numbers."""
    (tensor,) = as_tensors(value)
    if not isinstance(tensor, Tensor) or tensor.is_meta or tensor.is_nested or tensor.layout != torch.strided:
        return 0
    return int(tensor.count_nonzero())


def _has_entries(value: Any) -> bool:
    if isinstance(value, (Tensor, np.ndarray)):
        return int(np.prod(value.shape)) > 0
    return isinstance(value, (list, tuple, set)) and len(value) > 0

"""Notes on batches: facts that only `update` can see. Conditions judge them after `compute`.

`update` turns masks, keypoints and angles into overlaps at once, and does not store keys that the evaluation ignores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._arrays import as_tensors
from reid_torchmetrics.functional.box_units import ROUNDING
from reid_torchmetrics.functional.detection.batches import LISTS, GivenBatch, ShapeBatch
from reid_torchmetrics.functional.detection.inputs import to_xywh

WHOLE_PIXELS = {torch.bfloat16: 256, torch.float16: 2048}
"""the largest coordinate up to which a small dtype represents each pixel"""
_MAX_BATCHES = 32  # with counted shapes
_MAX_SIZES = 1 << 16  # images with stored sizes


class BatchNotes:
    """Counts of odd input since `reset`, shared by the members of a collection."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self.num_difficult = 0
        """number of difficult ground truths in the first batch with any, if the evaluation ignores them"""
        self.unused_list: str | None = None
        """key of a list of classes that the evaluation ignores"""
        self.has_checked_units = False
        """whether units were checked, with enough boxes"""
        self.image_sizes: dict[int | str, tuple[float, float]] = {}
        """width and height by `image_id`, from `orig_size`"""
        self._odd_shapes: dict[str, list[Tensor]] = {}
        self._rounded: dict[tuple[str, torch.dtype, torch.dtype], list[Tensor]] = {}
        self._num_noted = 0

    def note(self, batch: GivenBatch) -> None:
        """Note odd input in a batch, without waiting for the device."""
        self._note_unused_keys(batch)
        if "orig_size" in batch.keys and "image_id" in batch.keys:
            self._note_sizes(batch.target)
        is_enough = self.has_checked_units or self._num_noted == _MAX_BATCHES
        if batch.shapes is None or is_enough or not batch.states:
            return
        self._num_noted += 1
        self._note_shapes(batch.shapes, batch.states)
        self._note_rounded_shapes(batch)

    def num_odd_shapes(self, iou_type: str) -> list[tuple[int, int]]:
        """Return the number of odd shapes and the number of all shapes, for each counted side."""
        counts = self._odd_shapes.get(iou_type)
        if counts is None:
            return []
        sums = torch.stack([count.cpu() for count in counts]).sum(0)
        return [(odd, num) for odd, num in sums.tolist()]

    def rounded_shapes(self) -> list[tuple[str, torch.dtype, torch.dtype, float]]:
        """Return key, dtype, dtype of ground truths, and fraction of coordinates above `WHOLE_PIXELS` of the dtype."""
        shapes = []
        for (key, dtype, true_dtype), counts in self._rounded.items():
            num_above, num = torch.stack([count.cpu() for count in counts]).sum(0).tolist()
            shapes.append((key, dtype, true_dtype, num_above / num))
        return shapes

    def _note_unused_keys(self, batch: GivenBatch) -> None:
        """Note difficult ground truths and lists of classes that the evaluation ignores."""
        if "difficult" in batch.keys and "difficult" not in batch.extras and not self.num_difficult:
            self.num_difficult = sum(_num_flags(item.get("difficult")) for item in batch.target)
        if "lists" in batch.extras or self.unused_list is not None:
            return
        for key in LISTS:
            if key in batch.keys and any(_has_entries(item.get(key)) for item in batch.target):
                self.unused_list = key
                return

    def _note_sizes(self, target: Sequence[Mapping[str, Any]]) -> None:
        """Note width and height of images; ignore values on other devices, and values of other types."""
        for item in target[: _MAX_SIZES - len(self.image_sizes)]:
            image_id, size = item.get("image_id"), item.get("orig_size")
            if isinstance(image_id, Tensor) and image_id.numel() == 1 and image_id.device.type == "cpu":
                image_id = image_id.item()
            if isinstance(size, Tensor) and size.device.type == "cpu":
                size = size.tolist()
            if not isinstance(size, (list, tuple)) or len(size) != 2 or not isinstance(image_id, (int, str)):
                continue
            if all(isinstance(side, (int, float)) and side > 0 for side in size):
                height, width = size
                self.image_sizes[image_id] = float(width), float(height)

    def _note_shapes(self, shapes: ShapeBatch, states: Mapping[str, Tensor]) -> None:
        """Count odd masks, keypoints and angles."""
        boxes = to_xywh(states["ground_truth_boxes"], shapes.box_format)
        for name in shapes.types.keys() & COUNTS.keys():  # other shapes have no units to check
            key = shapes.types[name].key
            detections = _filled(item[key] for item in shapes.preds)
            ground_truths = _filled(item[key] for item in shapes.target)
            self._odd_shapes.setdefault(name, []).append(COUNTS[name](detections, ground_truths, boxes))

    def _note_rounded_shapes(self, batch: GivenBatch) -> None:
        """Count coordinates in a dtype that cannot represent each pixel."""
        assert batch.shapes is not None  # noqa: S101 - see `note`
        keys = [kind.key for kind in batch.shapes.types.values() if kind.has_coordinates]
        for key in keys:
            detections = _filled(item[key] for item in batch.preds)
            ground_truths = _filled(item[key] for item in batch.target)
            if not detections or not ground_truths:
                continue
            dtype, true_dtype = detections[0].dtype, ground_truths[0].dtype
            if not is_rounded(dtype, true_dtype):
                continue
            coordinates = torch.cat([_coordinates(key, shape) for shape in detections if shape.dtype == dtype])
            num_above = (coordinates.detach().abs() > WHOLE_PIXELS[dtype]).sum()
            counts = torch.stack([num_above, torch.full_like(num_above, len(coordinates))])
            self._rounded.setdefault((key, dtype, true_dtype), []).append(counts)


def is_rounded(dtype: torch.dtype, true_dtype: torch.dtype) -> bool:
    """Return whether a dtype of detections cannot represent each pixel, and the ground truths' dtype has more bits."""
    if dtype not in WHOLE_PIXELS:
        return False
    return not true_dtype.is_floating_point or torch.finfo(true_dtype).bits > torch.finfo(dtype).bits


def _filled(shapes: Any) -> list[Tensor]:
    """Return the tensors that are not empty."""
    return [shape for shape in shapes if isinstance(shape, Tensor) and shape.numel()]


def _coordinates(key: str, shape: Tensor) -> Tensor:
    """Return the coordinates of shapes, without the visibility of keypoints and without angles."""
    if key != "rotated_boxes":
        return shape[..., :2].reshape(-1)
    has_angles = shape.ndim == 2 and shape.shape[1] == 5
    return (shape[:, :4] if has_angles else shape).reshape(-1)


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


def _count_outside(detections: Sequence[Tensor], ground_truths: Sequence[Tensor], boxes: Tensor) -> Tensor:  # noqa: ARG001
    """Count labeled keypoints in [0, 1] outside of their box, and all labeled keypoints, [1, 2]."""
    if not ground_truths:
        return boxes.new_zeros((1, 2), dtype=torch.int64)
    # A keypoint in pixels lies in its box, except for rounding. A fraction of the image size does so only by chance.
    points = torch.cat(list(ground_truths)).to(boxes.device)
    places = points[:, :, :2]
    is_labeled = points[:, :, 2] > 0
    low = boxes[:, None, :2] - ROUNDING
    high = (boxes[:, None, :2] + boxes[:, None, 2:]) + ROUNDING
    is_within = ((places - 0.5).abs() <= 0.5 + ROUNDING).all(2)
    is_outside = ((places < low) | (places > high)).any(2)
    return torch.stack([(is_within & is_outside & is_labeled).sum(), is_labeled.sum()])[None]


def _count_turned(detections: Sequence[Tensor], ground_truths: Sequence[Tensor], boxes: Tensor) -> Tensor:
    """Count angles beyond 2 pi and nonzero angles, for each of both sides, [2, 2]; four corners have no angle."""
    counts = []
    for side in (detections, ground_truths):
        parts = [shape[:, 4].to(boxes.device) for shape in side if shape.shape[1] == 5]
        angles = torch.cat([boxes.new_zeros(0), *parts])
        counts.append(torch.stack([(angles.abs() > 2 * math.pi).sum(), (angles != 0).sum()]))
    return torch.stack(counts)


def _count_soft(detections: Sequence[Tensor], ground_truths: Sequence[Tensor], boxes: Tensor) -> Tensor:
    """Count images with masks of several values but no 0, and all images with numeric masks, [1, 2]."""
    is_odd = []
    for masks in (*detections, *ground_truths):
        if masks.dtype != torch.bool:
            low, high = masks.aminmax()
            is_odd.append(((low != 0) & (low < high)).to(boxes.device))
    num_odd = torch.stack([boxes.new_zeros((), dtype=torch.bool), *is_odd]).sum()
    return torch.stack([num_odd, torch.full_like(num_odd, len(is_odd))])[None]


COUNTS: dict[str, Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], Tensor]] = {
    "keypoints": _count_outside,
    "rotated": _count_turned,
    "segm": _count_soft,
}
"""functions that count odd and all shapes, from detections, ground truths, and boxes of ground truths"""

"""Records of input that `update` does not store: facts about all images, and the objects of the first ones as given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._arrays import as_tensors
from reid_torchmetrics.functional.detection.batches import LISTS, GivenBatch, values_of
from reid_torchmetrics.functional.detection.evaluation import ShownColumns, ShownImages
from reid_torchmetrics.functional.detection.inputs import COCO_SIGMAS, KeypointType, box_areas, to_xywh

MOST_IMAGES = 256  # that are shown
_MOST_OBJECTS = 1 << 15  # that are shown: a few megabytes
_COLUMNS = (
    ("detection", {"boxes": "boxes", "scores": "scores", "labels": "labels"}),
    ("ground_truth", {"boxes": "boxes", "labels": "labels", "crowds": "iscrowd", "areas": "area"}),
)
"""for `preds` and `target`, the keys of the users by those of states"""
_OPTIONAL = ("iscrowd", "area")  # their states are zeros if no image has them


IMAGES = "images"
"""the key of `GivenImages` in a record"""


def note_images(record: dict[str, Any], batch: GivenBatch) -> None:
    """Note a batch in the record of a metric, or of a call of a function."""
    record.setdefault(IMAGES, GivenImages()).add(batch)


class GivenImages:
    """Facts about the images that a process was given since `reset`, and the first images, for no number."""

    def __init__(self) -> None:
        self.num_difficult = 0
        """number of difficult ground truths in the first batch with any, if the evaluation ignores them"""
        self.num_ignored = 0
        """number of ground truths that count although `ignore` marks them, in the first batch with any"""
        self.unused_list: str | None = None
        """key of a list of classes that the evaluation ignores"""
        self.sigmas: Sequence[float] = COCO_SIGMAS
        """sigmas of keypoints, if there are any"""
        self._shown: list[ShownImages] = []
        self._optional_keys: set[str] = set()  # that some image has
        self._num_images = self._num_objects = 0  # in these batches

    def add(self, batch: GivenBatch) -> None:
        """Add a batch, without waiting for a device."""
        self._find_unused_keys(batch)
        kind = None if batch.shapes is None else batch.shapes.types.get("keypoints")
        if isinstance(kind, KeypointType):
            self.sigmas = kind.sigmas
        if self._num_images < MOST_IMAGES and self._num_objects < _MOST_OBJECTS:
            self._optional_keys.update(key for key in _OPTIONAL if key in batch.keys)
            images = _show(batch, MOST_IMAGES - self._num_images)
            self._shown.append(images)
            self._num_images += len(batch.preds)
            self._num_objects += sum(len(side.columns["labels"]) for side in (images.preds, images.target))

    def shown(self) -> ShownImages:
        """Return the first images, at most 256 with a bounded number of objects."""
        batches = self._shown
        if not batches:
            nothing = ShownColumns(torch.zeros(0, dtype=torch.int64, device="cpu"), {})
            return ShownImages(nothing, nothing, [])
        # A device is waited for once.
        given_sides = [[images.preds for images in batches], [images.target for images in batches]]
        counts_of_sides = torch.stack([torch.cat([shown.counts for shown in given]) for given in given_sides]).cpu()
        num_images = int((counts_of_sides.sum(0).cumsum(0) <= _MOST_OBJECTS).sum())
        counts_of_sides[:, num_images:] = 0
        parts = counts_of_sides.split([len(images.sizes) for images in batches], dim=1)
        sides = []
        for side, given in enumerate(given_sides):
            numbers = [int(part[side].sum()) for part in parts]
            columns = _joined([shown.columns for shown in given], numbers)
            for key in set(_OPTIONAL) - self._optional_keys:
                columns.pop(key, None)
            sides.append(ShownColumns(counts_of_sides[side, :num_images], columns))
        preds, target = sides
        sizes = list(chain.from_iterable(images.sizes for images in batches))
        extremes = list(chain.from_iterable(images.extremes for images in batches))
        return ShownImages(preds, target, sizes[:num_images], extremes)

    def _find_unused_keys(self, batch: GivenBatch) -> None:
        """Find flags of ground truths and lists of classes that the evaluation ignores."""
        if "difficult" in batch.keys and "difficult" not in batch.extras and not self.num_difficult:
            self.num_difficult = sum(_num_flags(item.get("difficult")) for item in batch.target)
        if "ignore" in batch.keys and not self.num_ignored:
            self.num_ignored = sum(map(_num_ignored, batch.target))
        if "lists" in batch.extras or self.unused_list is not None:
            return
        for key in LISTS:
            if key in batch.keys and any(_has_entries(item.get(key)) for item in batch.target):
                self.unused_list = key
                return


def _show(batch: GivenBatch, most: int) -> ShownImages:
    """Return the first images of a batch; the columns of states may have further objects behind theirs."""
    sides = []
    for side, (name, keys) in enumerate(_COLUMNS):
        columns = _shape_columns(batch, side, most)
        for state, key in keys.items():
            column = batch.states.get(f"{name}_{state}")
            if column is not None:
                columns[key] = column
        sides.append(ShownColumns(batch.states[f"{name}_counts"][:most], columns))
    extremes = []
    if batch.shapes is not None and "segm" in batch.shapes.types:
        masks = chain(values_of(batch.preds[:most], "masks"), values_of(batch.target[:most], "masks"))
        extremes = [
            torch.stack(values.aminmax())
            for values in masks
            if isinstance(values, Tensor) and values.dtype != torch.bool and values.numel()
        ]
    preds, target = sides
    return ShownImages(preds, target, values_of(batch.target[:most], "orig_size"), extremes)


def _joined(parts: Sequence[Mapping[str, Tensor]], numbers: Sequence[int]) -> dict[str, Tensor]:
    """Return the columns of the first objects of batches that all batches with objects have, in one shape."""
    columns = {}
    for key in dict.fromkeys(chain.from_iterable(parts)):
        pairs = zip(parts, numbers, strict=True)
        values = [part[key][:number] for part, number in pairs if number and key in part]
        is_everywhere = sum(map(len, values)) == sum(numbers)
        if is_everywhere and len({column.shape[1:] for column in values}) == 1:
            columns[key] = torch.cat(values)
    return columns


def _shape_columns(batch: GivenBatch, side: int, most: int) -> dict[str, Tensor]:
    """Return copies of keypoints and rotated boxes, and numbers of pixels of masks, of the first images."""
    columns = {}
    if batch.shapes is not None:
        for name, kind in batch.shapes.types.items():
            if name == "segm":
                parts = [masks.areas for masks in batch.shapes.shapes[name][side][:most]]
            else:
                parts = [item[kind.key] for item in (batch.preds, batch.target)[side][:most] if len(item[kind.key])]
            if parts and len({part.shape[1:] for part in parts}) == 1:
                columns[kind.key] = torch.cat([part.to(parts[0].device) for part in parts]).detach()
    return columns


def _num_flags(value: Any) -> int:
    """Return the number of nonzero values; 0 unless the value is an array of numbers."""
    (tensor,) = as_tensors(value)
    if not isinstance(tensor, Tensor) or tensor.is_meta or tensor.is_nested or tensor.layout != torch.strided:
        return 0
    return int(tensor.count_nonzero())


def _num_ignored(item: Mapping[str, Any]) -> int:
    """Return the number of ground truths that `ignore` marks, and `iscrowd` does not."""
    is_ignored, is_crowd = item.get("ignore"), item.get("iscrowd")
    if not isinstance(is_ignored, Tensor) or not isinstance(is_crowd, Tensor) or is_ignored.shape != is_crowd.shape:
        return 0
    return _num_flags(is_ignored.bool() & ~is_crowd.bool())


def _has_entries(value: Any) -> bool:
    if isinstance(value, (Tensor, np.ndarray)):
        return int(np.prod(value.shape)) > 0
    return isinstance(value, (list, tuple, set)) and len(value) > 0


class ShownObjects(NamedTuple):
    """Values of the objects in the first images, in `preds` or in `target`, by image."""

    images: Tensor
    """place of the image of each object"""
    xywh: Tensor
    """boxes as x, y, width and height, [objects, 4]; [0, 4] if objects have no boxes"""
    values: Mapping[str, Tensor]
    """values that all objects have, by the users' key, float64; numbers of pixels in the place of `masks`"""

    @classmethod
    def of(cls, shown: ShownColumns, box_format: str) -> ShownObjects:
        """Return the objects that are shown."""
        values = {key: column.cpu().double() for key, column in shown.columns.items()}
        boxes = values.get("boxes", torch.zeros(0, 4, dtype=torch.float64, device="cpu"))
        return cls(torch.repeat_interleave(shown.counts.cpu()), to_xywh(boxes, box_format), values)

    def at(self, rows: Tensor) -> ShownObjects:
        """Return some objects."""
        return ShownObjects(
            images=self.images[rows],
            xywh=self.xywh[rows] if len(self.xywh) else self.xywh,
            values={key: column[rows] for key, column in self.values.items()},
        )

    def column(self, key: str) -> Tensor:
        """Return the numbers under a key, zeros if objects have none."""
        return self.values.get(key, torch.zeros(len(self.images), dtype=torch.float64, device="cpu"))

    @property
    def areas(self) -> Tensor:
        """Areas as they were given, or those of the boxes."""
        areas = self.column("area")
        return torch.where(areas > 0, areas, box_areas(self.xywh)) if len(self.xywh) else areas

    @property
    def is_labeled(self) -> Tensor | None:
        """Whether each keypoint of ground truths is labeled; None for other shapes."""
        points = self.values.get("keypoints")
        return None if points is None else points[..., 2] > 0

    @property
    def is_counted(self) -> Tensor:
        """Whether each ground truth counts: crowds do not, nor objects without a labeled keypoint."""
        is_counted = self.column("iscrowd") == 0
        return is_counted if self.is_labeled is None else is_counted & self.is_labeled.any(1)

"""The objects in the first images, as they were given: what all rows look at that need more than finished matches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.evaluation import ShownColumns
from reid_torchmetrics.functional.detection.inputs import box_areas, to_xywh


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


def size_of(size: Any) -> tuple[float, float]:
    """Return width and height of an image from its height and width, which may be anything; NaN if unknown."""
    with suppress(TypeError, ValueError):
        height, width = map(float, size)
        if min(height, width) > 0:
            return width, height
    return math.nan, math.nan

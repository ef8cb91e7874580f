"""Loads what pycocotools and TorchMetrics gave for inverted, empty and not finite boxes, see `README.md`."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]
_OF_DETECTIONS = ("detection_boxes", "detection_labels", "detection_images", "detection_scores")
_OF_GROUND_TRUTHS = ("ground_truth_boxes", "ground_truth_labels", "ground_truth_images", "is_crowd")
_OF_PROBLEMS = ("pycocotools", "torchmetrics")


@dataclass(frozen=True)
class BadBoxes:
    """A problem, boxes as corners in float32, and what the evaluators gave for it."""

    name: str
    """with what is wrong with its boxes"""
    image_ids: Array
    category_ids: Array
    detection_boxes: Array
    detection_labels: Array
    detection_images: Array
    detection_scores: Array
    ground_truth_boxes: Array
    ground_truth_labels: Array
    ground_truth_images: Array
    is_crowd: Array
    pycocotools: Array
    """its 12 numbers"""
    torchmetrics: Array

    @property
    def has_nan(self) -> Array:
        """Of each detection."""
        return np.isnan(self.detection_boxes).any(1)

    def dicts(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What `update` takes, image by image."""
        preds, target = [], []
        for image in self.image_ids.tolist():
            found, true = self.detection_images == image, self.ground_truth_images == image
            columns = self.detection_boxes, self.detection_scores, self.detection_labels
            preds.append(dict(zip(("boxes", "scores", "labels"), _tensors(columns, found), strict=True)))
            columns = self.ground_truth_boxes, self.ground_truth_labels, self.is_crowd
            target.append(dict(zip(("boxes", "labels", "iscrowd"), _tensors(columns, true), strict=True)))
            target[-1]["image_id"] = image
        return preds, target


def _tensors(columns: tuple[Array, ...], chosen: Array) -> Iterator[torch.Tensor]:
    return (torch.from_numpy(column[chosen]) for column in columns)


@cache
def bad_boxes() -> list[BadBoxes]:
    with np.load(Path(__file__).parent / "bad_boxes.npz") as file:
        arrays = dict(file)
    ends = np.cumsum(arrays["sizes"], 0)[:-1]
    columns: dict[str, Any] = {"name": arrays["names"].tolist()}
    kinds = (("image_ids",), ("category_ids",), _OF_GROUND_TRUTHS, _OF_DETECTIONS)
    for place, names in enumerate(kinds):
        columns |= {name: np.split(arrays[name], ends[:, place]) for name in names}
    columns |= {name: arrays[name] for name in _OF_PROBLEMS}
    return [BadBoxes(**{name: column[number] for name, column in columns.items()}) for number in range(len(ends) + 1)]

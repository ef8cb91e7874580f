"""The values that `DetectionMAP.compute` gives: their names and where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.evaluators import ClassAverages


class ValueName(NamedTuple):
    """A value of `compute` that is one number."""

    iou_type: str
    name: str
    """of COCO's summary of that type"""


def prefix(iou_type: str, iou_types: Sequence[str]) -> str:
    """What the names of a type begin with: nothing where it is the only one."""
    return f"{iou_type}_" if len(iou_types) > 1 else ""


def value_names(iou_types: Sequence[str], names: Sequence[str]) -> dict[str, ValueName]:
    """What each key stands for, given the names of a summary."""
    return {prefix(each, iou_types) + name: ValueName(each, name) for each in iou_types for name in names}


def class_values(averages: ClassAverages | None, limit: int) -> dict[str, Tensor]:
    """The values of each class, or -1 where they are not wanted."""
    precision = recall = torch.tensor(-1.0)
    if averages is not None:
        precision, recall = averages.map_per_class().float(), averages.mar_per_class().float()
    return {"map_per_class": precision, f"mar_{limit}_per_class": recall}


def as_int32(labels: Tensor) -> Tensor:
    """The labels in the dtype of TorchMetrics, or as they are where they do not fit it."""
    narrow = labels.int()
    return narrow if torch.equal(narrow.long(), labels) else labels


def moved(value: Any, device: torch.device) -> Any:
    """Tensors on the device of the metric; those of float64 stay where they are if it has none."""
    if isinstance(value, dict):
        return {name: moved(each, device) for name, each in value.items()}
    return value if device.type == "mps" and value.dtype == torch.float64 else value.to(device)

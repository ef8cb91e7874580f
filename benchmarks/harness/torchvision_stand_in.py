"""What TorchMetrics' metric of detections needs of torchvision, where that is not installed."""

from __future__ import annotations

import importlib.machinery
import sys
import types

import torch
from torch import Tensor
from torchmetrics.utilities import imports


def as_sides(boxes: Tensor) -> Tensor:
    """Left, top, width and height of boxes given by their corners, in their own dtype."""
    return torch.cat((boxes[:, :2], boxes[:, 2:] - boxes[:, :2]), 1)


def stand_in_for_torchvision() -> None:
    """TorchMetrics asks for torchvision, of which it needs one conversion of boxes: bring that where it is missing."""
    if imports._TORCHVISION_AVAILABLE:  # noqa: SLF001
        return

    def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
        if (in_fmt, out_fmt) != ("xyxy", "xywh"):
            raise NotImplementedError(f"conversion from {in_fmt} to {out_fmt}")
        return as_sides(boxes)

    for name in ("torchvision", "torchvision.ops"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, None)
    sys.modules["torchvision"].ops = sys.modules["torchvision.ops"]
    sys.modules["torchvision.ops"].box_convert = box_convert
    imports._TORCHVISION_AVAILABLE.available = True  # noqa: SLF001 - it has looked already

"""What `DetectionMAP.compute` gives of matches: TorchMetrics' dict, in its dtypes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.evaluators import ClassAverages, evaluate_matches

from .iou_matrices import Overlaps
from .match_cache import Matched


@dataclass(frozen=True)
class Wanted:
    """What the dict is to have, besides COCO's numbers."""

    rule: str
    """of average precision"""
    class_metrics: bool
    extended_summary: bool


def computed_values(matched: Matched, wanted: Wanted, device: torch.device) -> dict[str, Any]:
    """COCO's numbers, then grids and overlaps, then what is said of each class by itself."""
    rounded = matched.averages(wanted.rule).numbers().to(device, torch.float32)
    numbers = dict(zip(matched.request.grid.value_names, rounded.unbind(), strict=True))
    values: dict[str, Any] = {}
    if wanted.extended_summary:
        values |= _grids(matched)
    # Under "micro" the first matches know one class only.
    values |= _of_classes(matched.averages(wanted.rule, len(matched.found.matches) - 1), wanted)
    values["classes"] = _as_int32(matched.found.labels)
    return numbers | {name: moved(value, device) for name, value in values.items()}


def _grids(matched: Matched) -> dict[str, Any]:
    grids = evaluate_matches(matched.found.matches[0], matched.request.grid)
    assert matched.numbering is not None  # noqa: S101 - the request is not plain
    overlaps = Overlaps.matrices(matched.found.overlaps, matched.numbering.called, grids.classes)
    return {"ious": overlaps, "precision": grids.precision, "recall": grids.recall, "scores": grids.scores}


def _of_classes(averages: ClassAverages, wanted: Wanted) -> dict[str, Tensor]:
    if wanted.class_metrics:
        precision, recall = averages.map_per_class().float(), averages.mar_per_class().float()
    else:
        precision = recall = torch.tensor(-1.0, device="cpu")
    return {"map_per_class": precision, f"mar_{averages.grid.max_detections[-1]}_per_class": recall}


def _as_int32(labels: Tensor) -> Tensor:
    """The labels in the dtype of TorchMetrics, or as they are where they do not fit it."""
    narrow = labels.int()
    return narrow if torch.equal(narrow.long(), labels) else labels.clone()


def moved(value: Any, device: torch.device) -> Any:
    """Tensors on the device of the metric; those of float64 stay where they are if it has none."""
    if isinstance(value, dict):
        return {name: moved(each, device) for name, each in value.items()}
    return value if device.type == "mps" and value.dtype == torch.float64 else value.to(device)

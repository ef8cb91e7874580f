"""The numbers of every class, in one form for all evaluators, and their means over classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _names
from reid_torchmetrics.functional.detection.inputs import CocoGrid

AT_THRESHOLDS = {"map_50": 0.5, "map_75": 0.75}


@dataclass(frozen=True)
class ClassAverages:
    """Average precision and recall of every class; NaN for a class without a ground truth that counts."""

    grid: CocoGrid
    classes: Int[Tensor, " classes"]
    average_precision: Mapping[int, Float[Tensor, "areas thresholds classes"]]
    """by the number of the limit: the largest one, and the limit of `map`"""
    recall: Float[Tensor, "limits areas thresholds classes"]
    rule: _names.DetectionRule = "coco"
    """how a curve became an average precision, see `average_precision`"""
    has_limits: bool = True
    """whether numbers are named after area ranges and limits of detections"""
    at_confidence: Mapping[str, Float[Tensor, " classes"]] = field(default_factory=dict)
    """"precision", "recall" and "f1" of evaluators that report them, at `confidence`"""
    confidence: float | None = None

    @property
    def headline(self) -> Float[Tensor, "thresholds classes"]:
        """Average precision in the first area range, with the limit of `map`."""
        return self.average_precision[self.grid.official_limit][0]

    @property
    def value_names(self) -> list[str]:
        """The names of `summary`."""
        return self.grid.value_names if self.has_limits else ["map", *AT_THRESHOLDS, *self.at_confidence]

    @property
    def known_names(self) -> list[str]:
        """The names of `summary` but for numbers at a threshold that is not among the thresholds."""
        names = self.value_names
        lacking = [name for name, value in AT_THRESHOLDS.items() if value not in self.grid.iou_thresholds]
        # A name that is there twice is one of an area range, too.
        return [name for name in dict.fromkeys(names) if name not in lacking or names.count(name) > 1]

    def known(self) -> dict[str, Float[Tensor, ""]]:
        """The part of `summary` with `known_names`."""
        numbers = self.summary()
        return {name: numbers[name] for name in self.known_names}

    def summary(self) -> dict[str, Float[Tensor, ""]]:
        """The numbers of the evaluator by the names of TorchMetrics, float64; -1 without a class to average over.

        `map` is the mean over thresholds and classes in the first area range, `map_50` and `map_75` the mean at one
        threshold (-1 if it is not among the thresholds). COCO has 12 numbers: `map_small` and so on for the other area
        ranges, `mar_10` for the mean recall with 10 detections, `mar_small` for an area range with the largest limit.
        The YOLO family has `precision`, `recall` and `f1` at one confidence.
        """
        return dict(zip(self.value_names, self.numbers().unbind(), strict=True))

    def numbers(self) -> Float[Tensor, " values"]:
        """The values of `summary`, in its order."""
        if not self.has_limits:
            columns = self.of_classes()
            return torch.stack([columns[name].nanmean().nan_to_num(-1.0) for name in self.value_names])
        grid, limits, num, last = self.grid, self.grid.max_detection_thresholds, len(self.recall), len(self.recall) - 1
        most, nothing = self.average_precision[last], self.recall.new_full((), -1.0)
        # By area range: recall of each limit, then precision with the largest limit, and with the limit of `map`.
        rows = _means(torch.cat([self.recall, torch.stack([*self.average_precision.values()])])).unbind()
        recalls, precision = rows[:num], dict(zip(self.average_precision, rows[num:], strict=True))
        thresholds = dict(zip(grid.iou_thresholds, _means(most[0, :, None]).unbind(), strict=True))
        groups = [torch.tensor(labels, dtype=torch.int64, device=most.device) for labels in grid.class_groups.values()]
        values = (
            precision[grid.official_limit][0],
            *(thresholds.get(value, nothing) for value in AT_THRESHOLDS.values()),
            *precision[last].unbind()[1:],
            *(_means(most[0, :, torch.isin(self.classes, labels)]) for labels in groups),
            *(recall[0] for recall in dict(zip(limits, recalls, strict=True)).values()),  # of each once
            *recalls[last].unbind()[1:],
        )
        return torch.stack(values)

    def of_classes(self) -> dict[str, Float[Tensor, " classes"]]:
        """The numbers of every class by name, in the first area range; NaN for what is undefined."""
        precision = self.headline
        thresholds, undefined = [*self.grid.iou_thresholds], torch.full_like(precision[0], torch.nan)
        values = {"map": precision.mean(0)}
        for name, value in AT_THRESHOLDS.items():
            values[name] = precision[thresholds.index(value)] if value in thresholds else undefined
        values["mar" + f"_{self.grid.max_detection_thresholds[-1]}" * self.has_limits] = self.recall[-1, 0].mean(0)
        return {**values, **self.at_confidence}

    def of_label(self, label: int) -> ClassAverages:
        """The numbers of one class; of none if no box has the label."""
        chosen = self.classes == label
        return replace(
            self,
            classes=self.classes[chosen],
            average_precision={limit: each[..., chosen] for limit, each in self.average_precision.items()},
            recall=self.recall[..., chosen],
            at_confidence={name: each[chosen] for name, each in self.at_confidence.items()},
        )


def _means(values: Float[Tensor, "*rows thresholds classes"]) -> Float[Tensor, "*rows"]:
    """Means over the last two axes without NaN; -1 where all is NaN."""
    return (values.nansum((-2, -1)) / values.isnan().logical_not_().sum((-2, -1))).nan_to_num_(-1.0)

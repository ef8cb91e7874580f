"""Average precision and recall of every class, in one form for all evaluators, and their means over classes."""

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
    """by the index of the limit: the largest limit, and the limit of `map`"""
    recall: Float[Tensor, "limits areas thresholds classes"]
    rule: _names.DetectionRule = "coco"
    """the rule of average precision, see `average_precision`"""
    has_limits: bool = True
    """whether numbers are named after area ranges and limits of detections"""
    at_confidence: Mapping[str, Float[Tensor, " classes"]] = field(default_factory=dict)
    """"precision", "recall" and "f1" at `confidence`, for evaluators that report them"""
    confidence: float | None = None

    @property
    def headline(self) -> Float[Tensor, "thresholds classes"]:
        """Average precision in the first area range, with the limit of `map`."""
        return self.average_precision[self.grid.official_limit][0]

    @property
    def value_names(self) -> list[str]:
        """Names of the numbers in `summary`."""
        if self.has_limits:
            return self.grid.value_names
        return ["map", *AT_THRESHOLDS, *self.at_confidence]

    def known(self) -> dict[str, Float[Tensor, ""]]:
        """Return the numbers of `summary`, without those at a threshold that is not in the grid."""
        all_names = self.value_names
        numbers = self.summary()
        for name, threshold in AT_THRESHOLDS.items():
            # A repeated name also stands for an area range.
            if threshold not in self.grid.iou_thresholds and all_names.count(name) < 2:
                del numbers[name]
        return numbers

    def summary(self) -> dict[str, Float[Tensor, ""]]:
        """Return the evaluator's numbers by the names of TorchMetrics, float64; -1 without a class to average over.

        `map` is the mean over thresholds and classes in the first area range, `map_50` and `map_75` the mean at one
        threshold (-1 if it is not among the thresholds). COCO has 12 numbers: `map_small` and so on for the other area
        ranges, `mar_10` for the mean recall with 10 detections, `mar_small` for an area range with the largest limit.
        The YOLO family has `precision`, `recall` and `f1` at one confidence.
        """
        return dict(zip(self.value_names, self.numbers().unbind(), strict=True))

    def numbers(self) -> Float[Tensor, " values"]:
        """Return the values of `summary`, in its order."""
        if not self.has_limits:
            columns = self.of_classes()
            return torch.stack([columns[name].nanmean().nan_to_num(-1.0) for name in self.value_names])

        # Means [areas]: recall for each limit, then precision with the largest limit, and with the limit of `map`.
        num_limits = len(self.recall)
        precision = torch.stack(list(self.average_precision.values()))
        means = _means(torch.cat([self.recall, precision])).unbind()
        recall_by_limit = means[:num_limits]
        precision_by_limit = dict(zip(self.average_precision, means[num_limits:], strict=True))
        largest_limit = num_limits - 1
        in_first_area = self.average_precision[largest_limit][0]
        threshold_means = _means(in_first_area[:, None]).unbind()
        precision_by_threshold = dict(zip(self.grid.iou_thresholds, threshold_means, strict=True))
        no_value = self.recall.new_full((), -1.0)

        # The numbers in the order of `CocoGrid.value_names`.
        values = [precision_by_limit[self.grid.official_limit][0]]
        values.extend(precision_by_threshold.get(threshold, no_value) for threshold in AT_THRESHOLDS.values())
        values.extend(precision_by_limit[largest_limit].unbind()[1:])
        for labels in self.grid.class_groups.values():
            group = torch.tensor(labels, dtype=torch.int64, device=in_first_area.device)
            values.append(_means(in_first_area[:, torch.isin(self.classes, group)]))
        # Equal limits have one number.
        recalls = dict(zip(self.grid.max_detection_thresholds, recall_by_limit, strict=True))
        values.extend(recall[0] for recall in recalls.values())
        values.extend(recall_by_limit[largest_limit].unbind()[1:])
        return torch.stack(values)

    def of_classes(self) -> dict[str, Float[Tensor, " classes"]]:
        """Return the numbers of every class by name, in the first area range; NaN for undefined ones."""
        precision = self.headline
        thresholds = list(self.grid.iou_thresholds)
        undefined = torch.full_like(precision[0], torch.nan)
        values = {"map": precision.mean(0)}
        for name, threshold in AT_THRESHOLDS.items():
            values[name] = precision[thresholds.index(threshold)] if threshold in thresholds else undefined
        recall_name = f"mar_{self.grid.max_detection_thresholds[-1]}" if self.has_limits else "mar"
        values[recall_name] = self.recall[-1, 0].mean(0)
        values.update(self.at_confidence)
        return values

    def for_label(self, label: int) -> ClassAverages:
        """Return the numbers of one class; they have no entries if no box has the label."""
        is_label = self.classes == label
        return replace(
            self,
            classes=self.classes[is_label],
            average_precision={limit: values[..., is_label] for limit, values in self.average_precision.items()},
            recall=self.recall[..., is_label],
            at_confidence={name: values[is_label] for name, values in self.at_confidence.items()},
        )


def _means(values: Float[Tensor, "*rows thresholds classes"]) -> Float[Tensor, "*rows"]:
    """Return means over the last two axes without NaN; -1 where all values are NaN."""
    return (values.nansum((-2, -1)) / values.isnan().logical_not_().sum((-2, -1))).nan_to_num_(-1.0)

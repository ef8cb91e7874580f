"""Metrics of evaluators that know neither area ranges nor limits of detections: Pascal VOC and the YOLO family."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.curves import RankedDetections
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.metrics.base import show_arguments

from .box_metric import BoxMetric
from .images import NumberedImages
from .local_matches import MatchRequest
from .match_cache import Matched
from .python_values import python_bool
from .single_values import name_and_label
from .unsound_boxes import INVALID

_NOT_DECISIVE = {"self", "max_bytes", "kwargs"}
"""arguments that do not change what `compute` gives"""
_WITH_THRESHOLD = {"map_50": 0.5, "map_75": 0.75}


@dataclass(frozen=True)
class EvaluatorRequest(MatchRequest):
    """Matches that are made in another way than COCO's."""

    matching: Callable[..., Matches] | None = None
    """of detections and ground truths, with the options of `match_best_of_all` but for its claim"""
    with_difficult: bool = False
    """whether ground truths may be difficult"""

    def _match(self, numbered: NumberedImages, *, micro: bool) -> Matches:
        assert self.matching is not None  # noqa: S101 - for the type checker: it has a default for those before it
        difficult = {"is_difficult": numbered.images.ground_truth_difficult} if self.with_difficult else {}
        return self.matching(
            *numbered.boxes(one_class=micro),
            iou_thresholds=self.grid.iou_thresholds,
            keep_ground_truths=self.with_origins,
            max_bytes=self.max_bytes,
            **difficult,
        )


class EvaluatorMetric(BoxMetric):
    """Base of metrics whose numbers are means over the classes that have ground truths."""

    VALUES: tuple[str, ...]
    """names of the numbers"""

    def __init__(
        self,
        box_format: str,
        iou_thresholds: Sequence[float],
        *,
        class_metrics: bool,
        metric: str | None,
        invalid: str,
        max_bytes: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(box_format, None, **kwargs)
        _checks.one_of("invalid", invalid, INVALID)
        _checks.fractions("iou_thresholds", iou_thresholds)
        _checks.positive_int("max_bytes", max_bytes)
        self.iou_thresholds, self.invalid, self.max_bytes = [*iou_thresholds], invalid, max_bytes
        self.class_metrics = python_bool("class_metrics", class_metrics)
        self.metric = metric
        self._single = None if metric is None else name_and_label(metric, self.VALUES)

    @abstractmethod
    def _class_values(self, matches: Matches) -> tuple[Tensor, dict[str, Tensor]]:
        """Labels, and the numbers of each by name, float64; NaN where a class has no ground truths."""

    def _request(self, matching: Callable[..., Matches], *, with_difficult: bool = False) -> EvaluatorRequest:
        """Matches of all labels by themselves, in one area range that holds everything."""
        grid = CocoGrid(tuple(self.iou_thresholds), (0.0,), (1,), {"all": (0.0, float("inf"))})
        return EvaluatorRequest(
            grid, (False,), self.max_bytes, self.box_format, matching=matching, with_difficult=with_difficult
        )

    def compute(self) -> dict[str, Tensor] | Tensor:
        """The numbers, float32; -1 where there is no ground truth to average over.

        Returns:
            Means over the classes that have ground truths, by name; with `class_metrics` also those of each of
            `classes`, by the name and "_per_class". With `metric` that number alone.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same metric.
        """
        return self._by_workers(lambda: self._value(self._match(self._match_request())))

    def _value(self, matched: Matched) -> dict[str, Tensor] | Tensor:
        classes, values = self._class_values(matched.found.matches[0])
        if self._single is not None:
            name, label = self._single
            return self._rounded(_mean(values[name] if label is None else values[name][classes == label]))
        found = {name: self._rounded(_mean(each)) for name, each in values.items()}
        if self.class_metrics:
            found |= {f"{name}_per_class": self._rounded(each.nan_to_num(-1.0)) for name, each in values.items()}
            found["classes"] = classes.to(self.device)
        return found

    def _rounded(self, values: Tensor) -> Tensor:
        return values.to(self.device, torch.float32)

    def _precision_at(self, average_precision: Tensor) -> dict[str, Tensor]:
        """`map` and its like of each class, from average precisions [thresholds, classes]."""
        thresholds, undefined = self.iou_thresholds, torch.full_like(average_precision[0], torch.nan)
        found = {"map": average_precision.mean(0)}
        for name, at in _WITH_THRESHOLD.items():
            found[name] = average_precision[thresholds.index(at)] if at in thresholds else undefined
        return found

    def _with_origins(self) -> tuple[Matches, Callable[[RankedDetections], RankedDetections]]:
        """Matches whose rows are counted in each image, and what gives images their ids; all processes must ask."""
        with self._synced():
            matched = self._match(replace(self._match_request(), with_origins=True))
        return matched.found.matches[0], lambda ranked: _with_ids(matched, ranked)

    def _log_instead(self) -> str | None:
        return f'{type(self).__name__}(metric="map")' if self.metric is None else None

    def _option_texts(self) -> dict[str, str]:
        """The options that decide the value, as texts that are the same on all processes."""
        return {name: repr(getattr(self, name)) for name in self._arguments() if name not in _NOT_DECISIVE}

    def _arguments(self) -> dict[str, Any]:
        """The names of the arguments, and their defaults."""
        parameters = inspect.signature(type(self).__init__).parameters.items()
        return {name: each.default for name, each in parameters if name not in ("self", "kwargs")}

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot the values that are one number, or several results over time; see `torchmetrics.Metric`.

        Needs matplotlib.
        """
        val = self.compute() if val is None else val
        return self._plot([*map(self._numbers, val)] if isinstance(val, Sequence) else self._numbers(val), ax)

    def _numbers(self, value: Any) -> Any:
        return {name: value[name] for name in self.VALUES} if isinstance(value, dict) else value

    def extra_repr(self) -> str:
        """The options that decide the value."""
        always = self._arguments()
        seldom = {name: always.pop(name) for name in ("invalid", "max_bytes")}
        return show_arguments(self, {name: getattr(self, name) for name in always}, seldom)


def _mean(values: Tensor) -> Tensor:
    return values.nanmean().nan_to_num(-1.0)


def _with_ids(matched: Matched, ranked: RankedDetections) -> RankedDetections:
    assert matched.numbering is not None  # noqa: S101 - the request is not plain
    assert ranked.image is not None  # noqa: S101 - matches know their images
    ids = matched.numbering.ids_by_number.to(ranked.image.device)
    return replace(ranked, image=ids[ranked.image], image_names=matched.numbering.names)

"""Near duplicates among the samples of a metric, on any number of processes."""

from __future__ import annotations

from typing import Any

from reid_torchmetrics.metrics.reid import METRIC_METHODS, EmbeddingMetric
from reid_torchmetrics.tasks.duplicates import Duplicates, check_threshold, find_pairs
from reid_torchmetrics.tasks.walks import pair_samples


def _duplicates(metric: EmbeddingMetric, threshold: float) -> Duplicates:
    """See `EmbeddingMetric.duplicates`."""

    def check() -> None:
        check_threshold(threshold, metric.similarity)

    def find(*samples: Any, **bounds: Any) -> Duplicates:
        return find_pairs(pair_samples(*samples, **bounds), threshold, metric.similarity)

    arguments = {"threshold": repr(threshold)}
    return metric._look_at_samples("duplicates", arguments, check, find)  # noqa: SLF001 - a method of the metric


METRIC_METHODS["duplicates"] = _duplicates

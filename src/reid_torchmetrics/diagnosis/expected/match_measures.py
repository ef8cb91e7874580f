"""Numbers of matches that are no mean over thresholds: precision, recall and F1 of all detections."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from reid_torchmetrics.tasks.operating_points import OperatingPoints


class MatchMeasure(NamedTuple):
    """A weighted mean over classes, at the first threshold; a class where the quantity is 0 / 0 counts 0."""

    quantity: str
    """a property of `OperatingPoints`"""
    words: str
    weights: Callable[[OperatingPoints], Tensor]
    weights_call: str
    """the weights in the line that computes it"""

    def __str__(self) -> str:
        """Return a name, by which searches tell numbers apart."""
        return f"{self.quantity} at the first threshold, {self.words}"

    @property
    def call(self) -> str:
        """The line that computes it from `points`."""
        return f"numpy.average(points.{self.quantity}[0].nan_to_num(), weights={self.weights_call})"

    def value(self, points: OperatingPoints) -> float:
        """Return the number."""
        values: Tensor = getattr(points, self.quantity)[0]
        weights = self.weights(points).double()
        return float(values.nan_to_num() @ weights / weights.sum())


_Weights: TypeAlias = tuple[Callable[[OperatingPoints], Tensor], str]
_BY_POSITIVES: _Weights = (lambda points: points.num_positives, "points.num_positives")
_DIVISORS: dict[str, _Weights] = {
    "precision": (lambda points: points.num_detections[0], "points.num_detections[0]"),
    "recall": _BY_POSITIVES,
    "f1": (
        lambda points: points.num_detections[0] + points.num_positives,
        "points.num_detections[0] + points.num_positives",
    ),
}
"""divisor of each quantity, and its code"""
MATCH_MEASURES: dict[str, MatchMeasure] = {}
"""the measures by name"""
for _name, _divisor in _DIVISORS.items():
    MATCH_MEASURES |= {
        f"micro {_name}": MatchMeasure(_name, "of all detections together", *_divisor),
        f"macro {_name}": MatchMeasure(
            quantity=_name,
            words="mean over all classes, those without ground truths as 0",
            weights=lambda points: torch.ones_like(points.num_positives),
            weights_call="None",
        ),
        f"weighted {_name}": MatchMeasure(_name, "mean over classes, weighted by their ground truths", *_BY_POSITIVES),
    }

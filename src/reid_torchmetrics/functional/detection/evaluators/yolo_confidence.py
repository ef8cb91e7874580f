"""Precision, recall and F1 of the YOLO family at a confidence: they are read on lines between detections."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments

_NUM_CONFIDENCES = 1000
_WINDOW = 101  # confidences whose F1 is averaged: a tenth of all, made odd


class JudgedDetections(NamedTuple):
    """Detections by class and descending score, judged at one threshold."""

    is_right: Bool[Tensor, " detections"]
    scores: Float[Tensor, " detections"]
    class_index: Int[Tensor, " detections"]
    num_positives: Int[Tensor, " classes"]


class AtConfidence(NamedTuple):
    """What the classes have at one confidence."""

    confidence: float
    precision: Float[Tensor, " classes"]
    recall: Float[Tensor, " classes"]
    f1: Float[Tensor, " classes"]


def read_at(detections: JudgedDetections, confidence: float, epsilon: float) -> AtConfidence:
    """At a confidence; above the best score of a class the values are those of its best detection."""
    lines = _Lines.at(detections, detections.scores.new_tensor([confidence], dtype=torch.float64))
    return lines.column(0, epsilon)


def read_at_best(detections: JudgedDetections, epsilon: float) -> AtConfidence:
    """Where the mean of F1 over the classes, smoothed by a moving average, is highest among 1,000 confidences.

    Above the best score of a class its precision is 1 and its recall 0. Source: Ultralytics 8.4.190, `ap_per_class`.
    """
    confidences = torch.from_numpy(np.linspace(0, 1, _NUM_CONFIDENCES)).to(detections.scores.device)
    lines = _Lines.at(detections, confidences).ending_at_best()
    if not len(detections.num_positives):
        return lines.column(0, epsilon)
    mean = lines.f1(epsilon).mean(0)
    padding = _WINDOW // 2
    padded = torch.cat([mean[:1].expand(padding), mean, mean[-1:].expand(padding)])
    return lines.column(int(padded.unfold(0, _WINDOW, 1).mean(1).argmax()), epsilon)


class _Lines(NamedTuple):
    """Precision and recall at ascending confidences, on the lines between detections."""

    confidences: Float[Tensor, " confidences"]
    num_above: Int[Tensor, "classes confidences"]
    """detections that score at least the confidence"""
    size: Int[Tensor, "classes 1"]
    precision: Float[Tensor, "classes confidences"]
    recall: Float[Tensor, "classes confidences"]

    @classmethod
    def at(cls, detections: JudgedDetections, confidences: Tensor) -> _Lines:
        is_right, scores, class_index, num_positives = detections
        scores, num_classes = scores.double(), len(num_positives)
        # How many of the confidences each detection reaches; who reaches more than k reaches the one at k.
        reached = torch.searchsorted(confidences, scores, right=True)
        table = num_positives.new_zeros((num_classes, len(confidences) + 1))
        table.view(-1).index_add_(0, class_index * table.shape[1] + reached, torch.ones_like(reached))
        num_above = table.flip(1).cumsum(1).flip(1)[:, 1:]
        # The line goes from the last detection that scores at least the confidence to the next one, of each class.
        size = class_index.bincount(minlength=num_classes)
        starts, size = segments.starts(size)[:, None], size[:, None]
        place = torch.stack([num_above, num_above + 1]).clamp(min=1).minimum(size)  # of the two, from 1
        found = torch.cat([is_right.new_zeros(1, dtype=torch.int64), is_right.cumsum(0)])
        hits = (found[starts + place] - found[starts]).double()
        # How far along it the confidence is; where both ends are one detection, or score the same, at its start.
        upper, lower = torch.cat([scores, scores.new_zeros(1)])[(starts + place - 1).clamp(min=0)]
        share = torch.where(upper > lower, (upper - confidences) / (upper - lower), 0.0).clamp(0, 1)

        def between(values: Tensor) -> Tensor:
            return torch.where(size > 0, values[0] + (values[1] - values[0]) * share, 0.0)

        precision, recall = between(hits / place.clamp(min=1)), between(hits / num_positives[:, None])
        return cls(confidences, num_above, size, precision, recall)

    def ending_at_best(self) -> _Lines:
        """With a precision of 1 and a recall of 0 above the best score of a class that has detections."""
        is_above = (self.num_above == 0) & (self.size > 0)
        precision, recall = self.precision.masked_fill(is_above, 1.0), self.recall.masked_fill(is_above, 0.0)
        return self._replace(precision=precision, recall=recall)

    def f1(self, epsilon: float) -> Float[Tensor, "classes confidences"]:
        return 2 * self.precision * self.recall / (self.precision + self.recall + epsilon)

    def column(self, place: int, epsilon: float) -> AtConfidence:
        values = self.precision, self.recall, self.f1(epsilon)
        return AtConfidence(float(self.confidences[place]), *(each[:, place] for each in values))

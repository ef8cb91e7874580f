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
_CLASSES = 256  # that are read at all confidences at a time, which bounds what is held


class JudgedDetections(NamedTuple):
    """Detections by class and descending score, judged at one threshold."""

    is_right: Bool[Tensor, " detections"]
    scores: Float[Tensor, " detections"]
    class_index: Int[Tensor, " detections"]
    num_positives: Int[Tensor, " classes"]

    def blocks(self) -> list[JudgedDetections]:
        """The same, a few classes in each."""
        num_classes = len(self.num_positives)
        if num_classes <= _CLASSES:
            return [self]
        sizes = self.class_index.bincount(minlength=num_classes).split(_CLASSES)
        lengths = torch.stack([size.sum() for size in sizes]).tolist()
        columns = (values.split(lengths) for values in (self.is_right, self.scores, self.class_index))
        return [
            JudgedDetections(is_right, scores, class_index - number * _CLASSES, num_positives)
            for number, (is_right, scores, class_index, num_positives) in enumerate(
                zip(*columns, self.num_positives.split(_CLASSES), strict=True)
            )
        ]


class AtConfidence(NamedTuple):
    """What the classes have at one confidence."""

    confidence: float
    precision: Float[Tensor, " classes"]
    recall: Float[Tensor, " classes"]
    f1: Float[Tensor, " classes"]


def read_at(detections: JudgedDetections, confidence: float, epsilon: float) -> AtConfidence:
    """At a confidence; above the best score of a class the values are those of its best detection."""
    lines = _Lines.at(detections, detections.scores.new_tensor([confidence], dtype=torch.float64))
    return lines.first(confidence, epsilon)


def read_at_best(detections: JudgedDetections, epsilon: float) -> AtConfidence:
    """Where the mean of F1 over the classes, smoothed by a moving average, is highest among 1,000 confidences.

    Above the best score of a class its precision is 1 and its recall 0. Source: Ultralytics 8.4.190, `ap_per_class`.
    """
    confidences = torch.from_numpy(np.linspace(0, 1, _NUM_CONFIDENCES)).to(detections.scores.device)
    total = torch.zeros_like(confidences)
    for block in detections.blocks():
        total += _Lines.at(block, confidences).ending_at_best().f1(epsilon).sum(0)
    padding = _WINDOW // 2
    padded = torch.cat([total[:1].expand(padding), total, total[-1:].expand(padding)])
    best = confidences[padded.unfold(0, _WINDOW, 1).mean(1).argmax()][None]
    lines = _Lines.at(detections, best).ending_at_best()
    return lines.first(float(best), epsilon)


class _Lines(NamedTuple):
    """Precision and recall at ascending confidences, on the lines between detections."""

    precision: Float[Tensor, "classes confidences"]
    recall: Float[Tensor, "classes confidences"]
    is_above: Bool[Tensor, "classes confidences"]
    """whether the class has detections, and none that scores the confidence"""

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
        return cls(precision, recall, (num_above == 0) & (size > 0))

    def ending_at_best(self) -> _Lines:
        """With a precision of 1 and a recall of 0 above the best score of a class."""
        precision, recall = self.precision.masked_fill(self.is_above, 1.0), self.recall.masked_fill(self.is_above, 0.0)
        return self._replace(precision=precision, recall=recall)

    def f1(self, epsilon: float) -> Float[Tensor, "classes confidences"]:
        return 2 * self.precision * self.recall / (self.precision + self.recall + epsilon)

    def first(self, confidence: float, epsilon: float) -> AtConfidence:
        """What is read at the first confidence, which is given."""
        return AtConfidence(confidence, self.precision[:, 0], self.recall[:, 0], self.f1(epsilon)[:, 0])

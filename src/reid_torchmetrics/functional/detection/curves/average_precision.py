"""Average precision of detections: the area under a precision-recall curve, by the rules of several evaluators.

A curve with n ground truths is stored at its true positives: the m-th has recall m / n and, if it is the c-th
detection, precision m / c. Up to the next one, the c'-th detection, recall is constant and precision falls, but not
below the precision there: m / (c' - 1) <= (m + 1) / c'. So the envelope, the largest precision at a detection or a
later one, is constant from after a true positive up to the next: a staircase that the true positives determine. For
instance with n = 3 ground truths:

    detection     true   false  true   false  false
    recall        1/3    1/3    2/3    2/3    2/3
    precision     1/1    1/2    2/3    2/4    2/5     stored at the first and third detection
    envelope      1      2/3    2/3    -      -       the second detection has the envelope of the next true positive
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional import segments

from .precision_recall import COCO_EPSILON, Curves, best_from_here_on, first_reaching, precision_at_points

_FEW_POSITIVES = 64
_MAX_VALUES = 1 << 17  # number of places of envelopes that are read at a time, to fit a cache


class Rule(NamedTuple):
    """A rule for the area under an envelope."""

    area: Callable[[Curves, Tensor, Tensor], Tensor]
    """computes the areas, flat, from the curves, the envelopes at their points and the recalls to read them at"""
    num_recalls: int
    """number of recalls i / (number - 1), in float64; 0 for the whole envelope"""
    epsilon: float = 0.0
    """the number that is added to the detections in a precision"""
    title: str = ""
    """name of the evaluator that has this rule"""


def average_precision(
    curves: Curves, rule: Rule, recalls: Float[Tensor, " recalls"] | None = None
) -> Float[Tensor, "*curves"]:
    """Compute the area under the upper envelope of precision-recall curves, float64, by the rules of `compute_ap`.

    By "coco" a precision is m / (c + 2^-52), as in pycocotools, by all others m / c. "coco" and "voc07" read the
    envelope at the first detection that reaches a recall. "voc" is the sum of the envelope at every true positive,
    divided by the number of ground truths. After the last recall the line of the trapezoids starts at the precision of
    all detections.

    Ignored detections are not on a curve. The area is NaN without ground truths (0 in some tools), and 0 with ground
    truths and without detections.

    Source: Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014, and pycocotools; Everingham et al.,
    "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010; WongKinYiu/ScaledYOLOv4, `utils/general.py`;
    ultralytics/yolov5, `utils/metrics.py`; Ultralytics 8.4.190, `utils/metrics.py`.

    Args:
        curves: curves of any shape.
        rule: one of `AP_RULES`, or another rule.
        recalls: other recalls to read the envelope at, ascending; "voc" reads the whole curve and needs none.
    """
    if recalls is None:
        recalls = evenly_spaced(rule.num_recalls, curves.counts.device)
    envelope = best_from_here_on(curves, precision_at_points(curves, epsilon=rule.epsilon))
    areas = rule.area(curves, envelope, recalls).view(curves.num_positives.shape)
    return areas.masked_fill(curves.num_positives == 0, torch.nan)


def mean_at_recalls(
    curves: Curves, envelope: Float[Tensor, " points"], recalls: Float[Tensor, " recalls"]
) -> Float[Tensor, " curves"]:
    """Return the mean of the envelope at the first detections that reach each recall; 0 without a true positive."""
    num_true_positives = curves.num_true_positives.flatten()
    rows = num_true_positives.nonzero()[:, 0]  # most classes have no true positive in a small area range
    # A table of the true positives that each recall needs, by number of ground truths, and the row of each curve.
    needed_row = curves.num_positives.reshape(-1).index_select(0, rows)
    if len(rows) and int(needed_row.max()) >= _FEW_POSITIVES:
        numbers, needed_row = needed_row.unique(return_inverse=True)
        needed = first_reaching(numbers, recalls)
    else:
        needed = _needed_below(_FEW_POSITIVES, recalls)
    # A 0 after the envelope of each curve, for recalls that are not reached.
    padded = envelope.new_zeros(len(envelope) + len(num_true_positives))
    padded.index_copy_(0, torch.arange(len(envelope), device=envelope.device).add_(curves.curve), envelope)
    # The m-th true positive of a curve is at `offset` + m in `padded`, and the 0 is the one after the last.
    offset = curves.starts.flatten().index_select(0, rows) + rows - 1
    number_of_zero = num_true_positives.index_select(0, rows) + 1

    def mean(some: slice) -> Tensor:
        number = needed.index_select(0, needed_row[some]).minimum(number_of_zero[some, None])
        places = number.add_(offset[some, None])
        return padded.index_select(0, places.view(-1)).view(places.shape).mean(1)

    blocks = segments.ranges(len(rows), max(1, _MAX_VALUES // len(recalls)))
    means = torch.cat([envelope[:0], *map(mean, blocks)])
    return envelope.new_zeros(len(num_true_positives)).index_copy_(0, rows, means)


@lru_cache(maxsize=8)
def _needed_below(bound: int, recalls: Tensor) -> Tensor:
    """Return `first_reaching` for all numbers of ground truths below a bound; cached, as a training step needs it.

    The cache is by identity of the tensor: `recalls_on` returns the same one for the same recalls.
    """
    return first_reaching(torch.arange(bound, device=recalls.device), recalls)


@lru_cache(maxsize=8)
def recalls_on(device: torch.device, recalls: tuple[float, ...]) -> Float[Tensor, " recalls"]:
    """Return recalls as a tensor; equal recalls share it, so it must not be written to."""
    return torch.tensor(recalls, dtype=torch.float64, device=device)


def evenly_spaced(num_recalls: int, device: torch.device) -> Float[Tensor, " recalls"]:
    """Return the recalls i / (`num_recalls` - 1) as a tensor that must not be written to."""
    return recalls_on(device, tuple(np.linspace(0, 1, num_recalls).tolist()))


AP_RULES = Registry("AP_RULES", {"coco": Rule(mean_at_recalls, num_recalls=101, epsilon=COCO_EPSILON, title="COCO")})
"""rules for the area under the curve, see `compute_ap`"""

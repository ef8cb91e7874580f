"""Average precision of detections: the area under a precision-recall curve, by the rules of several evaluators.

A curve with n ground truths is stored at its true positives: the m-th has recall m / n and, if it is the c-th
detection, precision m / c. Up to the next one, the c'-th detection, recall is constant and precision falls, but not
below the precision there: m / (c' - 1) <= (m + 1) / c'. So the envelope, the largest precision at a detection or a
later one, is constant from behind a true positive up to the next: a staircase, known from the true positives alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments

from .precision_recall import COCO_EPSILON, Curves, best_from_here_on, first_reaching, precision_at_points

_FEW_POSITIVES = 64
_MOST_INT32 = (1 << 31) - 1
_MAX_VALUES = 1 << 17  # places of envelopes read at a time: they fit a cache


class Rule(NamedTuple):
    """A rule for the area under an envelope."""

    area: Callable[[Curves, Tensor, Tensor], Tensor]
    """function of the curves, the envelopes at their points and the recalls to read them at; the areas, flat"""
    num_recalls: int
    """number of recalls i / (number - 1), in float64; 0 for the whole envelope"""
    epsilon: float = 0.0
    """added to the number of detections in a precision"""
    title: str = ""
    """where it is from"""


def average_precision(
    curves: Curves, rule: Rule, recalls: Float[Tensor, " recalls"] | None = None
) -> Float[Tensor, "*curves"]:
    """Area under the upper envelope of precision-recall curves, float64, by the rules of `compute_ap`.

    By "coco" a precision is m / (c + 2^-52), as in pycocotools, by all others m / c. "coco" and "voc07" read the
    envelope at the first detection that reaches a recall. "voc" is the sum of the envelope at every true positive,
    divided by the number of ground truths. The line of the trapezoids behind the last recall starts at the precision of
    all detections.

    Ignored detections are not on a curve. NaN without ground truths (0 in some tools); 0 with ground truths and without
    detections.

    Source: Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014, and pycocotools; Everingham et al.,
    "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010; WongKinYiu/ScaledYOLOv4, `utils/general.py`;
    ultralytics/yolov5, `utils/metrics.py`; Ultralytics 8.4.190, `utils/metrics.py`.

    Args:
        curves: of any shape.
        rule: one of `AP_RULES`, or one of your own.
        recalls: other recalls to read the envelope at, ascending; "voc" reads the whole curve instead.
    """
    if recalls is None:
        recalls = evenly_spaced(rule.num_recalls, curves.counts.device)
    envelope = best_from_here_on(curves, precision_at_points(curves, epsilon=rule.epsilon))
    areas = rule.area(curves, envelope, recalls).view(curves.num_positives.shape)
    return areas.masked_fill(curves.num_positives == 0, torch.nan)


def mean_at_recalls(
    curves: Curves, envelope: Float[Tensor, " points"], recalls: Float[Tensor, " recalls"]
) -> Float[Tensor, " curves"]:
    """Mean of the envelope at the first detections that reach each recall; 0 without a true positive."""
    num_true_positives = curves.num_true_positives.flatten()
    rows = num_true_positives.nonzero()[:, 0]  # of many classes most have no true positive in a small area range
    needed, slot = _needed(curves.num_positives.reshape(-1).index_select(0, rows), recalls)
    # The envelopes with a 0 behind each, for recalls that are not reached.
    padded = envelope.new_zeros(len(envelope) + len(num_true_positives))
    padded.index_copy_(0, torch.arange(len(envelope), device=envelope.device).add_(curves.curve), envelope)
    # Points are counted from 1 in each curve: offsets to their places, and the number of the 0 behind the last.
    before = curves.starts.flatten().index_select(0, rows) + rows - 1
    behind = num_true_positives.index_select(0, rows) + 1
    if len(padded) <= _MOST_INT32:
        needed, before, behind = needed.int(), before.int(), behind.int()

    def mean(some: slice) -> Tensor:
        places = needed.index_select(0, slot[some]).minimum(behind[some, None]).add_(before[some, None])
        return padded.index_select(0, places.view(-1)).view(places.shape).mean(1)

    blocks = segments.ranges(len(rows), max(1, _MAX_VALUES // len(recalls)))
    means = torch.cat([envelope[:0], *map(mean, blocks)])
    return envelope.new_zeros(len(num_true_positives)).index_copy_(0, rows, means)


def _needed(num_positives: Int[Tensor, " curves"], recalls: Tensor) -> tuple[Tensor, Int[Tensor, " curves"]]:
    """A table of `first_reaching` by distinct numbers of ground truths, and the row of each curve."""
    most = int(num_positives.max()) if len(num_positives) else 0
    if most < _FEW_POSITIVES:
        return _needed_of_few(recalls), num_positives
    numbers, slot = num_positives.unique(return_inverse=True)
    return first_reaching(numbers, recalls), slot


@lru_cache(maxsize=8)
def _needed_of_few(recalls: Tensor) -> Tensor:
    """`first_reaching` by number of ground truths, for small numbers; cached, for a training loop needs it every step.

    The cache is by identity of the tensor: `recalls_on` returns the same one for the same recalls.
    """
    return first_reaching(torch.arange(_FEW_POSITIVES, device=recalls.device), recalls).int()


@lru_cache(maxsize=8)
def recalls_on(device: torch.device, recalls: tuple[float, ...]) -> Float[Tensor, " recalls"]:
    """Recalls as a tensor, the same one for the same recalls: read only."""
    return torch.tensor(recalls, dtype=torch.float64, device=device)


def evenly_spaced(num_recalls: int, device: torch.device) -> Float[Tensor, " recalls"]:
    """The recalls i / (number - 1): read only."""
    return recalls_on(device, tuple(np.linspace(0, 1, num_recalls).tolist()))


def mean_over_positives(
    curves: Curves, envelope: Float[Tensor, " points"], _: Float[Tensor, " recalls"]
) -> Float[Tensor, " curves"]:
    """Sum of the envelope at all true positives, divided by the number of ground truths: the area under its steps."""
    return segments.reduce(envelope, "sum", curves.num_true_positives.flatten()) / curves.num_positives.flatten()


def trapezoids(
    curves: Curves, envelope: Float[Tensor, " points"], recalls: Float[Tensor, " recalls"], *, tail: float
) -> Float[Tensor, " curves"]:
    """Trapezoids under the envelope read at some recalls, with a slope behind the last recall R.

    Lines between the points of the envelope are the staircase itself: at the recall of a true positive they drop to the
    next step. Only the last line slopes, from the precision of all detections at R to 0 at min(R + `tail`, 1).
    """
    padded, end = functional.pad(envelope, (0, 1)), len(envelope)
    columns = (curves.starts, curves.num_true_positives, curves.num_positives, curves.num_detections)
    flat = [column.reshape(-1, 1) for column in columns]

    def area(some: slice) -> Tensor:
        starts, num_true_positives, num_positives, num_detections = (column[some] for column in flat)
        # The largest m with a recall m / n, in float64, of at most each recall.
        size = num_positives.double()
        order = (recalls * size).floor()
        order = torch.where((order + 1) / size <= recalls, order + 1, order)
        order = torch.where(order / size > recalls, order - 1, order)
        # The staircase: the envelope at the first true positive beyond each recall.
        passed = order.long().minimum(num_true_positives)
        is_step = passed < num_true_positives
        steps = padded[torch.where(is_step, starts + passed, end)]
        # The slope behind the last true positive.
        last = num_true_positives / size
        foot = (last + tail).clamp(max=1)
        slope = num_true_positives.double() / num_detections.clamp(min=1) * (foot - recalls) / (foot - last)
        return torch.trapezoid(torch.where(is_step, steps, torch.where(recalls < foot, slope, 0.0)), recalls)

    # In blocks, so that many curves at many recalls need little memory.
    blocks = segments.ranges(len(flat[0]), max(1, _MAX_VALUES // max(len(recalls), 1)))
    return torch.cat([envelope[:0], *map(area, blocks)])


AP_RULES: dict[str, Rule] = {
    "coco": Rule(mean_at_recalls, 101, COCO_EPSILON, title="COCO"),
    "voc07": Rule(mean_at_recalls, 11, title="Pascal VOC 2007"),
    "voc": Rule(mean_over_positives, 0, title="Pascal VOC"),
    "yolo": Rule(partial(trapezoids, tail=1e-3), 101, title="YOLO"),
    "yolov5": Rule(partial(trapezoids, tail=1.0), 101, title="YOLOv5"),
    "ultralytics": Rule(partial(trapezoids, tail=0.0), 101, title="Ultralytics"),
}
"""rules for the area under the curve, see `compute_ap`"""

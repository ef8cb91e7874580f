"""Average precision of detections: the area under a precision-recall curve, by the rules of several evaluators.

A curve with n ground truths is known at its true positives: the m-th has recall m / n and, if c detections came up to
and including it, precision m / c. Up to the next one recall stands and precision falls, but not below what that one
makes of it: m / (c' - 1) <= (m + 1) / c'. So the envelope, the largest precision at a detection or a later one, is the
same from behind a true positive up to the next one: it is a staircase, and known from the true positives alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import check_recalls

from .precision_recall import COCO_EPSILON, Curves, best_from_here_on, first_reaching, precision_at_points

_FEW_POSITIVES = 64
_MOST_INT32 = (1 << 31) - 1
_MAX_VALUES = 1 << 17  # envelopes are read at so many places at a time, which a cache holds


@dataclass(frozen=True)
class Rule:
    """How the area under an envelope is taken."""

    area: Callable[[Curves, Tensor, Tensor], Tensor]
    """of each curve, flat, from the curves, the envelopes at their points, and the recalls at which they are read"""
    num_recalls: int | None
    """number of those recalls, i / (number - 1) in float64; None: the envelope is read everywhere"""
    epsilon: float = 0.0
    """what is added to the number of detections in a precision"""

    def recalls(self, device: torch.device) -> Float[Tensor, " recalls"]:
        """The recalls at which an envelope is read."""
        return recalls_on(device, tuple(np.linspace(0, 1, self.num_recalls or 0).tolist()))


def average_precision(
    curves: Curves, *, rule: str = "coco", recall_thresholds: Sequence[float] | None = None
) -> Float[Tensor, "*curves"]:
    """Area under the upper envelope of precision-recall curves, float64.

    "coco": the mean over the recalls 0, 0.01, ..., 1 of the envelope at the first detection that reaches the recall, 0
    where none does; a precision is m / (c + 2^-52), as in pycocotools.

    "voc07": the same at the recalls 0, 0.1, ..., 1 with precision m / c, the eleven points of Pascal VOC 2007.

    "voc": the envelope at every true positive, summed and divided by the number of ground truths: Pascal VOC since
    2010. The code of the YOLO family has it as "continuous".

    "yolo", "yolov5", "ultralytics": trapezoids under the envelope read at the recalls 0, 0.01, ..., 1. They differ in
    where it comes down to 0 behind the last recall R, on a straight line from the precision of all detections: at
    min(R + 0.001, 1) for ScaledYOLOv4, at 1 for YOLOv5, at R itself for Ultralytics 8.4. As all of them read 0 at
    recall 1, a detector without a mistake has 0.995.

    Ignored detections are not on a curve. NaN without ground truths, where some tools say 0; 0 with ground truths and
    without detections.

    Source: Lin et al., "Microsoft COCO: Common Objects in Context", ECCV 2014, and pycocotools; Everingham et al.,
    "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010; WongKinYiu/ScaledYOLOv4, `utils/general.py`;
    ultralytics/yolov5, `utils/metrics.py`; Ultralytics 8.4.190, `utils/metrics.py`.

    Args:
        curves: of any shape.
        rule: one of `AP_RULES`.
        recall_thresholds: other recalls to read the envelope at, ascending; not with "voc".

    Raises:
        TypeError: `recall_thresholds` is not a sequence of floats.
        ValueError: an unknown `rule`, recalls outside [0, 1] or not ascending, or recalls with rule "voc".
    """
    _checks.one_of("rule", rule, AP_RULES)
    chosen = AP_RULES[rule]
    if recall_thresholds is None:
        return area_under(curves, chosen)
    check_recalls("recall_thresholds", recall_thresholds)
    if chosen.num_recalls is None:
        raise ValueError(
            f"`recall_thresholds` must be None with rule {rule!r}, which reads the whole curve; got"
            f" {recall_thresholds!r}."
        )
    recalls = torch.tensor(recall_thresholds, dtype=torch.float64, device=curves.counts.device)
    return area_under(curves, chosen, recalls)


def area_under(
    curves: Curves, rule: Rule, recalls: Float[Tensor, " recalls"] | None = None
) -> Float[Tensor, "*curves"]:
    """Area under the upper envelope of curves by a rule of one's own; see `average_precision`."""
    if recalls is None:
        recalls = rule.recalls(curves.counts.device)
    envelope = best_from_here_on(curves, precision_at_points(curves, epsilon=rule.epsilon))
    areas = rule.area(curves, envelope, recalls).view(curves.num_positives.shape)
    return areas.masked_fill(curves.num_positives == 0, torch.nan)


def mean_at_recalls(
    curves: Curves, envelope: Float[Tensor, " points"], recalls: Float[Tensor, " recalls"]
) -> Float[Tensor, " curves"]:
    """Mean of the envelope at the first detections that reach each of some recalls; 0 without a true positive."""
    num_found = curves.num_true_positives.flatten()
    rows = num_found.nonzero()[:, 0]  # of many classes most have no true positive in a small area range
    needed, slot = _needed(curves.num_positives.reshape(-1).index_select(0, rows), recalls)
    padded = _with_zeros(curves, envelope)
    # Points are counted from 1 in each curve: what is to be added to that, and the number of the 0 behind them.
    before, behind = curves.starts.flatten().index_select(0, rows) + rows - 1, num_found.index_select(0, rows) + 1
    if len(padded) <= _MOST_INT32:
        needed, before, behind = needed.int(), before.int(), behind.int()

    def mean(some: slice) -> Tensor:
        places = needed.index_select(0, slot[some]).minimum(behind[some, None]).add_(before[some, None])
        return padded.index_select(0, places.view(-1)).view(places.shape).mean(1)

    blocks = segments.ranges(len(rows), max(1, _MAX_VALUES // len(recalls)))
    means = torch.cat([envelope[:0], *map(mean, blocks)])
    return envelope.new_zeros(len(num_found)).index_copy_(0, rows, means)


def _with_zeros(curves: Curves, envelope: Float[Tensor, " points"]) -> Float[Tensor, " points_and_curves"]:
    """The envelopes with a 0 behind each, which is read at recalls that are not reached."""
    padded = envelope.new_zeros(len(envelope) + curves.num_true_positives.numel())
    return padded.index_copy_(0, torch.arange(len(envelope), device=envelope.device).add_(curves.curve), envelope)


def _needed(
    num_positives: Int[Tensor, " curves"], recalls: Tensor
) -> tuple[Int[Tensor, "numbers recalls"], Int[Tensor, " curves"]]:
    """A table of `first_reaching` by numbers of ground truths, which many curves share, and the row of each curve."""
    most = int(num_positives.max()) if len(num_positives) else 0
    if most < _FEW_POSITIVES:
        return _needed_of_few(recalls), num_positives
    numbers, slot = num_positives.unique(return_inverse=True)
    return first_reaching(numbers, recalls), slot


@lru_cache(maxsize=8)
def _needed_of_few(recalls: Tensor) -> Tensor:
    """As `first_reaching` for few ground truths, by their number: a training loop asks for it at every step.

    It is remembered for the very tensor, of which `recalls_on` gives the same for the same recalls.
    """
    return first_reaching(torch.arange(_FEW_POSITIVES, device=recalls.device), recalls)


@lru_cache(maxsize=8)
def recalls_on(device: torch.device, recalls: tuple[float, ...]) -> Float[Tensor, " recalls"]:
    """Recalls as a tensor, which is to be read only: the same one for the same recalls."""
    return torch.tensor(recalls, dtype=torch.float64, device=device)


def mean_over_positives(
    curves: Curves, envelope: Float[Tensor, " points"], _: Float[Tensor, " recalls"]
) -> Float[Tensor, " curves"]:
    """Sum of the envelope at all true positives by the number of ground truths: the area under its steps."""
    return segments.reduce(envelope, "sum", curves.num_true_positives.flatten()) / curves.num_positives.flatten()


def trapezoids(
    curves: Curves, envelope: Float[Tensor, " points"], recalls: Float[Tensor, " recalls"], *, tail: float
) -> Float[Tensor, " curves"]:
    """Trapezoids under the envelope read at some recalls, with a slope behind the last recall R.

    The straight lines that connect the envelope at every detection are the staircase itself: at the recall of a true
    positive they drop to the step of the next. Only the last one slopes, from the precision of all detections at R to 0
    at min(R + `tail`, 1).
    """
    padded = functional.pad(envelope, (0, 1))

    def area(block: _Block) -> Tensor:
        num_found, size = block.num_true_positives, block.num_positives.double()
        passed = _last_within(block.num_positives, recalls).minimum(num_found)
        last = num_found / size
        end = (last + tail).clamp(max=1)
        slope = num_found.double() / block.num_detections.clamp(min=1) * (end - recalls) / (end - last)
        behind = torch.where(recalls < end, slope, 0.0)
        return torch.trapezoid(torch.where(passed < num_found, padded[block.places(passed + 1)], behind), recalls)

    return _per_block(curves, area, len(recalls))


def _last_within(num_positives: Int[Tensor, "curves 1"], recalls: Tensor) -> Int[Tensor, "curves recalls"]:
    """The largest m whose recall m / n, in float64, is at most each of some recalls."""
    size = num_positives.double()
    order = (recalls * size).floor()
    order = torch.where((order + 1) / size <= recalls, order + 1, order)
    order = torch.where(order / size > recalls, order - 1, order)
    return order.long()


class _Block(NamedTuple):
    """Some of the curves."""

    end: int
    """number of points of all curves"""
    starts: Int[Tensor, "curves 1"]
    num_true_positives: Int[Tensor, "curves 1"]
    num_positives: Int[Tensor, "curves 1"]
    num_detections: Int[Tensor, "curves 1"]

    def places(self, orders: Int[Tensor, "curves recalls"]) -> Int[Tensor, "curves recalls"]:
        """Where the m-th true positives of the curves are, m >= 1; behind all points where a curve has fewer."""
        return torch.where(orders <= self.num_true_positives, self.starts + orders - 1, self.end)


def _per_block(curves: Curves, measure: Callable[[_Block], Tensor], num_values: int) -> Float[Tensor, " curves"]:
    """Apply `measure` to blocks of curves, so that reading many curves at many recalls needs little memory."""
    size, end = max(1, _MAX_VALUES // max(num_values, 1)), len(curves.counts)
    columns = (curves.starts, curves.num_true_positives, curves.num_positives, curves.num_detections)
    flat = [column.reshape(-1, 1) for column in columns]
    if len(flat[0]) <= size:
        return measure(_Block(end, *flat))
    blocks = zip(*(column.split(size) for column in flat), strict=True)
    return torch.cat([measure(_Block(end, *block)) for block in blocks])


AP_RULES: dict[str, Rule] = {
    "coco": Rule(mean_at_recalls, 101, COCO_EPSILON),
    "voc07": Rule(mean_at_recalls, 11),
    "voc": Rule(mean_over_positives, None),
    "yolo": Rule(partial(trapezoids, tail=1e-3), 101),
    "yolov5": Rule(partial(trapezoids, tail=1.0), 101),
    "ultralytics": Rule(partial(trapezoids, tail=0.0), 101),
}
"""How the area under the curve is taken, see `average_precision`."""

"""Rules for the area under a precision-recall curve besides COCO's: Pascal VOC's, and those of the YOLO family."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.curves import AP_RULES, Curves, Rule, mean_at_recalls

_MAX_VALUES = 1 << 17  # number of places of envelopes that are read at a time, to fit a cache


def mean_over_positives(
    curves: Curves, envelope: Float[Tensor, " points"], _: Float[Tensor, " recalls"]
) -> Float[Tensor, " curves"]:
    """Return the area under the steps of the envelope: its sum at all true positives by the number of ground truths."""
    return segments.reduce(envelope, "sum", curves.num_true_positives.flatten()) / curves.num_positives.flatten()


def trapezoids(
    curves: Curves, envelope: Float[Tensor, " points"], recalls: Float[Tensor, " recalls"], *, tail: float
) -> Float[Tensor, " curves"]:
    """Return the area of trapezoids under the envelope at some recalls, with a slope after the last recall R.

    Lines between the points of the envelope are the staircase itself: at the recall of a true positive they drop to the
    next step. Only the last line slopes, from the precision of all detections at R to 0 at min(R + `tail`, 1).
    """
    padded = functional.pad(envelope, (0, 1))
    all_starts = curves.starts.reshape(-1, 1)
    all_true_positives = curves.num_true_positives.reshape(-1, 1)
    all_positives = curves.num_positives.reshape(-1, 1)
    all_detections = curves.num_detections.reshape(-1, 1)

    def area(some: slice) -> Tensor:
        num_true_positives = all_true_positives[some]
        num_positives = all_positives[some].double()
        # The largest m with a recall m / n, in float64, that is at most each recall.
        order = (recalls * num_positives).floor()
        order = torch.where((order + 1) / num_positives <= recalls, order + 1, order)
        order = torch.where(order / num_positives > recalls, order - 1, order)
        # The staircase: the envelope at the first true positive beyond each recall.
        num_passed = order.long().minimum(num_true_positives)
        is_step = num_passed < num_true_positives
        steps = padded[torch.where(is_step, all_starts[some] + num_passed, len(envelope))]
        # The slope after the last true positive.
        last = num_true_positives / num_positives
        foot = (last + tail).clamp(max=1)
        precision = num_true_positives.double() / all_detections[some].clamp(min=1)
        slope = precision * (foot - recalls) / (foot - last)
        heights = torch.where(is_step, steps, torch.where(recalls < foot, slope, 0.0))
        return torch.trapezoid(heights, recalls)

    # In blocks, so that many curves at many recalls need little memory.
    blocks = segments.ranges(len(all_starts), max(1, _MAX_VALUES // max(len(recalls), 1)))
    return torch.cat([envelope[:0], *map(area, blocks)])


AP_RULES.update(
    voc07=Rule(mean_at_recalls, num_recalls=11, title="Pascal VOC 2007"),
    voc=Rule(mean_over_positives, num_recalls=0, title="Pascal VOC"),
    yolo=Rule(partial(trapezoids, tail=1e-3), num_recalls=101, title="YOLO"),
    yolov5=Rule(partial(trapezoids, tail=1.0), num_recalls=101, title="YOLOv5"),
    ultralytics=Rule(partial(trapezoids, tail=0.0), num_recalls=101, title="Ultralytics"),
)

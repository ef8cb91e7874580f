"""Average precision of a curve that is given as two arrays, as evaluators in NumPy have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.curves.average_precision import AP_RULES

Values = Float[Tensor, " points"]


def compute_ap(
    recall: Tensor | NDArray[np.generic] | Sequence[float],
    precision: Tensor | NDArray[np.generic] | Sequence[float],
    mode: str = "coco",
) -> Float[Tensor, ""]:
    """Area under the upper envelope of a curve that is known at each detection, best first, float64.

    The rules are those of `average_precision`, which starts from matches and is exact; here the area depends on how
    recall and precision were rounded. COCO's own precision is m / (c + 2^-52). A recall of NaN, without ground truths,
    gives NaN; a curve without detections gives 0.

    Args:
        recall: at every detection, ascending.
        precision: at the same.
        mode: one of `AP_RULES`.

    Raises:
        TypeError: arguments that are no arrays.
        ValueError: an unknown `mode`, arrays that are not [N] and [N], or a recall that falls.
    """
    _checks.one_of("mode", mode, AP_RULES)
    for argument, value in (("recall", recall), ("precision", precision)):
        _checks.array_like(argument, value)
    found, height = (
        torch.as_tensor(value, dtype=torch.float64, device=getattr(value, "device", "cpu"))
        for value in (recall, precision)
    )
    if found.ndim != 1 or found.shape != height.shape:
        raise ValueError(
            f"`recall` and `precision` must have the same shape [N]; got {[*found.shape]} and {[*height.shape]}."
        )
    if bool((found.diff() < 0).any()):
        raise ValueError(f"`recall` must not fall; got {found.tolist()}.")
    if not len(found):
        return found.new_zeros(())
    if bool(found.isnan().any()):
        return found.new_full((), torch.nan)
    return _AREAS[mode](found, height)


def envelope_at(recall: Values, precision: Values, recalls: Float[Tensor, " recalls"]) -> Float[Tensor, " recalls"]:
    """The largest precision at each of some recalls or at a higher one, 0 where none is reached."""
    return functional.pad(envelope_of(precision), (0, 1))[torch.searchsorted(recall, recalls)]


def envelope_of(precision: Values) -> Values:
    """The largest precision at each detection or at a later one."""
    return precision.flip(0).cummax(0).values.flip(0)


def evenly_spaced(num_recalls: int) -> Float[Tensor, " recalls"]:
    """The recalls i / (number - 1)."""
    return torch.from_numpy(np.linspace(0, 1, num_recalls))


def _mean_at_recalls(recall: Values, precision: Values, *, num_recalls: int) -> Float[Tensor, ""]:
    return envelope_at(recall, precision, evenly_spaced(num_recalls).to(recall.device)).mean()


def _steps(recall: Values, precision: Values) -> Float[Tensor, ""]:
    return (recall.diff(prepend=recall.new_zeros(1)) * envelope_of(precision)).sum()


def _trapezoids(recall: Values, precision: Values, *, first: float, tail: float) -> Float[Tensor, ""]:
    """Trapezoids under straight lines through the envelope, which comes down to 0 within `tail` of the last recall.

    `first` is a precision that is put before all others, at recall 0.
    """
    end = (recall[-1:] + tail).clamp(max=1)
    # As in `numpy.interp`: of several points with the same recall the last one holds.
    points = torch.cat([recall.new_zeros(1), recall, end, recall.new_ones(1)])
    heights = envelope_of(torch.cat([precision.new_full((1,), first), precision, precision.new_zeros(2)]))
    recalls = evenly_spaced(101).to(recall.device)
    left = (torch.searchsorted(points, recalls, right=True) - 1).clamp(max=len(points) - 2)
    run, rise = points[left + 1] - points[left], heights[left + 1] - heights[left]
    share = torch.where(run > 0, (recalls - points[left]) / run, 1.0)
    return torch.trapezoid(heights[left] + rise * share, recalls)


_AREAS: dict[str, Callable[[Values, Values], Tensor]] = {
    "coco": partial(_mean_at_recalls, num_recalls=101),
    "voc07": partial(_mean_at_recalls, num_recalls=11),
    "voc": _steps,
    "yolo": partial(_trapezoids, first=0.0, tail=1e-3),
    "yolov5": partial(_trapezoids, first=1.0, tail=1.0),
    "ultralytics": partial(_trapezoids, first=1.0, tail=0.0),
}

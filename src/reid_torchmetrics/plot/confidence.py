"""Precision, recall and F1 of a detector over its confidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.functional.detection.curves import ConfidenceCurve, confidence_curve
from reid_torchmetrics.functional.detection.evaluators import ClassAverages
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.plot.axes import in_percent, new_axes
from reid_torchmetrics.plot.labels import add_legend_below, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_POINTS = 2000  # more than a picture has columns


class Matched(Protocol):
    """Results of an evaluation of detections that have the matches, such as `DetectionMAP.results()`."""

    @property
    def matches(self) -> Matches:
        """What is counted."""

    @property
    def averages(self) -> ClassAverages:
        """Whose grid has the thresholds of overlap."""


def plot_confidence(
    results: Matched,
    *,
    iou_threshold: float = 0.5,
    names: Mapping[int, str] | None = None,
    label: int | None = None,
    ax: Axes | None = None,
) -> tuple[Figure | SubFigure, Axes]:
    """Draw precision, recall and F1 over the confidence from which on detections are accepted.

    They are means over the classes that have ground truths, precision over those of them that have a detection, or
    those of one class; see `confidence_curve`. A line marks the confidence with the highest F1; the legend has what is
    reached there, and says where nothing is defined. Precision ends at the highest score: above it nothing is
    detected. In percent, drawn into `ax` if given. Returns the figure and its axes.

    Args:
        results: `DetectionMAP.results()`.
        iou_threshold: one of those of the evaluation.
        names: of the classes by label; without a name the label is shown.
        label: the class; None for the means.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `iou_threshold` is not a number, or `label` is not an int.
        ValueError: `iou_threshold` is not one of the evaluation's, or no box has the label.
    """
    threshold = results.averages.grid.threshold_index(iou_threshold)
    curve = confidence_curve(results.matches, label, threshold=threshold)
    is_own, ax = ax is None, new_axes() if ax is None else ax
    limits = _limits(curve.confidence)
    _draw(ax, curve, limits)
    named = f"class {label}" if names is None or label is None else names.get(label, f"class {label}")
    of = f"mean of {curve.num_classes} classes" if label is None else shown(named)
    ax.set(xlabel="confidence", ylabel="precision, recall and F1 (%)", title=f"{of}, IoU {iou_threshold:g}")
    in_percent(ax, "y")
    ax.set_xlim(*limits)
    ax.grid(alpha=0.3)
    add_legend_below(ax, is_own=is_own, title=_said(curve), loc="lower center")
    return ax.figure, ax


def _draw(ax: Axes, curve: ConfidenceCurve, limits: tuple[float, float]) -> None:
    """The three curves, and a line at the best confidence."""
    best = curve.best()
    measures = {"precision": (curve.precision, math.nan), "recall": (curve.recall, 0.0), "F1": (curve.f1, 0.0)}
    for name, (values, above) in measures.items():
        reached = "" if best is None else f"{100 * float(values[best]):.1f} %"
        x, y = _steps(curve, values, above, limits)
        ax.plot(x.cpu().numpy(), 100 * y.cpu().numpy(), drawstyle="steps-pre", label=f"{name}  {reached}".strip())
    if best is not None:
        ax.axvline(float(curve.confidence[best]), color="black", linewidth=1, linestyle="dashed")


def _limits(confidence: Float[Tensor, " scores"]) -> tuple[float, float]:
    """0 and 1, as confidences are probabilities; wider where they are not."""
    if not len(confidence):
        return 0.0, 1.0
    return min(0.0, float(confidence[-1])), max(1.0, float(confidence[0]))


def _steps(
    curve: ConfidenceCurve, values: Float[Tensor, " scores"], above: float, limits: tuple[float, float]
) -> tuple[Float[Tensor, " points"], Float[Tensor, " points"]]:
    """Confidences and the values up to each of them from the one before; `above` is that above the highest score."""
    if not _is_defined(curve):
        return values[:0], values[:0]
    ends = values.new_tensor(limits)
    scores, values = curve.confidence.flip(0), torch.cat([values.flip(0), values.new_tensor([above])])
    x = torch.cat([ends[:1], scores, ends[1:]])
    if len(x) > _MOST_POINTS:
        x = torch.linspace(*limits, _MOST_POINTS, dtype=torch.float64, device=x.device)
    return x, values[torch.searchsorted(scores, x)]


def _is_defined(curve: ConfidenceCurve) -> bool:
    return curve.num_classes > 0 and not bool(curve.recall.isnan().any())


def _said(curve: ConfidenceCurve) -> str:
    """What the numbers of the legend are."""
    if not _is_defined(curve):
        return "undefined: no ground truth"
    best = curve.best()
    if best is None:
        return "no detection is right"
    return f"best F1, at confidence {float(curve.confidence[best]):.3f}"

"""Precision over recall of detections.

Precision, recall and F1 of a detector over its confidence.

The curve of one class, detection by detection, and the area that an evaluator takes of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.curves import AP_RULES, ConfidenceCurve, DetectionCurve, confidence_curve
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.detection.evaluators import evaluate_headline

from .axes import add_legend, add_legend_below, in_percent, labeled, new_axes, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_NAMED = 10  # so many curves have colors and names of their own
_MOST_DRAWN = 200  # more gray lines are no more to be seen


def plot_detection_precision_recall(
    results: DetectionResults | Mapping[str, DetectionResults],
    *,
    iou_threshold: float | None = 0.5,
    names: Mapping[int, str] | None = None,
    ax: Axes | None = None,
) -> tuple[Figure | SubFigure, Axes]:
    """Draw precision over recall: of all classes of one evaluation and their mean, or the means of several by name.

    What is drawn is what COCO reads of a curve: at each recall the largest precision from there on, 0 where the recall
    is not reached, in the area range and with the limit of detections of `map`. The legend has the average precision
    by the rule of the evaluation, which its title names. By "coco" that is the mean height of the line that is
    drawn; the other rules take the area between its points, too, or under slopes that are not drawn. Classes without
    ground truths are left out; of more than ten only the mean has a name, and of more than 200 there are 200 lines,
    from the lowest average precision to the highest, and a remark. In percent, drawn into `ax` if given. Returns the
    figure and its axes.

    Args:
        results: those of a metric or of an evaluation.
        iou_threshold: one of those of the evaluation; None for the mean over all of them.
        names: of the classes by label; without a name the label is shown.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `iou_threshold` is not a number.
        ValueError: `iou_threshold` is not one of the evaluation's, or several have average precisions by different
            rules, which are not to be compared.
    """
    listed = [*results.values()] if isinstance(results, Mapping) else [results]
    _checks.names_of_labels("names", names)
    rules = [each.averages.rule for each in listed]
    _checks.alike("results", "rule", rules)
    remark = ""
    if isinstance(results, Mapping):
        lines = [_mean_line(name, _Chosen.of(each, iou_threshold)) for name, each in results.items()]
    else:
        chosen = _Chosen.of(results, iou_threshold)
        lines = _lines_of_classes(chosen, names or {})
        if len(chosen.labels) > _MOST_DRAWN:
            remark = f"\n{_MOST_DRAWN} of {len(chosen.labels):,} classes are drawn, evenly by AP"
    is_own, ax = ax is None, new_axes() if ax is None else ax
    for line in lines:
        label = labeled(line.name, f"AP {line.average:.1f} %") if line.name else None
        ax.plot(line.recalls, line.percent.numpy(), label=label, **line.style)
    at = "mean over IoU thresholds" if iou_threshold is None else f"IoU {iou_threshold:g}"
    ax.set(xlabel="recall (%)", ylabel="precision (%)", title=f"Precision and recall, {at}{remark}")
    in_percent(ax, "xy")
    ax.grid(alpha=0.3)
    add_legend(ax, is_own=is_own, title=f"AP by rule {rules[0]!r}" if rules else None)
    return ax.figure, ax


class _Line(NamedTuple):
    name: str
    recalls: list[float]
    percent: Tensor
    average: float
    """average precision in percent"""
    style: dict[str, Any]


class _Chosen(NamedTuple):
    """What is to be drawn of an evaluation, of the classes with ground truths, in percent."""

    labels: list[int]
    recalls: list[float]
    precision: Tensor
    """[recalls, classes]"""
    average: Tensor
    """average precision of each class"""

    @classmethod
    def of(cls, results: DetectionResults, iou_threshold: float | None) -> _Chosen:
        """At an IoU threshold, or the mean over all of them."""
        grid = results.averages.grid
        places = slice(None) if iou_threshold is None else [grid.threshold_index(iou_threshold)]
        coco = evaluate_headline(results.matches, grid, iou_threshold=iou_threshold)
        precision = coco.precision[..., 0, 0].mean(0)
        has_positives = coco.recall[0, :, 0, 0] >= 0
        average = results.averages.average_precision[grid.official_limit][0, places].mean(0)
        return cls(
            coco.classes[has_positives].tolist(),
            [100 * recall for recall in grid.recall_thresholds],
            100 * precision[:, has_positives].cpu(),
            100 * average[has_positives].cpu(),
        )


def _mean_line(name: str, chosen: _Chosen, **style: Any) -> _Line:
    return _Line(name, chosen.recalls, chosen.precision.mean(1), float(chosen.average.mean()), style)


def _lines_of_classes(chosen: _Chosen, names: Mapping[int, str]) -> list[_Line]:
    """A line for each class, and on top of them their mean where there are several."""
    labels, places = chosen.labels, torch.arange(len(chosen.labels), device="cpu")
    style: dict[str, Any] = {}
    shown = [""] * len(labels)
    if len(labels) <= _MOST_NAMED:
        shown = [names.get(label, f"class {label}") for label in labels]
    else:
        style = {"color": "grey", "linewidth": 0.8, "alpha": 0.35}
    if len(labels) > _MOST_DRAWN:
        even = torch.linspace(0, len(labels) - 1, _MOST_DRAWN, device="cpu").round().long()
        places = chosen.average.argsort(stable=True)[even]
        shown = shown[:_MOST_DRAWN]
    columns = zip(shown, chosen.precision.T[places], chosen.average[places].tolist(), strict=True)
    lines = [_Line(name, chosen.recalls, curve, average, style) for name, curve, average in columns]
    if len(lines) > 1:
        lines.append(_mean_line(f"mean of {len(labels)} classes", chosen, color="black", linewidth=2.5))
    return lines


_MOST_POINTS = 2000  # more than a picture has columns


def plot_detection_confidence(
    results: DetectionResults,
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
        results: those of a metric or of an evaluation.
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


_MOST_MARKED = 200  # so many detections can be told apart


def plot_detection_curve(
    curve: DetectionCurve, *, rule: str = "voc", ax: Axes | None = None
) -> tuple[Figure | SubFigure, Axes]:
    """Draw precision over recall after each detection of a class, its upper envelope, and what a rule reads of it.

    The legend has the average precision: by "voc" the area under the envelope, which is shaded; by "voc07" and "coco"
    the mean of 11 or 101 points, which are marked; by the others trapezoids that are not drawn. Ignored detections are
    left out. In percent, drawn into `ax` if given. Returns the figure and its axes.

    Args:
        curve: `ranked.of_class(label)` of the results of an evaluator.
        rule: one of `functional.detection.AP_RULES`.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: an unknown `rule`.
    """
    _checks.one_of("rule", rule, AP_RULES)
    is_own, ax = ax is None, new_axes() if ax is None else ax
    counts = ~curve.is_ignored
    recall, precision, envelope = (
        (100 * values[counts]).cpu().tolist() for values in (curve.recall, curve.precision, curve.envelope)
    )
    area = f"AP {100 * curve.average_precision(rule):.2f} % by rule {rule!r}"
    if recall and curve.num_positives:
        marker = "." if len(recall) <= _MOST_MARKED else None
        ax.plot(recall, precision, color="tab:blue", linewidth=1, marker=marker, label="after each detection")
        steps = [0.0, *recall, recall[-1]], [envelope[0], *envelope, 0.0]
        shade = area if rule == "voc" else None
        ax.step(*steps, where="pre", color="tab:red", linewidth=1, label="envelope")
        ax.fill_between(*steps, step="pre", color="tab:red", alpha=0.12, linewidth=0, label=shade)
    num_recalls = AP_RULES[rule].num_recalls
    if rule in ("voc07", "coco") and num_recalls and curve.num_positives:
        points = [(100 * values).tolist() for values in curve.at_recalls(num_recalls)]
        ax.plot(*points, "o", color="black", markersize=5 if rule == "voc07" else 2, label=area, clip_on=False)
    elif rule != "voc" or not recall or not curve.num_positives:
        ax.plot([], [], " ", label=area)
    num_right = int(curve.is_true_positive.sum())
    title = f"{len(recall)} detections, {num_right} right, of {curve.num_positives} ground truths"
    ax.set(xlabel="recall (%)", ylabel="precision (%)", title=title)
    in_percent(ax, "xy")
    ax.grid(alpha=0.3)
    add_legend_below(ax, is_own=is_own)
    return ax.figure, ax

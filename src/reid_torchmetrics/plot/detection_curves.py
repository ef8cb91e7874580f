"""Curves of a detector: precision over recall, measures over the confidence, and one class detection by detection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._names import DetectionRule
from reid_torchmetrics.functional.detection.curves import AP_RULES, DetectionCurve, confidence_curve
from reid_torchmetrics.functional.detection.evaluation import DetectionResults, name_of
from reid_torchmetrics.functional.detection.evaluators import evaluate_headline

from .axes import MANY, Axes, Named, Plotted, by_name, in_percent, labeled, new_axes, over_recall, shown, with_legend

_MOST_NAMED = 10  # curves with colors and names of their own
_MOST_CURVES = 200  # more gray lines cannot be told apart
_MOST_POINTS = 2000  # more than a picture has columns
_MOST_MARKED = 200  # detections that can be told apart
_MEAN = {"color": "black", "linewidth": 2.5}
_Line: TypeAlias = tuple[str | None, Tensor, dict[str, Any]]
"""label, precision at each recall, and style"""


def plot_detection_precision_recall(
    results: Named[DetectionResults],
    *,
    iou_threshold: float | None = 0.5,
    class_names: Mapping[int, str] | None = None,
    ax: Axes | None = None,
) -> Plotted:
    """Draw precision over recall: of all classes of one evaluation and their mean, or the means of several by name.

    The curves are COCO's: at each recall the largest precision from there on, 0 where the recall is not
    reached, in the area range and with the limit of detections of `map`. The legend has the average precision by the
    rule of the evaluation, in its title. By "coco" that is the mean height of the line; the other rules take the
    area between its points, too, or under slopes that are not drawn. Classes without ground truths are left out; of
    more than ten only the mean has a name, and of more than 200 there are 200 lines, from the lowest average precision
    to the highest, and a remark. In percent, drawn into `ax` if given. Returns the figure and its axes.

    Args:
        results: of a metric or of an evaluation.
        iou_threshold: one of the evaluation's; None for the mean over all of them.
        class_names: of the classes by label; without a name the label is shown.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `iou_threshold` is not a number.
        ValueError: `iou_threshold` is not one of the evaluation's, or average precisions of several evaluations are by
            different rules and cannot be compared.
    """
    _checks.names_of_labels("class_names", class_names)
    rules = [each.averages.rule for each in by_name(results).values()]
    _checks.alike("results", "rule", rules)
    is_own, ax = ax is None, new_axes() if ax is None else ax
    remark = ""
    for name, each in by_name(results).items():
        labels, precision, average = _class_curves(each, iou_threshold)
        num, said = len(labels), f"mAP {float(average.mean()):.1f} %"
        lines: list[_Line] = [(labeled(name, said) if name else None, precision.mean(1), {})]
        if isinstance(results, DetectionResults):
            mean: _Line = (labeled(f"mean of {num} classes", said), precision.mean(1), _MEAN)
            lines = [*_lines_of_classes(labels, precision, average, class_names or {}), *[mean] * (num > 1)]
            remark = f"\n{_MOST_CURVES} of {num:,} classes are drawn, evenly by AP" * (num > _MOST_CURVES)
        recalls = [100 * recall for recall in each.averages.grid.rec_thresholds]
        for label, heights, style in lines:  # a precision holds up to its recall
            ax.plot(recalls, heights.numpy(), drawstyle="steps-pre", label=label, **style)
    at = "mean over IoU thresholds" if iou_threshold is None else f"IoU {iou_threshold:g}"
    over_recall(ax, f"Precision and recall, {at}{remark}")
    title = f"AP as in {AP_RULES[rules[0]].title}" if rules else None
    return with_legend(ax, is_own=is_own, is_below=True, title=title)


def _class_curves(results: DetectionResults, iou_threshold: float | None) -> tuple[list[int], Tensor, Tensor]:
    """Labels of the classes with ground truths, precision [recalls, classes] and average precision, in percent.

    They are at an IoU threshold, or means over all thresholds.
    """
    grid = results.averages.grid
    thresholds = slice(None) if iou_threshold is None else [grid.threshold_index(iou_threshold)]
    headline = evaluate_headline(results.matches, grid, iou_threshold=iou_threshold)
    has_positives = headline.recall[0, :, 0, 0] >= 0
    precision = headline.precision[..., 0, 0].mean(0)[:, has_positives]
    average = results.average_precision[thresholds].mean(0)[has_positives]
    return headline.classes[has_positives].tolist(), 100 * precision.cpu(), 100 * average.cpu()


def _lines_of_classes(labels: list[int], precision: Tensor, average: Tensor, names: Mapping[int, str]) -> list[_Line]:
    """A line for each class; of too many classes even ones by their average precision."""
    columns = torch.arange(len(labels), device="cpu")
    if len(labels) > _MOST_CURVES:
        even = torch.linspace(0, len(labels) - 1, _MOST_CURVES, device="cpu").round().long()
        columns = average.argsort(stable=True)[even]
    if len(labels) > _MOST_NAMED:
        return [(None, precision[:, column], MANY) for column in columns.tolist()]
    said = [f"AP {value:.1f} %" for value in average.tolist()]
    return [(labeled(name_of(label, names), said[at]), precision[:, at], {}) for at, label in enumerate(labels)]


def plot_detection_confidence(
    results: DetectionResults,
    *,
    iou_threshold: float = 0.5,
    class_names: Mapping[int, str] | None = None,
    label: int | None = None,
    ax: Axes | None = None,
) -> Plotted:
    """Draw precision, recall and F1 over the least confidence of accepted detections.

    They are means over the classes with ground truths, for precision over the classes that also have a detection, or of
    one class; see `confidence_curve`. A line marks the confidence with the highest F1; the legend has the values
    there, or says that nothing is defined. Precision ends at the highest score: above it nothing is detected. In
    percent, drawn into `ax` if given. Returns the figure and its axes.

    Args:
        results: of a metric or of an evaluation.
        iou_threshold: one of the evaluation's.
        class_names: of the classes by label; without a name the label is shown.
        label: the class; None for the means.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `iou_threshold` is not a number, or `label` is not an int.
        ValueError: `iou_threshold` is not one of the evaluation's, or no box has the label.
    """
    curve = confidence_curve(results.matches, label, threshold=results.averages.grid.threshold_index(iou_threshold))
    is_own, ax = ax is None, new_axes() if ax is None else ax
    scores = curve.confidence.flip(0)
    # 0 and 1, as confidences are probabilities; wider for other scores.
    limits = min([0.0, *scores[:1].tolist()]), max([1.0, *scores[-1:].tolist()])
    best, is_defined = curve.best(), curve.num_classes > 0 and not bool(curve.recall.isnan().any())
    title = "no detection is right" if is_defined else "undefined: no ground truth"
    # Confidences ascend, with the values up to each of them.
    ends = scores.new_tensor(limits)
    x = torch.cat([ends[:1], scores, ends[1:]])
    if len(x) > _MOST_POINTS:
        x = torch.linspace(*limits, _MOST_POINTS, dtype=torch.float64, device=x.device)
    x = x if is_defined else x[:0]
    # And the value above the highest score.
    measures = {"precision": (curve.precision, math.nan), "recall": (curve.recall, 0.0), "F1": (curve.f1, 0.0)}
    for name, (values, above) in measures.items():
        at_best = "" if best is None else f"{100 * float(values[best]):.1f} %"
        y = torch.cat([values.flip(0), values.new_tensor([above])])[torch.searchsorted(scores, x)]
        ax.plot(x.cpu().numpy(), 100 * y.cpu().numpy(), drawstyle="steps-pre", label=f"{name}  {at_best}".strip())
    if best is not None:
        ax.axvline(float(curve.confidence[best]), color="black", linewidth=1, linestyle="dashed")
        title = f"best F1, at confidence {float(curve.confidence[best]):.3f}" if is_defined else title
    about = f"mean of {curve.num_classes} classes" if label is None else shown(name_of(label, class_names or {}))
    ax.set(xlabel="confidence", ylabel="precision, recall and F1 (%)", title=f"{about}, IoU {iou_threshold:g}")
    in_percent(ax, "y")
    ax.set_xlim(*limits)
    return with_legend(ax, is_own=is_own, is_below=True, title=title, loc="lower center")


def plot_detection_curve(curve: DetectionCurve, *, rule: DetectionRule = "voc", ax: Axes | None = None) -> Plotted:
    """Draw precision over recall after each detection of a class, its upper envelope, and the points of a rule.

    The legend has the average precision: by "voc" the area under the envelope, which is shaded; by "voc07" and "coco"
    the mean of 11 or 101 points, which are marked; by the others trapezoids that are not drawn. Ignored detections are
    left out. In percent, drawn into `ax` if given. Returns the figure and its axes.

    Args:
        curve: `ranked.of_class(label)` of the results of an evaluator.
        rule: as in `compute_ap`.
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
    has_curve = bool(recall and curve.num_positives)
    if has_curve:
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
    elif rule != "voc" or not has_curve:
        ax.plot([], [], " ", label=area)
    num_right = int(curve.is_true_positive.sum())
    over_recall(ax, f"{len(recall)} detections, {num_right} right, of {curve.num_positives} ground truths")
    return with_legend(ax, is_own=is_own, is_below=True)

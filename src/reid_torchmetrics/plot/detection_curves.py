"""Curves of a detector: precision over recall, measures over the confidence, and one class detection by detection."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._names import DetectionRule
from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.functional.detection.evaluation import DetectionResults, name_of
from reid_torchmetrics.functional.detection.evaluators import PrecisionGrid, evaluate_matches
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.functional.displays import UNDEFINED, counted
from reid_torchmetrics.tasks.operating_points import DetectionCurve, confidence_curve

from .axes import (
    THIN_CURVE,
    Axes,
    Named,
    Plotted,
    add_legend,
    by_name,
    curve_label,
    new_axes,
    set_percent_axis,
    set_precision_recall_axes,
    short_name,
)

_MOST_NAMED = 10  # curves with colors and names of their own
_MOST_CURVES = 200  # more gray lines cannot be told apart
_MOST_POINTS = 2000  # more than a picture has columns
_MOST_MARKED = 200  # detections that can be told apart


def plot_detection_precision_recall(
    results: Named[DetectionResults],
    *,
    iou_threshold: float | None = 0.5,
    class_names: Mapping[int, str] | None = None,
    ax: Axes | None = None,
) -> Plotted:
    """Draw precision over recall: of all classes of one evaluation and their mean, or the means of several by name.

    The curves are COCO's: at each recall they have the largest precision from there on, and 0 where the recall is not
    reached, in the area range and with the limit of detections of `map`. The legend has the average precision, and its
    title the rule of the evaluation. By the rule "coco" average precision is the mean height of the curve; the other
    rules take the area between its points, too, or under slopes that are not drawn. Classes without ground truths are
    left out. If there are more than ten classes, only the mean has a name; if there are more than 200, only 200 curves
    are drawn, evenly from the lowest average precision to the highest, and a remark says so. All values are in percent.
    Returns the figure and its axes.

    Args:
        results: of a metric or of an evaluation.
        iou_threshold: one of the evaluation's; None for the mean over all of them.
        class_names: of the classes by label; without a name the label is shown.
        ax: axes to draw into; None for those of a new figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `iou_threshold` is not a number.
        ValueError: `iou_threshold` is not one of the evaluation's, or average precisions of several evaluations are by
            different rules and cannot be compared.
    """
    _checks.names_of_labels("class_names", class_names)
    named_results = by_name(results)
    rules = [part.averages.rule for part in named_results.values()]
    _checks.alike("results", "rule", rules)
    ax = ax or new_axes()
    remark = ""
    for name, part in named_results.items():
        labels, precision, average_precision = _class_curves(part, iou_threshold)
        num_classes = len(labels)
        recalls = [100 * recall for recall in part.averages.grid.rec_thresholds]
        draw = partial(ax.plot, recalls, drawstyle="steps-pre")  # a precision holds up to its recall
        mean_text = f"mAP {float(average_precision.mean()):.1f} %"
        mean_precision = precision.mean(1).numpy()
        if not isinstance(results, DetectionResults):
            draw(mean_precision, label=curve_label(name, mean_text) if name else None)
            continue
        _draw_classes(draw, labels, precision, average_precision, class_names or {})
        if num_classes > 1:
            mean_label = curve_label(f"mean of {num_classes} classes", mean_text)
            draw(mean_precision, label=mean_label, color="black", linewidth=2.5)
        if num_classes > _MOST_CURVES:
            remark = f"\n{_MOST_CURVES} of {num_classes:,} classes are drawn, evenly by AP"
    thresholds = "mean over IoU thresholds" if iou_threshold is None else f"IoU {iou_threshold:g}"
    set_precision_recall_axes(ax, f"Precision and recall, {thresholds}{remark}")
    title = f"AP as in {AP_RULES[rules[0]].title}" if rules else None
    return add_legend(ax, is_below=True, title=title)


def evaluate_headline(matches: Matches, grid: CocoGrid, *, iou_threshold: float | None = None) -> PrecisionGrid:
    """Compute the part of `evaluate_matches` that `map` is based on: the first area range, with the limit of `map`.

    It takes a twelfth of the memory, and at one `iou_threshold` a hundredth: COCO's whole grid is large for many
    classes, 1.8 GB for 10,000.
    """
    thresholds = slice(None)
    if iou_threshold is not None:
        index = grid.threshold_index(iou_threshold)
        thresholds = slice(index, index + 1)
    limit = grid.official_limit
    matches = matches.within(limit)
    matches = matches.map_columns(
        lambda values: values[:1, thresholds],
        num_positives=matches.num_positives[:1],
        limits=torch.zeros_like(matches.limits),
    )
    first_area, *_ = grid.area_ranges
    part_of_grid = CocoGrid(
        iou_thresholds=grid.iou_thresholds[thresholds],
        rec_thresholds=grid.rec_thresholds,
        max_detection_thresholds=[grid.max_detection_thresholds[limit]],
        area_ranges={first_area: grid.area_ranges[first_area]},
    )
    return evaluate_matches(matches, part_of_grid)


def _class_curves(results: DetectionResults, iou_threshold: float | None) -> tuple[list[int], Tensor, Tensor]:
    """Return labels of the classes with ground truths, precision [recalls, classes] and average precision, in percent.

    They are at an IoU threshold, or means over all thresholds.
    """
    grid = results.averages.grid
    thresholds = slice(None) if iou_threshold is None else [grid.threshold_index(iou_threshold)]
    headline = evaluate_headline(results.matches, grid, iou_threshold=iou_threshold)
    has_positives = headline.recall[0, :, 0, 0] >= 0
    precision = headline.precision[..., 0, 0].mean(0)[:, has_positives]
    average_precision = results.average_precision[thresholds].mean(0)[has_positives]
    return headline.classes[has_positives].tolist(), 100 * precision.cpu(), 100 * average_precision.cpu()


def _draw_classes(
    draw: Callable[..., object],
    labels: list[int],
    precision: Tensor,
    average_precision: Tensor,
    names: Mapping[int, str],
) -> None:
    """Draw a curve for each class; of too many classes some, evenly by their average precision."""
    num_classes = len(labels)
    if num_classes <= _MOST_NAMED:
        for column, (label, value) in enumerate(zip(labels, average_precision.tolist(), strict=True)):
            draw(precision[:, column].numpy(), label=curve_label(name_of(label, names), f"AP {value:.1f} %"))
        return
    columns = torch.arange(num_classes, device="cpu")
    if num_classes > _MOST_CURVES:
        even_places = torch.linspace(0, num_classes - 1, _MOST_CURVES, device="cpu").round().long()
        columns = average_precision.argsort(stable=True)[even_places]
    for column in columns.tolist():
        draw(precision[:, column].numpy(), **THIN_CURVE)


def plot_detection_confidence(
    results: DetectionResults,
    *,
    iou_threshold: float = 0.5,
    class_names: Mapping[int, str] | None = None,
    label: int | None = None,
    ax: Axes | None = None,
) -> Plotted:
    """Draw precision, recall and F1 over the least confidence of accepted detections.

    The values are means over the classes with ground truths, for precision over the classes that also have a detection,
    or values of one class; see `confidence_curve`. A line marks the confidence with the highest F1. The legend has the
    values there, or says that nothing is defined. Precision ends at the highest score, as nothing is detected above it.
    All values are in percent. Returns the figure and its axes.

    Args:
        results: of a metric or of an evaluation.
        iou_threshold: one of the evaluation's.
        class_names: of the classes by label; without a name the label is shown.
        label: the class; None for the means.
        ax: axes to draw into; None for those of a new figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `iou_threshold` is not a number, or `label` is not an int.
        ValueError: `iou_threshold` is not one of the evaluation's, or no box has the label.
    """
    curve = confidence_curve(results.matches, label, threshold=results.averages.grid.threshold_index(iou_threshold))
    ax = ax or new_axes()
    # Confidences ascend, from 0 to 1 as probabilities do; wider for other scores.
    scores = curve.confidence.flip(0)
    low = min([0.0, *scores[:1].tolist()])
    high = max([1.0, *scores[-1:].tolist()])
    is_defined = curve.num_classes > 0 and not bool(curve.recall.isnan().any())
    if not is_defined:
        x = scores[:0]
    elif len(scores) + 2 > _MOST_POINTS:
        x = torch.linspace(low, high, _MOST_POINTS, dtype=torch.float64, device=scores.device)
    else:
        x = torch.cat([scores.new_tensor([low]), scores, scores.new_tensor([high])])

    # Each measure up to each confidence, and its value above the highest score.
    best = curve.best()
    measures = {"precision": (curve.precision, math.nan), "recall": (curve.recall, 0.0), "F1": (curve.f1, 0.0)}
    for name, (values, value_above) in measures.items():
        ascending = torch.cat([values.flip(0), values.new_tensor([value_above])])
        y = ascending[torch.searchsorted(scores, x)]
        text = name if best is None else f"{name}  {100 * float(values[best]):.1f} %"
        ax.plot(x.cpu().numpy(), 100 * y.cpu().numpy(), drawstyle="steps-pre", label=text)
    title = "no detection is right" if is_defined else f"{UNDEFINED}: no ground truth"
    if best is not None:
        best_confidence = float(curve.confidence[best])
        ax.axvline(best_confidence, color="black", linewidth=1, linestyle="dashed")
        if is_defined:
            title = f"best F1, at confidence {best_confidence:.3f}"
    classes = f"Mean of {counted(curve.num_classes, 'class')}"
    if label is not None:
        classes = short_name(name_of(label, class_names or {}))
    ax.set(xlabel="confidence", ylabel="precision, recall and F1 (%)", title=f"{classes}, IoU {iou_threshold:g}")
    set_percent_axis(ax, "y")
    ax.set_xlim(low, high)
    return add_legend(ax, is_below=True, title=title, loc="lower center")


def plot_detection_curve(curve: DetectionCurve, *, rule: DetectionRule = "voc", ax: Axes | None = None) -> Plotted:
    """Draw precision over recall after each detection of a class, its upper envelope, and the points of a rule.

    The legend has the average precision. By "voc" it is the area under the envelope, which is shaded; by "voc07" and
    "coco" it is the mean of 11 or 101 points, which are marked; by the other rules it is the area of trapezoids, which
    are not drawn. Ignored detections are left out. All values are in percent. Returns the figure and its axes.

    Args:
        curve: `ranked.for_class(label)` of the results of an evaluator.
        rule: as in `compute_ap`.
        ax: axes to draw into; None for those of a new figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: an unknown `rule`.
    """
    _checks.one_of("rule", rule, AP_RULES)
    ax = ax or new_axes()
    counts = ~curve.is_ignored
    recall, precision, envelope = (
        (100 * values[counts]).cpu().tolist() for values in (curve.recall, curve.precision, curve.envelope)
    )
    average_text = f"AP {100 * curve.average_precision(rule):.2f} % by rule {rule!r}"

    # The curve and its envelope.
    has_curve = bool(recall and curve.num_positives)
    if has_curve:
        marker = "." if len(recall) <= _MOST_MARKED else None
        ax.plot(recall, precision, color="tab:blue", linewidth=1, marker=marker, label="after each detection")
        corners = ([0.0, *recall, recall[-1]], [envelope[0], *envelope, 0.0])
        area_label = average_text if rule == "voc" else None
        ax.step(*corners, where="pre", color="tab:red", linewidth=1, label="envelope")
        ax.fill_between(*corners, step="pre", color="tab:red", alpha=0.12, linewidth=0, label=area_label)

    # The points of a rule; other rules have an entry in the legend alone.
    num_recalls = AP_RULES[rule].num_recalls
    if rule in ("voc07", "coco") and num_recalls and curve.num_positives:
        points = [(100 * values).tolist() for values in curve.at_recalls(num_recalls)]
        size = 5 if rule == "voc07" else 2
        ax.plot(*points, "o", color="black", markersize=size, label=average_text, clip_on=False)
    elif rule != "voc" or not has_curve:
        ax.plot([], [], " ", label=average_text)
    num_right = int(curve.is_true_positive.sum())
    title = (
        f"{counted(len(recall), 'detection')}, {num_right:,} right, of {counted(curve.num_positives, 'ground truth')}"
    )
    set_precision_recall_axes(ax, title)
    return add_legend(ax, is_below=True)

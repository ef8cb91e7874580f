"""Precision over recall of detections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.evaluators import ClassAverages, CocoResults, evaluate_headline
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.plot.axes import in_percent, new_axes
from reid_torchmetrics.plot.labels import add_legend, labeled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_NAMED = 10  # so many curves have colors and names of their own
_MOST_DRAWN = 200  # more gray lines are no more to be seen


class Evaluated(Protocol):
    """Results of an evaluation of detections, such as `DetectionMAP.results()`."""

    @property
    def matches(self) -> Matches:
        """What is drawn comes of them: precision on COCO's grid."""

    @property
    def averages(self) -> ClassAverages:
        """What the legend says: average precision by the rule of the evaluation."""


def plot_precision_recall(
    results: Evaluated | CocoResults | Mapping[str, Evaluated | CocoResults],
    *,
    iou_threshold: float | None = 0.5,
    names: Mapping[int, str] | None = None,
    ax: Axes | None = None,
) -> tuple[Figure | SubFigure, Axes]:
    """Draw precision over recall: of all classes of one evaluation and their mean, or the means of several by name.

    What is drawn is what COCO reads of a curve: at each recall the largest precision from there on, 0 where the recall
    is not reached, in the area range and with the limit of detections of `map`. The legend has the average precision
    by the `interpolation` of the metric, which its title names. By "coco" that is the mean height of the line that is
    drawn; the other rules take the area between its points, too, or under slopes that are not drawn. Classes without
    ground truths are left out; of more than ten only the mean has a name, and of more than 200 there are 200 lines,
    from the lowest average precision to the highest, and a remark. In percent, drawn into `ax` if given. Returns the
    figure and its axes.

    Args:
        results: `DetectionMAP.results()`, or what `coco_evaluate` gives, whose average precision is COCO's.
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
    _checks.alike("results", "interpolation", rules)
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
    add_legend(ax, is_own=is_own, title=f"AP by interpolation {rules[0]!r}" if rules else None)
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
    def of(cls, results: Evaluated | CocoResults, iou_threshold: float | None) -> _Chosen:
        """At an IoU threshold, or the mean over all of them."""
        grid = results.averages.grid
        places = slice(None) if iou_threshold is None else [grid.threshold_index(iou_threshold)]
        if isinstance(results, CocoResults):
            coco, precision = results, results.precision[places][..., 0, grid.official_limit].mean(0)
        else:
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

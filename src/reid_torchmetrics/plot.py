"""Pictures of plain results; matplotlib is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._checks import detection_metric as _detection_checks
from reid_torchmetrics.functional.detection.coco import CocoResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_NAMED = 10  # so many curves have colours and names of their own
_MOST_INSIDE = 5  # so many names leave room for the curves
_CLOSE = 1e-6  # the threshold 0.9 is 0.8999999999999999 in COCO


def plot_cmc(curves: Tensor | Mapping[str, Tensor], *, ax: Axes | None = None) -> tuple[Figure | SubFigure, Axes]:
    """Draw one CMC curve, or several by name; a curve [max_rank] holds the CMC at ranks 1 ... max_rank.

    The identification rate in percent over the rank, drawn into `ax` if given. Returns the figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    ax = _new_axes() if ax is None else ax
    named = curves if isinstance(curves, Mapping) else {"": curves}
    for name, curve in named.items():
        percent = 100 * curve.detach().cpu().double().reshape(-1)
        ranks = range(1, len(percent) + 1)
        label = f"{name}  (rank-1 {percent[0]:.1f} %)".strip()
        ax.plot(ranks, percent.numpy(), marker="o", markersize=3, label=label)
    ax.set(xlabel="rank", ylabel="identification rate (%)", title="Cumulative matching characteristic")
    ax.set_xticks(_rank_ticks(max(len(curve.reshape(-1)) for curve in named.values())))
    ax.set_ylim(top=101)
    ax.grid(alpha=0.3)
    ax.legend(loc="lower right")
    return ax.figure, ax


def _new_axes() -> Axes:
    import matplotlib.pyplot as plt  # noqa: PLC0415 - a large import that evaluation does not need

    _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    return ax


def _rank_ticks(max_rank: int) -> list[int]:
    """Rank 1, which is the most read, and some ten round ranks."""
    step = 1 if max_rank <= 10 else 5 * max(1, max_rank // 50)
    return [1, *range(step if step > 1 else 2, max_rank + 1, step)]


def plot_precision_recall(
    results: CocoResults | Mapping[str, CocoResults],
    *,
    iou_threshold: float | None = 0.5,
    names: Mapping[int, str] | None = None,
    ax: Axes | None = None,
) -> tuple[Figure | SubFigure, Axes]:
    """Draw precision over recall: of all classes of one evaluation and their mean, or the means of several by name.

    What is drawn is what COCO averages: at each recall the largest precision from there on, 0 where the recall is not
    reached, in the area range and with the limit of detections of `map`. So the mean height of a curve is an average
    precision, which stands in the legend. Classes without ground truths are left out; of more than ten only the mean
    has a name. In percent, drawn into `ax` if given. Returns the figure and its axes.

    Args:
        results: of `coco_evaluate`, or `coco` of `DetectionMAP.results()`.
        iou_threshold: one of those of the evaluation; None for the mean over all of them.
        names: of the classes by label; without a name the label is shown.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `iou_threshold` is not a number.
        ValueError: `iou_threshold` is not one of the evaluation's.
    """
    room_beside = ax is None
    ax = _new_axes() if ax is None else ax
    if isinstance(results, Mapping):
        lines = [_mean_line(name, each, iou_threshold) for name, each in results.items()]
    else:
        lines = _lines_of_classes(results, iou_threshold, names or {})
    for line in lines:
        label = f"{line.name}  (AP {line.percent.mean():.1f} %)" if line.name else None
        ax.plot(line.recalls, line.percent.numpy(), label=label, **line.style)
    at = "mean over IoU thresholds" if iou_threshold is None else f"IoU {iou_threshold:g}"
    ax.set(xlabel="recall (%)", ylabel="precision (%)", title=f"Precision and recall, {at}")
    ax.set(xlim=(-1, 101), ylim=(-1, 101))
    ax.grid(alpha=0.3)
    num_named = sum(line.name != "" for line in lines)
    if room_beside and num_named > _MOST_INSIDE:
        ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    elif num_named:
        ax.legend(fontsize="small")
    return ax.figure, ax


class _Line(NamedTuple):
    name: str
    recalls: list[float]
    percent: Tensor
    style: dict[str, Any]


def _mean_line(name: str, results: CocoResults, iou_threshold: float | None) -> _Line:
    recalls, of_classes = _percent(results, iou_threshold)
    return _Line(name, recalls, of_classes.mean(1), {})


def _lines_of_classes(results: CocoResults, iou_threshold: float | None, names: Mapping[int, str]) -> list[_Line]:
    """A line for each class, and on top of them their mean where there are several."""
    recalls, of_classes = _percent(results, iou_threshold)
    labels = results.classes[_has_positives(results)].tolist()
    style: dict[str, Any]
    if len(labels) <= _MOST_NAMED:
        shown, style = [str(names.get(label, f"class {label}")) for label in labels], {}
    else:
        shown, style = [""] * len(labels), {"color": "grey", "linewidth": 0.8, "alpha": 0.35}
    lines = [_Line(name, recalls, curve, style) for name, curve in zip(shown, of_classes.T, strict=True)]
    if len(lines) > 1:
        mean = f"mean of {len(labels)} classes"
        lines.append(_Line(mean, recalls, of_classes.mean(1), {"color": "black", "linewidth": 2.5}))
    return lines


def _percent(results: CocoResults, iou_threshold: float | None) -> tuple[list[float], Tensor]:
    """Recalls, and precision [recalls, classes] at them of the classes with ground truths, in percent."""
    grid = results.grid
    precision = results.precision[..., 0, grid.official_limit]
    precision = precision.mean(0) if iou_threshold is None else precision[_place(iou_threshold, grid.iou_thresholds)]
    recalls = [100 * recall for recall in grid.recall_thresholds]
    return recalls, 100 * precision[:, _has_positives(results)].cpu()


def _has_positives(results: CocoResults) -> Tensor:
    return results.recall[0, :, 0, 0] >= 0


def _place(threshold: float, thresholds: Sequence[float]) -> int:
    _checks.number("iou_threshold", threshold)
    places = [place for place, each in enumerate(thresholds) if abs(each - threshold) < _CLOSE]
    _detection_checks.one_threshold("iou_threshold", threshold, thresholds, known=bool(places))
    return places[0]

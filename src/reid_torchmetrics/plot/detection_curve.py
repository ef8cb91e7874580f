"""The curve of one class, detection by detection, and the area that an evaluator takes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.curves import AP_RULES, DetectionCurve
from reid_torchmetrics.plot.axes import in_percent, new_axes
from reid_torchmetrics.plot.labels import add_legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

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

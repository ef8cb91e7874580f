"""Which classes are detected as which.

What each kind of error costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.errors import ConfusionMatrix, ErrorBreakdown

from .axes import new_axes, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

BACKGROUND = "background"
MOST_CLASSES = 100
"""so many classes are drawn: rows of more are too thin to be told apart"""
_MOST_WRITTEN = 13  # so many rows leave room for numbers in the cells
_MOST_TICKS = 30  # so many classes have their names beside the cells; of more, some
_MOST_CHARACTERS = 18  # of a name: more of them leave no room for the cells
_MOST_ACROSS = 5  # so many short names fit below the columns
_LEAST = 0.5  # stands for 0 on a logarithmic scale, with the lightest color
_LONG = 3  # names with more characters are written upwards below the columns
_DARK = 0.5  # of the scale of colors: from here on numbers are light
_SIZE, _LARGE, _LARGEST = (6.4, 5.2), (8.4, 7.0), (11.0, 9.4)  # of the figure, by the number of classes


def plot_confusion_matrix(
    matrix: ConfusionMatrix,
    *,
    normalize: bool = True,
    names: Mapping[int, str] | None = None,
    ax: Axes | None = None,
) -> tuple[Figure | SubFigure, Axes]:
    """Draw how often ground truths of a class (rows) were detected as a class (columns), or were missed.

    The last row are detections that took no ground truth, the last column ground truths that no detection took. By
    default in percent of each row, of which colors go from 0 to 100; else counts, on a logarithmic scale of colors.
    Numbers are in the cells of up to twelve classes, but for zeros. A hatched row has no counts. Of more than thirty
    classes some have their names beside the cells; of more than 100 those of the pairs that are confused most are
    drawn, whose shares are of whole rows. Drawn into `ax` if given, which shares its place with the scale of colors.
    Returns the figure and its axes.

    Args:
        matrix: `results.confusion_matrix()`, or what `confusion_matrix` gives.
        normalize: shares of rows, or counts.
        names: of the classes by label; without a name the label is shown.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `normalize` is not True or False.
    """
    _checks.boolean("normalize", normalize)
    _checks.names_of_labels("names", names)
    matrix = matrix.among(MOST_CLASSES)
    size = len(matrix.counts)
    ax = new_axes(_figure_size(size)) if ax is None else ax
    values = (100 * matrix.normalized if normalize else matrix.counts.double()).cpu()
    values[-1, -1] = math.nan  # background that is not detected is nothing that could be counted
    ax.patch.set(facecolor="whitesmoke", hatch="////", edgecolor="lightgrey", linewidth=0)
    colored = values if normalize else values.clamp(min=_LEAST)
    image = ax.imshow(colored.numpy(), cmap="Blues", **_scale(values, normalize=normalize))
    _add_scale(ax, image, normalize=normalize)
    if size <= _MOST_WRITTEN:
        _write_numbers(ax, values, image, normalize=normalize)
    _name_classes(ax, matrix.classes.tolist(), names or {})
    _part_background(ax, size)
    title = f"Confusion of classes, IoU {matrix.iou_threshold:g}, rule {matrix.rule!r}"
    if matrix.num_left_out:
        title += f"\n{matrix.num_left_out:,} classes that are confused less are left out"
    ax.set(xlabel="detected as", ylabel="ground truth", title=title)
    return ax.figure, ax


def _figure_size(size: int) -> tuple[float, float]:
    """Larger for more rows, up to a size that is still seen as a whole."""
    if size <= _MOST_WRITTEN:
        return _SIZE
    return _LARGE if size <= _MOST_TICKS + 1 else _LARGEST


def _add_scale(ax: Axes, image: Any, *, normalize: bool) -> None:
    """The scale of colors, counts as plain numbers."""
    bar = ax.figure.colorbar(image, ax=ax, label="of the row (%)" if normalize else "boxes")
    if not normalize:
        powers = _powers_of_ten(float(image.norm.vmax))
        bar.set_ticks([_LEAST, *powers], labels=["0", *(f"{power:g}" for power in powers)])
        bar.ax.minorticks_off()


def _powers_of_ten(most: float) -> list[float]:
    """1, 10, 100 and so on."""
    return [10.0**power for power in range(1 + int(math.log10(most)))]


def _scale(values: Tensor, normalize: bool) -> dict[str, Any]:
    from matplotlib.colors import LogNorm  # noqa: PLC0415 - a large import that evaluation does not need

    shared = {"aspect": "auto", "interpolation": "nearest"}
    if normalize:
        return {**shared, "vmin": 0, "vmax": 100}
    return {**shared, "norm": LogNorm(_LEAST, max(2.0, float(values.nan_to_num(nan=0.0).max())))}


def _write_numbers(ax: Axes, values: Tensor, image: Any, *, normalize: bool) -> None:
    """The number of each cell that is not 0."""
    for row, column in (values.nan_to_num(nan=0.0) > 0).nonzero().tolist():
        value = float(values[row, column])
        text = _percent(value) if normalize else f"{value:.0f}"
        color = "white" if image.norm(value) >= _DARK else "black"
        ax.text(column, row, text, ha="center", va="center", color=color, fontsize="small")


def _percent(value: float) -> str:
    """In whole percent, but for what is not 0 and would look so."""
    return "<1" if value < 0.5 else f"{value:.0f}"  # noqa: PLR2004 - a half


def _name_classes(ax: Axes, labels: Sequence[int], names: Mapping[int, str]) -> None:
    """Names beside the rows and below the columns, of background always."""
    step = -(-len(labels) // _MOST_TICKS) or 1
    places = [
        place for place in range(0, len(labels), step) if place == len(labels) - 1 or len(labels) - place > step / 2
    ]
    texts = [shown(names.get(labels[place], labels[place]), _MOST_CHARACTERS) for place in places]
    places, texts = [*places, len(labels)], [*texts, BACKGROUND]
    rotation = 90 if any(len(text) > _LONG for text in texts[:-1]) or len(labels) > _MOST_ACROSS else 0
    ax.set_xticks(places, texts, fontsize="small", rotation=rotation)
    ax.set_yticks(places, texts, fontsize="small")


def _part_background(ax: Axes, size: int) -> None:
    """Lines before background."""
    for line in (ax.axhline, ax.axvline):
        line(size - 1.5, color="grey", linewidth=0.8)


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_ALL_TOGETHER = ("all false positives", "all misses")
_ROOM = 1.25  # for the number beside the longest bar
_LEAST_WIDTH = 1.0  # percentage points, so that bars of almost nothing are not seen as long ones


def plot_error_breakdown(breakdown: ErrorBreakdown, *, ax: Axes | None = None) -> tuple[Figure | SubFigure, Axes]:
    """Draw the percentage points of average precision that the repair of each kind of error adds, with their counts.

    Below them is what is added if all false positives, or all misses, are dropped. What is added by one repair is not
    added to that of another: the sum of the bars is no number. Drawn into `ax` if given. Returns the figure and its
    axes.

    Args:
        breakdown: `results.error_breakdown()`, or what `error_breakdown` gives.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    names = [*breakdown.gains, *_ALL_TOGETHER]
    gains = [*breakdown.gains.values(), breakdown.false_positive_gain, breakdown.false_negative_gain]
    points = [0.0 if math.isnan(gain) else 100 * gain for gain in gains]
    ax = new_axes() if ax is None else ax
    places = [*range(len(breakdown.gains)), *(len(breakdown.gains) + 0.5 + place for place in range(2))]
    colors = ["tab:blue"] * len(breakdown.gains) + ["tab:gray"] * len(_ALL_TOGETHER)
    ax.barh(places, points, color=colors)
    for place, point, gain in zip(places, points, gains, strict=True):
        text = "–" if math.isnan(gain) else f"{point:.1f}"  # noqa: RUF001 - a dash that is as wide as a digit
        ax.text(max(point, 0.0), place, f" {text}", va="center", fontsize="small")
    counts = [f" ({count:,})" for count in breakdown.counts.values()]
    ax.set_yticks(places, [f"{name}{count}" for name, count in zip(names, [*counts, "", ""], strict=True)])
    ax.invert_yaxis()
    base = breakdown.average_precision
    said = "undefined: no ground truths" if math.isnan(base) else f"AP is {100 * base:.1f} %"
    ax.set(
        xlim=(0, max(_LEAST_WIDTH, _ROOM * max(points))),
        xlabel="AP gained by repairing it (percentage points)",
        title=f"Kinds of errors; {said}",
    )
    return ax.figure, ax

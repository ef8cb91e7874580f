"""Matrices in color: a measure between pairs of cameras, and the confusion of classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.displays import UNDEFINED, counted
from reid_torchmetrics.functional.retrieval.evaluation import CameraPairs
from reid_torchmetrics.tasks.detection_errors import ConfusionMatrix

from .axes import Axes, Plotted, new_axes, short_name

_BACKGROUND = "background"
_CELLS: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest"}
MOST_CLASSES = 100
"""the most classes of a picture: rows of more are too thin to be told apart"""
_MOST_CHARACTERS = 18  # of a name: more of them leave no room for the cells

_MOST_CAMERAS_WRITTEN = 12  # rows or columns that leave room for numbers in the cells
_MOST_CAMERAS_NAMED = 25  # of more cameras some have their names beside the cells
_LONG_CAMERA = 4  # names with more characters are written upwards below the columns
_DARK_PERCENT = 50  # colors of values on one side of it want light numbers

_MOST_ROWS_WRITTEN = 13
"""rows that leave room for numbers in the cells, that of background among them"""
_MOST_CLASSES_NAMED = 30  # of more classes some have their names beside the cells
_MOST_ACROSS = 5  # short names that fit below the columns
_LONG_CLASS = 3  # names with more characters are written upwards below the columns
_SIZES = {6: (6.4, 5.2), _MOST_CLASSES_NAMED + 1: (8.4, 7.0)}
"""sizes of figures by their largest number of rows"""
_LARGEST_SIZE = (11.0, 9.4)
"""size of a figure with more rows"""


def plot_camera_pairs(
    pairs: CameraPairs, *, name: str = "mean", camera_names: Mapping[int, str] | None = None, ax: Axes | None = None
) -> Plotted:
    """Draw the mean of a measure for each query camera (rows) against each gallery camera (columns), in percent.

    The colors always go from 0 to 100 %, so pictures of several epochs can be compared. Numbers are in the cells of up
    to twelve rows and columns; more have a scale of colors instead. A hatched cell is not defined: no query of the
    camera has a right answer in the other. Returns the figure and its axes.

    Args:
        pairs: `results.by_camera_pair()`.
        name: of the measure in the picture, such as "mAP".
        camera_names: of the cameras by label; None for those that the evaluation was given. Without a name the label
            is shown.
        ax: axes to draw into; None for those of a new figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: a mean is outside [0, 1], as a mean rank is.
    """
    mean = pairs.mean.detach().cpu()
    outside = mean[(mean < 0) | (mean > 1)]
    if len(outside):
        raise ValueError(f"`pairs` must have means from 0 to 1, to be read in percent; got {float(outside[0])}.")
    percent = 100 * mean
    if not mean.numel():
        percent = mean.new_full([max(1, size) for size in mean.shape], math.nan)
    ax = ax or new_axes()
    name = short_name(name, _MOST_CHARACTERS)
    # Cells without color show the ground.
    ax.patch.set(facecolor="lightgrey", hatch="////", edgecolor="grey", linewidth=0)
    has_numbers = max(percent.shape) <= _MOST_CAMERAS_WRITTEN
    _color_percent(ax, percent, "viridis", "" if has_numbers else f"{name} (%)")
    if has_numbers:
        for (row, column), value in np.ndenumerate(percent.numpy()):
            text = UNDEFINED if math.isnan(value) else f"{value:.0f}"
            _write(ax, row, column, text, is_light=value <= _DARK_PERCENT)
    xlabel = "gallery camera"
    if bool(percent.isnan().any()):
        xlabel += f"\n{UNDEFINED}, hatched: no query has a match there"
    ax.set(xlabel=xlabel, ylabel="query camera", title=f"{name} between cameras (%)")
    names = pairs.camera_names if camera_names is None else camera_names
    _name_cameras(ax.xaxis, pairs.gallery_cameras.tolist(), names, is_below=True)
    _name_cameras(ax.yaxis, pairs.query_cameras.tolist(), names, is_below=False)
    return ax.figure, ax


def _name_cameras(axis: Any, cameras: Sequence[int], names: Mapping[int, str] | None, *, is_below: bool) -> None:
    """Write the names of cameras along an axis; only some of many, and long ones upwards below the columns."""
    step = _tick_step(len(cameras), _MOST_CAMERAS_NAMED)
    texts = _names_of_labels(cameras[::step], names)
    is_upward = is_below and any(len(text) > _LONG_CAMERA for text in texts)
    axis.set_ticks(range(0, len(cameras), step), texts, fontsize="small", rotation=90 if is_upward else 0)


def _tick_step(num_ticks: int, max_ticks: int) -> int:
    """Return the least step between ticks that leaves at most `max_ticks`."""
    return max(1, math.ceil(num_ticks / max_ticks))


def _color_percent(ax: Axes, percent: Tensor, colors: str, label: str) -> None:
    """Draw cells in colors from 0 to 100 %, with the scale of colors if it has a label."""
    image = ax.imshow(percent.numpy(), cmap=colors, vmin=0, vmax=100, **_CELLS)
    if label:
        ax.figure.colorbar(image, ax=ax, label=label, ticks=range(0, 101, 20))


def plot_confusion_matrix(
    matrix: ConfusionMatrix,
    *,
    class_names: Mapping[int, str] | None = None,
    ax: Axes | None = None,
) -> Plotted:
    """Draw how often ground truths of a class (rows) were detected as a class (columns), or were missed.

    The last row has the detections that matched no ground truth, the last column the ground truths that no detection
    matched. Colors are shares of each row, from 0 to 100 %. The cells of up to twelve classes have counts and
    percentages of their row, except zeros; more classes have a scale of colors instead. A hatched row has no counts. If
    there are more than thirty classes, only some have their names beside the cells. If there are more than 100, the
    most confused ones are drawn, in shares of whole rows. Returns the figure and its axes.

    Args:
        matrix: `results.confusion_matrix()`, or the result of `confusion_matrix`.
        class_names: of the classes by label; without a name the label is shown.
        ax: axes to draw into; None for those of a new figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    _checks.names_of_labels("class_names", class_names)
    matrix = matrix.among(MOST_CLASSES)
    num_rows = len(matrix.counts)
    ax = ax or new_axes(size_for_rows(num_rows))
    percent = 100 * matrix.normalized.cpu()
    percent[-1, -1] = math.nan  # background that is not detected cannot be counted
    ax.patch.set(facecolor="whitesmoke", hatch="////", edgecolor="lightgrey", linewidth=0)
    has_numbers = num_rows <= _MOST_ROWS_WRITTEN
    _color_percent(ax, percent, "Blues", "" if has_numbers else "of the row (%)")
    if has_numbers:
        for row, column in (percent > 0).nonzero().tolist():
            value = float(percent[row, column])
            share = f"{value:.0f}" if value >= 0.5 else "<1"  # noqa: PLR2004 - a share that is rounded to 0 is not 0
            text = f"{int(matrix.counts[row, column])}\n({share} %)"
            _write(ax, row, column, text, is_light=value >= _DARK_PERCENT)
    _name_classes(ax, matrix.classes.tolist(), class_names)
    for draw_line in (ax.axhline, ax.axvline):  # before background
        draw_line(num_rows - 1.5, color="grey", linewidth=0.8)
    title = f"Confusion matrix, IoU {matrix.iou_threshold:g}"
    if matrix.rule != "coco":
        title += f", {matrix.rule} matching"
    if has_numbers:
        title += ": objects (% of the row)"
    if matrix.num_left_out:
        title += f"\nwithout {counted(matrix.num_left_out, 'class')} confused less"
    ax.set(xlabel="detected as", ylabel="ground truth", title=title)
    return ax.figure, ax


def size_for_rows(num_rows: int) -> tuple[float, float]:
    """Return the size of a new figure for a confusion matrix."""
    for max_rows, size in _SIZES.items():
        if num_rows <= max_rows:
            return size
    return _LARGEST_SIZE


def _name_classes(ax: Axes, labels: Sequence[int], names: Mapping[int, str] | None) -> None:
    """Write the names of classes and of background along both axes; only some of many classes."""
    background = len(labels)
    step = _tick_step(len(labels), _MOST_CLASSES_NAMED)
    # No name is close to that of background, except the last one.
    rows = [row for row in range(0, background, step) if row == background - 1 or background - row > step / 2]
    texts = _names_of_labels([labels[row] for row in rows], names)
    is_upward = len(labels) > _MOST_ACROSS or any(len(text) > _LONG_CLASS for text in texts)
    ticks = [*rows, background]
    texts.append(_BACKGROUND)
    ax.set_xticks(ticks, texts, fontsize="small", rotation=90 if is_upward else 0)
    ax.set_yticks(ticks, texts, fontsize="small")


def _names_of_labels(labels: Sequence[int], names: Mapping[int, str] | None) -> list[str]:
    """Return short names of labels; a label without a name is its own."""
    return [short_name((names or {}).get(label, label), _MOST_CHARACTERS) for label in labels]


def _write(ax: Axes, row: int, column: int, text: str, *, is_light: bool) -> None:
    """Write into the middle of a cell."""
    color = "white" if is_light else "black"
    ax.text(column, row, text, ha="center", va="center", color=color, fontsize="small")

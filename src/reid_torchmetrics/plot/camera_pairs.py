"""Measures between pairs of cameras."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation import CameraPairs

from .axes import new_axes, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_WRITTEN = 12  # so many rows or columns leave room for numbers in the cells
_MOST_TICKS = 25  # so many cameras have their names beside the cells; of more, some
_MOST_CHARACTERS = 18  # of a name: more of them leave no room for the cells
_LONG = 4  # names with more characters are written upwards below the columns
_DARK = 50  # colors of values up to it, in percent, want light numbers


def plot_camera_pairs(
    pairs: CameraPairs,
    *,
    name: str = "mean",
    camera_names: Mapping[int, str] | None = None,
    ax: Axes | None = None,
) -> tuple[Figure | SubFigure, Axes]:
    """Draw the mean of a measure for each query camera (rows) against each gallery camera (columns), in percent.

    The colors always go from 0 to 100 %, so pictures of several epochs can be compared. Numbers are in the cells of up
    to twelve rows and columns. A hatched cell is not defined: no query of the camera has a right answer in the other.
    Drawn into `ax` if given, which shares its place with the scale of colors. Returns the figure and its axes.

    Args:
        pairs: `results.by_camera_pair()`.
        name: what the measure is called in the picture, "mAP" say.
        camera_names: of the cameras by label; without a name the label is shown.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: a mean is outside [0, 1], as a mean rank is.
    """
    mean = pairs.mean.detach().cpu()
    outside = mean[(mean < 0) | (mean > 1)]
    if len(outside):
        raise ValueError(f"`pairs` must have means from 0 to 1, to be read in percent; got {float(outside[0])}.")
    if not mean.numel():
        mean = mean.new_full([max(1, size) for size in mean.shape], math.nan)
    ax = new_axes() if ax is None else ax
    # Cells without color show the ground.
    ax.patch.set(facecolor="lightgrey", hatch="////", edgecolor="grey", linewidth=0)
    image = ax.imshow((100 * mean).numpy(), cmap="viridis", vmin=0, vmax=100, aspect="auto", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label=f"{shown(name, _MOST_CHARACTERS)} (%)", ticks=range(0, 101, 20))
    if max(mean.shape) <= _MOST_WRITTEN:
        _write_numbers(ax, 100 * mean)
    remark = "\nhatched: undefined, no query has a right answer there" if bool(mean.isnan().any()) else ""
    ax.set(
        xlabel=f"gallery camera{remark}",
        ylabel="query camera",
        title=f"{shown(name, _MOST_CHARACTERS)} between cameras",
    )
    _name_cameras(ax, pairs, camera_names or {})
    return ax.figure, ax


def _write_numbers(ax: Axes, percent: Tensor) -> None:
    """The number of each cell, a dash where there is none."""
    for row, values in enumerate(percent.tolist()):
        for column, value in enumerate(values):
            is_defined = not math.isnan(value)
            color = "white" if is_defined and value <= _DARK else "black"
            text = f"{value:.0f}" if is_defined else "–"  # noqa: RUF001 - a dash that is as wide as a digit
            ax.text(column, row, text, ha="center", va="center", color=color, fontsize="small")


def _name_cameras(ax: Axes, pairs: CameraPairs, names: Mapping[int, str]) -> None:
    """Names beside the rows and below the columns."""
    for axis, cameras in ((ax.xaxis, pairs.gallery_cameras.tolist()), (ax.yaxis, pairs.query_cameras.tolist())):
        step = -(-len(cameras) // _MOST_TICKS) or 1
        labels = [shown(names.get(camera, camera), _MOST_CHARACTERS) for camera in cameras[::step]]
        is_upward = axis is ax.xaxis and any(len(label) > _LONG for label in labels)
        rotation = 90 if is_upward else 0
        axis.set_ticks(range(0, len(cameras), step), labels, fontsize="small", rotation=rotation)

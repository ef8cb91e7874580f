"""Curves of verification: ROC, DET, TPIR of open sets, and the distributions of scores with their thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.displays import UNDEFINED, counted
from reid_torchmetrics.tasks import Identification
from reid_torchmetrics.tasks.verification import ScoreHistogram, Verification

from .axes import (
    Axes,
    Named,
    Plotted,
    add_legend,
    by_name,
    curve_label,
    lowest_of_lines,
    new_axes,
    set_log_percent_axis,
    set_percent_axis,
)

_STEPS = 200  # points of a line that is straight between two rates, over their logarithms
_LARGEST_START = 1e-3  # axes go down to it however few pairs there are
_LEAST_PERCENT = 1e-3  # percent of the pairs in a bin: fewer are not drawn
_DASHES = ("dashed", "dotted", "dashdot")
_FAINT: dict[str, Any] = {"color": "grey", "linewidth": 0.8, "linestyle": "dotted"}


def plot_roc(verification: Named[Verification], *, ax: Axes | None = None) -> Plotted:
    """Draw TAR over FAR, of one verification or of several by name: the ROC curve, exact at all its corners.

    Rates are in percent, and the axis of FAR is logarithmic. It begins at a power of ten below the share of one
    impostor, 0.1 % at most, so pictures of several epochs can be compared. The legend has the area under the curve
    (AUC), or says which pairs are lacking. The curves are drawn into `ax` if it is given. Returns the figure and its
    axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    verifications = by_name(verification)
    ax = ax or new_axes()
    axis_start = _axis_start(part.num_impostors for part in verifications.values())
    for name, part in verifications.items():
        far, tar = _curve_points(part, axis_start, _LARGEST_START)
        ax.plot(far, tar, label=curve_label(name, _rate_text("AUC", part, part.area_under_curve())))
    chance = np.geomspace(axis_start, 100, _STEPS)
    ax.plot(chance, chance, label="chance", **_FAINT)
    ax.set(xlabel="false accept rate (%)", ylabel="true accept rate (%)", title="Receiver operating characteristic")
    set_percent_axis(ax, "y")
    set_log_percent_axis(ax, "x", axis_start)
    return add_legend(ax, is_below=True, loc="lower right")


def plot_det(verification: Named[Verification], *, ax: Axes | None = None) -> Plotted:
    """Draw FRR over FAR, of one verification or of several by name: the detection error tradeoff.

    Rates are in percent, and both axes are logarithmic. Each begins at a power of ten below the share of one pair, 0.1
    % at most, so pictures of several epochs can be compared; an FRR of 0 is drawn on the border. A point marks the
    equal error rate (EER), which is in the legend; or the legend says which pairs are lacking. The curves are drawn
    into `ax` if it is given. Returns the figure and its axes.

    Source: Martin et al., "The DET Curve in Assessment of Detection Task Performance", Eurospeech 1997, where the axes
    are normal deviates.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    verifications = by_name(verification)
    ax = ax or new_axes()
    far_start = _axis_start(part.num_impostors for part in verifications.values())
    frr_start = _axis_start(part.num_genuine for part in verifications.values())
    diagonal_start = max(far_start, frr_start)
    for name, part in verifications.items():
        far, tar = _curve_points(part, far_start, frr_start)
        frr = np.maximum(100 - tar, frr_start)
        equal_error_rate = part.equal_error_rate().rate
        (line,) = ax.plot(far, frr, label=curve_label(name, _rate_text("EER", part, equal_error_rate)))
        percent = 100 * float(equal_error_rate)
        if percent >= diagonal_start:
            ax.plot(percent, percent, marker="o", color=line.get_color())
    diagonal = (diagonal_start, 100)
    ax.plot(diagonal, diagonal, label="FAR = FRR", **_FAINT)
    ax.set(xlabel="false accept rate (%)", ylabel="false reject rate (%)", title="Detection error tradeoff")
    set_log_percent_axis(ax, "x", far_start)
    set_log_percent_axis(ax, "y", frr_start)
    return add_legend(ax, is_below=True, loc="lower left")


def plot_tpir(
    identification: Named[Identification], *, rank: int = 1, fpir: float = 0.01, ax: Axes | None = None
) -> Plotted:
    """Draw TPIR over FPIR, of one open-set identification or of several by name, with the mate within `rank`.

    Rates are in percent, and the axis of FPIR is logarithmic. It begins at a power of ten below the share of one
    non-mated query, 0.1 % at most, so pictures of several epochs can be compared. Nothing is interpolated: the curve
    has a step where one more non-mated query raises an alarm. The legend has TPIR at `fpir`, or says which queries are
    lacking. The curves are drawn into `ax` if it is given. Returns the figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `rank` is not an int, or `fpir` no number.
        ValueError: `rank` is below 1, or `fpir` outside [0, 1].
    """
    _checks.fraction("fpir", fpir)
    identifications = by_name(identification)
    ax = ax or new_axes()
    axis_start = _axis_start(int((~part.is_mated).sum()) for part in identifications.values())
    for name, part in identifications.items():
        false_rate, true_rate, _ = (100 * rates.cpu().numpy() for rates in part.curve(rank))
        text = _tpir_text(part, fpir, rank)
        ax.step(np.maximum(false_rate, axis_start), true_rate, where="post", label=curve_label(name, text))
    title = "Open-set identification"
    if rank > 1:
        title += f", within rank {rank}"
    ax.set(xlabel="false positive identification rate (%)", ylabel="true positive identification rate (%)", title=title)
    set_percent_axis(ax, "y", lowest=lowest_of_lines(ax))
    set_log_percent_axis(ax, "x", axis_start)
    return add_legend(ax, is_below=True, loc="lower right")


def _tpir_text(identification: Identification, fpir: float, rank: int) -> str:
    """Return TPIR at an FPIR in words, or which queries are lacking."""
    is_mated = identification.is_mated
    if not is_mated.any():
        return f"{UNDEFINED}: no mated query"
    if is_mated.all():
        return f"{UNDEFINED}: no non-mated query"
    tpir = float(identification.tpir_at_fpir(fpir, rank))
    return f"TPIR {_percent_text(tpir)} at FPIR {100 * fpir:g} %"


def _axis_start(num_pairs: Iterable[int]) -> float:
    """Return the start of a logarithmic axis in percent: a power of ten below half of a pair among the most pairs."""
    most_pairs = max(num_pairs, default=0)
    if not most_pairs:
        return _LARGEST_START * 100
    return min(_LARGEST_START, 10.0 ** math.floor(math.log10(0.5 / most_pairs))) * 100


def _rate_text(name: str, verification: Verification, rate: Tensor) -> str:
    """Return a rate with its name in percent, or which pairs are lacking."""
    if not verification.num_genuine:
        return f"{UNDEFINED}: no genuine pair"
    if not verification.num_impostors:
        return f"{UNDEFINED}: no impostor"
    return f"{name} {100 * float(rate):.2f} %"


def _curve_points(verification: Verification, far_start: float, frr_start: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return FAR and TAR along the curve in percent, from a FAR on, with points between distant corners."""
    roc = verification.roc()
    far = 100 * roc.false_accept_rate.cpu().numpy()
    tar = 100 * roc.true_accept_rate.cpu().numpy()
    if np.isnan(far).any() or np.isnan(tar).any():
        return far[:0], tar[:0]

    # Corners inside of a step are left out.
    is_level = np.diff(tar) == 0
    is_upright = np.diff(far) == 0
    is_inside = np.pad((is_level[1:] & is_level[:-1]) | (is_upright[1:] & is_upright[:-1]), 1)
    far = far[~is_inside]
    tar = tar[~is_inside]

    # Each corner is joined to its neighbors by points on the line between them.
    far_between = np.geomspace(far_start, 100, _STEPS)
    tar_between = 100 - np.geomspace(frr_start, 100, _STEPS)[::-1]
    all_far = np.concatenate([far, far_between, np.interp(tar_between, tar, far)])
    all_tar = np.concatenate([tar, np.interp(far_between, far, tar), tar_between])
    order = np.lexsort((all_tar, all_far))  # the curve rises
    order = order[all_far[order] >= far_start]
    return all_far[order], all_tar[order]


def plot_scores(
    histogram: ScoreHistogram,
    verification: Verification | None = None,
    *,
    far: Sequence[float] = (0.001, 0.01),
    ax: Axes | None = None,
) -> Plotted:
    """Draw the shares of the genuine and of the impostor pairs in each bin of their score.

    Shares are in percent of all genuine, and of all impostor pairs, on a logarithmic axis from 0.001 % to 100 %, so
    that the few impostors with high scores can be seen. With a `histogram` of fixed `limits` both axes are the same in
    every epoch. A vertical line is drawn at the threshold for each of `far`; the legend says if there is none. Returns
    the figure and its axes.

    Args:
        histogram: of `score_histogram`.
        verification: of the same scores, by `verify`; None for no thresholds.
        far: false accept rates.
        ax: axes to draw into; None for those of a new figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `far` is not a sequence of floats.
        ValueError: one of them is outside [0, 1].
    """
    edges = histogram.edges.cpu().numpy()
    ax = ax or new_axes()
    _draw_histogram(ax, edges, histogram.num_impostors, "impostor", "tab:orange")
    _draw_histogram(ax, edges, histogram.num_genuine, "genuine", "tab:blue")
    if verification is not None:
        thresholds = verification.threshold_at_far(far).tolist()
        rates = verification.tar_at_far(far).tolist()
        for rate, threshold, tar, dashes in zip(far, thresholds, rates, cycle(_DASHES), strict=False):
            text = f"TAR {_percent_text(tar)} at FAR {100 * rate:g} %"
            is_inside = edges[0] <= threshold <= edges[-1]
            if threshold == math.inf:
                text += ", no threshold"
            elif not is_inside and not math.isnan(threshold):
                text += f", at score {threshold:.4g}"
            heights = [_LEAST_PERCENT, 100] if is_inside else []
            ax.plot([threshold] * len(heights), heights, color="black", linewidth=1, linestyle=dashes, label=text)
    ax.set(xlabel="score", ylabel="share of pairs per bin (%)", title="Scores of genuine and impostor pairs")
    ax.set_xlim(edges[0], edges[-1])
    set_log_percent_axis(ax, "y", _LEAST_PERCENT)
    return add_legend(ax, is_below=True, loc="upper left")


def _draw_histogram(ax: Axes, edges: NDArray[Any], counts: Tensor, name: str, color: str) -> None:
    """Draw the shares of pairs of one kind in each bin."""
    num_pairs = int(counts.sum())
    shares = 100 * counts.cpu().double().numpy() / max(num_pairs, 1)
    label = counted(num_pairs, f"{name} pair") if num_pairs else f"no {name} pair"
    ax.stairs(shares, edges, baseline=_LEAST_PERCENT, fill=True, color=color, alpha=0.25)
    ax.stairs(shares, edges, baseline=_LEAST_PERCENT, color=color, label=label)


def _percent_text(rate: float) -> str:
    """Return a rate in percent."""
    return UNDEFINED if math.isnan(rate) else f"{100 * rate:.1f} %"

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
from reid_torchmetrics.functional.retrieval.evaluation import Identification
from reid_torchmetrics.functional.retrieval.verification import ScoreHistogram, Verification

from .axes import Axes, Named, Plotted, by_name, in_log_percent, in_percent, labeled, new_axes, with_legend

_STEPS = 200  # points of a line that is straight between two rates, over their logarithms
_LEAST = 1e-3  # axes go down to it however few pairs there are
_LEAST_PERCENT = 1e-3  # percent of the pairs in a bin: fewer are not drawn
_DASHES = ("dashed", "dotted", "dashdot")
_FAINT: dict[str, Any] = {"color": "grey", "linewidth": 0.8, "linestyle": "dotted"}


def plot_roc(verification: Named[Verification], *, ax: Axes | None = None) -> Plotted:
    """Draw TAR over FAR, of one verification or of several by name: the ROC curve, exact at all its corners.

    In percent, with a logarithmic axis of FAR. It begins at a power of ten below the share of one impostor, 0.1 % at
    most, so pictures of several epochs can be compared. The legend has the area under the curve (AUC), or says which
    pairs are lacking. Drawn into `ax` if given. Returns the figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    named, is_own, ax = by_name(verification), ax is None, new_axes() if ax is None else ax
    least = _least(each.num_impostors for each in named.values())
    for name, each in named.items():
        ax.plot(*_line(each, least, _LEAST), label=labeled(name, _rate_in_words("AUC", each, each.area_under_curve())))
    chance = np.geomspace(least, 100, _STEPS)
    ax.plot(chance, chance, label="chance", **_FAINT)
    ax.set(xlabel="false accept rate (%)", ylabel="true accept rate (%)", title="Receiver operating characteristic")
    in_percent(ax, "y")
    in_log_percent(ax, "x", least)
    return with_legend(ax, is_own=is_own, is_below=True, loc="lower right")


def plot_det(verification: Named[Verification], *, ax: Axes | None = None) -> Plotted:
    """Draw FRR over FAR, of one verification or of several by name: the detection error tradeoff.

    In percent, with two logarithmic axes. Each begins at a power of ten below the share of one pair, 0.1 % at most, so
    pictures of several epochs can be compared; an FRR of 0 is drawn on the border. A point marks the equal error rate
    (EER), which the legend has; or it says which pairs are lacking. Drawn into `ax` if given. Returns the figure
    and its axes.

    Source: Martin et al., "The DET Curve in Assessment of Detection Task Performance", Eurospeech 1997, where the axes
    are normal deviates.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    named, is_own, ax = by_name(verification), ax is None, new_axes() if ax is None else ax
    least_far = _least(each.num_impostors for each in named.values())
    least_frr = _least(each.num_genuine for each in named.values())
    for name, each in named.items():
        far, tar = _line(each, least_far, least_frr)
        rate = each.equal_error_rate().rate
        (line,) = ax.plot(far, np.maximum(100 - tar, least_frr), label=labeled(name, _rate_in_words("EER", each, rate)))
        percent = 100 * float(rate)
        if percent >= max(least_far, least_frr):
            ax.plot(percent, percent, marker="o", color=line.get_color())
    ends = max(least_far, least_frr), 100
    ax.plot(ends, ends, label="FAR = FRR", **_FAINT)
    ax.set(xlabel="false accept rate (%)", ylabel="false reject rate (%)", title="Detection error tradeoff")
    in_log_percent(ax, "x", least_far)
    in_log_percent(ax, "y", least_frr)
    return with_legend(ax, is_own=is_own, is_below=True, loc="lower left")


def plot_tpir(
    identification: Named[Identification], *, rank: int = 1, fpir: float = 0.01, ax: Axes | None = None
) -> Plotted:
    """Draw TPIR over FPIR, of one open-set identification or of several by name, with the mate within `rank`.

    In percent, with a logarithmic axis of FPIR. It begins at a power of ten below the share of one non-mated query,
    0.1 % at most, so pictures of several epochs can be compared. Nothing is interpolated: the curve has steps, where
    one more non-mated query raises an alarm. The legend has TPIR at `fpir`, or says which queries are lacking. Drawn
    into `ax` if given. Returns the figure and its axes.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `rank` is not an int, or `fpir` no number.
        ValueError: `rank` is below 1, or `fpir` outside [0, 1].
    """
    _checks.fraction("fpir", fpir)
    named, is_own, ax = by_name(identification), ax is None, new_axes() if ax is None else ax
    least = _least(int((~each.is_mated).sum()) for each in named.values())
    for name, each in named.items():
        false, true, _ = (100 * rates.cpu().numpy() for rates in each.curve(rank))
        said = f"TPIR {_percent(float(each.tpir_at_fpir(fpir, rank)))} at FPIR {100 * fpir:g} %"
        lacking = [kind for kind, mask in (("mated", each.is_mated), ("non-mated", ~each.is_mated)) if not mask.any()]
        said = f"undefined: no {lacking[0]} query" if lacking else said
        ax.step(np.maximum(false, least), true, where="post", label=labeled(name, said))
    ax.set(xlabel="false positive identification rate (%)", ylabel="true positive identification rate (%)")
    ax.set_title("Open-set identification" + f", within rank {rank}" * (rank > 1))
    in_percent(ax, "y")
    in_log_percent(ax, "x", least)
    return with_legend(ax, is_own=is_own, is_below=True, loc="lower right")


def _least(numbers: Iterable[int]) -> float:
    """The start of a logarithmic axis in percent, for rates of these numbers of pairs; half a pair is still on it."""
    most = max(numbers, default=0)
    return min(_LEAST, 10.0 ** math.floor(math.log10(0.5 / most))) * 100 if most else _LEAST * 100


def _rate_in_words(name: str, verification: Verification, rate: Tensor) -> str:
    if not verification.num_genuine:
        return "undefined: no genuine pair"
    return f"{name} {100 * float(rate):.2f} %" if verification.num_impostors else "undefined: no impostor"


def _line(verification: Verification, least_far: float, least_frr: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """FAR and TAR along the curve in percent, from the FAR `least_far` on, with points between distant corners."""
    roc = verification.roc()
    far, tar = (100 * rates.cpu().numpy() for rates in (roc.false_accept_rate, roc.true_accept_rate))
    if np.isnan(far).any() or np.isnan(tar).any():
        return far[:0], tar[:0]
    # Corners inside of a step are left out, and each is joined to its neighbors by points on the line between them.
    is_level, is_upright = (np.diff(rates) == 0 for rates in (tar, far))
    is_inside = np.pad((is_level[1:] & is_level[:-1]) | (is_upright[1:] & is_upright[:-1]), 1)
    far, tar = far[~is_inside], tar[~is_inside]
    far_between = np.geomspace(least_far, 100, _STEPS)
    tar_between = 100 - np.geomspace(least_frr, 100, _STEPS)[::-1]
    all_far = np.concatenate([far, far_between, np.interp(tar_between, tar, far)])
    all_tar = np.concatenate([tar, np.interp(far_between, far, tar), tar_between])
    order = np.lexsort((all_tar, all_far))  # the curve rises
    order = order[all_far[order] >= least_far]
    return all_far[order], all_tar[order]


def plot_scores(
    histogram: ScoreHistogram,
    verification: Verification | None = None,
    *,
    far: Sequence[float] = (0.001, 0.01),
    ax: Axes | None = None,
) -> Plotted:
    """Draw the shares of the genuine and of the impostor pairs in each bin of their score.

    In percent of all genuine, and of all impostor pairs, on a logarithmic axis from 0.001 % to 100 %, where the few
    impostors that score high can be seen. With a `histogram` of fixed `limits` both axes are the same in every epoch.
    A vertical line is drawn at the threshold of each of `far`; the legend says if there is none. Drawn into `ax` if
    given. Returns the figure and its axes.

    Args:
        histogram: of `score_histogram`.
        verification: of the same scores, by `verify`; None for no thresholds.
        far: false accept rates.
        ax: where to draw.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: `far` is not a sequence of floats.
        ValueError: one of them is outside [0, 1].
    """
    edges = histogram.edges.cpu().numpy()
    is_own, ax = ax is None, new_axes() if ax is None else ax
    both = {"impostor": histogram.num_impostors, "genuine": histogram.num_genuine}
    for (name, counts), color in zip(both.items(), ("tab:orange", "tab:blue"), strict=True):
        total = int(counts.sum())
        shares = 100 * counts.cpu().double().numpy() / max(total, 1)
        label = f"{total:,} {name} pairs" if total else f"no {name} pair"
        ax.stairs(shares, edges, baseline=_LEAST_PERCENT, fill=True, color=color, alpha=0.25)
        ax.stairs(shares, edges, baseline=_LEAST_PERCENT, color=color, label=label)
    lines: Iterable[tuple[float, float, float]] = ()
    if verification is not None:
        thresholds, rates = verification.threshold_at_far(far).tolist(), verification.tar_at_far(far).tolist()
        lines = zip(far, thresholds, rates, strict=True)
    for (rate, threshold, tar), dashes in zip(lines, cycle(_DASHES), strict=False):
        said, is_inside = f"TAR {_percent(tar)} at FAR {100 * rate:g} %", edges[0] <= threshold <= edges[-1]
        if not is_inside and not math.isnan(threshold):
            said += ", no threshold" if threshold == math.inf else f", at score {threshold:.4g}"
        ends = [_LEAST_PERCENT, 100] if is_inside else []
        ax.plot([threshold] * len(ends), ends, color="black", linewidth=1, linestyle=dashes, label=said)
    ax.set(xlabel="score", ylabel="share of pairs per bin (%)", title="Scores of genuine and impostor pairs")
    ax.set_xlim(edges[0], edges[-1])
    in_log_percent(ax, "y", _LEAST_PERCENT)
    return with_legend(ax, is_own=is_own, is_below=True, loc="upper left")


def _percent(rate: float) -> str:
    return "undefined" if math.isnan(rate) else f"{100 * rate:.1f} %"

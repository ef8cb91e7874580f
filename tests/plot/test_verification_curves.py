"""Pictures of ROC and DET: every corner is where the counts say."""

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import scores_from_matrix
from reid_torchmetrics.functional.retrieval.relevance import find_listed_relevance
from reid_torchmetrics.plot import plot_det, plot_roc
from reid_torchmetrics.tasks import Verification, verify
from tests.plot.texts import legend


def verified(genuine: list[float], impostors: list[float]) -> Verification:
    relevance = find_listed_relevance([torch.arange(len(genuine))], num_gallery=len(genuine) + len(impostors))
    return verify(scores_from_matrix(torch.tensor([[*genuine, *impostors]], dtype=torch.float64), relevance), relevance)


EXAMPLE = verified([9, 6, 4], [8, 5, 3, 1])
"""TAR 1/3 at FAR 0, 2/3 at 1/4, 1 at 2/4"""
THIRD = 100 / 3


def at(line, far: float) -> float:
    """Height of a line where it reaches a FAR, the highest of its step."""
    x, y = (np.asarray(values) for values in line.get_data())
    assert (np.diff(x) >= 0).all()
    return float(np.interp(far, x, y))


def has_point(line, far: float, height: float) -> bool:
    return any(x == pytest.approx(far) and y == pytest.approx(height) for x, y in zip(*line.get_data(), strict=True))


def test_tar_is_drawn_over_far_in_percent():
    figure, axes = plot_roc(EXAMPLE)
    line = axes.lines[0]
    for far, tar in ((0.5, THIRD), (24.9, THIRD), (25.1, 2 * THIRD), (49.9, 2 * THIRD), (50.1, 100), (100, 100)):
        assert at(line, far) == pytest.approx(tar)
    for corner in ((25, THIRD), (25, 2 * THIRD), (50, 2 * THIRD), (50, 100)):
        assert has_point(line, *corner)
    assert legend(axes) == ["AUC 75.00 %", "chance"]  # (4 + 3 + 2) / 12
    assert figure is axes.figure


def test_frr_is_drawn_over_far_with_the_equal_error_rate_as_a_point():
    _, axes = plot_det(EXAMPLE)
    line, point = axes.lines[:2]
    for far, frr in ((0.5, 2 * THIRD), (24.9, 2 * THIRD), (25.1, THIRD), (49.9, THIRD)):
        assert at(line, far) == pytest.approx(frr)
    assert at(line, 51) == pytest.approx(axes.get_ylim()[0])  # 0 is on the border
    assert list(zip(*point.get_data(), strict=True)) == [(pytest.approx(THIRD), pytest.approx(THIRD))]
    assert legend(axes) == ["EER 33.33 %", "FAR = FRR"]


def test_the_line_through_a_tie_is_straight_in_far_and_not_in_its_logarithm():
    _, axes = plot_roc(verified([5, 5], [5, 5, 1, 1]))
    line = axes.lines[0]
    for far in (1, 5, 25, 40):
        assert at(line, far) == pytest.approx(2 * far, rel=2e-3)  # from (0, 0) to (50 %, 100 %)
    _, axes = plot_det(verified([5, 5], [5, 5, 1, 1]))
    for far in (1, 5, 25, 40):
        assert at(axes.lines[0], far) == pytest.approx(100 - 2 * far, rel=2e-3)


@pytest.mark.parametrize(("num_impostors", "least"), [(4, 0.1), (499, 0.1), (501, 0.01), (4_000_000, 1e-5)])
@pytest.mark.slow
def test_the_axes_depend_on_the_numbers_of_pairs_alone(num_impostors, least):
    for at_least in (0, num_impostors):
        count = torch.tensor([at_least])
        counts = Verification(torch.tensor([0.5]), torch.tensor([1]), count, count, 1, num_impostors)
        for draw in (plot_roc, plot_det):
            _, axes = draw(counts)
            assert axes.get_xlim() == (pytest.approx(least), 100)
            assert axes.get_xscale() == "log"
        assert axes.get_ylim() == (pytest.approx(0.1), 100)
        assert axes.get_yscale() == "log"


def test_a_perfect_model_has_all_genuine_pairs_at_once():
    perfect = verified([2, 3], [0, 1])
    _, axes = plot_roc(perfect)
    assert set(axes.lines[0].get_ydata()) == {100}
    _, axes = plot_det(perfect)
    assert list(axes.lines[0].get_ydata()) == pytest.approx([0.1] * len(axes.lines[0].get_ydata()))
    assert legend(axes)[0] == "EER 0.00 %"
    assert len(axes.lines) == 2  # no point


@pytest.mark.parametrize("draw", [plot_roc, plot_det])
@pytest.mark.parametrize(
    ("genuine", "impostors", "said"),
    [([], [1.0], "no genuine pair"), ([1.0], [], "no impostor"), ([], [], "no genuine pair")],
)
def test_the_legend_says_which_pairs_there_are_none_of(draw, genuine, impostors, said):
    _, axes = draw(verified(genuine, impostors))
    assert legend(axes)[0] == f"n/a: {said}"
    assert len(axes.lines[0].get_xdata()) == 0


def test_ticks_of_far_are_plain_numbers_up_to_100_percent():
    _, axes = plot_roc(EXAMPLE)
    axes.figure.draw_without_rendering()
    inside = [tick for tick in axes.get_xticks() if 0.099 < tick < 101]  # 10 ** -1 may be the float below 0.1
    assert inside == pytest.approx([0.1, 1, 10, 100])
    assert axes.xaxis.get_major_formatter()(0.1, 0) == "0.1"

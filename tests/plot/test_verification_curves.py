"""Pictures of ROC and DET: every corner is where the counts say."""

import math

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate_scores, scores_from_matrix
from reid_torchmetrics.functional.retrieval.relevance import find_listed_relevance
from reid_torchmetrics.plot import plot_det, plot_roc, plot_scores, plot_tpir
from reid_torchmetrics.tasks import ScoreHistogram, Verification, score_histogram, verify
from tests.plot.texts import legend


def both(genuine: list[float], impostors: list[float], **options: object) -> tuple[ScoreHistogram, Verification]:
    relevance = find_listed_relevance([torch.arange(len(genuine))], num_gallery=len(genuine) + len(impostors))
    scores = scores_from_matrix(torch.tensor([[*genuine, *impostors]], dtype=torch.float64), relevance)
    return score_histogram(scores, relevance, **options), verify(scores, relevance)


def verified(genuine: list[float], impostors: list[float]) -> Verification:
    return both(genuine, impostors)[1]


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
    axes.figure.draw_without_rendering()
    inside = [tick for tick in axes.get_xticks() if 0.099 < tick < 101]  # 10 ** -1 may be the float below 0.1
    assert inside == pytest.approx([0.1, 1, 10, 100])  # plain numbers
    assert axes.xaxis.get_major_formatter()(0.1, 0) == "0.1"
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


SCORES = torch.tensor([[9.0, 2], [0, 7], [4, 5], [8, 0], [2, 6], [3, 3], [1, 0]])
OPEN_SET = evaluate_scores(SCORES, [1, 2, 1, 10, 11, 12, 12], [1, 2]).identification()
"""TPIR 1/3 at FPIR 0, 2/3 from 1/4 on; within rank 2 it is 1 from 2/4 on"""


def test_tpir_is_drawn_in_steps_over_fpir_in_percent():
    figure, axes = plot_tpir(OPEN_SET, rank=2, fpir=0.25)
    line = axes.lines[0]
    assert line.get_drawstyle() == "steps-post"
    assert line.get_xdata().tolist() == [0.1, 25, 50, 75, 100]  # 0 is on the border
    assert line.get_ydata().tolist() == pytest.approx([100 / 3, 200 / 3, 100, 100, 100])
    assert legend(axes) == ["TPIR 66.7 % at FPIR 25 %"]
    assert axes.get_title() == "Open-set identification, within rank 2"
    assert figure is axes.figure


def test_several_are_drawn_by_name_and_say_what_is_lacking():
    given = {"all": OPEN_SET}
    for name, identities in (("closed", [1, 2]), ("strangers", [8, 9])):
        given[name] = evaluate_scores(SCORES[:2], identities, [1, 2]).identification()
    _, axes = plot_tpir(given)
    assert legend(axes) == [
        "all  (TPIR 33.3 % at FPIR 1 %)",
        "closed  (n/a: no non-mated query)",
        "strangers  (n/a: no mated query)",
    ]


HISTOGRAM, VERIFICATION = both([9, 6, 4], [8, 5, 3, 1], bins=4)


def outlines(axes) -> list:
    return [patch.get_data() for patch in axes.patches if patch.get_label()]


def test_the_share_of_each_kind_of_pairs_is_drawn_in_percent_over_the_bins():
    figure, axes = plot_scores(HISTOGRAM)
    impostors, genuine = outlines(axes)
    assert impostors.edges.tolist() == genuine.edges.tolist() == [1, 3, 5, 7, 9]
    assert impostors.values.tolist() == [25] * 4
    assert genuine.values.tolist() == pytest.approx([0, 100 / 3, 100 / 3, 100 / 3])
    assert legend(axes) == ["4 impostor pairs", "3 genuine pairs"]
    assert figure is axes.figure
    _, axes = plot_scores(both([0.5], [0.25], limits=(-1.0, 1.0))[0])
    assert (axes.get_xlim(), axes.get_ylim(), axes.get_yscale()) == ((-1, 1), (1e-3, 100), "log")


def test_thresholds_are_lines_under_the_name_of_their_rates():
    _, axes = plot_scores(HISTOGRAM, VERIFICATION, far=(0.001, 0.25))
    assert [list(line.get_xdata()) for line in axes.lines] == [[9, 9], [6, 6]]
    assert legend(axes)[2:] == ["TAR 33.3 % at FAR 0.1 %", "TAR 66.7 % at FAR 25 %"]
    assert axes.lines[0].get_linestyle() != axes.lines[1].get_linestyle()


@pytest.mark.parametrize(
    ("pairs", "limits", "far", "texts"),
    [
        (([1], [2]), None, 0.5, ["1 impostor pair", "1 genuine pair", "TAR 0.0 % at FAR 50 %, no threshold"]),
        (([9], [2]), (0.0, 5.0), 0.5, ["1 impostor pair", "1 genuine pair", "TAR 100.0 % at FAR 50 %, at score 9"]),
        (([], []), None, 0.01, ["no impostor pair", "no genuine pair", "TAR n/a at FAR 1 %"]),
    ],
)
def test_thresholds_that_are_not_in_the_picture_and_pairs_that_do_not_exist_are_said(pairs, limits, far, texts):
    _, axes = plot_scores(*both(*pairs, limits=limits), far=(far,))
    assert legend(axes) == texts
    assert list(axes.lines[0].get_xdata()) == []


@pytest.mark.usefixtures("unannotated")
def test_bad_rates_are_refused():
    with pytest.raises(TypeError, match=r"^`far` must be a tuple or list of floats; got float\.$"):
        plot_scores(HISTOGRAM, VERIFICATION, far=0.1)
    with pytest.raises(ValueError, match=r"^`far` must hold shares from 0 to 1; got nan\.$"):
        plot_scores(HISTOGRAM, VERIFICATION, far=(math.nan,))

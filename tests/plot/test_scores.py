"""Pictures of scores: shares of pairs in bins, and thresholds."""

import math

import pytest
import torch

from reid_torchmetrics.functional.retrieval import scores_from_matrix
from reid_torchmetrics.functional.retrieval.relevance import find_listed_relevance
from reid_torchmetrics.plot import plot_scores
from reid_torchmetrics.tasks import ScoreHistogram, Verification, score_histogram, verify
from tests.plot.texts import legend


def both(genuine: list[float], impostors: list[float], **options: object) -> tuple[ScoreHistogram, Verification]:
    relevance = find_listed_relevance([torch.arange(len(genuine))], num_gallery=len(genuine) + len(impostors))
    scores = scores_from_matrix(torch.tensor([[*genuine, *impostors]], dtype=torch.float64), relevance)
    return score_histogram(scores, relevance, **options), verify(scores, relevance)


HISTOGRAM, VERIFICATION = both([9, 6, 4], [8, 5, 3, 1], bins=4)


def outlines(axes) -> list:
    return [patch.get_data() for patch in axes.patches if patch.get_label()]


def test_the_share_of_each_kind_of_pairs_is_drawn_in_percent():
    figure, axes = plot_scores(HISTOGRAM)
    impostors, genuine = outlines(axes)
    assert impostors.edges.tolist() == genuine.edges.tolist() == [1, 3, 5, 7, 9]
    assert impostors.values.tolist() == [25] * 4
    assert genuine.values.tolist() == pytest.approx([0, 100 / 3, 100 / 3, 100 / 3])
    assert legend(axes) == ["4 impostor pairs", "3 genuine pairs"]
    assert figure is axes.figure


def test_the_axes_are_those_of_the_bins_and_end_at_100_percent():
    _, axes = plot_scores(both([0.5], [0.25], limits=(-1.0, 1.0))[0])
    assert axes.get_xlim() == (-1, 1)
    assert axes.get_ylim() == (1e-3, 100)
    assert axes.get_yscale() == "log"


def test_thresholds_are_lines_under_the_name_of_their_rates():
    _, axes = plot_scores(HISTOGRAM, VERIFICATION, far=(0.001, 0.25))
    assert [list(line.get_xdata()) for line in axes.lines] == [[9, 9], [6, 6]]
    assert legend(axes)[2:] == ["TAR 33.3 % at FAR 0.1 %", "TAR 66.7 % at FAR 25 %"]
    assert axes.lines[0].get_linestyle() != axes.lines[1].get_linestyle()


def test_a_rate_that_no_threshold_reaches_is_said_and_has_no_line():
    _, axes = plot_scores(*both([1], [2]), far=(0.5,))
    assert legend(axes)[2:] == ["TAR 0.0 % at FAR 50 %, no threshold"]
    assert list(axes.lines[0].get_xdata()) == []


def test_a_threshold_beyond_the_bins_is_said_and_has_no_line():
    _, axes = plot_scores(*both([9], [2], limits=(0.0, 5.0)), far=(0.5,))
    assert legend(axes)[2:] == ["TAR 100.0 % at FAR 50 %, at score 9"]
    assert list(axes.lines[0].get_xdata()) == []


def test_pairs_that_do_not_exist_are_said_to_be_none():
    _, axes = plot_scores(*both([], []), far=(0.01,))
    assert legend(axes) == ["no impostor pair", "no genuine pair", "TAR n/a at FAR 1 %"]
    assert list(axes.lines[0].get_xdata()) == []


@pytest.mark.usefixtures("unannotated")
def test_bad_rates_are_refused():
    with pytest.raises(TypeError, match=r"^`far` must be a tuple or list of floats; got float\.$"):
        plot_scores(HISTOGRAM, VERIFICATION, far=0.1)
    with pytest.raises(ValueError, match=r"^`far` must hold shares from 0 to 1; got nan\.$"):
        plot_scores(HISTOGRAM, VERIFICATION, far=(math.nan,))

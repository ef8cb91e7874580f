"""Pictures: what is drawn is what was given."""

import pytest
import torch

from reid_torchmetrics import ReIDCMCCurve
from reid_torchmetrics.plot import plot_cmc
from tests.metrics.reid.samples import batches, fed


def test_a_curve_is_drawn_in_percent_over_the_rank():
    figure, axes = plot_cmc(torch.tensor([0.25, 0.5, 1.0]))
    (line,) = axes.lines
    assert list(line.get_xdata()) == [1, 2, 3]
    assert list(line.get_ydata()) == [25, 50, 100]
    assert figure is axes.figure
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Rank-1 25.0 %"]


def test_several_curves_are_named():
    _, axes = plot_cmc({"before": torch.tensor([0.1, 0.2]), "after": torch.tensor([0.8, 0.9])})
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["before  (Rank-1 10.0 %)", "after  (Rank-1 80.0 %)"]


@pytest.mark.parametrize("length", [1, 2, 10, 11, 20, 50, 100, 500])
def test_rank_1_has_a_tick_and_there_are_not_too_many(length):
    _, axes = plot_cmc(torch.linspace(0.5, 1, length))
    ticks = [int(tick) for tick in axes.get_xticks()]
    assert ticks[0] == 1
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 12
    assert ticks[-1] <= length


@pytest.mark.parametrize(("last", "end", "label"), [(3, 10, "10 to 50"), (30, 30, "30 to 50"), (50, 50, "")])
def test_ranks_are_shown_up_to_the_last_rise(last, end, label):
    curve = torch.full((50,), 0.9)
    curve[: last - 1] = 0.8
    _, axes = plot_cmc({"risen": curve, "same": torch.full((20,), 0.9)})
    assert end < axes.get_xlim()[1] < end + 2
    assert axes.get_xlabel() == (f"rank (no change from {label})" if label else "rank")


@pytest.mark.parametrize(
    ("lowest", "start"), [(0.001, 0), (0.2, 0), (0.21, 20), (0.8, 60), (0.93, 90), (0.98, 95), (0.991, 99), (1.0, 99)]
)
def test_the_axis_begins_below_the_first_value_and_ends_at_100_percent(lowest, start):
    _, axes = plot_cmc({"low": torch.tensor([lowest, 1.0]), "nan": torch.full((2,), torch.nan)})
    ticks = axes.get_yticks().tolist()
    assert (ticks[0], ticks[-1]) == pytest.approx((start, 100))
    assert 4 <= len(ticks) <= 6
    bottom, top = axes.get_ylim()
    assert bottom < start <= 100 * lowest
    assert top > 100


def test_a_metric_draws_its_own_curve_or_the_curves_that_it_is_given():
    metric = fed(ReIDCMCCurve(max_rank=4), batches())
    curve = metric.compute()
    _, axes = metric.plot()
    assert list(axes.lines[0].get_ydata()) == pytest.approx((100 * curve.double()).tolist())
    _, axes = metric.plot([curve, curve])
    assert len(axes.lines) == 2

"""Pictures of the ranks of first matches."""

from dataclasses import replace

import pytest
import torch

from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate_scores
from reid_torchmetrics.plot import plot_first_ranks
from tests.plot.texts import legend

pytestmark = pytest.mark.usefixtures("unannotated")  # results that no evaluation has

NAN = float("nan")
ONE_QUERY = evaluate_scores(torch.tensor([[2.0, 1.0]]), torch.tensor([1]), torch.tensor([1, 2]))


def results_of(ranks: list[float], num_candidates: int, weight: list[float] | None = None) -> RetrievalResults:
    """Results with these first ranks; all else is that of another evaluation."""
    return replace(
        ONE_QUERY,
        first_rank=torch.tensor(ranks, dtype=torch.float64),
        num_candidates=torch.full((len(ranks),), num_candidates),
        weight=None if weight is None else torch.tensor(weight, dtype=torch.float64),
    )


def heights(axes) -> list[list[float]]:
    return [[bar.get_height() for bar in bars] for bars in axes.containers]


def bins(axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_the_share_of_the_valid_queries_in_each_bin_is_drawn_in_percent():
    figure, axes = plot_first_ranks(results_of([1, 1, 2, 3, 5, 6, 10, 11, NAN, NAN], 20))
    assert bins(axes) == ["1", "2", "3-5", "6-10", "11-20"]
    assert heights(axes) == [[25, 12.5, 25, 25, 12.5]]
    assert axes.get_title() == "Rank of the first match, 8 of 10 queries"
    assert axes.get_legend() is None
    assert figure is axes.figure


@pytest.mark.parametrize(
    ("rank", "last"),
    [
        (NAN, "1"),
        (float("inf"), "1"),
        (1, "1"),
        (2, "2"),
        (3, "3-5"),
        (200, "101-\n200"),
        (1000, "501-\n1000"),
        (1001, "> 1000"),
        (10**6, "> 1000"),
    ],
)
def test_bins_go_up_to_the_last_one_with_a_query(rank, last):
    assert bins(plot_first_ranks(results_of([1, rank], 10**6))[1])[-1] == last


def test_queries_count_with_their_weights():
    assert heights(plot_first_ranks(results_of([1, 2, NAN], 2, weight=[3, 1, 5]))[1]) == [[75, 25]]


def test_several_results_are_side_by_side_under_their_names():
    _, axes = plot_first_ranks({"before": results_of([2, 2], 4), "after": results_of([1, NAN], 2)})
    assert heights(axes) == [[0, 100], [100, 0]]
    assert legend(axes) == ["before  (2 of 2 queries)", "after  (1 of 2 queries)"]
    assert axes.get_legend().get_title().get_text() == "queries with a match"
    before, after = (bars[0] for bars in axes.containers)
    assert before.get_x() + before.get_width() == pytest.approx(after.get_x())
    assert not axes.texts


def test_bars_of_a_single_result_have_their_numbers():
    _, axes = plot_first_ranks(results_of([1, 1, 2], 2))
    assert [text.get_text() for text in axes.texts] == ["66.7", "33.3"]


@pytest.mark.parametrize(
    ("ranks", "top"), [([1.0], 100), ([1, 2], 60), ([1, 1, 1, 2, 3], 60), ([1, 2, 3, 6, 11], 20), ([NAN], 20)]
)
def test_the_axis_ends_at_the_multiple_of_20_percent_above_the_highest_bar(ranks, top):
    _, axes = plot_first_ranks(results_of(ranks, 20))
    assert axes.get_ylim() == pytest.approx((0, 1.08 * top))  # with room for the number on the bar


def test_the_legend_says_that_nothing_is_right():
    _, axes = plot_first_ranks({"all": results_of([NAN, NAN], 4), "none": results_of([], 4)})
    assert legend(axes) == ["all  (0 of 2 queries)", "none  (n/a: no query was evaluated)"]
    assert heights(axes) == [[0]] * 2

"""Pictures of precision and recall over queries: what is drawn is what the results have."""

import math
import re
from dataclasses import replace

import pytest
import torch

from reid_torchmetrics import ReIDCMCCurve
from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate_scores
from reid_torchmetrics.plot import plot_cmc, plot_first_ranks, plot_retrieval_precision_recall
from tests.metrics.reid.samples import batches, fed
from tests.plot.texts import legend


def results_of(hits: list[str], **options: object) -> RetrievalResults:
    """One query for each word, whose letters are its ranked list: "x" for a right answer."""
    length = len(hits[0])
    identities = torch.tensor(
        [[number if letter == "x" else -2 for letter in word] for number, word in enumerate(hits)]
    )
    scores = torch.full((len(hits), identities.numel()), -1.0)
    for number in range(len(hits)):
        scores[number, number * length : (number + 1) * length] = torch.arange(length, 0, -1.0)
    return evaluate_scores(scores, torch.arange(len(hits)), identities.flatten(), **options)


# Precision 1 up to recall 1/2, then 2/4; and 1/2 at all recalls.
TWO = results_of(["x--x", "-x-x"])
NONE = results_of(["----", "----"])


def test_the_mean_of_the_interpolated_precisions_is_drawn_in_percent():
    figure, axes = plot_retrieval_precision_recall(TWO)
    (line,) = axes.lines
    assert list(line.get_xdata()) == list(range(101))
    assert list(line.get_ydata()) == pytest.approx([75] * 51 + [50] * 50)
    assert figure is axes.figure
    # The mean of (1 + 2/4) / 2 and (1/2 + 2/4) / 2.
    # The area below 75 % up to recall 1/2, and 50 % from there on.
    assert legend(axes) == ["mAP 62.5 %, area under this line 62.5 %"]
    assert axes.get_legend().get_title().get_text() == ""
    assert line.get_drawstyle() == "steps-pre"  # a height holds up to its recall
    assert (axes.get_xlim(), axes.get_ylim()) == ((-1, 101), (-1, 101))


def test_several_results_are_named():
    _, axes = plot_retrieval_precision_recall({"before": TWO, "after": results_of(["x---"]), "without": NONE})
    assert legend(axes) == [
        "before  (mAP 62.5 %)",
        "after  (mAP 100.0 %)",
        "without  (n/a: no query was evaluated)",
    ]
    assert axes.get_legend().get_title().get_text() == "mAP is not the area under a line"
    assert list(axes.lines[1].get_ydata()) == pytest.approx([100] * 101)


def test_single_queries_are_staircases_of_their_own_under_their_numbers():
    results = replace(TWO, query_index=torch.tensor([70, 71]))
    _, axes = plot_retrieval_precision_recall(results, queries=torch.tensor([1, 0]))
    mean, second, first = axes.lines
    assert legend(axes) == [
        "mean  (mAP 62.5 %)",
        "query 71  (AP 50.0 %)",
        "query 70  (AP 75.0 %)",
    ]
    assert (list(first.get_xdata()), list(first.get_ydata())) == ([0, 50, 100], [100, 100, 50])
    assert (list(second.get_xdata()), list(second.get_ydata())) == ([0, 50, 100], [50, 50, 50])
    assert first.get_drawstyle() == "steps-pre"
    assert first.get_linewidth() < mean.get_linewidth()


def test_only_the_mean_of_more_than_ten_queries_has_a_name():
    results = results_of(["x--"] * 11)
    assert len(legend(plot_retrieval_precision_recall(results, queries=range(10))[1])) == 11
    _, axes = plot_retrieval_precision_recall(results, queries=range(11))
    assert legend(axes) == ["mean  (mAP 100.0 %)"]
    assert len(axes.lines) == 12


@pytest.mark.parametrize(
    ("options", "title"),
    [
        ({"rule": "trapezoid"}, "AP by trapezoids"),
        ({"k": 2, "normalizer": "attainable"}, "AP of the first 2, divided by attainable"),
        ({"normalizer": "hits"}, "AP divided by hits"),
        ({"rule": "interpolated_11"}, "AP interpolated at 11 recalls"),
        ({"draws": True}, "AP expected over draws"),
    ],
)
def test_the_title_of_the_legend_names_the_rule_of_the_protocol_unless_it_is_the_usual_one(options, title):
    labels = torch.tensor([0, 0, 1, 1])
    if "draws" in options:
        results = evaluate_scores(torch.eye(4), labels, labels, protocol="vehicleid", self_index=torch.arange(4))
    else:
        results = results_of(["x--x", "-x-x"], **options)
    assert plot_retrieval_precision_recall(results)[1].get_legend().get_title().get_text() == title


def test_an_average_precision_that_is_the_area_under_the_line_is_written_once():
    results = results_of(["x--x", "-x-x"], rule="interpolated_101")
    _, axes = plot_retrieval_precision_recall(results)
    assert legend(axes) == ["mAP 62.6 %"]
    # By the usual rule it is (1/3 + 2/4) / 2 where the line is 2/4 everywhere.
    _, axes = plot_retrieval_precision_recall(results_of(["--xx"]))
    assert legend(axes) == ["mAP 41.7 %, area under this line 50.0 %"]
    _, axes = plot_retrieval_precision_recall({"one": results})
    assert axes.get_legend().get_title().get_text() == "AP interpolated at 101 recalls"


BY_NAME = "`queries` must come with a single result, whose queries they are; got 2 results by name."
RULES = "`results` must all have the same rule of average precision; got 'AP at all positives', 'AP by trapezoids'."


@pytest.mark.parametrize(
    ("results", "queries", "error", "message"),
    [
        (TWO, [2], ValueError, "`queries` must be the number of one of 2 queries; got 2."),
        (TWO, [0.5], TypeError, "`queries` must hold ints only; got 0.5."),
        (TWO, 1, TypeError, "`queries` must be a collection of ints; got int."),
        ({"one": TWO, "two": TWO}, [0], ValueError, BY_NAME),
        ({"one": TWO, "two": results_of(["x--x"], rule="trapezoid")}, None, ValueError, RULES),
    ],
)
def test_bad_queries_and_average_precisions_by_different_rules_are_refused(results, queries, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        plot_retrieval_precision_recall(results, queries=queries)


def test_there_is_no_curve_under_expected_ties():
    with pytest.raises(ValueError, match="expected"):
        plot_retrieval_precision_recall(results_of(["x--x"], ties="expected"))


def test_curves_are_drawn_in_percent_over_the_rank_with_their_names():
    figure, axes = plot_cmc(torch.tensor([0.25, 0.5, 1.0]))
    (line,) = axes.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2, 3], [25, 50, 100])
    assert figure is axes.figure
    assert legend(axes) == ["Rank-1 25.0 %"]
    _, axes = plot_cmc({"before": torch.tensor([0.1, 0.2]), "after": torch.tensor([0.8, 0.9])})
    assert legend(axes) == ["before  (Rank-1 10.0 %)", "after  (Rank-1 80.0 %)"]


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


UNANNOTATED = pytest.mark.usefixtures("unannotated")  # results that no evaluation has

NAN = math.nan
ONE_QUERY = evaluate_scores(torch.tensor([[2.0, 1.0]]), torch.tensor([1]), torch.tensor([1, 2]))


def ranked_first(ranks: list[float], num_candidates: int, weight: list[float] | None = None) -> RetrievalResults:
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


@UNANNOTATED
def test_the_share_of_the_valid_queries_in_each_bin_is_drawn_in_percent_with_its_number():
    figure, axes = plot_first_ranks(ranked_first([1, 1, 2, 3, 5, 6, 10, 11, NAN, NAN], 20))
    assert bins(axes) == ["1", "2", "3-5", "6-10", "11-20"]
    assert heights(axes) == [[25, 12.5, 25, 25, 12.5]]
    assert [text.get_text() for text in axes.texts] == ["25.0", "12.5", "25.0", "25.0", "12.5"]
    assert axes.get_title() == "Rank of the first match, 8 of 10 queries"
    assert axes.get_legend() is None
    assert figure is axes.figure
    assert heights(plot_first_ranks(ranked_first([1, 2, NAN], 2, weight=[3, 1, 5]))[1]) == [[75, 25]]


@UNANNOTATED
@pytest.mark.parametrize("last", [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
def test_bins_go_up_to_the_last_one_with_a_query_and_end_with_the_rank_in_their_name(last):
    *_, name = bins(plot_first_ranks(ranked_first([1, last], 10**6))[1])
    *_, next_name = bins(plot_first_ranks(ranked_first([1, last + 1], 10**6))[1])
    assert name.split("-")[-1].strip() == str(last)
    assert next_name.split("-")[0] == (str(last + 1) if last < 1000 else "> 1000")


@UNANNOTATED
@pytest.mark.parametrize("rank", [NAN, math.inf])
def test_a_rank_that_is_not_finite_is_in_no_bin(rank):
    assert bins(plot_first_ranks(ranked_first([1, rank], 10**6))[1]) == ["1"]


@UNANNOTATED
def test_several_results_are_side_by_side_under_their_names():
    _, axes = plot_first_ranks({"before": ranked_first([2, 2], 4), "after": ranked_first([1, NAN], 2)})
    assert heights(axes) == [[0, 100], [100, 0]]
    assert legend(axes) == ["before  (2 of 2 queries)", "after  (1 of 2 queries)"]
    assert axes.get_legend().get_title().get_text() == "queries with a match"
    before, after = (bars[0] for bars in axes.containers)
    assert before.get_x() + before.get_width() == pytest.approx(after.get_x())
    assert not axes.texts
    _, axes = plot_first_ranks({"all": ranked_first([NAN, NAN], 4), "none": ranked_first([], 4)})
    assert legend(axes) == ["all  (0 of 2 queries)", "none  (n/a: no query was evaluated)"]
    assert heights(axes) == [[0]] * 2


@UNANNOTATED
@pytest.mark.parametrize(
    ("ranks", "top"), [([1.0], 100), ([1, 2], 60), ([1, 1, 1, 2, 3], 60), ([1, 2, 3, 6, 11], 20), ([NAN], 20)]
)
def test_the_axis_ends_at_the_multiple_of_20_percent_above_the_highest_bar(ranks, top):
    _, axes = plot_first_ranks(ranked_first(ranks, 20))
    assert axes.get_ylim() == pytest.approx((0, 1.08 * top))  # with room for the number on the bar

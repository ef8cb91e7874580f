"""Pictures of precision and recall over queries: what is drawn is what the results have."""

import re
from dataclasses import replace

import pytest
import torch

from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate_scores
from reid_torchmetrics.plot import plot_retrieval_precision_recall
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


def test_the_title_of_the_legend_names_the_rule_of_the_protocol_unless_it_is_the_usual_one():
    def title(**options: object) -> str:
        results = results_of(["x--x", "-x-x"], **options)
        return plot_retrieval_precision_recall(results)[1].get_legend().get_title().get_text()

    assert title(rule="trapezoid") == "AP by trapezoids"
    cut = "AP of the first 2, divided by attainable"
    assert title(k=2, normalizer="attainable") == cut
    assert title(normalizer="hits") == "AP divided by hits"
    assert title(rule="interpolated_11") == "AP interpolated at 11 recalls"
    labels = torch.tensor([0, 0, 1, 1])
    drawn = evaluate_scores(torch.eye(4), labels, labels, protocol="vehicleid", self_index=torch.arange(4))
    rule = plot_retrieval_precision_recall(drawn)[1].get_legend().get_title().get_text()
    assert rule == "AP expected over draws"


def test_an_average_precision_that_is_the_area_under_the_line_is_written_once():
    results = results_of(["x--x", "-x-x"], rule="interpolated_101")
    _, axes = plot_retrieval_precision_recall(results)
    assert legend(axes) == ["mAP 62.6 %"]
    # By the usual rule it is (1/3 + 2/4) / 2 where the line is 2/4 everywhere.
    _, axes = plot_retrieval_precision_recall(results_of(["--xx"]))
    assert legend(axes) == ["mAP 41.7 %, area under this line 50.0 %"]
    _, axes = plot_retrieval_precision_recall({"one": results})
    assert axes.get_legend().get_title().get_text() == "AP interpolated at 101 recalls"


def test_average_precisions_by_different_rules_are_not_drawn_together():
    other = results_of(["x--x"], rule="trapezoid")
    message = "`results` must all have the same rule of average precision; got 'AP at all positives', 'AP by "
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        plot_retrieval_precision_recall({"one": TWO, "two": other})


def test_there_is_no_curve_under_expected_ties():
    with pytest.raises(ValueError, match="expected"):
        plot_retrieval_precision_recall(results_of(["x--x"], ties="expected"))


BAD = [
    (TWO, [2], ValueError, "`queries` must be the number of one of 2 queries; got 2."),
    (TWO, [0.5], TypeError, "`queries` must hold ints only; got 0.5."),
    (TWO, 1, TypeError, "`queries` must be a collection of ints; got int."),
    (
        {"one": TWO, "two": TWO},
        [0],
        ValueError,
        "`queries` must come with a single result, whose queries they are; got 2 results by name.",
    ),
]


@pytest.mark.parametrize(("results", "queries", "error", "message"), BAD)
def test_bad_queries_are_refused(results, queries, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        plot_retrieval_precision_recall(results, queries=queries)

"""Pictures of what two models differ by: what is drawn is what was compared."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate_scores
from reid_torchmetrics.functional.retrieval.measures import title_of
from reid_torchmetrics.plot import plot_comparison
from reid_torchmetrics.tasks import Comparison, Difference, compare

NAN = math.nan
UNDEFINED = Difference(0.5, NAN, NAN, NAN, NAN, NAN, 0, 0, 0, is_rank=False)


def difference(low: float, middle: float, high: float, p_value: float, *, is_rank: bool = False) -> Difference:
    found = Difference(0.5, 0.5 + middle, middle, low, high, p_value, 3, 2, 1, is_rank)
    return replace(found, lower_is_better=is_rank)


def comparison_of(differences: dict[str, Difference], **changes: object) -> Comparison:
    results = evaluate_scores(torch.tensor([[0.5, 0.4]]), torch.tensor([1]), torch.tensor([1, 2]))
    found = compare(results, results, generator=torch.Generator().manual_seed(0), num_resamples=1, num_permutations=1)
    titled = {name: replace(each, title=title_of(name)) for name, each in differences.items()}
    return replace(found, differences=titled, **changes)


TWO = comparison_of({"map": difference(-0.01, 0.02, 0.05, 0.25), "rank_1": difference(0.01, 0.03, 0.06, 0.0101)})


def written(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_differences_are_drawn_in_percentage_points_and_written_with_p_values_at_the_right_the_first_on_top():
    figure, axes = plot_comparison(TWO)
    assert [list(line.get_xdata()) for line in axes.lines] == [
        *([0, 0], pytest.approx([-1, 5]), pytest.approx([2]), pytest.approx([1, 6]), pytest.approx([3]))
    ]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["mAP", "Rank-1"]
    assert list(axes.lines[1].get_ydata()) == [0, 0]
    bottom, top = axes.get_ylim()
    assert bottom > top
    assert figure is axes.figure
    assert written(axes) == ["+2.00  p = 0.2500", "+3.00  p = 0.0101"]
    figure.draw_without_rendering()
    for text in axes.texts:
        assert axes.get_window_extent().x1 < text.get_window_extent().x0
        assert text.get_window_extent().x1 <= figure.bbox.x1


def test_a_point_is_filled_where_p_is_small_enough():
    for confidence, filled in ((0.95, [False, True]), (0.99, [False, False]), (0.5, [True, True])):
        _, axes = plot_comparison(replace(TWO, level=confidence))
        points = [line for line in axes.lines if line.get_marker() == "o"]
        assert [point.get_markerfacecolor() != "white" for point in points] == filled


def test_the_title_says_of_how_many_queries_or_images_and_what_was_drawn():
    two = replace(TWO, num_valid=9, num_queries=10, level=0.9)
    assert plot_comparison(two)[1].get_title() == "9 of 10 queries, 90 % intervals"
    assert plot_comparison(replace(two, per_identity=True))[1].get_title().endswith(" intervals, identities drawn")
    assert plot_comparison(replace(TWO, num_queries=7, protocol=None))[1].get_title() == "7 images, 95 % intervals"


@pytest.mark.parametrize(
    ("number", "words"),
    [(UNDEFINED, "n/a"), (difference(-3.0, -1.5, 0.5, 0.5, is_rank=True), "-1.50 ranks  p = 0.5000")],
)
def test_an_undefined_number_or_one_that_is_no_share_is_written_and_not_drawn(number, words):
    _, axes = plot_comparison(comparison_of({"mrr": number}))
    assert len(axes.lines) == 1
    assert written(axes) == [words]
    assert axes.get_xlim() == (-1, 1)


def test_equal_models_are_drawn_at_0_in_the_middle_and_an_interval_that_begins_at_0_is_inside_of_the_axes():
    _, axes = plot_comparison(comparison_of({"map": difference(0.0, 0.0, 0.0, 1.0)}))
    assert axes.get_xlim() == (-1, 1)
    for high in (0.02, 0.2):
        _, axes = plot_comparison(comparison_of({"map": difference(0.0, 0.0, high, 1.0)}))
        assert axes.get_xlim()[1] > 100 * high


@pytest.mark.slow
def test_many_numbers_make_a_higher_figure_and_do_not_overlap():
    many = {f"rank_{k}": difference(0.0, 0.01, 0.02, 0.1) for k in range(1, 31)}
    (few, _), (figure, axes) = plot_comparison(TWO), plot_comparison(comparison_of(many))
    assert figure.get_figheight() > few.get_figheight()
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def test_models_go_by_their_names_and_the_corrected_p_decides():
    two = comparison_of({"map": replace(difference(0.0, 0.01, 0.02, 0.04), p_holm=0.08)}, names=("old", "new"))
    _, axes = plot_comparison(two)
    assert axes.get_xlabel() == "← old is better | new is better →\ndifference (percentage points)"
    assert written(axes) == ["+1.00  p = 0.0400, Holm 0.0800"]
    assert axes.lines[2].get_markerfacecolor() == "white"

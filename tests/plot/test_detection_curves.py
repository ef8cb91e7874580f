"""Pictures of precision and recall: what is drawn is what COCO averages."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot as plt

from reid_torchmetrics.functional.detection import DetectionResults, Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.functional.detection.evaluators import evaluate_matches
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from reid_torchmetrics.plot import plot_detection_confidence, plot_detection_curve, plot_detection_precision_recall
from reid_torchmetrics.plot.detection_curves import evaluate_headline
from reid_torchmetrics.tasks.operating_points import DetectionCurve
from tests.detection_strategies import problems
from tests.found_classes import Found, images_of, match_images
from tests.functional.detection.evaluators.test_coco_laws import few
from tests.plot.texts import legend


def evaluated(found: list[list[bool]], num_positives: list[int], **options: object) -> DetectionResults:
    """Results for classes 0, 1, ... with so many ground truths, and detections of each by descending score.

    A right one overlaps its ground truth wholly, so it is right at all thresholds.
    """
    classes = []
    for hits, number in zip(found, num_positives, strict=True):
        classes.append(([(1 - place / 100, hit) for place, hit in enumerate(hits)], number))
    return evaluate_boxes(*images_of(*classes), **options)


TWO = evaluated([[True, False, True], [False, True]], [4, 2])
"""at recalls up to 25 % the first has precision 1, then 2/3 up to 50 %; the second 1/2 up to 50 %"""


def test_each_class_is_drawn_in_percent_over_the_recall_and_their_mean_on_top():
    figure, axes = plot_detection_precision_recall(TWO, class_names={1: "cat"})
    first, second, mean = axes.lines
    for line in axes.lines:
        assert list(line.get_xdata()) == pytest.approx(list(range(101)))
    assert list(first.get_ydata()) == pytest.approx([100] * 26 + [200 / 3] * 25 + [0] * 50)
    assert list(second.get_ydata()) == pytest.approx([50] * 51 + [0] * 50)
    assert list(mean.get_ydata()) == pytest.approx([75] * 26 + [350 / 6] * 25 + [0] * 50)
    assert mean.get_linewidth() > first.get_linewidth()
    assert figure is axes.figure
    # (26 + 25 * 2/3) / 101, and 51/2 / 101
    assert legend(axes) == ["class 0  (AP 42.2 %)", "cat  (AP 25.2 %)", "mean of 2 classes  (mAP 33.7 %)"]
    assert float(TWO.summary()["map"]) == pytest.approx(0.337, abs=5e-4)


@pytest.mark.slow
def test_some_of_very_many_classes_are_drawn_and_the_title_says_how_many():
    results = evaluated([[number >= 150] for number in range(300)], [1] * 300)  # a half has 0, the other 100 %
    _, axes = plot_detection_precision_recall(results)
    *lines, mean = axes.lines
    assert [max(line.get_ydata()) for line in lines] == pytest.approx([0] * 100 + [100] * 100)
    assert list(mean.get_ydata()) == pytest.approx([50] * 101)
    assert axes.get_title().splitlines()[1] == "200 of 300 classes are drawn, evenly by AP"
    assert "coco" not in vars(results)  # the whole grid is large where classes are many


# By all points (1 + 2/3)/4 and 1/2/2. By YOLOv5 trapezoids: 1 down to 2/3 behind 25 %, from 50 % on a slope down to 0,
# (25 - 1/2 + 25 * 2/3 + 51 * 1/3)/100, and (25 - 1/4 + 51 * 1/4)/100.
BY_RULE = {"coco": (42.2, 25.2, 33.7), "voc": (41.7, 25.0, 33.3), "yolov5": (58.2, 37.5, 47.8)}


@pytest.mark.parametrize("rule", BY_RULE)
@pytest.mark.parametrize("iou_threshold", [0.75, None])
@pytest.mark.slow
def test_the_legend_has_average_precisions_by_the_interpolation_of_the_metric(rule, iou_threshold):
    results = evaluated([[True, False, True], [False, True]], [4, 2], rule=rule)
    first, second, mean = BY_RULE[rule]
    _, axes = plot_detection_precision_recall(results, iou_threshold=iou_threshold)
    assert legend(axes) == [
        f"class 0  (AP {first} %)",
        f"class 1  (AP {second} %)",
        f"mean of 2 classes  (mAP {mean} %)",
    ]
    title = {"coco": "AP as in COCO", "voc": "AP as in Pascal VOC", "yolov5": "AP as in YOLOv5"}[rule]
    assert axes.get_legend().get_title().get_text() == title
    assert 100 * float(results.summary()["map"]) == pytest.approx(mean, abs=0.05)
    for line, of_coco in zip(axes.lines, plot_detection_precision_recall(TWO)[1].lines, strict=True):
        assert list(line.get_ydata()) == pytest.approx(list(of_coco.get_ydata()))  # what is drawn does not depend on it
    _, axes = plot_detection_precision_recall({"before": results, "after": results})
    assert legend(axes) == [f"before  (mAP {mean} %)", f"after  (mAP {mean} %)"]


def test_the_mean_over_thresholds_is_that_of_the_interpolation():
    # 3/4 of the box is found, which is enough at 6 of 10 thresholds; by all points that is 1 at these, else 0.
    found = {"boxes": torch.tensor([[0.0, 0.0, 40.0, 30.0]]), "scores": torch.ones(1), "labels": torch.tensor([0])}
    true = {"boxes": torch.tensor([[0.0, 0.0, 40.0, 40.0]]), "labels": torch.tensor([0])}
    metric = DetectionMAP(rule="voc")
    metric.update([found], [true])
    assert legend(plot_detection_precision_recall(metric.results(), iou_threshold=None)[1]) == ["class 0  (AP 60.0 %)"]


def test_average_precisions_by_different_rules_are_not_drawn_together():
    one, two = (evaluated([[True]], [1], rule=rule) for rule in ("voc", "coco"))
    with pytest.raises(ValueError, match=r"^`results` must all have the same rule; got 'voc', 'coco'\.$"):
        plot_detection_precision_recall({"one": one, "two": two})


def test_several_evaluations_are_drawn_by_their_means():
    one = evaluated([[True]], [1])
    _, axes = plot_detection_precision_recall({"before": TWO, "after": one}, iou_threshold=0.75)
    assert legend(axes) == ["before  (mAP 33.7 %)", "after  (mAP 100.0 %)"]
    assert list(axes.lines[1].get_ydata()) == pytest.approx([100] * 101)
    assert axes.get_title() == "Precision and recall, IoU 0.75"


def test_nothing_to_draw_leaves_the_axes_empty():
    _, axes = plot_detection_precision_recall(evaluated([[False]], [0]))
    assert not axes.lines
    assert axes.get_legend() is None


@pytest.mark.parametrize(("num_classes", "num_named"), [(10, 11), (11, 1), (80, 1)])
def test_only_the_mean_of_more_than_ten_classes_has_a_name(num_classes, num_named):
    _, axes = plot_detection_precision_recall(evaluated([[True]] * num_classes, [2] * num_classes))
    assert len(axes.lines) == num_classes + 1
    assert len(legend(axes)) == num_named
    assert legend(axes)[-1] == f"mean of {num_classes} classes  (mAP 50.5 %)"


@pytest.mark.slow
def test_a_legend_stands_beside_or_below_the_curves_of_a_figure_of_our_own():
    def covered(axes) -> bool:
        axes.figure.draw_without_rendering()
        return axes.get_window_extent().overlaps(axes.get_legend().get_window_extent())

    many = evaluated([[True]] * 10, [2] * 10)
    assert not covered(plot_detection_precision_recall(many)[1])
    assert not covered(plot_detection_precision_recall(TWO)[1])
    _, axes = plt.subplots()
    assert covered(plot_detection_precision_recall(many, ax=axes)[1])


def test_other_recalls_are_drawn_where_they_are():
    _, axes = plot_detection_precision_recall(evaluated([[True]], [2], rec_thresholds=(0.0, 0.5, 0.75)))
    assert list(axes.lines[0].get_xdata()) == [0, 50, 75]
    assert list(axes.lines[0].get_ydata()) == pytest.approx([100, 100, 0])


@pytest.mark.usefixtures("unannotated")
def test_a_threshold_that_was_not_evaluated_is_an_error_that_lists_those_that_were():
    with pytest.raises(ValueError, match=r"`iou_threshold` must be one of 0\.5, 0\.55, .*0\.95; got 0\.52\."):
        plot_detection_precision_recall(TWO, iou_threshold=0.52)
    with pytest.raises(TypeError, match="`iou_threshold` must be a number; got"):
        plot_detection_precision_recall(TWO, iou_threshold="0.5")


def found_classes(*classes: Found) -> SimpleNamespace:
    both = images_of(*classes)
    return evaluate_boxes(*both)


# The first class finds 1 of 2, then errs; the second errs, then finds its only one.
CONFIDENT = found_classes(([(0.75, True), (0.25, False)], 2), ([(0.5, False), (0.25, True)], 1))


def title(axes) -> str:
    return axes.get_legend().get_title().get_text()


def at(line, confidence: float) -> float:
    """Height of a step at a confidence: that of the first point from there on."""
    x, y = line.get_data()
    assert line.get_drawstyle() == "steps-pre"
    return float(y[np.searchsorted(x, confidence)])


def test_means_over_classes_are_drawn_in_percent_over_the_confidence():
    figure, axes = plot_detection_confidence(CONFIDENT)
    precision, recall, f1 = axes.lines[:3]
    for confidence in (0.51, 0.75):
        assert [at(line, confidence) for line in axes.lines[:3]] == pytest.approx([100, 25, 100 / 3])
    for confidence in (0.26, 0.5):
        assert [at(line, confidence) for line in axes.lines[:3]] == pytest.approx([50, 25, 100 / 3])
    for confidence in (0.0, 0.25):
        assert at(precision, confidence) == pytest.approx(50)
        assert at(recall, confidence) == pytest.approx(75)
        assert at(f1, confidence) == pytest.approx(100 * (2 / 4 + 2 / 3) / 2)
    assert (at(recall, 0.76), at(f1, 1)) == (0, 0)
    assert math.isnan(at(precision, 0.76))
    assert axes.get_title() == "Mean of 2 classes, IoU 0.5"
    assert figure is axes.figure


def test_the_confidence_with_the_best_f1_is_marked_and_written_also_for_one_class():
    _, axes = plot_detection_confidence(CONFIDENT)
    assert list(axes.lines[3].get_xdata()) == [0.25, 0.25]
    assert title(axes) == "best F1, at confidence 0.250"
    assert legend(axes) == ["precision  50.0 %", "recall  75.0 %", "F1  58.3 %"]
    _, axes = plot_detection_confidence(CONFIDENT, label=0, class_names={0: "cat"})
    assert axes.get_title() == "cat, IoU 0.5"
    assert legend(axes) == ["precision  100.0 %", "recall  50.0 %", "F1  66.7 %"]
    assert plot_detection_confidence(CONFIDENT, label=1, class_names={0: "cat"})[1].get_title() == "class 1, IoU 0.5"


def test_the_results_of_a_metric_are_drawn():
    box = torch.tensor([[0.0, 0.0, 40.0, 40.0]])
    metric = DetectionMAP()
    metric.update(
        [{"boxes": box * torch.tensor([1, 1, 1, 0.75]), "scores": torch.tensor([0.5]), "labels": torch.tensor([0])}],
        [{"boxes": box, "labels": torch.tensor([0])}],
    )
    assert legend(plot_detection_confidence(metric.results(), iou_threshold=0.75)[1])[2] == "F1  100.0 %"
    assert title(plot_detection_confidence(metric.results(), iou_threshold=0.8)[1]) == "no detection is right"


@pytest.mark.parametrize(
    "results", [CONFIDENT, found_classes(([(0.01, True)], 1)), found_classes(([], 1)), found_classes(([], 0))]
)
def test_the_axes_are_the_same_in_every_epoch(results):
    _, axes = plot_detection_confidence(results)
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 1), (-1, 101))
    assert axes.get_yticks().tolist() == [0, 20, 40, 60, 80, 100]


@pytest.mark.slow
def test_the_axis_is_wider_for_scores_that_are_no_probabilities():
    assert plot_detection_confidence(found_classes(([(-2.5, True), (8.0, False)], 1)))[1].get_xlim() == (-2.5, 8)


@pytest.mark.parametrize("options", [{}, {"label": 0}])
def test_the_legend_says_that_nothing_is_right_or_defined(options):
    _, axes = plot_detection_confidence(found_classes(([(0.5, False)], 1)), **options)
    assert (title(axes), legend(axes)) == ("no detection is right", ["precision", "recall", "F1"])
    assert at(axes.lines[0], 0.5) == 0
    _, axes = plot_detection_confidence(found_classes(([(0.5, False)], 0)), **options)
    assert title(axes) == "n/a: no ground truth"
    assert all(len(line.get_xdata()) == 0 for line in axes.lines)


def test_many_scores_are_drawn_at_so_many_confidences_as_can_be_seen():
    # One image each, found with the scores 0, 1/4999, ... and 1: at a confidence c the share 1 - c of them is found.
    num = torch.arange(5000)
    boxes, label = torch.tensor([[0.0, 0.0, 40.0, 40.0]]).expand(5000, 4), torch.zeros_like(num)
    matches = match_images(Detections(boxes, num.double() / 4999, label, num), GroundTruths(boxes, label, num))
    _, axes = plot_detection_confidence(SimpleNamespace(matches=matches, averages=CONFIDENT.averages))
    for line in axes.lines[:3]:
        assert len(line.get_xdata()) == 2000
    for confidence in (0.0, 0.1, 0.5, 1.0):
        assert at(axes.lines[1], confidence) == pytest.approx(100 * (1 - confidence), abs=0.1)


@pytest.mark.usefixtures("unannotated")
def test_bad_options_are_refused():
    with pytest.raises(ValueError, match=r"`iou_threshold` must be one of 0\.5, 0\.55, .*; got 0\.52\."):
        plot_detection_confidence(CONFIDENT, iou_threshold=0.52)
    with pytest.raises(ValueError, match=r"^`label` must be the label of a class that occurs; got 7\.$"):
        plot_detection_confidence(CONFIDENT, label=7)


def curve_of(verdicts: str, num_positives: int) -> DetectionCurve:
    """Of detections that are right (1), wrong (0) or ignored (-)."""
    is_right, is_ignored = (torch.tensor([each == kind for each in verdicts], dtype=torch.bool) for kind in "1-")
    rows = torch.arange(len(verdicts))
    return DetectionCurve(num_positives, rows, rows, 1 - rows / 100, is_right, is_ignored)


def test_precision_and_recall_are_drawn_after_each_detection_that_counts():
    figure, axes = plot_detection_curve(curve_of("1-01", 4))
    line, steps = axes.get_lines()
    assert line.get_xdata() == pytest.approx([25, 25, 50])
    assert line.get_ydata() == pytest.approx([100, 50, 200 / 3])
    assert steps.get_ydata() == pytest.approx([100, 100, 200 / 3, 200 / 3, 0])
    assert legend(axes) == ["after each detection", "envelope", "AP 41.67 % by rule 'voc'"]  # (1 + 2/3) / 4
    assert axes.get_title() == "3 detections, 2 right, of 4 ground truths"
    assert figure is axes.figure


@pytest.mark.parametrize(("rule", "number"), [("voc07", 11), ("coco", 101)])
def test_the_points_that_a_rule_reads_are_marked(rule, number):
    *_, points = plot_detection_curve(curve_of("101", 4), rule=rule)[1].get_lines()
    assert len(points.get_ydata()) == number
    area = curve_of("101", 4).average_precision(rule)
    assert sum(points.get_ydata()) / number == pytest.approx(100 * area)


@pytest.mark.parametrize("rule", AP_RULES)
@pytest.mark.parametrize(("verdicts", "num_positives"), [("", 3), ("", 0), ("00", 0), ("--", 2), ("000", 2)])
def test_nothing_to_draw_is_said(rule, verdicts, num_positives):
    _, axes = plot_detection_curve(curve_of(verdicts, num_positives), rule=rule)
    expected = "AP 0.00 %" if num_positives else "AP nan %"
    assert f"{expected} by rule {rule!r}" in legend(axes)


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match=r"`rule` must be one of 'coco', .*; got 'voc12'"):
        plot_detection_curve(curve_of("1", 1), rule="voc12")


@few
@given(problems(), st.integers(0, 9))
def test_the_headline_is_a_part_of_the_grid(problem, place):
    matches, grid = problem.matched(), problem.grid
    whole, all_of_them = evaluate_matches(matches, grid), evaluate_headline(matches, grid)
    threshold = place % len(grid.iou_thresholds)
    one = evaluate_headline(matches, grid, iou_threshold=grid.iou_thresholds[threshold])
    for name in ("precision", "recall", "scores"):
        expected = getattr(whole, name)[..., :1, grid.official_limit, None]
        assert torch.equal(getattr(all_of_them, name), expected)
        assert torch.equal(getattr(one, name), expected[threshold, None])

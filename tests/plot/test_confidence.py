"""Pictures of precision, recall and F1 over the confidence."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from reid_torchmetrics.plot import plot_detection_confidence
from tests.found_classes import Found, images_of, match_images
from tests.plot.texts import legend


def results_of(*classes: Found) -> SimpleNamespace:
    both = images_of(*classes)
    return evaluate_boxes(*both)


# The first class finds 1 of 2, then errs; the second errs, then finds its only one.
EXAMPLE = results_of(([(0.75, True), (0.25, False)], 2), ([(0.5, False), (0.25, True)], 1))


def title(axes) -> str:
    return axes.get_legend().get_title().get_text()


def at(line, confidence: float) -> float:
    """Height of a step at a confidence: that of the first point from there on."""
    x, y = line.get_data()
    assert line.get_drawstyle() == "steps-pre"
    return float(y[np.searchsorted(x, confidence)])


def test_means_over_classes_are_drawn_in_percent_over_the_confidence():
    figure, axes = plot_detection_confidence(EXAMPLE)
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


def test_the_confidence_with_the_best_f1_is_marked_and_written():
    _, axes = plot_detection_confidence(EXAMPLE)
    assert list(axes.lines[3].get_xdata()) == [0.25, 0.25]
    assert title(axes) == "best F1, at confidence 0.250"
    assert legend(axes) == ["precision  50.0 %", "recall  75.0 %", "F1  58.3 %"]


def test_one_class_can_be_drawn_under_its_name():
    _, axes = plot_detection_confidence(EXAMPLE, label=0, class_names={0: "cat"})
    assert axes.get_title() == "cat, IoU 0.5"
    assert legend(axes) == ["precision  100.0 %", "recall  50.0 %", "F1  66.7 %"]
    assert plot_detection_confidence(EXAMPLE, label=1, class_names={0: "cat"})[1].get_title() == "class 1, IoU 0.5"


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
    "results", [EXAMPLE, results_of(([(0.01, True)], 1)), results_of(([], 1)), results_of(([], 0))]
)
def test_the_axes_are_the_same_in_every_epoch(results):
    _, axes = plot_detection_confidence(results)
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, 1), (-1, 101))
    assert axes.get_yticks().tolist() == [0, 20, 40, 60, 80, 100]


@pytest.mark.slow
def test_the_axis_is_wider_for_scores_that_are_no_probabilities():
    assert plot_detection_confidence(results_of(([(-2.5, True), (8.0, False)], 1)))[1].get_xlim() == (-2.5, 8)


def test_the_legend_says_that_nothing_is_right():
    _, axes = plot_detection_confidence(results_of(([(0.5, False)], 1)))
    assert title(axes) == "no detection is right"
    assert legend(axes) == ["precision", "recall", "F1"]
    assert at(axes.lines[0], 0.5) == 0


@pytest.mark.parametrize("options", [{}, {"label": 0}])
def test_the_legend_says_that_nothing_is_defined_without_ground_truths(options):
    _, axes = plot_detection_confidence(results_of(([(0.5, False)], 0)), **options)
    assert title(axes) == "n/a: no ground truth"
    assert all(len(line.get_xdata()) == 0 for line in axes.lines)


def test_many_scores_are_drawn_at_so_many_confidences_as_can_be_seen():
    # One image each, found with the scores 0, 1/4999, ... and 1: at a confidence c the share 1 - c of them is found.
    num = torch.arange(5000)
    boxes, label = torch.tensor([[0.0, 0.0, 40.0, 40.0]]).expand(5000, 4), torch.zeros_like(num)
    matches = match_images(Detections(boxes, num.double() / 4999, label, num), GroundTruths(boxes, label, num))
    _, axes = plot_detection_confidence(SimpleNamespace(matches=matches, averages=EXAMPLE.averages))
    for line in axes.lines[:3]:
        assert len(line.get_xdata()) == 2000
    for confidence in (0.0, 0.1, 0.5, 1.0):
        assert at(axes.lines[1], confidence) == pytest.approx(100 * (1 - confidence), abs=0.1)


@pytest.mark.usefixtures("unannotated")
def test_bad_options_are_refused():
    with pytest.raises(ValueError, match=r"`iou_threshold` must be one of 0\.5, 0\.55, .*; got 0\.52\."):
        plot_detection_confidence(EXAMPLE, iou_threshold=0.52)
    with pytest.raises(ValueError, match=r"^`label` must be the label of a class that occurs; got 7\.$"):
        plot_detection_confidence(EXAMPLE, label=7)

"""Pictures of the curve of a class: what is drawn is what the evaluator has."""

import pytest
import torch

from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.plot import plot_detection_curve
from reid_torchmetrics.tasks.operating_points import DetectionCurve
from tests.plot.texts import legend


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

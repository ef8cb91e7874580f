"""Pictures of precision and recall: what is drawn is what COCO averages."""

import pytest
import torch
from matplotlib import pyplot as plt

from reid_torchmetrics.functional.detection import DetectionResults, Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from reid_torchmetrics.plot import plot_detection_precision_recall
from tests.plot.texts import legend


def boxes_of(found: list[list[bool]], num_positives: list[int]) -> tuple[Detections, GroundTruths]:
    """Classes 0, 1, ... with so many ground truths, and of each detections by descending score, right or wrong.

    A right one overlaps its ground truth wholly, so it is right at all thresholds. Every class has an image.
    """
    boxes, truths = [], []
    for image, (detections, number) in enumerate(zip(found, num_positives, strict=True)):
        truths += [(100.0 * place, 0.0, 40.0, 40.0, image) for place in range(number)]
        right = iter(truths[-number:] if number else [])
        for place, is_right in enumerate(detections):
            box = next(right)[:4] if is_right else (100.0 * place, 500.0, 40.0, 40.0)
            boxes.append((*box, image, 1 - place / 100))
    rows, owners = torch.tensor(boxes).view(-1, 6), torch.tensor(truths).view(-1, 5)
    return (
        Detections(rows[:, :4], rows[:, 5], rows[:, 4].long(), rows[:, 4].long()),
        GroundTruths(owners[:, :4], owners[:, 4].long(), owners[:, 4].long()),
    )


def evaluated(found: list[list[bool]], num_positives: list[int], **options: object) -> DetectionResults:
    return evaluate_boxes(*boxes_of(found, num_positives), **options)


def results_of(found: list[list[bool]], num_positives: list[int], **options: object) -> DetectionResults:
    """The same of the metric."""
    metric = DetectionMAP(box_format="xywh", **options)
    detections, truths = boxes_of(found, num_positives)
    for image in range(len(found)):
        own, true = (side.at((side.images == image).nonzero()[:, 0]) for side in (detections, truths))
        preds = {"boxes": own.boxes, "scores": own.scores, "labels": own.labels}
        metric.update([preds], [{"boxes": true.boxes, "labels": true.labels}])
    return metric.results()


TWO = evaluated([[True, False, True], [False, True]], [4, 2])
"""at recalls up to 25 % the first has precision 1, then 2/3 up to 50 %; the second 1/2 up to 50 %"""


def test_each_class_is_drawn_in_percent_over_the_recall_and_their_mean_on_top():
    figure, axes = plot_detection_precision_recall(TWO)
    first, second, mean = axes.lines
    for line in axes.lines:
        assert list(line.get_xdata()) == pytest.approx(list(range(101)))
    assert list(first.get_ydata()) == pytest.approx([100] * 26 + [200 / 3] * 25 + [0] * 50)
    assert list(second.get_ydata()) == pytest.approx([50] * 51 + [0] * 50)
    assert list(mean.get_ydata()) == pytest.approx([75] * 26 + [350 / 6] * 25 + [0] * 50)
    assert mean.get_linewidth() > first.get_linewidth()
    assert figure is axes.figure


def test_the_legend_has_average_precisions():
    _, axes = plot_detection_precision_recall(TWO, class_names={1: "cat"})
    # (26 + 25 * 2/3) / 101, and 51/2 / 101
    assert legend(axes) == ["class 0  (AP 42.2 %)", "cat  (AP 25.2 %)", "mean of 2 classes  (mAP 33.7 %)"]
    assert float(TWO.summary()["map"]) == pytest.approx(0.337, abs=5e-4)


@pytest.mark.slow
def test_some_of_very_many_classes_are_drawn_and_the_title_says_how_many():
    results = results_of([[number >= 150] for number in range(300)], [1] * 300)  # a half has 0, the other 100 %
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
    results = results_of([[True, False, True], [False, True]], [4, 2], rule=rule)
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
    one, two = (results_of([[True]], [1], rule=rule) for rule in ("voc", "coco"))
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

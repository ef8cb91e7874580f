"""The worked example of Rafael Padilla: 24 detections of 15 people in 7 images, its table, its curve and both areas.

Source of the boxes: rafaelpadilla/Object-Detection-Metrics, `groundtruths` and `detections`.
"""

import pytest
import torch

from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.tasks.operating_points import compute_ap

PEOPLE = [
    [(25, 16, 38, 56), (129, 123, 41, 62)],
    [(123, 11, 43, 55), (38, 132, 59, 45)],
    [(16, 14, 35, 48), (123, 30, 49, 44), (99, 139, 47, 47)],
    [(53, 42, 40, 52), (154, 43, 31, 34)],
    [(59, 31, 44, 51), (48, 128, 34, 52)],
    [(36, 89, 52, 76), (62, 58, 44, 67)],
    [(28, 31, 55, 63), (58, 67, 50, 58)],
]
FOUND = [
    [(0.88, 5, 67, 31, 48), (0.70, 119, 111, 40, 67), (0.80, 124, 9, 49, 67)],
    [(0.71, 64, 111, 64, 58), (0.54, 26, 140, 60, 47), (0.74, 19, 18, 43, 35)],
    [
        *((0.18, 109, 15, 77, 39), (0.67, 86, 63, 46, 45), (0.38, 160, 62, 36, 53)),
        *((0.91, 105, 131, 47, 47), (0.44, 18, 148, 40, 44)),
    ],
    [(0.35, 83, 28, 28, 26), (0.78, 28, 68, 42, 67), (0.45, 87, 89, 25, 39), (0.14, 10, 155, 60, 26)],
    [(0.62, 50, 38, 28, 46), (0.44, 95, 11, 53, 28), (0.95, 29, 131, 72, 29), (0.23, 29, 163, 72, 29)],
    [(0.45, 43, 48, 74, 38), (0.84, 17, 155, 29, 35), (0.43, 95, 110, 25, 42)],
    [(0.48, 16, 20, 101, 88), (0.95, 33, 116, 37, 49)],
]
RIGHT = [1, 3, 10, 12, 13, 14, 23]
"""ranks of the true positives at an overlap of 0.3"""


def images_of(rows: list[list[tuple]]) -> torch.Tensor:
    return torch.arange(len(rows)).repeat_interleave(torch.tensor([len(each) for each in rows]))


def evaluated(rule: str):
    columns = torch.tensor([row for rows in FOUND for row in rows], dtype=torch.float64)
    truths = torch.tensor([row for rows in PEOPLE for row in rows], dtype=torch.float64)
    ones = torch.ones(len(columns), dtype=torch.int64)
    detections = Detections(columns[:, 1:], columns[:, 0], ones, images_of(FOUND))
    ground_truths = GroundTruths(truths, ones[: len(truths)], images_of(PEOPLE))
    return evaluate_boxes(detections, ground_truths, evaluator="voc", iou_thresholds=(0.3,), rule=rule)


def test_the_table_has_the_published_true_and_false_positives():
    curve = evaluated("voc").ranked.for_class(1)
    assert (len(curve), curve.num_positives) == (24, 15)
    assert (1 + curve.is_true_positive.nonzero()[:, 0]).tolist() == RIGHT
    assert curve.num_true_positives[-1] == 7
    assert curve.num_false_positives[-1] == 17
    for rank, (precision, recall) in enumerate(zip(curve.precision.tolist(), curve.recall.tolist(), strict=True), 1):
        found = sum(right <= rank for right in RIGHT)
        assert (precision, recall) == pytest.approx((found / rank, found / 15))


def test_the_area_by_all_points_is_the_published_one():
    results = evaluated("voc")
    by_hand = 1 / 15 * (1 / 1 + 2 / 3 + 4 * 6 / 14 + 7 / 23)
    assert float(results.summary()["map"]) == pytest.approx(by_hand)
    assert by_hand == pytest.approx(0.2457, abs=5e-5)
    curve = results.ranked.for_class(1)
    assert curve.average_precision("voc") == pytest.approx(by_hand)
    assert float(compute_ap(curve.recall, curve.precision, "voc")) == pytest.approx(by_hand)


def test_the_eleven_points_and_their_mean_are_the_published_ones():
    results = evaluated("voc07")
    curve = results.ranked.for_class(1)
    recalls, heights = curve.at_recalls(11)
    assert recalls.tolist() == pytest.approx([place / 10 for place in range(11)])
    assert heights.tolist() == pytest.approx([1, 2 / 3, *[6 / 14] * 3, *[0] * 6])
    by_hand = (1 + 2 / 3 + 3 * 6 / 14) / 11
    assert by_hand == pytest.approx(0.2684, abs=5e-5)
    assert float(results.summary()["map"]) == pytest.approx(by_hand)
    assert curve.average_precision("voc07") == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"label": 2}, ValueError, "`label` must be the label of a class that occurs; got 2."),
        ({"label": 1, "iou_threshold": 0.5}, ValueError, "`iou_threshold` must be one of 0.3; got 0.5."),
    ],
)
def test_curves_that_are_not_there_are_refused(options, error, message):
    with pytest.raises(error) as raised:
        evaluated("voc").ranked.for_class(options.pop("label"), **options)
    assert str(raised.value) == message

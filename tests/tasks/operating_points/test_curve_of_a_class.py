"""The curve of one class by hand: hits, misses and ignored detections, its areas, its table."""

import math

import pytest
import torch

from reid_torchmetrics.tasks.operating_points import DetectionCurve

# Of four ground truths three are found, at the ranks 1, 3 and 5 of those that count.
CURVE = DetectionCurve(
    num_positives=4,
    row=torch.arange(6),
    image=torch.tensor([7, 7, 8, 8, 9, 9]),
    score=torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4]),
    is_true_positive=torch.tensor([True, False, False, True, False, True]),
    is_ignored=torch.tensor([False, True, False, False, False, False]),
)
NOTHING = DetectionCurve(0, *[torch.zeros(0, dtype=torch.int64)] * 2, torch.zeros(0), *[torch.zeros(0).bool()] * 2)


def test_precision_and_recall_are_counted_after_each_detection():
    assert (len(CURVE), len(NOTHING)) == (6, 0)
    assert CURVE.num_true_positives.tolist() == [1, 1, 1, 2, 2, 3]
    assert CURVE.num_false_positives.tolist() == [0, 0, 1, 1, 2, 2]
    assert CURVE.precision.tolist() == [1, 1, 1 / 2, 2 / 3, 2 / 4, 3 / 5]
    assert CURVE.recall.tolist() == [1 / 4, 1 / 4, 1 / 4, 2 / 4, 2 / 4, 3 / 4]
    assert CURVE.envelope.tolist() == [1, 1, 2 / 3, 2 / 3, 3 / 5, 3 / 5]


def test_the_area_is_that_of_the_steps_by_default_and_of_no_ground_truths_nan():
    steps = 1 / 4 * (1 + 2 / 3 + 3 / 5)
    assert CURVE.average_precision() == CURVE.average_precision("voc") == pytest.approx(steps, abs=1e-15)
    of_11 = (3 * 1 + 3 * 2 / 3 + 2 * 3 / 5) / 11  # recalls 0 to 0.2, 0.3 to 0.5, 0.6 and 0.7
    assert CURVE.average_precision("voc07") == pytest.approx(of_11, abs=1e-15)
    assert math.isnan(NOTHING.average_precision())


def test_the_envelope_is_read_at_recalls():
    recalls, heights = CURVE.at_recalls(5)
    assert recalls.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert heights.tolist() == [1, 1, 2 / 3, 3 / 5, 0]
    assert [len(each) for each in CURVE.at_recalls()] == [11, 11]


def test_a_line_of_the_table_is_a_detection():
    lines = str(CURVE).splitlines()
    assert lines[0] == f"DetectionCurve: 4 ground truths, {len(CURVE)} detections"
    assert [line.split() for line in lines[2:5]] == [
        ["1", "7", "0.900", "TP", "1", "0", "1.0000", "0.2500"],
        ["2", "7", "0.800", "--", "1", "0", "1.0000", "0.2500"],
        ["3", "8", "0.700", "FP", "1", "1", "0.5000", "0.2500"],
    ]

"""Precision and recall where the smoothed mean of F1 is highest: those of loops, and by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.tasks.evaluators import yolo_average_precision
from tests.paths import path
from tests.profiles import examples
from tests.reference.yolo_confidence import JudgedClass, precision_and_recall_at, smoothed_f1

rows = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0, 1 / 8, 0.5, 0.9, 1]), st.sampled_from([3, 0, 7])), max_size=16
)


def taken(detections: list[tuple[bool, float, int]], targets: list[int]):
    is_right, scores, labels = zip(*detections, strict=True) if detections else ((), (), ())
    tensors = (
        torch.tensor(is_right, dtype=torch.bool).view(-1, 1),
        torch.tensor(scores, dtype=torch.float64),
        torch.tensor(labels, dtype=torch.int64),
    )
    return yolo_average_precision(*tensors, torch.tensor(targets, dtype=torch.int64), confidence=None)


@examples(25)
@given(rows, st.lists(st.sampled_from([0, 3, 5]), min_size=1, max_size=6))
def test_the_smoothed_f1_of_loops_is_highest_there(detections, extra):
    targets = extra + [label for is_right, _, label in detections if is_right]
    found = taken(detections, targets)
    ranked = sorted(detections, key=lambda row: -row[1])
    classes = [
        JudgedClass(
            [score for _, score, other in ranked if other == label],
            [is_right for is_right, _, other in ranked if other == label],
            targets.count(label),
        )
        for label in found.classes.tolist()
    ]
    smoothed = smoothed_f1(classes)
    assert smoothed[round(found.confidence * 999)] == pytest.approx(max(smoothed), abs=1e-12)
    expected = [precision_and_recall_at(judged, found.confidence) for judged in classes]
    for k, (precision, recall) in enumerate(expected):
        f1 = 2 * precision * recall / (precision + recall + 1e-16)
        assert [float(each[k]) for each in (found.precision, found.recall, found.f1)] == pytest.approx(
            (precision, recall, f1), abs=1e-12
        )


def test_many_classes_are_read_a_few_at_a_time(monkeypatch):
    scores = [row * 37 % 200 / 200 for row in range(200)]
    detections = [(score > 0.6, score, row * 7 % 11) for row, score in enumerate(scores)]  # none of class 11
    targets = [*range(12)] * 8
    at_once = taken(detections, targets)
    monkeypatch.setattr(*path("yolo_classes"), 5)
    found = taken(detections, targets)
    assert found.confidence == at_once.confidence > 0
    assert all(one.equal(other) for one, other in zip(found[1:4], at_once[1:4], strict=True))


def test_without_detections_or_classes_all_is_zero():
    nothing = taken([], [4, 4])
    assert [float(nothing.precision), float(nothing.recall), float(nothing.f1)] == [0, 0, 0]
    assert nothing.confidence == 0
    assert taken([(True, 0.5, 1)], []).precision.shape == (0,)


def test_a_class_above_its_best_score_has_precision_one_and_recall_zero():
    # At about 0.7 all of class 1 is found, and nothing of class 2 yet; at 0.1 there are 38 wrong detections of class 1.
    found = taken([(True, 0.9, 1), (True, 0.85, 1), *[(False, 0.5, 1)] * 38, (True, 0.1, 2)], [1, 1, 2, 2])
    assert 0.5 < found.confidence < 0.85
    assert 2 / 3 < float(found.precision[0]) < 1
    assert float(found.precision[1]) == 1
    assert found.recall.tolist() == [1, 0]

"""Confusion of classes: counted by hand, in loops, as COCO with one class, and whatever the order of images."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.tasks.detection_errors import (
    CONFUSION_RULES,
    ConfusionMatrix,
    ObjectPairs,
    confusion_matrix,
    pair_objects,
)
from tests.detection_strategies import Problem, problems
from tests.found_classes import match_images
from tests.profiles import examples
from tests.reference import detection_errors as reference

BOX = [0.0, 0.0, 10.0, 10.0]
HALF = [0.0, 0.0, 10.0, 5.0]  # overlaps it by exactly 1/2
BESIDE = [50.0, 0.0, 10.0, 10.0]
FAR = [0.0, 90.0, 10.0, 10.0]


def example() -> ObjectPairs:
    """Image 0: class 1 is found as class 3 with 0.9 and as itself with 0.8. Image 1: class 3 is missed, a crowd of
    class 1 holds a detection of class 3, another is on background. Image 2: class 1 is found exactly half."""
    detections = Detections(
        torch.tensor([BOX, BOX, BESIDE, FAR, HALF]),
        torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5]),
        torch.tensor([3, 1, 3, 3, 1]),
        torch.tensor([0, 0, 1, 1, 2]),
    )
    truths = GroundTruths(
        torch.tensor([BOX, BOX, BESIDE, BOX]),
        torch.tensor([1, 3, 1, 1]),
        torch.tensor([0, 1, 1, 2]),
        is_crowd=torch.tensor([False, False, True, False]),
    )
    return pair_objects(detections, truths)


@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        # the better score takes the box, the other is on background; the crowd hides one
        ("coco", [[1, 1, 0], [0, 0, 1], [1, 1, 0]]),
        # no crowds: what was in one is on background
        ("hotcoco", [[1, 1, 0], [0, 0, 1], [1, 2, 0]]),
        # an overlap of 1/2 is not above 1/2, nor is a score of 0.5: the last box is missed, and nothing else is said
        ("ultralytics", [[0, 1, 1], [0, 0, 1], [1, 2, 0]]),
        # its own class takes the box first; the score of 0.5 is enough, but not the overlap; the crowd is an object
        ("supervision", [[1, 1, 1], [0, 0, 1], [1, 2, 0]]),
    ],
)
def test_the_example_has_its_counts_by_each_rule(rule, counts):
    found = confusion_matrix(example(), 0.5, rule=rule)
    assert found.classes.tolist() == [1, 3]
    assert found.counts.tolist() == counts
    assert found.num_confused == counts[0][1]
    assert (found.rule, found.iou_threshold) == (rule, 0.5)


def test_shares_of_a_row_sum_to_one_and_are_nan_without_counts():
    found = ConfusionMatrix(torch.tensor([1]), torch.tensor([[3, 1], [0, 0]]), 0.5, "coco")
    assert found.normalized[0].tolist() == [0.75, 0.25]
    assert found.normalized[1].isnan().all()


def test_pairs_of_classes_are_listed_by_how_often_they_are_confused():
    counts = torch.tensor([[9, 1, 4, 7], [1, 9, 0, 7], [5, 0, 9, 7], [7, 7, 7, 0]])
    found = ConfusionMatrix(torch.tensor([2, 4, 8]), counts, 0.5, "coco")
    assert found.most_confused(3).tolist() == [[8, 2, 5], [2, 8, 4], [2, 4, 1]]
    assert found.most_confused(9).tolist() == [[8, 2, 5], [2, 8, 4], [2, 4, 1], [4, 2, 1]]
    with pytest.raises(ValueError, match="`n` must be at least 1; got 0"):
        found.most_confused(0)
    assert confusion_matrix(example(), 2.0).most_confused(5).shape == (0, 3)


@pytest.mark.parametrize(
    ("boxes", "supervision", "coco"),
    [
        ([BOX], [[1, 1], [0, 0]], [[1, 0], [0, 0]]),
        # A box inside the crowd overlaps it by 1/20 of both: as an object it is not found.
        ([BOX, [100.0, 100.0, 10.0, 10.0]], [[1, 1], [1, 0]], [[1, 0], [0, 0]]),
        # A box of 3/5 of the crowd finds it.
        ([BOX, [100.0, 100.0, 12.0, 10.0]], [[2, 0], [0, 0]], [[1, 0], [0, 0]]),
    ],
)
def test_crowds_are_objects_as_in_supervision(boxes, supervision, coco):
    # Recorded with supervision 0.31.2, whose reader of COCO's files loads `iscrowd`.
    size = 200.0 if len(boxes) > 1 and boxes[1][2] == 10.0 else 20.0
    crowd = [100.0, 100.0, size, 10.0]
    target = {"boxes": torch.tensor([BOX, crowd]), "labels": torch.tensor([0, 0]), "iscrowd": torch.tensor([0, 1])}
    scores, labels = torch.full((len(boxes),), 0.9), torch.zeros(len(boxes), dtype=torch.int64)
    metric = DetectionMAP("xywh")
    metric.update([{"boxes": torch.tensor(boxes), "scores": scores, "labels": labels}], [target])
    results = metric.results(across_classes=True)
    for rule, counts in (("supervision", supervision), ("coco", coco)):
        assert results.confusion_matrix(confidence=0.3, rule=rule).counts.tolist() == counts


def cells_of(found: ConfusionMatrix) -> Counter:
    names = [*found.classes.tolist(), reference.BACKGROUND]
    return Counter(
        {(names[row], names[column]): int(found.counts[row, column]) for row, column in found.counts.nonzero().tolist()}
    )


@pytest.mark.parametrize("rule", CONFUSION_RULES)
@given(problem=problems(), threshold=st.sampled_from([0.1, 0.25, 0.5, 2 / 3, 1.0]))
@examples(15)
def test_counts_are_those_of_the_loops(rule, problem, threshold):
    area_range = next(iter(problem.setting.areas.values()))
    objects = pair_objects(*problem.tensors, area_range=area_range)
    for confidence in {-1.0, *(row.score for row in problem.detections[:2])}:
        expected = reference.confusion(
            problem.detections,
            problem.ground_truths,
            reference.RULES[rule],
            threshold=threshold,
            confidence=confidence,
            area_range=area_range,
        )
        assert cells_of(confusion_matrix(objects, confidence, iou_threshold=threshold, rule=rule)) == expected


def test_the_most_confused_of_many_classes_may_be_selected():
    found, true = Counter({(0, 3): 3, (2, 1): 2, (4, 0): 1, (4, 4): 5}), []
    for place, (label, detected) in enumerate(found.elements()):
        true.append(([100.0 * place, 0.0, 9.0, 9.0], label, detected))
    boxes, labels, detected = (torch.tensor(column) for column in zip(*true, strict=True))
    images = torch.zeros_like(labels)
    objects = pair_objects(Detections(boxes, torch.ones(11), detected, images), GroundTruths(boxes, labels, images))
    few = confusion_matrix(objects, 0.5, num_classes=3)
    assert (few.classes.tolist(), few.num_left_out) == ([0, 2, 3], 2)
    assert few.counts.tolist() == [[0, 0, 3, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert few.normalized[0].tolist() == [0, 0, 1, 0]
    assert few.most_confused(9).tolist() == [[0, 3, 3]]
    assert confusion_matrix(objects, 0.5, num_classes=4).classes.tolist() == [0, 1, 2, 3]
    assert confusion_matrix(objects, 0.5, num_classes=4).among(3).num_left_out == 2
    assert confusion_matrix(objects, 0.5).num_confused == 3 + 2 + 1
    with pytest.raises(ValueError, match=r"`num_classes` must be at least 1; got 0\."):
        confusion_matrix(objects, 0.5, num_classes=0)


@given(problem=problems(), num_classes=st.integers(1, 6))
@examples(15)
def test_fewer_classes_have_the_counts_and_shares_that_they_have_among_all(problem, num_classes):
    objects = pair_objects(*problem.tensors)
    whole, few = confusion_matrix(objects, 0.1), confusion_matrix(objects, 0.1, num_classes=num_classes)
    assert len(few.classes) == min(num_classes, len(whole.classes))
    assert few.num_left_out == len(whole.classes) - len(few.classes)
    rows = [*torch.searchsorted(whole.classes, few.classes).tolist(), len(whole.classes)]
    assert torch.equal(few.counts, whole.counts[rows][:, rows])
    torch.testing.assert_close(few.normalized, whole.normalized[rows][:, rows], rtol=0, atol=0, equal_nan=True)
    cut = whole.among(num_classes)
    for name in ("classes", "counts", "normalized"):
        torch.testing.assert_close(getattr(cut, name), getattr(few, name), rtol=0, atol=0, equal_nan=True)
    listed = whole.most_confused(num_classes // 2) if num_classes > 1 else torch.empty(0, 3)
    assert few.most_confused(9)[: len(listed)].tolist() == listed.tolist()


@given(problem=problems(default_setting=True))
@examples(12)
def test_the_rule_of_coco_matches_as_many_as_with_one_class(problem):
    found, true = (rows for rows in problem.mapped(lambda row: row._replace(label=0)).tensors)
    matches = match_images(found, true, iou_thresholds=(0.5,), max_detection_thresholds=(1000,))
    counted = confusion_matrix(pair_objects(*problem.tensors, area_range=(0.0, 1e10)), -torch.inf).counts
    assert int(counted[:-1, :-1].sum()) == int(matches.true_positive[0, 0].sum())
    assert int(counted[:-1].sum()) == int(matches.num_positives[0].sum())


def parts_of(problem: Problem) -> list[ObjectPairs]:
    """Each image by itself, in any order."""
    return [pair_objects(*problem.with_images({image}).tensors) for image in reversed(problem.images)]


@given(problem=problems())
@examples(12)
def test_parts_in_any_order_and_blocks_of_any_size_give_the_same_pairs(problem):
    whole = pair_objects(*problem.tensors)
    for other in (ObjectPairs.merge(parts_of(problem)), pair_objects(*problem.tensors, max_bytes=1)):
        for mine, theirs in zip(whole.to_tensors(), other.to_tensors(), strict=True):
            assert mine.dtype == theirs.dtype
            assert torch.equal(mine, theirs)


def test_options_out_of_range_are_refused():
    objects = example()
    with pytest.raises(ValueError, match=r"`rule` must be one of 'coco', .*; got 'voc'\."):
        confusion_matrix(objects, 0.5, rule="voc")
    with pytest.raises(
        ValueError, match=r"`iou_threshold` must be at least 0\.1, from which on pairs were found; got 0\.05\."
    ):
        confusion_matrix(objects, 0.5, iou_threshold=0.05)
    with pytest.raises(ValueError, match=r"`iou_threshold` must lie in \[0, 1\]; got 1\.5\."):
        confusion_matrix(objects, 0.5, iou_threshold=1.5)
    with pytest.raises(ValueError, match=r"`confidence` must be a number or have shape \[2\], .*; got \[3\]\."):
        confusion_matrix(objects, torch.zeros(3))

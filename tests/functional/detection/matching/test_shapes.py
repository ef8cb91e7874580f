"""Matching knows objects by their overlaps and areas alone, so others than boxes are another class of `Shapes`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes, pairwise_iou
from reid_torchmetrics.functional.detection.inputs import BoxShapes, CocoGrid, Shapes, box_areas
from reid_torchmetrics.functional.detection.matching import find_pairs
from reid_torchmetrics.tasks.evaluators import match_greedily
from tests.detection_strategies import LABELS, problems, taken_of
from tests.found_classes import match_images, true_positives
from tests.profiles import examples
from tests.reference.detection import evaluate


@dataclass(frozen=True)
class Numbered(Shapes):
    """Shapes with numbers, whose overlaps [detections, ground truths] come from anywhere."""

    values: Tensor
    numbers: Tensor
    given_areas: Tensor

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def device(self) -> torch.device:
        return self.numbers.device

    def __getitem__(self, rows: Tensor) -> Numbered:
        return Numbered(self.values, self.numbers[rows], self.given_areas[rows])

    def areas(self) -> Tensor:
        return self.given_areas

    def overlaps(
        self, row: Tensor, ground_truths: Numbered, true_row: Tensor, is_crowd: Tensor | None = None
    ) -> Tensor:
        return self.values[self.numbers[row], ground_truths.numbers[true_row]]


@dataclass(frozen=True)
class Intervals(Shapes):
    """Parts of a line, [intervals, 2]: where each begins, and its length, which is its area."""

    spans: Tensor

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def device(self) -> torch.device:
        return self.spans.device

    def __getitem__(self, rows: Tensor) -> Intervals:
        return Intervals(self.spans[rows])

    def areas(self) -> Tensor:
        return self.spans[:, 1].double()

    def overlaps(
        self, row: Tensor, ground_truths: Intervals, true_row: Tensor, is_crowd: Tensor | None = None
    ) -> Tensor:
        (first, length), (other, other_length) = self.spans[row].double().T, ground_truths.spans[true_row].double().T
        common = torch.minimum(first + length, other + other_length) - torch.maximum(first, other)
        union = length + other_length - common
        union = union if is_crowd is None else torch.where(is_crowd, length, union)
        return torch.where(common > 0, common / union, 0.0)


Interval = tuple[float, float]


def interval_overlap(interval: Interval, other: Interval, *, is_crowd: bool) -> float:
    """The common part by all that either covers; by the detection where the other is a crowd."""
    common = min(interval[0] + interval[1], other[0] + other[1]) - max(interval[0], other[0])
    if common <= 0:
        return 0.0
    return common / (interval[1] if is_crowd else interval[1] + other[1] - common)


VALUES = torch.tensor([[0.9, 0.0], [0.8, 0.7], [0.0, 0.6]], dtype=torch.float64)
"""the first detection has A alone, the second prefers A to B, the third has B alone"""
AREAS = torch.tensor([10.0, 2000.0, 2000.0], dtype=torch.float64)
ZEROS = torch.zeros(3, dtype=torch.int64)
FOUND = Detections(Numbered(VALUES, torch.arange(3), AREAS), torch.tensor([0.3, 0.2, 0.1]), ZEROS, ZEROS)
TRUE = GroundTruths(Numbered(VALUES, torch.arange(2), AREAS.flip(0)[1:]), ZEROS[:2], ZEROS[:2])
"""of one image and class; A has the area 2000, B 10"""


def test_matching_follows_the_overlaps_that_it_is_given():
    matches = match_images(FOUND, TRUE, iou_thresholds=(0.5, 0.75), keep_ground_truths=True)
    taken = torch.full((2, 3), -1)
    taken[:, matches.columns] = matches.ground_truths[0]
    # At 0.5 the second finds A taken and takes B; at 0.75 only A is overlapped enough, by the first two.
    assert taken.tolist() == [[0, 1, -1], [0, -1, -1]]


def test_areas_come_from_the_shapes_where_ground_truths_have_none():
    ranges = {"all": (0.0, 1e10), "small": (0.0, 1024.0)}
    matches = match_images(FOUND, TRUE, area_ranges=ranges)
    assert matches.num_positives.tolist() == [[2], [1]]  # B alone is small
    assert matches.area_bits.tolist() == [0b11, 0b01, 0b01]  # and so is the first detection


def test_pairs_are_found_by_the_overlaps_that_are_given():
    pairs = find_pairs(FOUND, TRUE, at_least=0.65)
    listed = zip(pairs.ground_truth.tolist(), pairs.detection.tolist(), pairs.iou.tolist(), strict=True)
    assert [*listed] == [(0, 0, 0.9), (0, 1, 0.8), (1, 1, 0.7)]


def test_voc_and_yolo_take_any_shapes():
    # VOC: A belongs to the first two, so the second is wrong, and the third has B. YOLO lets the second take B.
    assert evaluate_boxes(FOUND, TRUE, evaluator="voc").matches.true_positive.sum().tolist() == 2
    assert true_positives(match_greedily(FOUND, TRUE, CocoGrid((0.5,)))).tolist() == [[True], [True], [False]]


@examples(30)
@given(problems(), st.sampled_from([None, LABELS[:1], LABELS[1:3]]))
@pytest.mark.parametrize("max_bytes", [1, 1 << 28])
def test_the_overlaps_of_boxes_given_one_by_one_are_matched_as_the_boxes(max_bytes, problem, labels):
    found, true = problem.tensors
    values = pairwise_iou(found.boxes, true.boxes, box_format="xywh", is_crowd=true.is_crowd)
    given_one_by_one = [
        replace(each, boxes=Numbered(values, torch.arange(len(each.boxes)), box_areas(each.boxes)))
        for each in (found, true)
    ]
    options = {**problem.options, "max_bytes": max_bytes, "keep_ground_truths": True}
    options = options | {"classes": None if labels is None else torch.tensor(labels)}
    del options["rec_thresholds"]
    matches, expected = match_images(*given_one_by_one, **options), match_images(found, true, **options)
    for each in fields(expected):
        if each.name != "overlaps":  # were not asked for
            assert torch.equal(getattr(matches, each.name), getattr(expected, each.name))


@examples(60)
@given(problems())
def test_intervals_of_a_line_are_evaluated_as_by_the_definition(problem):
    found, true = (replace(each, boxes=Intervals(each.boxes[:, ::2])) for each in problem.tensors)
    detections = [row._replace(box=row.box[::2]) for row in problem.detections]
    ground_truths = [row._replace(box=row.box[::2]) for row in problem.ground_truths]
    if true.areas is None:
        ground_truths = [row._replace(area=row.box[1]) for row in ground_truths]
    setting = replace(problem.setting, overlap=interval_overlap, area_of=lambda interval: interval[1])
    expected = evaluate(detections, ground_truths, setting)
    results = evaluate_boxes(found, true, **problem.options).coco
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(getattr(results, name).numpy(), getattr(expected, name)), name
    unread = {"rec_thresholds"}
    options = {name: value for name, value in problem.options.items() if name not in unread}
    assert taken_of(match_images(found, true, keep_ground_truths=True, **options), setting) == expected.taken


def test_columns_with_boxes_hold_them_as_shapes():
    boxes = torch.tensor([[0.0, 0.0, 2.0, 3.0]])
    found = Detections(boxes, torch.ones(1), ZEROS[:1], ZEROS[:1])
    assert found.boxes is boxes
    assert isinstance(found.shapes, BoxShapes)
    assert found.shapes.areas().tolist() == [6.0]


@pytest.mark.usefixtures("unannotated")
def test_shapes_that_are_fewer_than_labels_are_refused():
    with pytest.raises(ValueError, match="`scores` must have one value for each of 3 boxes; got 2"):
        Detections(FOUND.boxes, FOUND.scores[:2], ZEROS, ZEROS)

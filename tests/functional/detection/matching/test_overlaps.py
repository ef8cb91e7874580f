"""Matching knows shapes only by their overlaps and areas, so other shapes than boxes are another `Overlap`."""

from __future__ import annotations

from dataclasses import dataclass, fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.detection import (
    Detections,
    GroundTruths,
    Overlap,
    box_areas,
    find_pairs,
    match_images,
    pairwise_iou,
)
from tests.detection_strategies import LABELS, problems


@dataclass(frozen=True)
class GivenOverlap(Overlap):
    """Overlaps [detections, ground truths] and areas that come from anywhere."""

    values: Tensor
    areas: Tensor
    true_areas: Tensor

    def at(self, rows: Tensor | None, true_rows: Tensor | None) -> GivenOverlap:
        rows = torch.arange(len(self.areas)) if rows is None else rows
        true_rows = torch.arange(len(self.true_areas)) if true_rows is None else true_rows
        return GivenOverlap(self.values[rows][:, true_rows], self.areas[rows], self.true_areas[true_rows])

    def of_pairs(self, rows: Tensor, detection: Tensor, ground_truth: Tensor, is_crowd: Tensor | None = None) -> Tensor:
        return self.values[rows[detection], ground_truth]

    def detection_areas(self, first: int, last: int) -> Tensor:
        return self.areas[first:last]

    def ground_truth_areas(self) -> Tensor:
        return self.true_areas


def without_boxes(num_detections: int, num_ground_truths: int) -> tuple[Detections, GroundTruths]:
    """Of one image and class, detections by descending score, and all boxes the same point."""
    boxes, zeros = torch.zeros(max(num_detections, num_ground_truths), 4), torch.zeros(8, dtype=torch.int64)
    scores = torch.arange(num_detections, 0, -1).double()
    found = Detections(boxes[:num_detections], scores, zeros[:num_detections], zeros[:num_detections])
    return found, GroundTruths(boxes[:num_ground_truths], zeros[:num_ground_truths], zeros[:num_ground_truths])


VALUES = torch.tensor([[0.9, 0.0], [0.8, 0.7], [0.0, 0.6]], dtype=torch.float64)
"""the first detection has A alone, the second prefers A to B, the third has B alone"""
AREAS = torch.tensor([10.0, 2000.0, 2000.0], dtype=torch.float64)
GIVEN = GivenOverlap(VALUES, AREAS, torch.tensor([2000.0, 10.0], dtype=torch.float64))


def test_matching_follows_the_overlaps_that_it_is_given():
    matches = match_images(*without_boxes(3, 2), iou_thresholds=(0.5, 0.75), overlap=GIVEN, keep_ground_truths=True)
    taken = torch.full((2, 3), -1)
    taken[:, matches.columns] = matches.ground_truths[0]
    # At 0.5 the second finds A taken and takes B; at 0.75 only A is overlapped enough, by the first two.
    assert taken.tolist() == [[0, 1, -1], [0, -1, -1]]


def test_areas_come_from_the_overlap_where_ground_truths_have_none():
    ranges = {"all": (0.0, 1e10), "small": (0.0, 1024.0)}
    matches = match_images(*without_boxes(3, 2), area_ranges=ranges, overlap=GIVEN)
    assert matches.num_positives.tolist() == [[2], [1]]  # B alone is small
    assert matches.area_bits.tolist() == [0b11, 0b01, 0b01]  # and so is the first detection


def test_pairs_are_found_by_the_overlaps_that_are_given():
    pairs = find_pairs(*without_boxes(3, 2), at_least=0.65, overlap=GIVEN)
    listed = zip(pairs.ground_truth.tolist(), pairs.detection.tolist(), pairs.iou.tolist(), strict=True)
    assert [*listed] == [(0, 0, 0.9), (0, 1, 0.8), (1, 1, 0.7)]


@settings(max_examples=60)
@given(problems(), st.sampled_from([None, LABELS[:1], LABELS[1:3]]))
@pytest.mark.parametrize("max_bytes", [1, 1 << 28])
def test_the_overlaps_of_boxes_given_one_by_one_are_matched_as_the_boxes(max_bytes, problem, labels):
    found, true = problem.tensors
    given_overlap = GivenOverlap(
        pairwise_iou(found.boxes, true.boxes, box_format="xywh", is_crowd=true.is_crowd),
        box_areas(found.boxes),
        box_areas(true.boxes),
    )
    options = {"max_bytes": max_bytes, "classes": None if labels is None else torch.tensor(labels)}
    matches, expected = problem.matched(overlap=given_overlap, **options), problem.matched(**options)
    for each in fields(expected):
        assert torch.equal(getattr(matches, each.name), getattr(expected, each.name))

"""Crowds take any number of detections, after all that counts, and leave ignored ground truths to others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching.deferred_acceptance import _merge_thresholds
from tests.detection_strategies import problems
from tests.found_classes import match_images
from tests.profiles import examples

SQUARE = (0.0, 0.0, 10.0, 10.0)
RANGES = {"all": (0.0, 1e10), "none of them": (1e6, 1e10)}


def taken(found: list[tuple], truths: list[tuple], crowds: list[bool], **options) -> Tensor:
    """Rows of what detections of one image and class took, the first with the best score: [areas, thresholds, ...]."""
    boxes = [torch.tensor(each, dtype=torch.float64) for each in (found, truths)]
    zeros = [torch.zeros(len(each), dtype=torch.int64) for each in boxes]
    matches = match_images(
        Detections(boxes[0], torch.linspace(1, 0, len(found)), zeros[0], zeros[0]),
        GroundTruths(boxes[1], zeros[1], zeros[1], torch.tensor(crowds)),
        area_ranges=RANGES,
        keep_ground_truths=True,
        **options,
    )
    rows = torch.full((*matches.matched.shape[:2], len(found)), -1)
    rows[..., matches.rows[matches.columns]] = matches.ground_truths
    return rows


def test_a_detection_that_prefers_a_crowd_leaves_an_ignored_ground_truth_to_the_next_one():
    truth, crowd = (0.0, 0.0, 10.0, 6.0), (0.0, -94.0, 10.0, 97.0)
    # The first overlaps the ground truth by 60 / 100, and 70 / 100 of it lie in the crowd, which ends at 3; the second
    # overlaps the ground truth by 60 / 80, and 30 / 80 of it lie in the crowd.
    found = taken(
        [(0.0, -4.0, 10.0, 10.0), (0.0, 0.0, 10.0, 8.0)], [truth, crowd], [False, True], iou_thresholds=(0.5, 0.65)
    )
    # It counts in the first range, where the better one takes it from the other, but not at 0.65.
    assert found[0].tolist() == [[0, -1], [1, 0]]
    assert found[1].tolist() == [[1, 0], [1, 0]]


@examples(150)
@given(problems(), st.lists(st.booleans(), min_size=1, max_size=7))
def test_problems_with_many_crowds_are_matched_as_by_the_definition(problem, pattern):
    crowds = [pattern[place % len(pattern)] for place in range(len(problem.ground_truths))]
    rows = [row._replace(is_crowd=is_crowd) for row, is_crowd in zip(problem.ground_truths, crowds, strict=True)]
    problem = replace(problem, ground_truths=rows)
    assert problem.taken() == problem.reference().taken


def test_thresholds_with_no_overlap_between_them_are_one_run():
    # Of ten thresholds the pairs of a first group pass 2, 5 and 5, and that of a second one all.
    passed, starts = _merge_thresholds(torch.tensor([2, 5, 5, 10]), torch.tensor([0, 0, 0, 1]), 10)
    assert passed.tolist() == [1, 2, 2, 1]
    assert starts[:, :3].tolist() == [[0, 2, 5], [0, 10, 10]]


@pytest.mark.parametrize("keep_ground_truths", [False, True])
def test_nothing_but_crowds_matches_all_and_finds_nothing(keep_ground_truths):
    zeros, boxes = torch.zeros(3, dtype=torch.int64), torch.tensor([SQUARE] * 3)
    crowds = GroundTruths(boxes, zeros, zeros, zeros == 0)
    found = Detections(boxes, torch.rand(3, generator=torch.Generator().manual_seed(0)), zeros, zeros)
    matches = match_images(found, crowds, keep_ground_truths=keep_ground_truths)
    assert bool(matches.matched.all())
    assert not bool(matches.true_positive.any())
    assert (matches.ground_truths is not None) == keep_ground_truths

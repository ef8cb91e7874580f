"""Crowded images, and crowds: equal ground truths, chains of overlaps and boxes far apart go by the definition.

Crowds take any number of detections, after all that counts, and leave ignored ground truths to others.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.functional.detection.inputs import BoxShapes, OrderedGroundTruths
from reid_torchmetrics.functional.detection.matching import find_pairs
from reid_torchmetrics.functional.detection.matching.deferred_acceptance import _merge_thresholds, merge_duplicates
from tests.detection_strategies import as_many_proposals, problems
from tests.found_classes import match_images
from tests.profiles import examples
from tests.reference.detection import iou

SQUARE = (0.0, 0.0, 10.0, 10.0)
RANGES = {"all": (0.0, 1e10), "none of them": (1e6, 1e10)}


def taken(detections: list[tuple], ground_truths: list[tuple], crowds: list[bool] | None = None, **options) -> Tensor:
    """Rows of what detections of one image and class took, of which the first have the best scores, [areas, ...]."""
    found = torch.tensor(detections, dtype=torch.float64)
    true = torch.tensor(ground_truths, dtype=torch.float64)
    zeros = [torch.zeros(len(each), dtype=torch.int64) for each in (found, true)]
    scores = torch.linspace(1, 0, len(found))
    is_crowd = None if crowds is None else torch.tensor(crowds)
    boxes = Detections(found, scores, zeros[0], zeros[0]), GroundTruths(true, zeros[1], zeros[1], is_crowd)
    one_by_one = _taken(boxes, options)
    with as_many_proposals():
        assert torch.equal(_taken(boxes, options), one_by_one)
    return one_by_one


def _taken(boxes: tuple[Detections, GroundTruths], options: dict) -> Tensor:
    matches = match_images(*boxes, keep_ground_truths=True, **options)
    rows = torch.full((*matches.matched.shape[:2], len(boxes[0].labels)), -1)
    rows[..., matches.rows[matches.columns]] = matches.ground_truths
    return rows


def test_a_threshold_that_fewer_detections_pass_leaves_equal_ground_truths_to_the_later_ones():
    there, lower = (100.0, 0.0, 110.0, 10.0), (0.0, 0.0, 10.0, 6.0)  # overlaps the square by 0.6
    matched = taken([SQUARE, lower, SQUARE, *[there] * 3], [*[SQUARE] * 2, *[there] * 2], iou_thresholds=(0.5, 0.75))
    assert matched[0].tolist() == [[1, 0, -1, 3, 2, -1], [1, -1, 0, 3, 2, -1]]


def test_only_neighbors_of_one_class_and_area_range_are_merged_into_one_with_a_capacity():
    rows = torch.arange(6)
    groups = torch.tensor([0, 0, 0, 0, 1, 1])
    is_crowd = torch.tensor([False, False, True, True, False, False])
    ordered = OrderedGroundTruths(rows, groups, is_crowd, groups, torch.tensor([0, 4]), torch.tensor([4, 2]))
    boxes = torch.tensor([SQUARE] * 5 + [(0.0, 0.0, 10.0, 5.0)], dtype=torch.float64)
    distinct = merge_duplicates(ordered, BoxShapes(boxes), torch.zeros(1, 6, dtype=torch.bool))
    # Two ground truths, two crowds that match any number of detections, and two of another class that differ.
    assert distinct.ordered.rows.tolist() == [1, 3, 4, 5]
    assert distinct.capacity.tolist() == [2, 1, 1, 1]
    # The best detection gets the last row under each of two thresholds, and all in a crowd get the same one.
    rows = distinct.rows_of(torch.tensor([0, 0, 1, 1, 0]), torch.tensor([0, 0, 0, 0, 1]))
    assert rows.tolist() == [1, 0, 3, 3, 1]


def test_a_chain_is_followed_to_its_end():
    """Each detection prefers what the better one before has taken, and takes what the next one prefers."""
    truths = [(10.0 * place, 0.0, 30.0, 30.0) for place in range(300)]
    found = [truths[0], *((left + 4.5, *others) for left, *others in truths[:-1])]
    expected = [*range(300)]
    # Boxes of 30 that are 4.5 apart overlap by 25.5 / 34.5 = 0.74, and 5.5 apart by 24.5 / 35.5 = 0.69.
    limits = {"max_detection_thresholds": (300,)}
    assert taken(found, truths, iou_thresholds=(0.5, 0.65), **limits)[0].tolist() == [expected] * 2
    # At 0.7 the second finds its only one taken, and the others have their first.
    assert taken(found, truths, iou_thresholds=(0.7,), **limits)[0].tolist() == [[0, -1, *range(1, 299)]]


@examples(100)
@given(problems(), st.integers(2, 4))
def test_ground_truths_that_come_several_times_are_matched_as_by_the_definition(problem, times):
    several = [row for row in problem.ground_truths for _ in range(times)]
    problem = replace(problem, ground_truths=several)
    expected = problem.reference().taken
    assert problem.taken() == expected
    with as_many_proposals():
        assert problem.taken() == expected


def check_pairs_of_a_crowded_image(number: int, axis: int, at_least: float) -> None:
    generator = torch.Generator().manual_seed(0)
    corners = torch.zeros(2, number, 2)
    corners[..., axis] = number * 3 * torch.rand(2, number, generator=generator)
    corners[..., 1 - axis] = 20 * torch.rand(2, number, generator=generator)
    boxes = torch.cat([corners, 20 + 20 * torch.rand(2, number, 2, generator=generator)], 2).double()
    zeros, scores = torch.zeros(number, dtype=torch.int64), torch.linspace(1, 0, number)
    images = Detections(boxes[0], scores, zeros, zeros), GroundTruths(boxes[1], zeros, zeros)
    pairs = find_pairs(*images, at_least=at_least)
    listed = [[tuple(box) for box in each.tolist()] for each in boxes]
    overlaps = {
        (g, d): iou(box, other, is_crowd=False) for g, other in enumerate(listed[1]) for d, box in enumerate(listed[0])
    }
    expected = {pair: value for pair, value in overlaps.items() if value >= at_least}
    assert len(expected) > number // 3
    found = zip(pairs.ground_truth.tolist(), pairs.detection.tolist(), strict=True)
    assert dict(zip(found, pairs.iou.tolist(), strict=True)) == expected
    assert [*expected] == [*zip(pairs.ground_truth.tolist(), pairs.detection.tolist(), strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0, 1])
def test_pairs_of_a_crowded_image_are_those_of_all_pairs(axis):
    check_pairs_of_a_crowded_image(600, axis, at_least=0.5)


@pytest.mark.parametrize("at_least", [0.5, 1e-3])  # for so small overlaps there is no search
def test_pairs_of_any_size_are_those_of_all_pairs_by_a_search(at_least, monkeypatch):
    for name in ("_FEW_PAIRS", "_LEAST_DETECTIONS", "_LEAST_GROUND_TRUTHS", "_LEAST_CROWDED_PAIRS"):
        monkeypatch.setattr(f"reid_torchmetrics.functional.detection.matching.pairs.{name}", 1)
    check_pairs_of_a_crowded_image(60, 0, at_least)


def test_a_detection_that_prefers_a_crowd_leaves_an_ignored_ground_truth_to_the_next_one():
    truth, crowd = (0.0, 0.0, 10.0, 6.0), (0.0, -94.0, 10.0, 97.0)
    # The first overlaps the ground truth by 60 / 100, and 70 / 100 of it lie in the crowd, which ends at 3; the second
    # overlaps the ground truth by 60 / 80, and 30 / 80 of it lie in the crowd.
    found = taken(
        [(0.0, -4.0, 10.0, 10.0), (0.0, 0.0, 10.0, 8.0)],
        [truth, crowd],
        [False, True],
        iou_thresholds=(0.5, 0.65),
        area_ranges=RANGES,
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

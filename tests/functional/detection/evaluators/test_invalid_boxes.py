"""Detected boxes that are inverted or not finite: pycocotools' numbers, and false positives where there is a NaN."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.functional.detection.inputs import BoxShapes, CocoGrid
from reid_torchmetrics.functional.detection.matching import Matches, find_pairs
from reid_torchmetrics.tasks.evaluators import match_best_of_all, match_greedily
from tests.detection_strategies import Problem, as_many_proposals, draw_problem
from tests.reference.detection import Box, Detection, GroundTruth, Setting

NAN, INF = math.nan, math.inf
ARRAYS = ("precision", "recall", "scores")
KINDS = {
    "one side inverted": lambda x, y, w, h: (x + w, y, -w - 1, h + 1),
    "the other side inverted": lambda x, y, w, h: (x, y + h, w + 1, -h - 1),
    "both inverted": lambda x, y, w, h: (x + w, y + h, -w - 1, -h - 1),
    "no width": lambda x, y, w, h: (x, y, 0.0, h),
    "no size": lambda x, y, w, h: (x, y, 0.0, 0.0),
    "infinite to the right": lambda x, y, w, h: (x, y, INF, h),
    "infinite to the left": lambda x, y, w, h: (-INF, y, INF, h),
    "infinite, without height": lambda x, y, w, h: (x, y, INF, 0.0),
    "everywhere": lambda x, y, w, h: (-INF, -INF, INF, INF),
    "nowhere": lambda x, y, w, h: (INF, y, w, h),
    "inverted without end": lambda x, y, w, h: (INF, y, -INF, h),
    "larger than any": lambda x, y, w, h: (x, y, 1e30, 1e30),
}
NANS = {
    "x": lambda x, y, w, h: (NAN, y, w, h),
    "width": lambda x, y, w, h: (x, y, NAN, h),
    "all": lambda *_: (NAN, NAN, NAN, NAN),
    "x and width, from corners": lambda x, y, w, h: (NAN, y, NAN, h),
}


def spoiled(seed: int, kinds: dict[str, Callable[..., Box]], **sizes: int) -> tuple[Problem, Counter]:
    """A problem with boxes of some kinds in the place of a share of the detected ones."""
    random = Random(seed)  # noqa: S311 - no secret
    problem, share, changed, counts = draw_problem(random, **sizes), random.choice((0.1, 0.5)), [], Counter()
    for row in problem.detections:
        name = random.choice([*kinds])
        is_changed = random.random() < share
        box = tuple(torch.tensor(kinds[name](*row.box), dtype=problem.dtype).tolist()) if is_changed else row.box
        changed.append(row._replace(box=box))
        counts[name] += is_changed
    return replace(problem, detections=changed), counts


@pytest.mark.parametrize(("num_problems", "sizes"), [(150, {}), (10, {"num_truths": 60, "num_detections": 220})])
@pytest.mark.slow
def test_boxes_that_are_inverted_empty_or_infinite_count_as_in_pycocotools_to_the_bit(num_problems, sizes):
    counts, num_matched = Counter(), 0
    for seed in range(num_problems):
        problem, of_kinds = spoiled(seed, KINDS, **sizes)
        counts += of_kinds
        theirs = problem.pycocotools()
        ours = problem.evaluated().coco
        assert problem.taken() == theirs.taken, seed
        with as_many_proposals():
            assert problem.taken() == theirs.taken, seed
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(ours, name).numpy(), getattr(theirs, name), str(seed))
        num_matched += sum(map(len, theirs.taken.values()))
    assert min(counts.values()) > 25
    assert counts.keys() == KINDS.keys()
    assert num_matched > 500


@pytest.mark.slow
def test_boxes_with_a_nan_are_false_positives_by_the_definition():
    counts = Counter()
    for seed in range(150):
        problem, of_kinds = spoiled(seed, KINDS | NANS)
        counts += of_kinds
        expected = problem.reference()
        ours = problem.evaluated().coco
        assert problem.taken() == expected.taken, seed
        for name in ARRAYS:
            np.testing.assert_allclose(getattr(ours, name).numpy(), getattr(expected, name), rtol=0, atol=1e-12)
    assert min(counts[name] for name in NANS) > 20


TRUE = GroundTruth(0, 1, (0.0, 0.0, 10.0, 10.0), False, 100.0)
FAR = GroundTruth(0, 1, (500.0, 500.0, 100.0, 100.0), False, 1e4)


def of_image(*boxes: Box, truths: tuple[GroundTruth, ...] = (TRUE,), **setting: object) -> Problem:
    """Boxes of one image and class, those with the best scores first."""
    rows = [Detection(0, 1, box, 1 - place / 256) for place, box in enumerate(boxes)]
    return Problem(rows, [*truths], [0], Setting(classes=[1], **setting))


def test_a_box_with_a_nan_takes_the_last_free_ground_truth_in_pycocotools_alone():
    problem = of_image((NAN, NAN, NAN, NAN), TRUE.box, truths=(TRUE, FAR))
    ((pairs),) = {tuple(taken.items()) for taken in problem.pycocotools().taken.values() if len(taken) > 1}
    assert pairs == ((0, 1), (1, 0))  # the NaN takes the far one
    assert all(taken == {1: 0} for taken in problem.taken().values())
    # Of two ground truths one is found, by the second detection: precision is 1/2 at 51 of 101 recalls.
    assert float(problem.evaluated().summary()["map"]) == pytest.approx(51 / 101 / 2, abs=1e-12)


def test_one_such_box_does_not_make_a_crowded_image_slow():
    """Pairs that are far apart are left out all the same."""
    places = torch.arange(400.0, dtype=torch.float64)
    boxes = torch.stack([10 * places, torch.zeros(400), torch.full((400,), 8.0), torch.full((400,), 8.0)], 1)
    spoilt = torch.cat([boxes, torch.tensor([[5.0, 5, -1, 3], [NAN, 1, 1, 1], [0, 0, INF, 1], [-INF, 0, INF, 1]])])
    true, found = BoxShapes(boxes), BoxShapes(spoilt)
    assert true.reach(found, at_least=0.5) is not None
    numbers = [torch.zeros(len(each), dtype=torch.int64) for each in (spoilt, boxes)]
    detections = Detections(spoilt, torch.linspace(1, 0, 404), numbers[0], numbers[0])
    pairs = find_pairs(detections, GroundTruths(boxes, numbers[1], numbers[1]), at_least=0.5)
    assert torch.equal(pairs.detection, pairs.ground_truth)
    assert len(pairs.detection) == 400


def devkit_best(box: Box, truths: list[GroundTruth]) -> tuple[int, float]:
    """`VOCevaldet`: overlaps of corners, whose pixels both count; max and min of MATLAB leave NaN out."""
    best, largest = -1, -INF
    left, top, right, bottom = box[0], box[1], box[0] + box[2], box[1] + box[3]
    for place, truth in enumerate(truths):
        x, y, width, height = truth.box
        sides = [
            min([each for each in (high, end) if not math.isnan(each)])
            - max([each for each in (low, start) if not math.isnan(each)])
            + 1
            for low, high, start, end in ((left, right, x, x + width), (top, bottom, y, y + height))
        ]
        if min(sides) > 0:
            common = sides[0] * sides[1]
            union = (right - left + 1) * (bottom - top + 1) + (width + 1) * (height + 1) - common
            if common / union > largest:
                best, largest = place, common / union
    return best, largest


def taken_by_row(matches: Matches, num_detections: int) -> list[int]:
    """What the detections of one image took at the first threshold, -1 for nothing."""
    taken = torch.full((num_detections,), -1)
    taken[matches.rows[matches.columns]] = matches.ground_truths[0, 0].long()
    return taken.tolist()


def of_one_group(seed: int) -> Problem:
    """A problem whose boxes are of one image and class, with all kinds of boxes, no crowds and distinct scores."""
    problem, _ = spoiled(seed, KINDS | NANS)
    found = [row._replace(image=0, label=1, score=1 - place / 64) for place, row in enumerate(problem.detections)]
    truths = [row._replace(image=0, label=1, is_crowd=False) for row in problem.ground_truths]
    return replace(problem, detections=found, ground_truths=truths)


@pytest.mark.slow
def test_the_development_kit_of_voc_takes_boxes_that_are_inverted_by_less_than_a_pixel():
    pixel = GroundTruth(0, 1, (3.0, 3.0, 0.0, 0.0), False, 1.0)
    found = of_image((3.25, 3.25, -0.25, -0.25), truths=(pixel,)).tensors  # 0.75 x 0.75 pixels, of which all are in it
    matches = match_best_of_all(*found, CocoGrid((0.5,)), whole_pixels=True, keep_ground_truths=True)
    assert taken_by_row(matches, 1) == [0]  # 0.5625 / 1
    for seed in range(200):
        problem = of_one_group(seed)
        matches = match_best_of_all(*problem.tensors, CocoGrid((0.3,)), whole_pixels=True, keep_ground_truths=True)
        expected, seen = [], set()
        for row in problem.detections:
            best, largest = devkit_best(row.box, problem.ground_truths)
            expected.append(best if largest >= 0.3 and best not in seen else -1)
            seen.add(best if largest >= 0.3 else -1)
        assert taken_by_row(matches, len(expected)) == expected, seed
        assert bool((matches.area_bits == 1).all())  # whatever takes nothing is wrong


def ultralytics(problem: Problem, threshold: float) -> list[int]:
    """`box_iou` and `match_predictions`, in float64: each detection, best first, the best that is left."""
    left, expected = {*range(len(problem.ground_truths))}, []
    boxes, true = (
        torch.tensor([row.box for row in rows], dtype=torch.float64).view(-1, 4)
        for rows in (problem.detections, problem.ground_truths)
    )
    (low, high), (start, end) = ((each[:, None, :2], each[:, None, :2] + each[:, None, 2:]) for each in (boxes, true))
    start, end = start.transpose(0, 1), end.transpose(0, 1)
    common = (torch.minimum(high, end) - torch.maximum(low, start)).clamp_(0).prod(2)
    iou = common / ((high - low).prod(2) + (end - start).prod(2) - common + 1e-300)
    for row in iou.tolist():
        best = max((place for place in sorted(left) if row[place] >= threshold), key=row.__getitem__, default=-1)
        expected.append(best)
        left.discard(best)
    return expected


@pytest.mark.slow
def test_ultralytics_knows_no_areas_so_that_all_such_boxes_are_wrong():
    for seed in range(200):
        problem = of_one_group(seed)
        matches = match_greedily(*problem.tensors, CocoGrid((0.5,)), keep_ground_truths=True)
        assert taken_by_row(matches, len(problem.detections)) == ultralytics(problem, 0.5), seed
        assert bool((matches.area_bits == 1).all())  # whatever takes nothing is wrong

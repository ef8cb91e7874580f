"""Matching to the best of all ground truths, taken or not: equal to loops over detections."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection.inputs import CocoGrid, Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import merge_matches
from reid_torchmetrics.tasks.evaluators import CLAIMS, match_best_of_all
from tests.detection_strategies import problems
from tests.profiles import examples
from tests.reference.best_of_all import MATCHINGS

THRESHOLDS = [(0.5,), (0.5, 1 / 3, 1.0), (0.75, 0.3), (0.25, 0.5, 0.75), (0.0, 0.6)]


def taken_of(matches, num_detections: int) -> list[list[int | None]]:
    """The row of the ground truth that each detection takes and that counts, for each threshold."""
    taken = [[None] * matches.matched.shape[1] for _ in range(num_detections)]
    for threshold, column in matches.true_positive[0].nonzero().tolist():
        row = matches.rows[matches.columns[column]]
        taken[row][threshold] = int(matches.ground_truths[0, threshold, column])
    return taken


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS)
@examples(60)
@given(problem=problems(), thresholds=st.sampled_from(THRESHOLDS))
def test_detections_take_what_loops_over_them_say(claim, problem, thresholds):
    found = match_best_of_all(*problem.tensors, CocoGrid(thresholds), claim=claim, keep_ground_truths=True)
    expected = MATCHINGS[claim](problem.detections, problem.ground_truths, thresholds)
    assert taken_of(found, len(problem.detections)) == expected
    counting = [truth for truth in problem.ground_truths if not truth.is_crowd]
    for label, size in zip(found.classes.tolist(), found.num_positives[0].tolist(), strict=True):
        assert size == sum(truth.label == label for truth in counting)


@pytest.mark.parametrize("claim", CLAIMS)
@examples(25)
@given(problem=problems(), max_bytes=st.sampled_from([1, 100]))
def test_memory_and_the_way_by_parts_change_nothing(claim, problem, max_bytes):
    options = {"grid": CocoGrid((0.5, 0.75)), "claim": claim}
    found, true = problem.tensors
    whole = match_best_of_all(found, true, **options)
    parts = []
    for image in problem.images:
        rows, true_rows = ((side.images == image).nonzero()[:, 0] for side in (found, true))
        part = match_best_of_all(found.at(rows), true.at(true_rows), **options, max_bytes=max_bytes)
        parts.append(part.with_rows(rows, true_rows))
    merged = merge_matches(parts)
    kept = torch.isin(whole.classes, merged.classes)  # labels may occur in no image
    assert torch.equal(whole.classes[kept], merged.classes)
    for name in ("scores", "columns", "matched", "true_positive"):
        assert torch.equal(getattr(whole, name), getattr(merged, name))


def one_image(*boxes: tuple[float, ...]) -> dict[str, torch.Tensor]:
    rows = torch.zeros(len(boxes), dtype=torch.int64)
    return {"boxes": torch.tensor(boxes, dtype=torch.float64), "labels": rows, "images": rows}


# One ground truth of 10 x 1, and detections that overlap it by 3/10, 6/10 and 9/10, the best score first.
TRUE = GroundTruths(**one_image((0, 0, 10, 1)))
FOUND = Detections(**one_image((0, 0, 3, 1), (0, 0, 6, 1), (0, 0, 9, 1)), scores=torch.tensor([0.9, 0.8, 0.7]))


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("voc", [[False, False], [True, False], [False, True]]),  # the first of each threshold
        ("scaled_yolov4", [[False, False], [True, False], [False, False]]),  # the first above 0.5, for both
        ("yolov4", [[False, False]] * 3),  # the first of all, which is below both
    ],
)
def test_who_claims_a_ground_truth_decides_who_is_right(claim, expected):
    found = match_best_of_all(FOUND, TRUE, CocoGrid((0.5, 0.75)), claim=claim)
    is_right = torch.zeros(3, 2, dtype=torch.bool)
    is_right[found.columns] = found.true_positive[0].T
    assert is_right.tolist() == expected


@pytest.mark.parametrize(("claim", "expected"), [("voc", 1), ("dota", 0), ("scaled_yolov4", 0), ("yolov4", 1)])
def test_an_overlap_that_is_the_threshold_is_enough_but_for_scaled_yolov4(claim, expected):
    found = FOUND.at(torch.tensor([1]))
    assert int(match_best_of_all(found, TRUE, CocoGrid((0.6,)), claim=claim).true_positive.sum()) == expected


@pytest.mark.usefixtures("unannotated")
def test_an_unknown_claim_is_refused():
    message = r"^`claim` must be one of 'voc', 'dota', 'scaled_yolov4', 'yolov4'; got 'yolo'\.$"
    with pytest.raises(ValueError, match=message):
        match_best_of_all(FOUND, TRUE, CocoGrid((0.5,)), claim="yolo")

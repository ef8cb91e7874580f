"""The part of COCO's grid that is drawn."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection.evaluators import evaluate_matches
from reid_torchmetrics.plot.detection_curves import evaluate_headline
from tests.detection_strategies import problems
from tests.functional.detection.evaluators.test_coco_laws import few


@few
@given(problems(), st.integers(0, 9))
def test_the_headline_is_a_part_of_the_grid(problem, place):
    matches, grid = problem.matched(), problem.grid
    whole, all_of_them = evaluate_matches(matches, grid), evaluate_headline(matches, grid)
    threshold = place % len(grid.iou_thresholds)
    one = evaluate_headline(matches, grid, iou_threshold=grid.iou_thresholds[threshold])
    for name in ("precision", "recall", "scores"):
        expected = getattr(whole, name)[..., :1, grid.official_limit, None]
        assert torch.equal(getattr(all_of_them, name), expected)
        assert torch.equal(getattr(one, name), expected[threshold, None])

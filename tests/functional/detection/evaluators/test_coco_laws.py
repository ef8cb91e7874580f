"""What must change nothing in COCO's evaluation, and what may change only what it says."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.detection import Detections, evaluate_boxes
from reid_torchmetrics.functional.detection.evaluators import ClassAverages, PrecisionGrid, coco, evaluate_matches
from tests.detection_strategies import problems
from tests.paths import taking
from tests.profiles import examples

few = examples(20)

ARRAYS = ("precision", "recall", "scores")


def same(found: PrecisionGrid, expected: PrecisionGrid) -> bool:
    return all(torch.equal(getattr(found, name), getattr(expected, name)) for name in ARRAYS)


@few
@given(problems(), st.integers(1, 9))
def test_many_detections_are_averaged_a_few_classes_at_a_time(problem, at_a_time):
    whole = problem.matched()
    grid, averages = evaluate_matches(whole, problem.grid), coco.average_matches(whole, problem.grid)
    with taking(many_to_average=1, averaged_classes=at_a_time, cached_curves=0):
        assert same(evaluate_matches(whole, problem.grid), grid)
        few_at_a_time = coco.average_matches(whole, problem.grid)
    for found, expected in zip(_tables(few_at_a_time), _tables(averages), strict=True):
        assert torch.equal(found.nan_to_num(-1), expected.nan_to_num(-1))


def _tables(averages: ClassAverages) -> list[torch.Tensor]:
    return [averages.recall, *averages.average_precision.values()]


CURVES = {"one area range at a time": {"cached_curves": 0}, "many": {"most_curves": 2}, "long": {"most_counted": 2}}


@pytest.mark.parametrize("sizes", CURVES.values(), ids=CURVES.keys())
def test_curves_that_are_counted_as_many_are_give_the_same(sizes):
    @few
    @given(problems())
    def compare(problem):
        with taking(**sizes):
            found = problem.evaluated().coco
        assert same(found, problem.evaluated().coco)

    compare()


@few
@given(problems(), st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]))
def test_the_dtype_of_scores_changes_nothing_where_it_holds_them(problem, dtype):
    """Scores from -1/8 to 2 in eighths are exact in all of them."""
    found = replace(problem, detections=[row._replace(score=min(row.score, 2.0)) for row in problem.detections])
    detections, truths = found.tensors
    other = Detections(detections.boxes, detections.scores.to(dtype), detections.labels, detections.images)
    assert same(evaluate_boxes(other, truths, **found.options).coco, found.evaluated().coco)

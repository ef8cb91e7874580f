"""Global average precision of one prediction per query."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.tasks.verification.given_pairs import PREDICTION_TIES, global_average_precision
from tests.profiles import examples
from tests.reference import verification as reference

CONFIDENCE = torch.tensor([0.9, 0.8, 0.7, 0.6])


def test_a_confident_prediction_for_a_query_without_target_costs_precision():
    correct, has_target = torch.tensor([True, False, True, False]), torch.tensor([True, False, True, True])
    counted = global_average_precision(CONFIDENCE, correct, has_target)
    assert float(counted) == pytest.approx((1 / 1 + 2 / 3) / 3)
    left_out = global_average_precision(CONFIDENCE, correct, has_target, ignore_without_target=True)
    assert float(left_out) == pytest.approx((1 / 1 + 2 / 2) / 3)


@pytest.mark.parametrize(("ties", "expected"), [("pessimistic", 1 / 2), ("optimistic", 1), ("stable", 1)])
def test_equal_confidences_are_ordered_by_the_tie_policy(ties, expected):
    correct, has_target = torch.tensor([True, False]), torch.tensor([True, False])
    assert float(global_average_precision(torch.ones(2), correct, has_target, ties=ties)) == expected


predictions = st.lists(
    st.tuples(st.sampled_from([-math.inf, 0.0, 1.0, 2.0]), st.sampled_from(["right", "wrong", "no target"]))
)


@examples(80)
@given(predictions, st.sampled_from(sorted(PREDICTION_TIES)), st.booleans())
def test_global_average_precision_is_that_of_the_slow_reference(predictions, ties, ignored):
    confidence = torch.tensor([value for value, _ in predictions], dtype=torch.float32)
    correct = torch.tensor([answer == "right" for _, answer in predictions], dtype=torch.bool)
    has_target = torch.tensor([answer != "no target" for _, answer in predictions], dtype=torch.bool)
    found = global_average_precision(confidence, correct, has_target, ties=ties, ignore_without_target=ignored)
    kept = has_target if ignored else torch.ones_like(has_target)
    lists = (values[kept].tolist() for values in (confidence, correct, has_target))
    assert float(found) == pytest.approx(reference.global_average_precision(*lists, ties), nan_ok=True, abs=1e-12)


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.5, [True]), TypeError, "`confidence` must be a tensor, an array or a list of numbers; got float."),
        (
            (torch.ones(1).long(), torch.ones(1).bool()),
            TypeError,
            "`confidence` must have a floating point dtype; got torch.int64.",
        ),
        ((torch.ones(1, 1), torch.ones(1).bool()), ValueError, "`confidence` must have shape [N]; got [1, 1]."),
        (
            (torch.tensor([torch.nan]), torch.ones(1).bool()),
            ValueError,
            "`confidence` must give scores that can be ordered; got NaN.",
        ),
        ((torch.ones(1), torch.ones(1)), TypeError, "`correct` must be a bool tensor; got torch.float32."),
        ((torch.ones(1), torch.ones(2).bool()), ValueError, "`correct` must have shape [1]; got [2]."),
        (
            (torch.ones(1), torch.ones(1).bool(), torch.zeros(1).bool()),
            ValueError,
            "`correct` must be False for a query without target; got 1 that are True.",
        ),
    ],
)
def test_bad_predictions_are_refused(arguments, error, message):
    with pytest.raises(error) as raised:
        global_average_precision(*arguments)
    assert str(raised.value) == message


def test_an_unknown_tie_policy_is_refused():
    with pytest.raises(ValueError, match=r"`ties` must be one of 'pessimistic', 'optimistic', 'stable'; got 'none'\."):
        global_average_precision(CONFIDENCE, torch.ones(4).bool(), ties="none")

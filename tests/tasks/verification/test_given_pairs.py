"""Given pairs: equal to the slow reference, and to `verify` where one query holds all pairs."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.tasks import Verification, accuracy_over_folds, verify, verify_pairs
from tests.profiles import examples
from tests.reference import verification as reference
from tests.tasks.verification.pairs import row

RATES = [0.0, 0.1, 1 / 3, 0.5, 1.0]
SAME = [True, False, True, False]
EXAMPLE = verify_pairs([9.0, 8.0, 6.0, 5.0, 4.0, 3.0, 1.0], [True, False, True, False, True, False, False])


@st.composite
def pairs(draw, *, tied: bool) -> tuple[list[float], list[float]]:
    """Scores of genuine pairs and of impostors; without `tied` no two impostors score the same."""
    scores = st.integers(0, 9 if tied else 20).map(float)
    return draw(st.lists(scores, min_size=1, max_size=12)), draw(
        st.lists(scores, min_size=1, max_size=12, unique=not tied)
    )


def verified(genuine: list[float], impostors: list[float]) -> Verification:
    order = torch.randperm(len(genuine) + len(impostors))
    same = torch.arange(len(order)) < len(genuine)
    return verify_pairs(torch.tensor([*genuine, *impostors], dtype=torch.float64)[order], same[order])


@examples(80)
@given(pairs(tied=True), st.sampled_from([(0.05, 1.0, 1.0), (0.01, 10.0, 1.0), (0.9, 1.0, 2.0)]))
def test_counts_and_rates_are_those_of_the_slow_reference(given_pairs, costs):
    found = verified(*given_pairs)
    columns = (found.thresholds, found.num_genuine_at, found.num_impostors_at, found.num_impostors_above)
    assert [*zip(*(values.tolist() for values in columns), strict=True)] == reference.counts(*given_pairs)
    assert (found.num_genuine, found.num_impostors) == (len(given_pairs[0]), len(given_pairs[1]))
    assert float(found.min_dcf(*costs)) == pytest.approx(reference.min_dcf(*given_pairs, *costs), abs=1e-12)
    # At points of scikit-learn's curve.
    expected = [reference.tar_at_nearest_far(*given_pairs, far) for far in RATES]
    assert found.tar_at_far(RATES, rule="nearest").tolist() == expected
    rate, threshold = found.equal_error_rate("voxceleb")
    assert float(rate) == pytest.approx(reference.closest_error_rate(*given_pairs), abs=1e-15)
    far, tar = reference.rates(*given_pairs, float(threshold))
    assert float(rate) == pytest.approx(float(max(far, 1 - tar)))
    # At the scores of pairs.
    rate, threshold = found.equal_error_rate("closest")
    (expected_rate, _) = reference.mean_error_rates(*given_pairs)[0]
    assert float(rate) == pytest.approx(float(expected_rate), abs=1e-15)
    far, tar = reference.rates(*given_pairs, float(threshold))
    assert float(rate) == pytest.approx(float(far + 1 - tar) / 2)


@pytest.mark.parametrize("score", [-math.inf, -0.0, math.inf])
def test_infinite_scores_and_both_zeros_are_ordinary_scores(score):
    scores = [score, 0.0, score, -math.inf, math.inf]
    same = [True, True, False, False, False]
    found = verify_pairs(scores, same)
    columns = (found.thresholds, found.num_genuine_at, found.num_impostors_at, found.num_impostors_above)
    assert [*zip(*(values.tolist() for values in columns), strict=True)] == reference.counts(scores[:2], scores[2:])


@examples(40)
@given(pairs(tied=False))
def test_counts_without_the_scores_of_impostors_have_the_same_points_where_these_differ(given_pairs):
    ours, theirs = verified(*given_pairs), verify(*row(*given_pairs))
    assert theirs.tar_at_far(RATES, rule="nearest").tolist() == ours.tar_at_far(RATES, rule="nearest").tolist()
    (rate, threshold), (expected, expected_threshold) = (each.equal_error_rate("voxceleb") for each in (theirs, ours))
    assert rate == expected
    assert threshold.isfinite() == expected_threshold.isfinite()


def test_the_threshold_just_above_the_highest_genuine_score_is_known():
    _, threshold = verify(*row([1.0], [3.0])).equal_error_rate("voxceleb")
    assert float(threshold) == pytest.approx(1)


@pytest.mark.nightly
def test_rates_at_points_of_scikit_learn_are_those_of_its_function():
    roc_curve = pytest.importorskip("sklearn.metrics").roc_curve
    generator = torch.Generator().manual_seed(5)
    for size in range(4, 200):
        same = torch.arange(size) % 3 == 0
        scores = torch.randint(size, (size,), generator=generator)
        fpr, tpr, thresholds = roc_curve(same, scores)
        found = verify_pairs(scores.double(), same)
        for ours, theirs in zip(found.roc_points(), (fpr, tpr, thresholds), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        for far in RATES:
            distance = abs(fpr - far)
            assert float(found.tar_at_far([far], rule="nearest")[0]) == max(tpr[distance == distance.min()])
        closest = np.absolute((1 - tpr) - fpr).argmin()  # VoxCeleb's `tuneThresholdfromScore`
        assert float(found.equal_error_rate("voxceleb").rate) == max(fpr[closest], 1 - tpr[closest])


def test_points_between_two_equal_steps_are_left_out():
    scores = [9.0, 8.0, 7.0, 6.0, 5.0, 4.0]
    same = [True, True, True, False, False, True]
    far, tar, thresholds = verify_pairs(torch.tensor(scores), same).roc_points()
    assert far.tolist() == [0, 0, 0, 1, 1]
    assert tar.tolist() == [0, 1 / 4, 3 / 4, 3 / 4, 1]
    assert thresholds.tolist() == [math.inf, 9, 7, 5, 4]


def test_the_example_has_its_numbers():
    assert EXAMPLE.tar_at_far([0.2, 0.3], "nearest").tolist() == [2 / 3, 2 / 3]  # FAR 1/4 is closer than 0 or 1/2
    assert EXAMPLE.tar_at_far([0.2]).tolist() == [1 / 3]
    assert float(EXAMPLE.min_dcf(0.5)) == 1 / 2  # at least 4: two false alarms of four
    assert float(EXAMPLE.min_dcf(0.01)) == pytest.approx(2 / 3)  # at least 9: no false alarm
    assert float(EXAMPLE.equal_error_rate("voxceleb").rate) == pytest.approx(1 / 3)
    assert float(EXAMPLE.equal_error_rate("closest").rate) == pytest.approx((1 / 4 + 1 / 3) / 2)  # at least 6
    tied = verify_pairs([0.8, 0.7, 0.5, 0.4, 1, 1, 0.6, 0.4], [True] * 4 + [False] * 4)
    assert tied.tar_at_far([0.3], "nearest").tolist() == [0.5]  # the impostors at 1 are accepted together
    tied = verify_pairs([0.0, 3, 1, 2, 2], [True] * 2 + [False] * 3)
    assert float(tied.equal_error_rate("voxceleb").rate) == pytest.approx(2 / 3)


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=5, max_size=23),
    st.sampled_from([(2, 0.5), (5, 0.1)]),
)
def test_accuracy_over_folds_is_that_of_the_slow_reference(listed, options):
    folds, step = options
    distances, same = [each / 10 for each, _ in listed], [each for _, each in listed]
    found = accuracy_over_folds(torch.tensor(distances, dtype=torch.float64), same, folds=folds, step=step)
    expected = reference.accuracy_over_folds(distances, same, folds, step)
    assert [*zip(*(values.tolist() for values in found), strict=True)] == expected


@pytest.mark.parametrize("scores", [([1.0], []), ([], [1.0])])
def test_without_one_of_the_two_kinds_counts_have_no_rates(scores):
    found = verify(*row(*scores))
    values = (found.tar_at_far([0.1], "nearest"), found.min_dcf(0.1), found.equal_error_rate("voxceleb").rate)
    assert all(value.isnan().all() for value in values)


def test_distances_are_minus_scores():
    distances = torch.tensor([0.5, 0.25, 2.0, 0.25], dtype=torch.float64)
    ours, of_scores = verify_pairs(None, SAME, distances=distances), verify_pairs(-distances, SAME)
    for left, right in zip(ours.roc(), of_scores.roc(), strict=True):
        assert torch.equal(left, right)
    assert torch.equal(ours.average_precision(), of_scores.average_precision())


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: verify_pairs([0.1, 0.2], [True, True]),
            ValueError,
            "`same` must be True for some pairs and False for others; got 2 pairs of one identity and 0 of two.",
        ),
        (lambda: verify_pairs([0.1, math.nan], SAME[:2]), ValueError, "`scores` must give scores that can be ordered"),
        (
            lambda: verify_pairs(None, SAME[:2], distances=[0.1, math.nan]),
            ValueError,
            "`distances` must give scores that can be ordered",
        ),
        (
            lambda: verify_pairs(None, SAME),
            ValueError,
            "`scores` or `distances` must be given, and the other be None; got neither.",
        ),
        (
            lambda: verify_pairs([0.1] * 4, SAME, distances=[0.1] * 4),
            ValueError,
            "`scores` or `distances` must be given, and the other be None; got both.",
        ),
        (lambda: verify_pairs([0.1, 0.2], [1, 0]), TypeError, "`same` must be a bool tensor; got torch.int64."),
        (lambda: verify_pairs([0.1, 0.2], SAME), ValueError, "`same` must have shape [2]; got [4]."),
        (lambda: EXAMPLE.min_dcf(1.0), ValueError, "`p_target` must be between 0 and 1; got 1.0."),
        (lambda: EXAMPLE.min_dcf(0.1, c_miss=0), ValueError, "`c_miss` must be above 0; got 0."),
        (lambda: EXAMPLE.tar_at_far([0.1], "closest"), ValueError, "`rule` must be one of 'largest', 'nearest'; got"),
        (
            lambda: EXAMPLE.equal_error_rate("lfw"),
            ValueError,
            "`rule` must be one of 'interpolated', 'closest', 'voxceleb'; got",
        ),
        (
            lambda: verify(*row([1.0], [0.0])).equal_error_rate("closest"),
            ValueError,
            "`rule` must be 'interpolated' or 'voxceleb' for counts by `verify`, which keeps no scores of impostors;",
        ),
        (
            lambda: accuracy_over_folds([0.1, 0.2], SAME[:2]),
            ValueError,
            "`distances` must have a pair for each of 10 folds; got 2.",
        ),
        (
            lambda: accuracy_over_folds([0.1] * 4, SAME, folds=2, step=0.0),
            ValueError,
            "`step` must be above 0; got 0.0.",
        ),
    ],
)
def test_a_refusal_names_the_argument(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)

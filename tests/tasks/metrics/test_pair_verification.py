"""The metric of given pairs: its numbers, its batches, and what it refuses."""

import pytest
import torch
from torchmetrics import MetricCollection

from reid_torchmetrics import PairVerification
from reid_torchmetrics.tasks import accuracy_over_folds, verify_pairs
from reid_torchmetrics.tasks.metrics import PAIR_METRICS
from tests.metrics.held_samples import check_held_samples

GENERATOR = torch.Generator().manual_seed(11)
FIRST = torch.randn(40, 5, generator=GENERATOR)
SAME = torch.arange(40) % 3 == 0
SECOND = torch.randn(40, 5, generator=GENERATOR) + FIRST * SAME[:, None]
COSINES = torch.nn.functional.cosine_similarity(FIRST.double(), SECOND.double())
EXPECTED = {
    "accuracy": accuracy_over_folds(2 - 2 * COSINES, SAME).accuracy.mean(),
    "auc": verify_pairs(COSINES, SAME).area_under_curve(),
    "eer": verify_pairs(COSINES, SAME).equal_error_rate().rate,
    "eer_closest": verify_pairs(COSINES, SAME).equal_error_rate("closest").rate,
    "eer_voxceleb": verify_pairs(COSINES, SAME).equal_error_rate("voxceleb").rate,
    "min_dcf": verify_pairs(COSINES, SAME).min_dcf(0.2),
    "tar_at_far": verify_pairs(COSINES, SAME).tar_at_far([0.1])[0],
}
OPTIONS = {"far": 0.1, "p_target": 0.2}


def fed(metric, size: int = 7, **options):
    for part in torch.arange(40).split(size):
        metric.update(FIRST[part], SECOND[part], SAME[part], **options)
    return metric


@pytest.mark.parametrize("metric", PAIR_METRICS)
def test_the_value_is_that_of_the_functions(metric):
    for size in (1, 7, 40):
        assert fed(PairVerification(metric, **OPTIONS), size).compute() == EXPECTED[metric].float()
    assert PairVerification(metric).higher_is_better is (metric in {"accuracy", "auc", "tar_at_far"})


def test_index_gives_the_order_and_a_repeated_pair_counts_once():
    order = torch.cat([torch.randperm(40, generator=GENERATOR), torch.tensor([3, 17, 3])])
    metric = PairVerification("accuracy")
    for part in order.split(10):
        metric.update(FIRST[part], SECOND[part], SAME[part], index=part)
    assert metric.compute() == EXPECTED["accuracy"].float()
    metric.update(FIRST[:1], SECOND[:1], ~SAME[:1], index=[0])
    with pytest.raises(ValueError, match="`same` must be equal for pairs with the same `index`"):
        metric.compute()


def test_pair_verification_is_a_metric_like_any_other():
    sides = {"first": FIRST, "second": SECOND, "same": SAME}
    given = [{name: values[part] for name, values in sides.items()} for part in torch.arange(40).split(20)]
    check_held_samples(lambda: PairVerification("auc"), given, torch.equal)
    assert PairVerification("auc")(FIRST[1:3], SECOND[1:3], SAME[1:3]).isnan()  # a batch of one kind
    assert fed(PairVerification("auc")).compute() == EXPECTED["auc"].float()
    assert repr(PairVerification("min_dcf", p_target=0.01)) == "PairVerification(metric='min_dcf', p_target=0.01)"
    together = fed(MetricCollection({name: PairVerification(name, **OPTIONS) for name in PAIR_METRICS}))
    assert together.compute() == {name: value.float() for name, value in EXPECTED.items()}


def test_half_precision_is_scored_in_float64():
    metric = PairVerification("auc")
    metric.update(FIRST.half(), SECOND.half(), SAME)
    assert metric.scores[0].dtype == torch.float64


TWO = torch.tensor([True, False])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((FIRST[:2], SECOND[:3], TWO), ValueError, "`second` must have the shape of `first`, [2, 5]; got [3, 5]."),
        ((FIRST[:2], SECOND[:2], SAME), ValueError, "`same` must have shape [2]; got [40]."),
        ((FIRST[:2], SECOND[:2], TWO.long()), TypeError, "`same` must be a bool tensor; got torch.int64."),
        ((FIRST[0], SECOND[:2], TWO), ValueError, "`first` must have shape [N, D]; got [5]."),
    ],
)
def test_nothing_of_a_refused_batch_is_stored(arguments, error, message):
    metric = fed(PairVerification())
    for call in (metric.update, metric.forward):
        with pytest.raises(error) as caught:
            call(*arguments)
        assert str(caught.value) == message
    with pytest.raises(ValueError, match="`index` must be given in every batch or in none"):
        metric.update(FIRST, SECOND, SAME, index=range(40))
    assert len(metric.scores) == len(metric.same) == 6
    assert metric.compute() == EXPECTED["eer"].float()


def test_pairs_of_one_kind_are_told_by_compute_and_results_once():
    metric = PairVerification()
    metric.update(FIRST[1:3], SECOND[1:3], SAME[1:3])
    message = "`eer` needs pairs of one identity and of two; got 0 of one identity and 2 of two, so the result is NaN."
    with pytest.warns(UserWarning, match=f"^{message}$"):
        value = metric.compute()
    assert value.isnan()
    assert metric.results().num_impostors == 2  # without another warning
    metric.reset()
    metric.update(FIRST[1:3], SECOND[1:3], SAME[1:3])
    with pytest.warns(UserWarning, match=f"^{message}$"):
        results = metric.results()
    assert results.area_under_curve().isnan()


def test_the_accuracy_over_ten_folds_needs_ten_pairs():
    metric = PairVerification("accuracy")
    metric.update(FIRST[:9], SECOND[:9], SAME[:9])
    message = "needs pairs of one identity and of two, and 10 pairs; got 3 of one identity and 6 of two"
    with pytest.warns(UserWarning, match=message):
        value = metric.compute()
    assert value.isnan()
    metric.update(FIRST[9:10], SECOND[9:10], SAME[9:10])
    assert metric.compute() == accuracy_over_folds(2 - 2 * COSINES[:10], SAME[:10]).accuracy.mean().float()


def test_scores_that_are_nan_are_refused_when_computed():
    metric = PairVerification()
    metric.update(FIRST[:2] * torch.nan, SECOND[:2], SAME[:2])
    with pytest.raises(ValueError, match="`first` must give scores that can be ordered; got NaN"):
        metric.results()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"metric": "f1"},
            "`metric` must be one of 'accuracy', 'auc', 'eer', 'eer_closest', 'eer_voxceleb', 'min_dcf', 'tar_at_far'",
        ),
        ({"far": 2}, "`far` must lie in [0, 1]; got 2: 2 % is 0.02."),
        ({"p_target": -1}, "`p_target` must lie in [0, 1]; got -1."),
    ],
)
def test_a_refused_option_is_named(options, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared below
        PairVerification(**options)
    assert str(caught.value).startswith(message)

"""The quality of embeddings: the papers' definitions, sums that do not grow, and what is refused."""

import functools
import math
import warnings
from typing import get_args

import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection, MetricTracker

from reid_torchmetrics import EmbeddingQuality, ReIDMeanAP, _names
from tests.metrics.held_samples import check_held_samples
from tests.reference.embedding_quality import quality

MEASURES = get_args(_names.QualityMeasure)
ALL = functools.partial(EmbeddingQuality, MEASURES)


@functools.cache
def drawn(seed: int, number: int = 60, dimension: int = 9) -> tuple[Tensor, Tensor]:
    """Embeddings around their identities, with a dead dimension and junk."""
    generator = torch.Generator().manual_seed(seed)
    identities = torch.randint(-1, 6, (number,), generator=generator)
    centers = torch.randn(7, dimension, dtype=torch.float64, generator=generator)
    embeddings = centers[identities] + torch.randn(number, dimension, dtype=torch.float64, generator=generator)
    embeddings[:, 2] = 1 / 3
    return embeddings, identities


def both(*given: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return tuple(map(torch.cat, zip(*given, strict=True)))


def fed(metric, given: tuple[Tensor, Tensor], size: int = 8, order: Tensor | None = None):
    parts = (torch.arange(len(given[0])) if order is None else order).to(given[0].device)
    for part in parts.split(size):
        metric.update(given[0][part], given[1][part])
    return metric


def values(metric) -> dict[str, float]:
    return {name: float(value) for name, value in metric.set_dtype(torch.float64).compute().items()}


def is_near(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    numbers = [{name: float(value) for name, value in each.items()} for each in (first, second)]
    return numbers[0] == pytest.approx(numbers[1], abs=1e-9)


def as_of(given: tuple[Tensor, Tensor]):
    return pytest.approx(values(fed(ALL(), given)), abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_numbers_are_those_of_the_papers(seed):
    embeddings, identities = drawn(seed, number=(60, 11, 25)[seed % 3], dimension=(9, 30)[seed % 2])
    expected = quality(embeddings.numpy(), identities.tolist())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`hubness` cannot be told")
        assert values(fed(ALL(), (embeddings, identities))) == pytest.approx(expected, abs=1e-9, nan_ok=True)
        for dtype, tolerance in ((torch.float32, 2e-6), (torch.float16, 2e-6)):
            rounded = embeddings.to(dtype)
            expected = quality(rounded.double().numpy(), identities.tolist())
            found = values(fed(ALL(), (rounded, identities)))
            assert found == pytest.approx(expected, abs=tolerance, nan_ok=True)
    of_its_authors = torch.pdist(torch.nn.functional.normalize(rounded.double()), p=2).pow(2).mul(-2).exp().mean().log()
    assert found["uniformity"] == pytest.approx(float(of_its_authors), abs=2e-6)


@pytest.mark.parametrize("size", [1, 7, 60])
def test_batches_and_their_order_change_nothing(size):
    order = torch.randperm(60, generator=torch.Generator().manual_seed(size))
    assert values(fed(ALL(), drawn(1), size, order)) == as_of(drawn(1))


def test_the_sums_grow_with_the_number_of_identities_alone():
    metric = EmbeddingQuality(("rankme", "norm_mean", "alignment"))
    metric.update(torch.empty(0, 5), [])
    for number in range(200):
        (metric.update if number % 3 else metric)(torch.randn(16, 5), torch.arange(16) + number % 2)
    assert len(metric.moments) <= 2
    assert sum(map(len, metric.identity_sums)) <= 2 * 17 + 16
    assert not metric.embeddings
    assert sum(float(each[0, 0]) for each in metric.moments) == 3200


def test_embeddings_are_kept_once_beside_those_of_another_metric():
    metric, mean_ap, embeddings = EmbeddingQuality(("uniformity",)), ReIDMeanAP(), torch.randn(6, 3)
    for each in (metric, mean_ap):
        each.update(embeddings, torch.arange(6))
    assert metric.embeddings[0].data_ptr() == mean_ap.embeddings[0].data_ptr() == embeddings.data_ptr()
    embeddings.mul_(2)
    with pytest.raises(ValueError, match="`embeddings` must stay as they are"):
        metric.compute()


def test_an_array_that_is_written_to_is_refused_though_numpy_counts_no_versions():
    metric, embeddings = EmbeddingQuality(("uniformity",)), torch.randn(6, 3).numpy()
    metric.update(embeddings)
    embeddings *= 2
    with pytest.raises(ValueError, match="`embeddings` must stay as they are"):
        metric.compute()


def test_embedding_quality_is_a_metric_like_all_others():
    given, more = drawn(2), drawn(3)
    batches = [dict(zip(("embeddings", "identities"), each, strict=True)) for each in (given, more)]
    check_held_samples(lambda: ALL().set_dtype(torch.float64), batches, is_near)
    assert list(fed(ALL(), given).compute()) == [*MEASURES]
    of_users = {"distributed_available_fn": lambda: True, "dist_sync_fn": lambda held, group: torch.cat([held, held])}
    assert values(fed(ALL(**of_users), given)) == as_of(both(given, given))
    together = fed(MetricCollection([ReIDMeanAP(), ALL()], prefix="val/"), given).compute()
    assert {*together} == {f"val/{name}" for name in ("ReIDMeanAP", *MEASURES)}
    tracker = MetricTracker(ALL(), maximize=True)
    tracker.increment()
    assert fed(tracker, given).compute() == pytest.approx(values(fed(ALL(), given)), abs=1e-6)


def test_embeddings_of_two_dimensions_are_refused_when_they_were_merged():
    narrow = fed(EmbeddingQuality(), (torch.eye(2), torch.arange(2)))
    narrow.merge_state(fed(EmbeddingQuality(), (torch.eye(3), torch.arange(3))))
    with pytest.raises(ValueError, match=r"`embeddings` must all have the same dimension; got 2, 3"):
        narrow.compute()


def test_casts_leave_sums_in_float64():
    metric = fed(ALL(), drawn(4)).half().set_dtype(torch.float16)
    assert [states[0].dtype for states in (metric.moments, metric.identity_sums)] == [torch.float64] * 2
    assert {value.dtype for value in metric.compute().values()} == {torch.float16}


def warned(metric) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metric.compute()
    return [str(each.message) for each in caught]


UNDEFINED = {
    "nothing": (torch.empty(0, 3), [], MEASURES, "0 embeddings, 0"),
    "one": (torch.ones(1, 3), [1], ("alignment", "uniformity", "hubness"), "1 embeddings, 0"),
    "zeros": (torch.zeros(20, 3), [1] * 20, ("rankme",), "20 embeddings, 0"),
    "no pairs": (drawn(5)[0], [*range(-1, 40), *[-1] * 19], ("alignment",), "60 embeddings, 0"),
    "infinite": (
        torch.tensor([[torch.inf, 0.0], [1.0, torch.nan], [1.0, 1.0]]),
        [1, 1, 1],
        MEASURES,
        "3 embeddings, 2",
    ),
}


@pytest.mark.parametrize("case", UNDEFINED)
def test_an_undefined_value_is_nan_with_one_warning(case):
    embeddings, identities, names, counts = UNDEFINED[case]
    why = f"cannot be told of {counts} of them NaN or infinite, so the result is NaN."
    metric = ALL()
    for _ in range(2):
        metric.update(embeddings, identities)
        assert warned(metric) == [f"{', '.join(f'`{name}`' for name in names)} {why}"]
        found = metric.compute()
        assert {name for name in MEASURES if found[name].isnan()} == {*names}
        metric._computed = None
        assert warned(metric) == []
        metric.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a small batch is no reason to warn
        assert {name for name, value in metric(embeddings, identities).items() if value.isnan()} == {*names}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((torch.eye(4),), ValueError, "`identities` must be given for the measure 'alignment'; got none."),
        ((torch.eye(4), torch.arange(3)), ValueError, "`identities` must have shape [4]; got [3]."),
        ((torch.eye(4), [0.5] * 4), ValueError, "`identities` must hold integers, or whole numbers below 2**53"),
        ((torch.eye(3), torch.arange(3)), ValueError, "the same embedding dimension; got 3 and 4."),
        ((torch.ones(4), torch.arange(4)), ValueError, "`embeddings` must have shape [N, D]; got [4]."),
        ((torch.eye(4).long(), torch.arange(4)), TypeError, "`embeddings` must have a floating point dtype"),
        ((), TypeError, "EmbeddingQuality.update()"),
    ],
)
def test_nothing_of_a_refused_batch_is_stored(arguments, error, message):
    metric = fed(ALL(), (torch.eye(4), torch.arange(4)))
    for call in (metric.update, metric.forward):
        with pytest.raises(error) as caught:
            call(*arguments)
        assert message in str(caught.value)
    assert int(metric.moments[0][0, 0]) == len(metric.embeddings[0]) == 4


@pytest.mark.parametrize(
    ("measures", "error", "message"),
    [
        ("rankme", TypeError, "`measures` must be one of tuple, list or None; got"),
        (("rankme", "rank"), ValueError, "`measures` must be one of 'rankme', 'dead_dimensions', 'norm_mean'"),
        ((), ValueError, "`measures` must not be empty; got ()."),
    ],
)
def test_a_refused_option_is_named(measures, error, message):
    with pytest.raises(error) as caught:
        EmbeddingQuality(measures)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("exponent", [-300, -200, -141, 141, 200, 300])
@pytest.mark.parametrize(
    "measures", [("norm_mean",), ("rankme", "dead_dimensions"), ("alignment", "uniformity", "hubness")]
)
def test_float64_embeddings_whose_squares_leave_float64_are_refused(exponent, measures):
    metric = EmbeddingQuality(measures)
    embeddings = torch.randn(6, 4, dtype=torch.float64)
    embeddings[4] = 10.0**exponent
    with pytest.raises(
        ValueError, match=r"`embeddings` must have coordinates between 1e-140 and 1e\+140 .* of row 4\."
    ):
        metric.update(embeddings, torch.arange(6) % 2)
    assert not metric.moments


@pytest.mark.parametrize("factor", [2.0**-400, 2.0**-100, 2.0**100, 2.0**400])
def test_numbers_of_scaled_embeddings_are_those_of_the_embeddings_or_scale_with_them(factor):
    measures = ("rankme", "dead_dimensions", "alignment", "uniformity", "norm_mean", "norm_std")
    embeddings = torch.randn(40, 6, dtype=torch.float64)
    values = []
    for scale in (1.0, factor):
        metric = EmbeddingQuality(measures).set_dtype(torch.float64)
        metric.update(embeddings * scale, torch.arange(40) % 5)
        values.append(metric.compute())
    plain, scaled = values
    for name in measures:
        expected = plain[name] * (factor if name.startswith("norm") else 1)
        torch.testing.assert_close(scaled[name], expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("computed", MEASURES)
@pytest.mark.parametrize("stored", ["norm_mean", "dead_dimensions"])
def test_sums_that_other_measures_stored_give_a_number_only_where_they_suffice(stored, computed):
    embeddings, identities = drawn(3)
    first, second = EmbeddingQuality((stored,)), EmbeddingQuality((computed,))
    for metric in (first, second):
        metric.persistent(True)
        metric.update(embeddings, identities)
    expected = values(second)[computed]
    second.reset()
    try:
        second.load_state_dict(first.state_dict())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = values(second)[computed]
    except (RuntimeError, ValueError):
        return
    assert math.isnan(value) or value == pytest.approx(expected, abs=1e-9)

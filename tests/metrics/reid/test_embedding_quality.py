"""The quality of embeddings: the papers' definitions, sums that do not grow, and what is refused."""

import functools
import pickle
import warnings
from copy import deepcopy
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection, MetricTracker

from reid_torchmetrics import EmbeddingQuality, ReIDMeanAP
from reid_torchmetrics.metrics.reid import embedding_quality
from tests.reference.embedding_quality import quality, rankme

MEASURES = ("rankme", "dead_dimensions", "norm_mean", "norm_std", "alignment", "uniformity", "hubness")
ALL = functools.partial(EmbeddingQuality, MEASURES)
ADDED_UP = ("moments", "identities", "identity_sums")


@functools.cache
def drawn(seed: int, number: int = 60, dimension: int = 9) -> tuple[Tensor, Tensor]:
    """Embeddings around their identities, with a dead dimension and junk."""
    generator = torch.Generator().manual_seed(seed)
    identities = torch.randint(-1, 6, (number,), generator=generator)
    centers = torch.randn(7, dimension, dtype=torch.float64, generator=generator)
    embeddings = centers[identities] + torch.randn(number, dimension, dtype=torch.float64, generator=generator)
    embeddings[:, 2] = 1 / 3
    return embeddings, identities


def fed(metrics, given: tuple[Tensor, Tensor], size: int = 8, order: Tensor | None = None):
    parts = (torch.arange(len(given[0])) if order is None else order).to(given[0].device)
    for part in parts.split(size):
        metrics.update(given[0][part], given[1][part])
    return metrics


def values(metrics) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.set_dtype(torch.float64).compute().items()}


def of_one(metrics, state: str) -> list[Tensor]:
    return getattr(metrics["rankme"], state)


@pytest.mark.parametrize("seed", range(6))
def test_the_numbers_are_those_of_the_papers(seed):
    embeddings, identities = drawn(seed, number=(60, 11, 25)[seed % 3], dimension=(9, 30)[seed % 2])
    expected = quality(embeddings.numpy(), identities.tolist())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`hubness` is not defined")
        found = values(fed(ALL(), (embeddings, identities)))
    assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)
    of_its_authors = torch.pdist(torch.nn.functional.normalize(embeddings), p=2).pow(2).mul(-2).exp().mean().log()
    assert found["uniformity"] == pytest.approx(float(of_its_authors), abs=1e-9)


def test_numbers_that_can_be_told_by_hand():
    corners = torch.tensor([[3.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    found = values(fed(EmbeddingQuality(MEASURES[:-1]), (corners, torch.tensor([4, 4, 5])), size=2))
    # Singular values 3, sqrt(2), 0; distances^2 2, 2, 4.
    shares = torch.tensor([3, 2**0.5, 0], dtype=torch.float64) / (3 + 2**0.5) + 1e-7
    assert found["rankme"] == pytest.approx(float((-shares * shares.log()).sum().exp()), rel=1e-6)
    assert found["dead_dimensions"] == pytest.approx(1 / 3)
    assert (found["norm_mean"], found["norm_std"]) == (pytest.approx(5 / 3), pytest.approx((8 / 9) ** 0.5))
    assert found["alignment"] == pytest.approx(2)
    assert found["uniformity"] == pytest.approx(np.log((2 * np.exp(-4) + np.exp(-8)) / 3))


@pytest.mark.parametrize("number", [700, 100])
@pytest.mark.parametrize(("rank", "tolerance"), [(300, 1e-7), (20, 2e-5), (1, 2e-5)])
def test_the_rank_by_the_gram_matrix_is_that_by_the_singular_values(number, rank, tolerance):
    generator = torch.Generator().manual_seed(rank)
    wide = torch.randn(number, rank, generator=generator) @ torch.randn(rank, 300, generator=generator)
    (found,) = values(fed(EmbeddingQuality(("rankme",)), (wide, torch.arange(number)), size=64)).values()
    assert found == pytest.approx(rankme(wide.double().numpy()), rel=tolerance)


@pytest.mark.parametrize(("size", "at_a_time"), [(1, 2048), (7, 7), (60, 16), (60, 1)])
def test_batches_their_order_and_blocks_change_nothing(size, at_a_time):
    given = drawn(1)
    expected = values(fed(ALL(), given))
    order = torch.randperm(60, generator=torch.Generator().manual_seed(size))
    with mock.patch.object(embedding_quality, "_AT_A_TIME", at_a_time):
        assert values(fed(ALL(), given, size, order)) == pytest.approx(expected, abs=1e-9)


def test_what_is_added_up_grows_with_identities_alone():
    metrics = EmbeddingQuality(("rankme", "norm_mean", "alignment"))
    for number in range(200):
        (metrics.update if number % 3 else metrics)(torch.randn(16, 5), torch.arange(16) + number % 2)
    assert sum(map(len, of_one(metrics, "moments"))) == 1
    assert sum(map(len, of_one(metrics, "identities"))) <= 2 * 17 + 16
    assert not of_one(metrics, "embeddings")
    assert int(of_one(metrics, "moments")[0][0, 0, 0]) == 3200


def test_embeddings_are_kept_once_beside_those_of_another_metric():
    metrics, mean_ap, embeddings = EmbeddingQuality(("uniformity",)), ReIDMeanAP(), torch.randn(6, 3)
    for each in (metrics, mean_ap):
        each.update(embeddings, torch.arange(6))
    kept = metrics["uniformity"].embeddings[0]
    assert kept.data_ptr() == mean_ap.embeddings[0].data_ptr() == embeddings.data_ptr()
    embeddings.mul_(2)
    with pytest.raises(ValueError, match="`embeddings` must stay as they are"):
        metrics.compute()


def test_they_are_metrics_like_all_others():
    given, more = drawn(2), drawn(3)
    both = tuple(map(torch.cat, zip(given, more, strict=True)))
    expected, alone = values(fed(ALL(), both)), values(fed(ALL(), given))
    metrics = fed(ALL(prefix="val/", postfix="!").set_dtype(torch.float64), given)
    assert list(metrics.compute()) == [f"val/{name}!" for name in MEASURES]
    for copied in (deepcopy(metrics), pickle.loads(pickle.dumps(metrics)), metrics.clone(prefix="")):
        assert list(values(fed(copied, more)).values()) == pytest.approx(list(expected.values()), abs=1e-9)
    assert list(values(metrics).values()) == pytest.approx(list(alone.values()), abs=1e-9)
    metrics.reset()
    assert list(values(fed(metrics, more)).values()) == pytest.approx(list(values(fed(ALL(), more)).values()), abs=1e-9)
    together = fed(MetricCollection([ReIDMeanAP(), ALL()]), given)
    assert {"ReIDMeanAP", *MEASURES} == {*together.compute()}
    tracker = MetricTracker(ALL(), maximize=[True] * len(MEASURES))
    tracker.increment()
    assert fed(tracker, given).compute() == pytest.approx(alone, abs=1e-6)


def test_forward_is_of_the_batch_alone_and_keeps_it():
    given, more = drawn(2), drawn(3)
    metrics = ALL().set_dtype(torch.float64)
    for each in (given, more):
        assert {name: float(value) for name, value in metrics(*each).items()} == pytest.approx(
            values(fed(ALL(), each)), abs=1e-9
        )
    both = tuple(map(torch.cat, zip(given, more, strict=True)))
    assert values(metrics) == pytest.approx(values(fed(ALL(), both)), abs=1e-9)


def test_merging_and_a_checkpoint_keep_the_sums():
    given, more = drawn(2), drawn(3)
    both = values(fed(ALL(), tuple(map(torch.cat, zip(given, more, strict=True)))))
    metrics, other = fed(ALL(), given), fed(ALL(), more)
    for name in MEASURES:
        metrics[name].merge_state(other[name])
    assert values(metrics) == pytest.approx(both, abs=1e-9)
    assert int(of_one(other, "moments")[0][0, 0, 0]) == 60
    metrics.persistent(mode=True)
    restored = ALL()
    restored.persistent(mode=True)
    restored.load_state_dict(metrics.state_dict())
    assert values(restored) == pytest.approx(both, abs=1e-9)
    narrow = fed(EmbeddingQuality(("rankme",)), (torch.eye(2), torch.arange(2)))
    wide = fed(EmbeddingQuality(("rankme",)), (torch.eye(3), torch.arange(3)))
    narrow["rankme"].merge_state(wide["rankme"])
    with pytest.raises(ValueError, match=r"dimension; got 2 and 3"):
        narrow.compute()


def test_casts_leave_sums_in_float64_and_half_precision_is_added_up_in_it():
    embeddings, identities = drawn(4)
    metrics = ALL()
    metrics.update(embeddings.half(), identities.tolist())
    metrics.half().set_dtype(torch.float16)
    assert [of_one(metrics, state)[0].dtype for state in ADDED_UP] == [torch.float64, torch.int64, torch.float64]
    assert {value.dtype for value in metrics.clone().compute().values()} == {torch.float16}
    expected = quality(embeddings.half().double().numpy(), identities.tolist())
    assert values(metrics)["uniformity"] == pytest.approx(expected["uniformity"], abs=1e-9)


def test_arrays_and_embeddings_with_gradients_are_taken():
    embeddings, identities = drawn(4)
    expected = values(fed(ALL(), (embeddings, identities), size=60))
    metrics = ALL()
    metrics.update(embeddings.numpy(), identities.numpy())
    assert values(metrics) == pytest.approx(expected, abs=1e-12)
    metrics = ALL()
    metrics.update((2 * embeddings.requires_grad_()) / 2, identities)
    embeddings.requires_grad_(False)
    assert not any(each.requires_grad for state in ADDED_UP for each in of_one(metrics, state))
    assert values(metrics) == pytest.approx(expected, abs=1e-12)


def warned(metrics) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        metrics.compute()
    return [str(each.message) for each in caught]


NOT_DEFINED = "`{}` is not defined for these embeddings, so the result is NaN."
ONE = "uniformity", "hubness", "alignment", "dead_dimensions"
UNDEFINED = {
    "nothing": (torch.empty(0, 3), [], MEASURES, ["No sample was given, so the result is NaN."]),
    "one": (torch.ones(1, 3), [1], ONE, [NOT_DEFINED.format(name) for name in MEASURES if name in ONE]),
    "zeros": (torch.zeros(20, 3), [1] * 20, ("rankme",), [NOT_DEFINED.format("rankme")]),
    "no pairs": (drawn(5)[0], [*range(-1, 40), *[-1] * 19], ("alignment",), [NOT_DEFINED.format("alignment")]),
    "infinite": (
        torch.tensor([[torch.inf, 0.0], [1.0, torch.nan], [1.0, 1.0]]),
        [1, 1, 1],
        MEASURES,
        ["2 of 3 embeddings are NaN or infinite, so the result is NaN."],
    ),
}


@pytest.mark.parametrize("case", UNDEFINED)
def test_what_is_not_defined_is_nan_and_said_once(case):
    embeddings, identities, names, messages = UNDEFINED[case]
    metrics = ALL()
    for _ in range(2):
        if case != "nothing":
            metrics.update(embeddings, identities)
        assert warned(metrics) == messages
        found = metrics.compute()
        assert {name for name in MEASURES if found[name].isnan()} == {*names}
        for name in MEASURES:
            metrics[name]._computed = None
        assert warned(metrics) == []
        metrics.reset()


def test_a_small_batch_is_no_reason_to_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ALL()(torch.ones(1, 3), [1])["uniformity"].isnan()


def test_a_collapse_to_one_point_and_to_one_line():
    point = fed(ALL(), (torch.ones(30, 4), torch.arange(30) % 3))
    found = values(point)
    assert found["rankme"] == pytest.approx(1, abs=1e-5)
    assert (found["dead_dimensions"], found["norm_std"]) == (1, pytest.approx(0, abs=1e-7))
    assert (found["alignment"], found["uniformity"]) == (pytest.approx(0, abs=1e-12), pytest.approx(0, abs=1e-12))
    line = torch.linspace(-1, 1, 30)[:, None] * torch.ones(4)
    assert values(fed(EmbeddingQuality(), (line, torch.arange(30))))["dead_dimensions"] == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((torch.eye(4),), ValueError, "`identities` must be given for the measure 'alignment'; got none."),
        ((torch.eye(4), torch.arange(3)), ValueError, "`identities` must have shape [4]; got [3]."),
        ((torch.eye(4), [0.5] * 4), ValueError, "`identities` must hold integers, or whole numbers below 2**53"),
        ((torch.eye(3), torch.arange(3)), ValueError, "the same embedding dimension; got 3 and 4."),
        ((torch.ones(4), torch.arange(4)), ValueError, "`embeddings` must have shape [N, D]; got [4]."),
        ((torch.eye(4).long(), torch.arange(4)), TypeError, "`embeddings` must have a floating point dtype"),
    ],
)
def test_of_a_refused_batch_nothing_is_stored(arguments, error, message):
    metrics = fed(ALL(), (torch.eye(4), torch.arange(4)))
    for call in (metrics.update, metrics.forward):
        with pytest.raises(error) as caught:
            call(*arguments)
        assert message in str(caught.value)
    assert int(of_one(metrics, "moments")[0][0, 0, 0]) == len(of_one(metrics, "embeddings")[0]) == 4


@pytest.mark.parametrize(
    ("measures", "error", "message"),
    [
        ("rankme", TypeError, "`measures` must be a tuple or list of names; got 'rankme'."),
        (("rankme", "rank"), ValueError, "`measures` must be one of 'rankme', 'dead_dimensions', 'norm_mean'"),
        ((), ValueError, "`measures` must not be empty; got ()."),
    ],
)
def test_a_refused_option_is_named(measures, error, message):
    with pytest.raises(error) as caught:
        EmbeddingQuality(measures)
    assert str(caught.value).startswith(message)


def test_a_call_that_does_not_fit_says_what_is_taken():
    with pytest.raises(TypeError, match=r"EmbeddingQuality\.update\(\)"):
        EmbeddingQuality().update()

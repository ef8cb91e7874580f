"""Ranks without samples, or without some kind of them, and the warnings where nothing can be evaluated."""

import math
import warnings

import pytest
import torch

from reid_torchmetrics import EmbeddingQuality, PairVerification
from tests.distributed.shards import PADDED, SHARDINGS, loaders
from tests.metrics.reid.samples import CLASSES, batches, expected, fed
from tests.metrics.reid.samples import reference_of as reference_of_batches

OF_THE_BASE_CLASS = "The ``compute`` method of metric"  # on every process whose metric never had an update


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_sharding_deals_out_every_sample(size):
    for name, sharding in SHARDINGS.items():
        dealt_out = sharding(67, size)
        assert len(dealt_out) == size
        assert sorted(set(sum(dealt_out, []))) == list(range(67))
        assert (len(sum(dealt_out, [])) > 67) == (name in PADDED and size > 1)


def heard(metrics):
    """Values and results of metrics, and what is said meanwhile but by the base class."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = {name: metric.compute().reshape(-1).tolist() for name, metric in metrics.items()}
        counts = metrics["map"].results().counts
    said = [str(warning.message) for warning in caught]
    return values, counts, [text for text in said if not text.startswith(OF_THE_BASE_CLASS)]


def fresh():
    return {name: kind() for name, kind in CLASSES.items()}


def feed(metrics, given, *without):
    """Every metric after all batches, `without` some of the arguments."""
    given = [{name: values for name, values in batch.items() if name not in without} for batch in given]
    for metric in metrics.values():
        fed(metric, given)
    return metrics


def dealt(process, active, roles, without=()):
    """Metrics after a process's share, where only the `active` processes have one."""
    metrics = fresh()
    if process in active:
        for loader in loaders(roles):
            own = SHARDINGS["round_robin"](len(loader), len(active))[active.index(process)]
            feed(metrics, loader.batches(own), *without)
    return metrics


def all_dealt(process, size, cases, roles):
    return [heard(dealt(process, active, roles, without)) for active, without in cases]


def is_nan(values):
    return all(math.isnan(value) for value in values)


def test_no_process_has_samples(processes):
    outcomes = processes.run(3, all_dealt, [((), ())], "mixed")
    assert all(is_nan(sum(values.values(), [])) for [(values, _, _)] in outcomes)
    assert [len(said) for [(_, _, said)] in outcomes] == [len(fresh()), 0, 0]
    [(_, counts, (text, *_))] = outcomes[0]
    assert "of 0 queries against 0 gallery items" in text
    assert counts.total == 0


def one_role(process, size, role):
    """What a sanity check sees, and then the epoch."""
    given = batches()[process::size]
    metrics = feed(fresh(), [batch for batch in given if batch["is_query"] is role])
    first = heard(metrics)
    for metric in metrics.values():
        metric.reset()
    return first, heard(feed(metrics, given))


@pytest.mark.parametrize("role", [True, False])
def test_a_sanity_check_that_sees_one_loader_is_nan_and_one_warning_of_each_metric(processes, role):
    outcomes = processes.run(3, one_role, role)
    total = 12 if role else 0
    gallery = 0 if role else 50
    assert [len(said) for (_, _, said), _ in outcomes] == [len(fresh()), 0, 0]
    assert f"of {total} queries against {gallery} gallery items" in outcomes[0][0][2][0]
    reference = reference_of_batches(batches())
    for (values, counts, _), (after, _, said) in outcomes:
        assert is_nan(sum(values.values(), []))
        assert (counts.total, counts.valid, counts.not_in_gallery) == (total, 0, total)
        assert not said
        assert after["map"] == pytest.approx(expected("map", reference), abs=1e-6)


def spoiled(process, size, where, index):
    """A query and two gallery items of some processes are not finite."""
    given = batches()[process::size]
    first = sum(len(batch["identities"]) for other in range(process) for batch in batches()[other::size])
    for batch in given:
        count = len(batch["identities"])
        if index:
            batch["index"] = torch.arange(first, first + count)
        first += count
    if process in where:
        given[0]["embeddings"][2, 1] = torch.nan
        given[-1]["embeddings"][:2, 0] = torch.tensor([torch.inf, -torch.inf])
    return heard(feed(fresh(), given))


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("where", [(0,), (1,), (1, 2)])
def test_embeddings_that_are_not_finite_make_nan_everywhere_and_one_warning_of_each_metric(processes, where, index):
    outcomes = processes.run(3, spoiled, where, index)
    assert all(is_nan(sum(values.values(), [])) for values, _, _ in outcomes)
    assert [len(said) for _, _, said in outcomes] == [len(fresh()), 0, 0]
    (text,) = {*outcomes[0][2]}
    assert f"{3 * len(where)} of 62 embeddings are NaN or infinite (1 of queries, {3 * len(where) - 1} of" in text
    assert ("`index` [" if index else f"samples of process {where[0]} [2, ") in text
    assert all((counts.total, counts.valid, counts.not_ranked) == (12, 0, 12) for _, counts, _ in outcomes)


UNDEFINED = {
    PairVerification: "`eer` needs pairs of one identity and of two; got 0 of one identity and 8 of two",
    EmbeddingQuality: "`rankme`, `dead_dimensions`, `norm_mean`, `norm_std` cannot be told of 0 embeddings, 0 of",
}
"""metrics that lack what they need, and what is said of it"""


def undefined(process, size, kind):
    metric = kind()
    if kind is PairVerification:  # impostors alone
        rows = torch.randn(4, 3) + process
        metric.update(rows, rows.flip(0), torch.zeros(4, dtype=torch.bool))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = metric.compute()
    values = value.values() if isinstance(value, dict) else [value]
    return is_nan(map(float, values)), [str(warning.message) for warning in caught]


@pytest.mark.parametrize("kind", UNDEFINED)
def test_what_cannot_be_told_is_nan_on_all_processes_and_told_on_the_first(processes, kind):
    (first, (text,)), (second, said) = processes.run(2, undefined, kind)
    assert first
    assert second
    assert text.startswith(UNDEFINED[kind])
    assert not said

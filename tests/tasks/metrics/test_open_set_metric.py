"""The metric of open sets: its value, its batches, and what it says where queries of a kind are lacking."""

import warnings

import pytest
import torch

from reid_torchmetrics import GalleryDraw, ReIDMetrics, ReIDOpenSet
from reid_torchmetrics.functional.retrieval import evaluate

GENERATOR = torch.Generator().manual_seed(3)
QUERY, GALLERY = torch.randn(30, 6, generator=GENERATOR), torch.randn(50, 6, generator=GENERATOR)
IDENTITIES = torch.arange(30) % 15, torch.arange(50) % 10  # five of fifteen are not in the gallery


def fed(metric, parts=((0, 30),)):
    for first, end in parts:
        metric.update(QUERY[first:end], IDENTITIES[0][first:end], is_query=True)
    metric.update(GALLERY, IDENTITIES[1], is_query=False)
    return metric


@pytest.mark.parametrize("options", [{}, {"similarity": "euclidean", "ties": "stable"}])
def test_the_value_is_that_of_identify(options):
    found = evaluate(QUERY, GALLERY, *IDENTITIES, **options).identification()
    for fpir, rank, rule in (((0.0, 0.1, 1.0), 1, "largest"), ((0.2,), 3, "nearest")):
        expected = found.tpir_at_fpir(fpir, rank, rule).float()
        value = fed(ReIDOpenSet(fpir, rank=rank, rule=rule, **options), [(0, 11), (11, 30)]).compute()
        assert torch.equal(value.reshape(-1), expected)
    value = fed(ReIDOpenSet(0.1, **options)).compute()
    assert value.shape == ()
    assert value == found.tpir_at_fpir(0.1).float()


def test_other_metrics_hold_what_identification_needs():
    metrics, metric = fed(ReIDMetrics()), fed(ReIDOpenSet())
    found = metrics.results(nearest=3).identification()
    assert torch.equal(found.tpir_at_fpir(metric.fpir).float(), metric.compute())
    assert metric.results().query_identities.tolist() == found.query_identities.tolist()


@pytest.mark.needs("diagnosis")
def test_without_a_kind_of_queries_the_value_is_nan_with_one_warning():
    metric = ReIDOpenSet((0.1, 0.2))
    metric.update(QUERY[:5], IDENTITIES[0][:5], is_query=True)
    metric.update(GALLERY, IDENTITIES[1], is_query=False)
    with pytest.warns(UserWarning, match="no query can raise a false alarm, and the result is NaN"):
        assert metric.compute().isnan().tolist() == [True, True]
    metric = ReIDOpenSet((0.1, 0.2))
    metric.update(QUERY[10:12], IDENTITIES[0][10:12], is_query=True)
    metric.update(GALLERY, IDENTITIES[1], is_query=False)
    with pytest.warns(UserWarning, match="No query can be evaluated, so the result is NaN"):
        assert metric.compute().isnan().tolist() == [True, True]
    assert not metric.identification().is_mated.any()


def test_forward_evaluates_a_batch_alone_and_does_not_warn_of_it():
    metric = ReIDOpenSet(0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = metric(torch.cat([QUERY, GALLERY]), torch.cat(IDENTITIES), is_query=torch.arange(80) < 30)
        assert value == metric.compute()
        assert metric(QUERY[:1], IDENTITIES[0][:1], is_query=torch.tensor([True])).isnan()


def test_only_a_metric_of_one_rate_is_logged():
    assert ReIDOpenSet(0.1)._log_instead() is None
    assert ReIDOpenSet()._log_instead() == "ReIDOpenSet(fpir=0.01)"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fpir": 1.5}, ValueError, "`fpir` must hold shares from 0 to 1; got 1.5."),
        ({"fpir": ()}, ValueError, "`fpir` must not be empty; got ()."),
        ({"rank": 0}, ValueError, "`rank` must be at least 1; got 0."),
        ({"rule": "nist"}, ValueError, "`rule` must be one of 'largest', 'nearest', 'floor', 'strict'; got 'nist'."),
        ({"gallery_draw": GalleryDraw(shots=1)}, ValueError, "`protocol` must not draw galleries for ReIDOpenSet; got"),
    ],
)
def test_a_refusal_names_the_option(options, error, message):
    with pytest.raises(error) as caught:
        ReIDOpenSet(**options)
    assert str(caught.value).startswith(message)

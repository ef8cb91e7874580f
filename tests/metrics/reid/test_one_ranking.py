"""Metrics that hold the same samples rank them once, and never use a ranking of others."""

import gc
import weakref
from unittest import mock

import pytest
import torch
from torchmetrics import MetricCollection

from reid_torchmetrics import (
    EmbeddingMetric,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMetrics,
    ReIDMINP,
)
from reid_torchmetrics.functional.retrieval.evaluation import ranking
from reid_torchmetrics.metrics.reid import ranking_cache
from tests.metrics.reid.samples import batches, expected, fed, reference_of


@pytest.fixture
def rankings(monkeypatch):
    """Counts how often samples are ranked."""
    counter = mock.Mock(wraps=ranking.count_sharded_ranks)
    monkeypatch.setattr(ranking, "count_sharded_ranks", counter)
    return counter


def test_a_collection_ranks_once(rankings):
    metrics = fed(ReIDMetrics(ranks=(1, 5)), batches())
    metrics.compute()
    metrics.results()
    assert rankings.call_count == 1
    fed(metrics, batches(seed=1)).compute()
    assert rankings.call_count == 2


def test_a_collection_of_ones_own_ranks_once(rankings):
    collection = MetricCollection([ReIDMeanAP(), ReIDMINP(), ReIDCMC(), ReIDCMCCurve()])
    fed(collection, batches()).compute()
    assert rankings.call_count == 1


@pytest.mark.parametrize("view", [False, True])
def test_separate_metrics_that_are_fed_the_same_batches_rank_once(rankings, view):
    given = batches()
    if view:  # of a larger storage, which is cloned, but once for all metrics
        for batch in given:
            batch["embeddings"] = torch.cat([batch["embeddings"]] * 2, dim=1)[:, :6]
    metrics = [ReIDMeanAP(), ReIDMINP(), ReIDCMC()]
    for batch in given:
        for metric in metrics:
            metric.update(**batch)
    values = [metric.compute() for metric in metrics]
    assert rankings.call_count == 1
    assert len({metric.embeddings[0].data_ptr() for metric in metrics}) == 1
    assert values == [fed(kind(), batches()).compute() for kind in (ReIDMeanAP, ReIDMINP, ReIDCMC)]


def test_a_metric_that_is_reset_leaves_the_ranking_to_the_others(rankings):
    curve, metrics = ReIDCMCCurve(), ReIDMetrics()
    for batch in batches():
        curve.update(**batch)
        metrics.update(**batch)
    curve.compute()
    curve.reset()
    metrics.compute()
    assert rankings.call_count == 1


def test_inference_mode_ranks_once_too(rankings):
    with torch.inference_mode():
        given = batches()
        metrics = [fed(ReIDMeanAP(), given), fed(ReIDMINP(), given)]
        for metric in metrics:
            metric.compute()
    assert rankings.call_count == 1


def test_other_samples_or_options_are_ranked_anew(rankings):
    fed(ReIDMeanAP(), batches()).compute()
    fed(ReIDMeanAP(ties="optimistic"), batches()).compute()
    other = batches()
    other[0]["identities"][0] += 1
    fed(ReIDMeanAP(ties="optimistic"), other).compute()
    other = batches()
    other[0]["embeddings"][0] += 1
    fed(ReIDMeanAP(ties="optimistic"), other).compute()
    assert rankings.call_count == 4


def test_metrics_with_two_sets_of_options_take_turns(rankings):
    kinds = {"a": {}, "b": {"similarity": "euclidean"}}
    collection = MetricCollection(
        {
            f"{part}_{kind}": cls(**kinds[kind])
            for part, cls in (("cmc", ReIDCMC), ("map", ReIDMeanAP))
            for kind in kinds
        }
    )
    fed(collection, batches()).compute()
    assert rankings.call_count == 2


def test_a_similarity_that_has_learned_since_ranks_anew_but_once(rankings):
    weight = torch.nn.Parameter(torch.ones(6))
    options = {"similarity": lambda query, gallery: (query * weight) @ gallery.T}
    given = batches()
    before = fed(MetricCollection([ReIDMeanAP(**options), ReIDMINP(**options)]), given)
    value = before.compute()["ReIDMeanAP"]
    assert rankings.call_count == 1
    with torch.no_grad():
        weight[1:] = 0
    assert fed(ReIDMeanAP(**options), given).compute() != value
    assert rankings.call_count == 2


def test_what_a_metric_does_to_its_ranks_stays_with_it():
    class Clamped(EmbeddingMetric):
        def summarize(self, ranks):
            return ranks.rank.clamp_(max=3).double().mean()

    given = batches()
    fed(Clamped(), given).compute()
    fed(ReIDMeanAP(), given).results().num_positives.zero_()
    assert fed(ReIDMINP(), given).compute() == pytest.approx(expected("minp", reference_of(given))[0], abs=1e-6)


def test_ranks_that_a_metric_wrote_to_are_not_given_to_the_next(rankings):
    class Clamped(EmbeddingMetric):
        def summarize(self, ranks):
            return ranks.rank.clamp_(max=3).double().mean()

    given = batches()
    first, second = fed(Clamped(), given), fed(ReIDMINP(), given)  # both hold the samples before either ranks them
    first.compute()
    assert second.compute() == pytest.approx(expected("minp", reference_of(given))[0], abs=1e-6)
    assert rankings.call_count == 2


def test_embeddings_that_were_changed_in_place_are_ranked_anew(rankings):
    given = batches()
    first, second = fed(ReIDMeanAP(), given), fed(ReIDMeanAP(), given)
    first.compute()
    given[0]["embeddings"].neg_()
    assert second.compute() == fed(ReIDMeanAP(), given).compute()
    assert rankings.call_count == 3  # the last came after the others were ranked


def test_the_ranking_is_forgotten_with_the_samples():
    metric = fed(ReIDMeanAP(), batches())
    metric.compute()
    ranks = weakref.ref(ranking_cache.rankings._entries[0].ranking)
    del metric
    gc.collect()
    assert ranks() is None


@pytest.mark.parametrize("inference", [False, True])
def test_a_buffer_that_is_filled_anew_is_ranked_anew(inference):
    given = batches()
    values, kept = [], []
    buffers = [batch["embeddings"].clone() for batch in given]
    with torch.inference_mode(inference):
        buffers = [buffer.clone() for buffer in buffers]
        for sign in (1, 3):
            metric = ReIDMeanAP()
            for buffer, batch in zip(buffers, given, strict=True):
                buffer.numpy()[:] = batch["embeddings"].numpy() ** sign
                metric.update(**(batch | {"embeddings": buffer}))
            values.append(metric.compute())
            kept.append(metric)
    cubes = [batch | {"embeddings": batch["embeddings"] ** 3} for batch in given]
    assert values == [fed(ReIDMeanAP(), given).compute(), fed(ReIDMeanAP(), cubes).compute()]
    assert values[0] != values[1]


def test_members_of_a_collection_see_that_a_similarity_has_learned():
    given, weight = batches(), torch.ones(6)

    def learned(query, gallery):
        return (query * weight) @ gallery.T

    first = fed(ReIDMetrics(similarity=learned), given)
    before = first.compute()
    weight[:3] = -5
    second = fed(ReIDMetrics(similarity=learned), given)
    expected = {name: fed(ReIDMetrics(similarity=learned), given).compute()[name] for name in before}
    ranking_cache.rankings._entries.reverse()
    assert second.compute() == expected != before


class Learned(torch.nn.Module):
    """A similarity with a parameter."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(6))

    def forward(self, query, gallery):
        return (query * self.weight) @ gallery.T


@pytest.mark.parametrize("write", ["in place", "through data"])
def test_a_similarity_that_learned_without_new_samples_ranks_them_anew(rankings, write):
    similarity, given = Learned(), batches()
    first = fed(ReIDMeanAP(similarity=similarity, compute_with_cache=False), given)
    second = fed(ReIDMINP(similarity=similarity), given)
    before = first.compute()
    assert first.compute() == before
    assert rankings.call_count == 1
    with torch.no_grad():
        (similarity.weight if write == "in place" else similarity.weight.data)[:3] = -5
    values = [first.compute(), second.compute()]
    assert rankings.call_count == 2
    assert values == [fed(kind(similarity=similarity), given).compute() for kind in (ReIDMeanAP, ReIDMINP)]
    assert values[0] != before

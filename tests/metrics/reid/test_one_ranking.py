"""Metrics that hold the same samples rank them once, and never use a ranking of others."""

import gc
import itertools
import weakref
from unittest import mock

import pytest
import torch
from torchmetrics import MetricCollection

from reid_torchmetrics import EmbeddingMetric, ReIDCMC, ReIDMeanAP, ReIDMetrics, ReIDMINP
from reid_torchmetrics.functional.retrieval.evaluation import ranking
from reid_torchmetrics.metrics.reid.ranking import rankings as cache
from tests.metrics.reid.samples import batches, expected, fed, reference_of


@pytest.fixture
def rankings(monkeypatch, nothing_kept):
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


def test_ranks_that_a_metric_wrote_to_are_not_given_to_the_next(rankings):
    class Clamped(EmbeddingMetric):
        def summarize(self, ranks):
            return ranks.rank.clamp_(max=3).double().mean()

    given = batches()
    first, second = fed(Clamped(), given), fed(ReIDMINP(), given)  # both hold the samples before either ranks them
    first.compute()
    assert second.compute() == pytest.approx(expected("minp", reference_of(given))[0], abs=1e-6)
    assert rankings.call_count == 2


@pytest.mark.parametrize("make", [ReIDMeanAP, ReIDMetrics])
def test_embeddings_that_are_written_to_after_update_are_an_error_that_names_clone(make):
    buffer, metric = torch.empty(8, 6), make()
    for batch in batches(16, 48):
        metric.update(**(batch | {"embeddings": buffer.copy_(batch["embeddings"])}))
    message = "`embeddings` must stay as they are .* got 7 of 8 batches .* batch 0. Pass `embeddings.clone\\(\\)`"
    with pytest.raises(ValueError, match=message):
        metric.compute()
    metric.reset()
    assert fed(metric, batches()).compute() == fed(make(), batches()).compute()


@pytest.mark.slow
def test_the_ranking_is_forgotten_with_the_samples():
    metric = fed(ReIDMeanAP(), batches())
    metric.compute()
    ranks = weakref.ref(cache._results[0][1].result.ranking)
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


class Learned(torch.nn.Module):
    """A similarity with a parameter."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(6))

    def forward(self, query, gallery):
        return (query * self.weight) @ gallery.T


def one_block(**changed) -> dict:
    """Six samples without roles, whose embeddings are a square matrix."""
    given = {"embeddings": torch.randn(6, 6), "identities": torch.tensor([1, 1, 1, 2, 2, 2])}
    given["cameras"] = torch.tensor([0, 1, 2, 0, 1, 2])
    return given | {name: change(given) for name, change in changed.items()}


INPUTS = {
    "as it is": {},
    "cameras": {"cameras": lambda given: torch.tensor([0, 0, 1, 0, 0, 1])},
    "identities": {"identities": lambda given: given["identities"].flip(0) % 2},
    "roles": {"is_query": lambda given: torch.tensor([True, False, False] * 2)},
    "strides": {"embeddings": lambda given: given["embeddings"].T},
    "values": {"embeddings": lambda given: given["embeddings"].square()},
    "index": {"index": lambda given: torch.arange(6).flip(0)},
    "other index": {"index": lambda given: torch.tensor([0, 1, 2, 2, 1, 0]) + 3 * given["identities"]},
}


@pytest.mark.slow
def test_a_value_after_any_other_samples_is_that_of_its_own_samples(nothing_kept):
    def value(name: str) -> torch.Tensor:
        torch.manual_seed(5)
        metric = ReIDMeanAP(ties="stable")
        metric.update(**one_block(**INPUTS[name]))
        return metric.compute()

    expected = {}
    for name in INPUTS:
        cache.clear()
        expected[name] = value(name)
    for before, name in itertools.permutations(INPUTS, 2):
        if "as it is" not in (before, name) and "index" not in (before, name):
            continue
        value(before)
        assert value(name) == expected[name], (before, name)


@pytest.mark.slow
def test_a_rule_about_one_gallery_item_that_changes_ranks_anew():
    banned, given = set(), batches(40, 400)

    def similarity(query, gallery):
        scores = query @ gallery.T
        for item in banned:
            scores[:, (gallery == item).all(1)] = -100.0
        return scores

    for item in range(0, 400, 100):
        banned.clear()
        first, second = (fed(kind(similarity=similarity), given) for kind in (ReIDMeanAP, ReIDMINP))
        first.compute()
        banned.add(given[5 + item // 8]["embeddings"][item % 8])
        assert second.compute() == fed(ReIDMINP(similarity=similarity), given).compute()


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

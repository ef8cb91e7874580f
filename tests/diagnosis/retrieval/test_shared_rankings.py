"""Metrics that differ in what the diagnosis reads share a ranking, and each of them tells what it shows."""

import gc
from unittest import mock

import pytest
import torch

from reid_torchmetrics import ReIDCMC, ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.diagnosis.retrieval import case
from reid_torchmetrics.functional.retrieval.evaluation import ranking
from reid_torchmetrics.metrics.reid.ranking import rankings as cache
from tests.diagnosis.contract import told_by

CODES = torch.randint(2, (240, 4), generator=torch.Generator().manual_seed(0)).float() * 2 - 1
IDENTITIES, IS_QUERY = torch.arange(240) % 6, torch.arange(240) < 40


def fed(*metrics):
    for metric in metrics:
        metric.update(CODES, IDENTITIES, is_query=IS_QUERY)
    return metrics


@pytest.fixture
def counts(monkeypatch):
    """How often samples are ranked, and how often some of them are scored for a trial."""
    cache.clear()
    counters = mock.Mock(wraps=ranking.count_sharded_ranks), mock.Mock(wraps=case._sample)
    monkeypatch.setattr(ranking, "count_sharded_ranks", counters[0])
    monkeypatch.setattr(case, "_sample", counters[1])
    return lambda: [counter.call_count for counter in counters]


@pytest.mark.parametrize("first", [0, 1])
def test_a_metric_with_a_chosen_order_of_equal_scores_shares_the_ranking_of_one_without(counts, first):
    metrics = fed(ReIDMeanAP(), ReIDMeanAP(ties="pessimistic"))
    texts = {}
    for number in (first, 1 - first):
        texts[number] = told_by(metrics[number].compute)
    assert counts()[0] == 1
    assert texts[1] == []
    (text,) = texts[0]
    assert "have equal scores" in text


def test_each_metric_with_one_ranking_tells_what_its_trial_found_once(counts):
    metrics = fed(ReIDMeanAP(), ReIDCMC(), ReIDMetrics())
    texts = [told_by(metric.compute) for metric in metrics]
    assert len({text for (text,) in texts}) == 1
    assert counts() == [1, 3]
    assert [told_by(metric.results) for metric in metrics] == [[], [], []]
    assert counts() == [1, 3]
    for metric in metrics:
        metric.reset()
    assert [len(told_by(metric.compute)) for metric in fed(*metrics)] == [1, 1, 1]


def test_names_of_rankings_do_not_outlive_them():
    (metric,) = fed(ReIDMeanAP())
    told_by(metric.compute)
    num_names = len(case._names)
    metric.reset()
    del metric
    cache.clear()
    gc.collect()
    assert len(case._names) < num_names


def test_a_batch_of_forward_tells_nothing():
    metric = ReIDMeanAP()
    for _ in range(2):
        assert told_by(lambda: metric(CODES, IDENTITIES, is_query=IS_QUERY)) == []
        assert told_by(lambda: metric(CODES * torch.nan, IDENTITIES, is_query=IS_QUERY)) == []
        assert told_by(lambda: metric(CODES[:40], IDENTITIES[:40], is_query=True)) == []
    assert len(told_by(metric.compute)) >= 1

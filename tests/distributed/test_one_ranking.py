"""Metrics with the same samples share one ranking, if they do so on every process."""

from contextlib import contextmanager
from unittest import mock

import pytest
import torch

from reid_torchmetrics import ReIDCMC, ReIDMeanAP, ReIDMetrics, ReIDMINP
from reid_torchmetrics.functional.retrieval.evaluation import ranking
from tests.metrics.reid.samples import batches, fed, reference_of

GIVEN, OTHERS = batches(), batches(seed=1)


def mean_ap(given, rule="rectangle") -> float:
    return float(torch.tensor(reference_of(given).average_precision[rule]).nanmean())


@contextmanager
def counting():
    """Count the rankings of this process with others."""
    original, counter = ranking.count_sharded_ranks, mock.Mock()

    def count(world, *args, **options):
        if world.size > 1:
            counter()
        return original(world, *args, **options)

    with mock.patch.object(ranking, "count_sharded_ranks", count):
        yield counter


def collection(process: int, size: int, empty: int) -> tuple[int, list[float]]:
    own = [] if process == empty else GIVEN[process::size]
    with counting() as counter:
        values = fed(ReIDMetrics(), own).compute()
    return counter.call_count, [float(value) for value in values.values()]


@pytest.mark.parametrize("empty", [None, 0, 1])
def test_a_collection_ranks_once(processes, empty):
    outcomes = processes.run(2, collection, empty)
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == 1


def separate(process: int, size: int) -> tuple[int, list[float]]:
    metrics = [ReIDMeanAP(), ReIDCMC(), ReIDMINP(), ReIDMeanAP(rule="trapezoid")]
    for batch in GIVEN[process::size]:
        for metric in metrics:
            metric.update(**batch)
    combined = metrics[0] + metrics[1]
    with counting() as counter:
        values = [float(metric.compute()) for metric in [*metrics, combined]]
        results = metrics[0].results()
    values.append(float(results.average_precision.nanmean()))
    return counter.call_count, values


def test_separate_metrics_their_sum_and_results_rank_once(processes):
    for calls, values in processes.run(3, separate):
        assert calls == 1
        assert values[0] == pytest.approx(mean_ap(GIVEN), abs=1e-6)
        assert values[3] == pytest.approx(mean_ap(GIVEN, "trapezoid"), abs=1e-6)
        assert values[4] == pytest.approx(values[0] + values[1])
        assert values[5] == pytest.approx(values[0], abs=1e-6)


def grows_on_one_process(process: int, size: int) -> tuple[int, list[float]]:
    """Another metric gets one more batch, on process 0 only."""
    metric, grown = fed(ReIDMeanAP(), GIVEN[process:-1:size]), fed(ReIDMeanAP(), GIVEN[process:-1:size])
    with counting() as counter:
        values = [float(metric.compute())]
        fed(grown, GIVEN[-1:] if process == 0 else [])
        values.append(float(grown.compute()))
        metric._computed = None
        values.append(float(metric.compute()))
    return counter.call_count, values


def test_a_process_whose_samples_are_the_same_ranks_again_when_anothers_are_not(processes):
    for calls, values in processes.run(3, grows_on_one_process):
        assert calls == 3  # the newest samples of process 0 were others
        assert values == pytest.approx([mean_ap(GIVEN[:-1]), mean_ap(GIVEN), mean_ap(GIVEN[:-1])], abs=1e-6)


def takes_turns(process: int, size: int) -> tuple[int, list[float]]:
    """Process 1 has samples of one metric only, process 2 of none."""
    first = fed(ReIDMeanAP(), GIVEN if process == 0 else [])
    second = fed(ReIDMeanAP(), OTHERS[process::2] if process < 2 else [])
    values = []
    with counting() as counter:
        for metric in (first, second, first, second):
            metric._computed = None
            values.append(float(metric.compute()))
    return counter.call_count, values


def test_processes_without_samples_never_take_one_ranking_for_another(processes):
    for calls, values in processes.run(3, takes_turns):
        assert calls == 4  # each time the newest samples were others
        assert values == pytest.approx([mean_ap(GIVEN), mean_ap(OTHERS)] * 2, abs=1e-6)


def forgets(process: int, size: int) -> tuple[int, list[float]]:
    """Process 0 computes other things in between, until it has forgotten the ranking."""
    metric, values = fed(ReIDMeanAP(), GIVEN[process::size]), []
    with counting() as counter:
        values.append(float(metric.compute()))
        kept = [fed(ReIDMeanAP(sync_on_compute=False), batches(seed=seed)) for seed in range(6)] if process == 0 else []
        for other in kept:
            other.compute()
        metric._computed = None
        values.append(float(metric.compute()))
    return counter.call_count, values


def test_all_rank_again_when_one_has_forgotten(processes):
    for calls, values in processes.run(2, forgets):
        assert calls == 2
        assert values == pytest.approx([mean_ap(GIVEN)] * 2, abs=1e-6)


def epochs(process: int, size: int) -> list[float]:
    metric, values = ReIDMeanAP(), []
    for given in (GIVEN, OTHERS, GIVEN):
        values.append(float(fed(metric, given[process::size]).compute()))
        metric.reset()
    return values


def test_an_epoch_is_not_taken_for_the_one_before(processes):
    for values in processes.run(2, epochs):
        assert values == pytest.approx([mean_ap(GIVEN), mean_ap(OTHERS), mean_ap(GIVEN)], abs=1e-6)

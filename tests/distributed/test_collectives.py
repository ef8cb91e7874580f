"""All processes take the same collectives, whatever each of them holds."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed
from torchmetrics import Metric, MetricCollection

import reid_torchmetrics
from reid_torchmetrics import EmbeddingMetric, EmbeddingQuality, ReIDMeanAP
from reid_torchmetrics.command import streams
from reid_torchmetrics.diagnosis.retrieval import score_rows
from reid_torchmetrics.functional.retrieval.relevance import LABELS
from reid_torchmetrics.functional.world import DistributedMetricError, warn_once
from reid_torchmetrics.metrics.base import DistributedWorld
from tests.closeness import assert_values_close
from tests.distributed import recording
from tests.distributed.scenarios import scenario
from tests.profiles import examples
from tests.same_numbers.answers import named_values

SIZES = (2, 3)

pytestmark = pytest.mark.filterwarnings("ignore")


def together(size, function):
    """How `function` ends on each process."""
    outcomes, _ = recording.run(size, function)
    return outcomes


def by_threads(seed, size):
    """How a problem ended on all threads, which took the same collectives and have the values of one process."""
    drawn = scenario(seed, size)
    outcomes, _ = recording.run(
        size, lambda world: drawn.outcome(world.process, world, distributed_available_fn=recording.is_shared)
    )
    end = ended([each.error and type(each.error).__name__ for each in outcomes])
    if end == "returned" and drawn.facts.get("ids") != "none":  # equal images would be in another order
        expected = values_of(drawn.alone(size))
        for outcome in outcomes:
            assert_values_close(values_of(outcome.value), expected)
    return end


def values_of(value):
    """All numbers and texts of a value by name, without the hash of queries that no process may have together."""
    return {name: part for name, part in named_values("value", value) if not name.endswith("query_hash")}


def ended(errors):
    """How all processes ended; raises if some raised and others did not."""
    if None in errors and set(errors) != {None}:
        raise recording.DivergedError(f"Some processes raise and others do not: {errors}.")
    return "returned" if None in errors else "raised"


def on_process(process, size, seeds):
    """The error of each problem on a process of a group, all of which took the same collectives."""
    warnings.simplefilter("ignore")
    told = []
    for seed in seeds:
        drawn, error = scenario(seed, size), None
        with recording.recorded():
            try:
                drawn.outcome(process, DistributedWorld(None, torch.device("cpu")))
            except recording.DivergedError as diverged:
                raise recording.DivergedError(f"seed {seed}: {diverged}") from None
            except Exception as caught:  # noqa: BLE001 - compared
                error = type(caught).__name__
        told.append(error)
    distributed.barrier()
    return told


@pytest.mark.parametrize("size", SIZES)
@examples(64)
@given(seed=st.integers(0, 10**9))
def test_threads_take_the_same_collectives_in_random_problems(size, seed):
    by_threads(seed, size)


def test_most_random_problems_are_right():
    ends = [by_threads(seed, 2) for seed in range(12)]
    assert ends.count("returned") > len(ends) / 2


@pytest.mark.parametrize("size", SIZES)
@examples(2)
@given(first=st.integers(0, 10**9))
def test_processes_of_a_group_take_the_same_collectives_in_random_problems(processes, size, first):
    for errors in zip(*processes.run(size, on_process, range(first, first + 8)), strict=True):
        ended(errors)


def test_random_problems_have_every_metric_and_every_label():
    drawn = [scenario(seed, 2) for seed in range(500)]
    exported = [getattr(reid_torchmetrics, name) for name in reid_torchmetrics.__all__]
    metrics = {kind for kind in exported if isinstance(kind, type) and issubclass(kind, (Metric, MetricCollection))}
    names = {each.name.partition(",")[0] for each in drawn}
    assert {kind.__name__ for kind in metrics - {EmbeddingMetric}} <= names
    labels = {label for each in drawn for label in each.facts.get("labels", ())}
    assert labels >= {*LABELS} - {"index"}


def groups_under_a_radius(world, moves):
    """One group of a process has members that lie apart; all groups of the others stay in place."""
    metric = ReIDMeanAP(protocol="pitts30k", distributed_available_fn=recording.is_shared)
    is_first = world.process == moves
    positions = torch.tensor([[0.0, 0.0], [0.0, 90.0 if is_first else 0.0], [0.0, 0.0]])
    groups = torch.tensor([0, 0, 1]) + 2 * world.process
    is_query = torch.tensor([False, False, True])
    metric.update(torch.eye(3), positions=positions, groups=groups, is_query=is_query)
    return metric.compute(), metric.results(), metric.nearest(2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("moves", [0, 1])
def test_groups_that_lie_apart_on_one_process_alone_are_evaluated_on_all(size, moves):
    outcomes = together(size, lambda world: groups_under_a_radius(world, moves))
    assert [outcome.error for outcome in outcomes] == [None] * size


def distances(query, gallery):
    return torch.cdist(query, gallery)


@pytest.mark.parametrize("disagreeing", [0, 1])
def test_one_process_alone_that_thinks_that_scores_are_distances_is_no_hang(monkeypatch, disagreeing):
    # All samples are on all processes for a drawn gallery, and rounding may differ between two machines.
    monkeypatch.setattr(score_rows, "seems_backwards", lambda *_: recording.process_of_thread() == disagreeing)

    def compute(_world):
        options = {"protocol": "vehicleid", "similarity": distances}
        metric = ReIDMeanAP(distributed_available_fn=recording.is_shared, **options)
        metric.update(torch.randn(12, 4), torch.arange(12) % 3)
        return metric.compute()

    assert [outcome.error for outcome in together(2, compute)] == [None] * 2


@pytest.mark.parametrize("undefined", [0, 1])
def test_one_process_alone_with_an_undefined_quality_is_no_hang(monkeypatch, undefined):
    def dead(self, moments, *_):
        return moments.new_tensor(torch.nan if recording.process_of_thread() == undefined else 0.0)

    monkeypatch.setattr(EmbeddingQuality, "_dead_dimensions", dead)

    def compute(_world):
        metric = EmbeddingQuality(("dead_dimensions",), distributed_available_fn=recording.is_shared)
        metric.update(torch.randn(4, 3))
        return metric.compute()

    assert [outcome.error for outcome in together(2, compute)] == [None] * 2


def test_counts_that_cannot_be_sent_are_an_error_on_all_processes():
    def total(world):
        return streams._sum_over_processes(world, lambda: (lambda: None) if world.process else 1)  # no pickle

    for outcome in together(2, total):
        assert isinstance(outcome.error, DistributedMetricError)
        assert str(outcome.error).startswith("process 1: ")


def test_counts_of_all_processes_are_added_up():
    outcomes = together(3, lambda world: streams._sum_over_processes(world, lambda: 10**world.process))
    assert [outcome.value for outcome in outcomes] == [111] * 3


# The recording world itself.


def another_order(world):
    calls = [lambda: world.guarded(lambda: None), lambda: world.broadcast(torch.zeros(2), 0)]
    for call in calls[:: 1 if world.process else -1]:
        call()


def another_shape(world):
    world.broadcast(torch.zeros(2 + world.process), 0)


def another_place(world):
    if world.process:
        streams._sum_over_processes(world, lambda: 1)
    else:
        warn_once(world, "nothing", "nothing", lambda: False)


def one_more(world):
    for _ in range(1 + world.process):
        world.guarded(lambda: None)


DIFFERENT = [another_order, another_shape, another_place, one_more]


@pytest.mark.parametrize("function", DIFFERENT)
@pytest.mark.parametrize("size", SIZES)
def test_a_recording_world_shows_what_all_processes_did_when_they_differ(function, size):
    with pytest.raises(recording.DivergedError) as caught:
        recording.run(size, function)
    for process in range(size):
        assert f"process {process}: " in str(caught.value)


def differs_in_group(process, size):
    warnings.simplefilter("ignore")
    values = torch.zeros(2)
    try:
        with recording.recorded():
            if process == 0:
                distributed.all_reduce(values)
            else:
                distributed.broadcast(values, 0)
    except recording.DivergedError as error:
        return str(error)
    return "equal"


def test_a_recorded_group_shows_what_all_processes_did_when_they_differ(processes):
    for text in processes.run(2, differs_in_group):
        assert "process 0: all_reduce" in text
        assert "process 1: broadcast" in text

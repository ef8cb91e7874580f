"""Labels that users name, in every metric and on any number of processes: the ranks of the slow reference."""

import contextlib
import random
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import (
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
    ReIDMINP,
    ReIDOpenSet,
    evaluate_scores,
)
from reid_torchmetrics.functional.world import DistributedMetricError
from tests.distributed import recording
from tests.distributed.failures import message_of
from tests.extra_labels import Problem, ranks_in
from tests.profiles import examples

SEEDS = st.integers(0, 2**32 - 1)


def filled(metric, problem: Problem, places, batch_size: int):
    """A metric that was given some samples of a problem, in batches."""
    for first in range(0, len(places), batch_size):
        part = places[first : first + batch_size]
        is_query = torch.tensor([place < problem.num_queries for place in part])
        labels = problem.labels(part)
        metric.update(problem.embeddings[part], **labels, is_query=is_query, index=torch.tensor(part))
    return metric


@pytest.mark.filterwarnings("ignore")
@examples(25)
@given(SEEDS, st.integers(1, 3), st.integers(1, 9))
def test_any_number_of_processes_has_the_ranks_of_the_slow_reference(seed, size, batch_size):
    problem, chosen = Problem(seed), random.Random(seed)  # noqa: S311 - nothing is to be kept secret
    holders = [chosen.randrange(size) for _ in problem.samples]
    expected = problem.expected_map()

    def results(world):
        shared = {"distributed_available_fn": recording.is_shared} if world.size > 1 else {}
        places = [place for place, process in enumerate(holders) if process == world.process]
        metric = ReIDMetrics(similarity="dot", **problem.options, **shared)
        return filled(metric, problem, places, batch_size).results(nearest=2)

    outcomes, _ = recording.run(size, results)
    for outcome in outcomes:
        assert outcome.error is None
        assert outcome.value["map"] == pytest.approx(expected, nan_ok=True, abs=1e-12)
        if outcome.value.counts.valid:
            assert ranks_in(outcome.value) == problem.expected()
        assert not set(outcome.value.label_names or ()) & set(problem.names)


METRICS = (
    lambda **options: ReIDCMC(2, **options),
    lambda **options: ReIDCMCCurve(4, **options),
    ReIDMeanAP,
    ReIDMINP,
    lambda **options: ReIDMeasure("precision_2", **options),
)


def values_of(metric, problem, process, size):
    """The value of a metric that holds every `size`-th sample."""
    made = METRICS[metric](similarity="dot", **problem.options)
    places = list(range(process, len(problem.samples), size))
    return filled(made, problem, places, 4).compute()


def all_values(process: int, size: int, seed: int):
    return [values_of(metric, Problem(seed), process, size).tolist() for metric in range(len(METRICS))]


def expected_values(problem: Problem):
    results = evaluate_scores(
        problem.scores, **problem.of_both(), **problem.options, reports=("map", "minp", "precision_2", "rank_2")
    )
    return [results["rank_2"], results.cmc[:4].tolist(), results["map"], results["minp"], results["precision_2"]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [1, 4, 8])
def test_every_metric_has_the_value_of_the_function_on_one_and_two_real_processes(processes, seed):
    expected = expected_values(Problem(seed))
    assert expected[2] == pytest.approx(Problem(seed).expected_map())
    for values in (all_values(0, 1, seed), *processes.run(2, all_values, seed)):
        for value, wanted in zip(values, expected, strict=True):
            assert value == pytest.approx(wanted, abs=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_an_open_set_takes_candidates_from_the_rules():
    metric = ReIDOpenSet(fpir=1.0, must_agree=("side",))
    query, gallery = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    metric.update(query, [7, 8], is_query=True, labels={"side": ["left", "left"]})
    metric.update(gallery, [7, 8], is_query=False, labels={"side": ["left", "right"]})
    assert metric.compute() == 1  # the mate of the second query is on the other side, so that it has none


def kinds(process: int, size: int, names_of_other: bool, rules_differ: bool) -> str:
    """The message on each process where the second one has another kind of label, or other rules."""
    is_other = process == 1
    options = {"must_differ": ("side",)} if is_other and rules_differ else {"must_agree": ("side",)}
    metric = ReIDMeanAP(**options)
    side = ["left", "right"] if is_other and names_of_other else [0, 1]
    metric.update(torch.eye(2), [7, 8], is_query=torch.tensor([True, False]), labels={"side": side})
    return message_of(metric.compute)


def test_other_kinds_and_other_rules_on_a_process_are_an_error_of_all(processes):
    said = "All processes must have the same kind of `labels['side']`; got process 0: integers; process 1: names."
    assert processes.run(2, kinds, True, False) == [said] * 2
    for message in processes.run(2, kinds, False, True):
        assert "must_agree" in message
        assert "('side',)" in message


def refused(process: int, size: int) -> str:
    metric = ReIDMeanAP(must_agree=("side",))
    labels = {"labels": {"side": [0, 1]}} if process == 0 else {"labels": {"sid": [0, 1]}}
    with contextlib.suppress(ValueError):
        metric.update(torch.eye(2), [7, 8], is_query=torch.tensor([True, False]), **labels)
    return message_of(metric.compute)


def test_a_batch_that_one_process_refuses_is_an_error_of_all(processes):
    said = "process 1: ValueError: `labels` must hold 'side', which `must_agree` names; got 'sid'."
    assert all(said in message for message in processes.run(2, refused))


def test_a_process_without_samples_learns_the_labels():
    def results(world):
        metric = ReIDMetrics(must_agree=("side", "plate"), distributed_available_fn=recording.is_shared)
        if world.process == 1:
            labels = {"side": ["l", "r", "l"], "plate": [1, 1, 1]}
            is_query = torch.tensor([True, False, False])
            metric.update(torch.eye(3), [7, 7, 7], is_query=is_query, labels=labels)
        return metric.results()

    outcomes, _ = recording.run(2, results)
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert [ranks_in(outcome.value) for outcome in outcomes] == [[([1], 1)]] * 2


def test_no_samples_at_all_are_warned_of():
    metric = ReIDMeanAP(must_agree=("side", "plate"))
    metric.update(torch.empty((0, 2)), [], is_query=True, labels={"side": [], "plate": []})
    with pytest.warns(UserWarning, match="No query can be evaluated"):
        assert metric.compute().isnan()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "`labels` must be given for `must_agree` ('side',); got none."),
        ({"side": ["left", "right"]}, "`labels['side']` must be names in every batch, or integers in every batch;"),
        ({"side": [0]}, "`labels` must hold labels of 2 samples; got 1."),
        ({"side": [0, 1], "view": [0, 1]}, "`labels` must hold no label but those that `must_agree` or `must_differ`"),
    ],
)
@pytest.mark.parametrize("metric", [ReIDMeanAP, ReIDMetrics])
def test_batches_whose_labels_do_not_fit_are_refused(metric, labels, message):
    made = metric(must_agree=("side",))
    made.update(torch.eye(2), [7, 8], is_query=True, labels={"side": [0, 1]})
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        made.update(torch.eye(2), [7, 8], is_query=False, labels=labels)


def test_labels_without_a_rule_are_refused():
    message = "`labels` must hold no label but those that `must_agree` or `must_differ` names, none; got 'side'."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ReIDMeanAP().update(torch.eye(2), [7, 8], is_query=True, labels={"side": [0, 1]})


def test_merged_metrics_have_one_kind_of_labels():
    first, second = ReIDMeanAP(must_agree=("side",)), ReIDMeanAP(must_agree=("side",))
    first.update(torch.eye(2), [7, 8], is_query=True, labels={"side": [0, 1]})
    second.update(torch.eye(2), [7, 8], is_query=False, labels={"side": ["left", "right"]})
    first.merge_state(second)
    with pytest.raises(ValueError, match=r"`labels\['side'\]` must be names for all samples, or integers for all"):
        first.compute()


def test_samples_of_one_index_must_have_the_same_labels():
    metric = ReIDMeanAP(must_agree=("side",))
    index = torch.tensor([3])
    metric.update(torch.ones(1, 2), [7], is_query=True, index=index, labels={"side": ["left"]})
    metric.update(torch.ones(1, 2), [7], is_query=True, index=index, labels={"side": ["right"]})
    with pytest.raises((ValueError, DistributedMetricError), match="`index` must be the number of a sample"):
        metric.compute()


@pytest.mark.filterwarnings("ignore")
def test_metrics_with_other_rules_do_not_share_a_ranking():
    labels = {"side": [0, 0, 1]}
    is_query = torch.tensor([True, False, False])
    embeddings = torch.tensor([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2]])
    values = []
    for options in ({"must_agree": ("side",)}, {"must_differ": ("side",)}):
        metric = ReIDMeanAP(**options, empty_target_action="neg")
        metric.update(embeddings, [7, 7, 8], is_query=is_query, labels=labels)
        values.append(float(metric.compute()))
    assert values == [1.0, 0.0]

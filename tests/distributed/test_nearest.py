"""Rank lists of any number of processes are those of one, which `tests/functional` compares with plain loops."""

import warnings
from dataclasses import fields, replace

import pytest
import torch

from reid_torchmetrics import DistributedMetricError, ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import RankLists
from reid_torchmetrics.functional.retrieval.evaluation import list_samples
from reid_torchmetrics.functional.world import ALONE
from tests.distributed import threads
from tests.distributed.problems import Problem, problem
from tests.distributed.test_laws import spread
from tests.distributed.test_scaling import Counted
from tests.profiles import of_each


def as_lists(found: RankLists, names=None) -> dict[str, list | None]:
    """Values by name; NaN is None, so that lists can be compared."""
    names = names or [field.name for field in fields(RankLists)]
    values = {name: getattr(found, name) for name in names}
    return {name: None if each is None else _plain(each.tolist()) for name, each in values.items()}


def _plain(value):
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if value != value else value  # noqa: PLR0124 - NaN


def listed(given: Problem, world, k=3, queries=None) -> dict[str, list | None]:
    """What the metric of a process lists with the others."""
    metric = given.together(world.process) if world.size > 1 else given.alone()
    options = metric._ranking_options()
    found = list_samples(
        metric._accepted_samples().samples, options, world, k=k, queries=queries, max_bytes=metric.max_bytes
    )
    return as_lists(found)


def listed_by_processes(process, size, problems, k):
    """The same of metrics over gloo."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [as_lists(given.together(process).nearest(k)) for given in problems]


@pytest.mark.parametrize(("size", "k"), [(2, 4), (3, 2), (3, 40)])
def test_lists_are_those_of_one_process(size, k):
    for seed in of_each(range(12), suite=6):
        given = problem(5000 * size + seed, size)
        alone = listed(given, ALONE, k)
        assert threads.run(size, lambda world, given=given: listed(given, world, k)) == [alone] * size, seed


@pytest.mark.parametrize("size", [2, 3])
def test_metrics_on_processes_of_their_own_list_the_same(processes, size):
    problems = [problem(7000 * size + seed, size) for seed in range(3)]
    wanted = [listed(given, ALONE, 4) for given in problems]
    assert processes.run(size, listed_by_processes, problems, 4) == [wanted] * size


def test_without_index_numbers_are_positions_process_by_process():
    for seed in of_each(range(8), suite=3):
        given = replace(problem(seed, 3), index=None)
        found = threads.run(3, lambda world, given=given: listed(given, world))
        assert found == [listed(given, ALONE)] * 3


def test_chosen_queries_have_the_lists_that_they_have_among_all():
    for seed in of_each(range(8), suite=4):
        given = problem(9000 + seed, 2)
        metric = given.alone()
        every = metric.nearest(3)
        rows = torch.randint(0, max(1, len(every)), (4 if len(every) else 0,))
        chosen = as_lists(every.select(rows))
        assert as_lists(metric.nearest(3, rows)) == chosen
        assert threads.run(2, lambda world, given=given, rows=rows: listed(given, world, 3, rows)) == [chosen] * 2


def test_large_galleries_of_ties_are_listed_alike():
    rows = torch.randn(12, 37, generator=torch.Generator().manual_seed(0))
    embeddings = rows[torch.randint(0, 12, (60,), generator=torch.Generator().manual_seed(1))]
    for ties in of_each(("stable", "optimistic", "pessimistic")):
        given = spread(embeddings, [30, 29, 1], "cosine", ties, leave_one_out=True, max_bytes=(1 << 20, 9000))
        assert threads.run(3, lambda world, given=given: listed(given, world, 20)) == [listed(given, ALONE, 20)] * 3


@pytest.mark.parametrize("size", [2, 4, 8])
def test_an_item_of_a_list_is_received_twice_on_any_number_of_processes(size):
    """Its score and number in 8 bytes, once to be merged and once from who merged it, and as much for its identity."""
    embeddings = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))

    def received(world, k):
        own, counted = torch.arange(world.process, 40, size), Counted(world)
        metric = ReIDMeanAP()
        metric.update(embeddings[own], own % 4, index=own)
        samples, options = metric._accepted_samples().samples, metric._ranking_options()
        list_samples(samples, options, counted, k=k, queries=None, max_bytes=None)
        return sum(counted.calls)

    found = threads.run(size, lambda world: received(world, 5) - received(world, 1))
    assert found == [pytest.approx(40 * 4 * (2 * 8 + 2 * 8) * (size - 1) / size)] * size


def _asks_for_other_things(process, size):
    metric = ReIDMeanAP()
    metric.update(torch.eye(3), torch.tensor([1, 1, 2]))
    messages = []
    for call in (
        lambda: metric.nearest(2 + process),
        lambda: metric.nearest(2) if process else metric.compute(),
        lambda: metric.nearest(2, torch.tensor([process])),
        lambda: metric.nearest(0 if process else 1),
        lambda: metric.results(nearest=process),
    ):
        with pytest.raises(DistributedMetricError) as raised:
            call()
        messages.append(str(raised.value))
    return messages


def test_processes_that_ask_for_other_things_all_learn_of_it(processes):
    first, second = processes.run(2, _asks_for_other_things)
    assert first == second
    assert first == [
        "All processes must have the same `k`; got process 0: 2; process 1: 3.",
        (
            "All processes must call the same method of the same class; got process 0: `ReIDMeanAP.compute`;"
            " process 1: `ReIDMeanAP.nearest`."
        ),
        "All processes must have the same `queries`; got process 0: [0]; process 1: [1].",
        "process 1: ValueError: `k` must be at least 1; got 0.",
        "All processes must have the same `nearest`; got process 0: 0; process 1: 1.",
    ]


def _results_of(process, size, given):
    metrics = ReIDMetrics()
    for positions in given.seen if size == 1 else [given.seen[process]]:
        part = torch.tensor(positions, dtype=torch.int64)
        labels = given.identities[part], given.cameras[part]
        metrics.update(given.embeddings[part], *labels, is_query=given.is_query[part], index=part)
    results = metrics.results(nearest=4, camera_pairs=True)
    pairs = {name: (_plain(each.mean.tolist()), each.num_valid.tolist()) for name, each in results.camera_pairs.items()}
    return as_lists(results.nearest(2)), pairs, results.query_index.tolist(), results.confident_mistakes(3).tolist()


def test_results_hold_what_they_were_asked_to_hold(processes):
    given = replace(spread(torch.randn(40, 8), [13, 13, 14], "cosine"), cameras=torch.arange(40) % 3)
    alone = processes.run(1, _results_of, given)
    assert processes.run(3, _results_of, given) == alone * 3


def _lists_of_all(process, size):
    metric = ReIDMeanAP()
    own = torch.arange(3) + 3 * process
    metric.update(torch.randn(3, 4), own % 2, index=own)
    results = metric.results(nearest=10**12)
    return [metric.nearest(10**12).index.shape, results.nearest(10**9).index.shape, results.nearest(4).index.shape]


def test_a_k_beyond_the_galleries_of_all_processes_is_the_length_of_them(processes):
    assert processes.run(2, _lists_of_all) == [[(6, 6), (6, 6), (6, 4)]] * 2


def test_identities_and_cameras_beyond_32_bits_are_listed_as_they_are(processes):
    """The items of process 0 fit 32 bits, and those of process 1 do not."""
    for lists in processes.run(2, _large_labels):
        assert lists["identities"] == [[5, 2**40 + 5], [5, 2**40 + 5]]
        assert lists["cameras"] == [[3, -(2**50)], [3, -(2**50)]]
        assert lists["query_identities"] == [5, 2**40 + 5]
        assert lists["query_cameras"] == [7, 2**60]
        assert lists["first_positive_camera"] == [3, -(2**50)]
        assert lists["query_index"] == [0, 2**62]
        assert lists["index"] == [[1, 2**62 + 1], [1, 2**62 + 1]]


def _large_labels(process, size):
    identity, cameras = [5, 2**40 + 5][process], [[7, 3], [2**60, -(2**50)]][process]
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.1 * process]])  # the item of process 0 is the better one for both
    first = [0, 2**62][process]
    metric = ReIDMeanAP()
    metric.update(
        rows,
        torch.tensor([identity] * 2),
        torch.tensor(cameras),
        is_query=torch.tensor([True, False]),
        index=torch.tensor([first, first + 1]),
    )
    return as_lists(metric.nearest(2))

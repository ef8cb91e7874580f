"""Rank lists of any number of processes are those of one, which `tests/functional` compares with plain loops."""

from dataclasses import fields

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
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

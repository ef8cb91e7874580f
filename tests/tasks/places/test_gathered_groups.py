"""Groups that lie on several processes: ranks are those of one process and of the reference, errors are of all."""

from dataclasses import replace

import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval.evaluation import list_samples
from reid_torchmetrics.functional.world import ALONE, DistributedMetricError
from tests.closeness import assert_close
from tests.distributed import threads
from tests.distributed.problems import problem
from tests.profiles import of_each


def grouped(seed, size):
    """A problem with one to three groups for each identity and camera."""
    given = problem(seed, size)
    total, generator = len(given.identities), torch.Generator().manual_seed(seed)
    cameras = torch.zeros(total, dtype=torch.int64) if given.cameras is None else given.cameras
    number = torch.randint(0, 3, (total,), generator=generator)
    is_query = torch.rand(total, generator=generator) < 0.4 if given.is_query is None else given.is_query
    return replace(given, is_query=is_query, groups=100 * given.identities + 10 * cameras + number - 50)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.slow
def test_lists_show_the_best_members_on_any_number_of_processes(size):
    for seed in of_each(range(15), suite=8):
        given = grouped(700 * size + seed, size)

        def lists(world, given=given):
            metric = given.together(world.process) if world.size > 1 else given.alone()
            options = {"k": 4, "queries": None, "max_bytes": metric.max_bytes}
            return list_samples(metric._accepted_samples().samples, metric._ranking_options(), world, **options)

        alone = lists(ALONE)
        for found in threads.run(size, lists):
            for name in ("index", "identities", "scores", "first_positive_rank", "first_positive_index"):
                assert_close(getattr(found, name), getattr(alone, name), rtol=1e-6, atol=1e-6, equal_nan=True)


def refused(process, size, batches):
    """What a collection says of these batches on this process, and what it computes after a reset."""
    metrics = ReIDMetrics()
    metrics.update(torch.eye(3), torch.arange(3), is_query=True)
    metrics.update(torch.eye(3), torch.arange(3), is_query=False, **batches[process])
    try:
        metrics.compute()
    except (ValueError, DistributedMetricError) as error:
        return str(error)


def test_members_that_disagree_and_groups_on_some_processes_are_errors_on_all(processes):
    same = {"groups": torch.tensor([7, 8, 9])}
    errors = processes.run(2, refused, [same, {"groups": torch.tensor([8, 7, 9])}])
    assert len({*errors}) == 1
    # Which process owns a group decides which of them is named.
    assert "`groups` must have members of one identity each; got group" in errors[0]
    came = "`groups` must be given for all gallery items or for none; got 3 with and 3 without."
    assert processes.run(2, refused, [same, {}]) == [came] * 2


def only_queries(process, size):
    """A process without gallery items gives no groups."""
    metrics = ReIDMetrics(ranks=(1,))
    if process == 0:
        metrics.update(torch.eye(3), torch.arange(3), is_query=True)
    else:
        metrics.update(torch.eye(3), torch.arange(3), is_query=False, groups=torch.arange(3))
    return [float(value) for value in metrics.compute().values()]


def test_a_process_that_has_only_queries_needs_no_groups(processes):
    assert processes.run(2, only_queries) == [[1.0, 1.0, 1.0]] * 2

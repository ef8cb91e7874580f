"""Near duplicates on any number of processes are those of one, which `tests/tasks` compares with plain loops."""

import warnings
from dataclasses import replace

import pytest
import torch

from reid_torchmetrics import DistributedMetricError, ReIDMeanAP
from reid_torchmetrics.functional.world import ALONE
from reid_torchmetrics.tasks import Duplicates
from reid_torchmetrics.tasks.duplicates import find_pairs
from reid_torchmetrics.tasks.walks import pair_samples
from tests.distributed import threads
from tests.distributed.problems import Problem, problem
from tests.distributed.test_laws import spread
from tests.profiles import of_each

THRESHOLDS = {"cosine": 0.9, "euclidean": 1.01, "dot": 0.99}


def as_lists(found: Duplicates) -> tuple:
    return found.query.tolist(), found.gallery.tolist(), found.score.tolist(), found.within_one_set


def threshold_of(given: Problem) -> float:
    return THRESHOLDS.get(given.options["similarity"], -1.01)


def found_in(world, given: Problem) -> tuple:
    """What the metric of a process finds with the others."""
    metric = given.together(world.process) if world.size > 1 else given.alone()
    samples, options = metric._accepted_samples().samples, metric._ranking_options()
    pairs = pair_samples(samples, options, world, max_bytes=metric.max_bytes)
    return as_lists(find_pairs(pairs, threshold_of(given), given.options["similarity"]))


def found_by_processes(process, size, problems):
    """The same of metrics over gloo."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [as_lists(given.together(process).duplicates(threshold_of(given))) for given in problems]


@pytest.mark.parametrize("size", [2, 3])
def test_pairs_are_those_of_one_process(size):
    num_pairs = []
    for seed in range(15):
        given = problem(5000 * size + seed, size)
        alone = found_in(ALONE, given)
        num_pairs.append(len(alone[0]))
        assert threads.run(size, lambda world, given=given: found_in(world, given)) == [alone] * size, seed
    assert sum(num_pairs) > 50


@pytest.mark.parametrize("size", [2, 3])
def test_metrics_on_processes_of_their_own_find_the_same(processes, size):
    problems = [problem(7000 * size + seed, size) for seed in range(4)]
    wanted = [found_in(ALONE, given) for given in problems]
    assert processes.run(size, found_by_processes, problems) == [wanted] * size


def test_without_index_numbers_are_positions_process_by_process():
    for seed in of_each(range(8), suite=3):
        given = replace(problem(seed, 3), index=None)
        assert threads.run(3, lambda world, given=given: found_in(world, given)) == [found_in(ALONE, given)] * 3


def test_queries_that_are_sent_in_blocks_find_the_same():
    rows = torch.randn(12, 37, generator=torch.Generator().manual_seed(0))
    embeddings = rows[torch.randint(0, 12, (60,), generator=torch.Generator().manual_seed(1))]
    for leave_one_out in (True, False):
        given = spread(embeddings, [30, 29, 1], "cosine", leave_one_out=leave_one_out, max_bytes=(1 << 20, 3000))
        found = threads.run(3, lambda world, given=given: found_in(world, given))
        assert found == [found_in(ALONE, given)] * 3
        assert len(found[0][0]) > 60


def test_a_query_that_is_in_the_gallery_is_no_copy_of_itself():
    metric = ReIDMeanAP()
    points = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    metric.update(points[:2], torch.tensor([1, 2]))
    metric.update(points[2:], torch.tensor([1]), is_query=False)
    assert as_lists(metric.duplicates()) == ([0], [2], [1.0], False)


def _asks_for_another_threshold(process, size):
    metric = ReIDMeanAP()
    metric.update(torch.eye(3), torch.tensor([1, 1, 2]))
    messages = []
    for threshold in (0.5 + process / 4, 2.0 * process):
        with pytest.raises(DistributedMetricError) as raised:
            metric.duplicates(threshold)
        messages.append(str(raised.value))
    return messages


def test_processes_that_ask_for_other_thresholds_all_learn_of_it(processes):
    said = [
        "All processes must have the same `threshold`; got process 0: 0.5; process 1: 0.75.",
        "process 1: ValueError: `threshold` must lie in [-1, 1] under 'cosine'; got 2.0.",
    ]
    assert processes.run(2, _asks_for_another_threshold) == [said] * 2

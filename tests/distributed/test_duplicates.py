"""Near duplicates on any number of processes are those of one, which `tests/tasks` compares with plain loops."""

import torch

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.functional.world import ALONE
from reid_torchmetrics.tasks import Duplicates
from reid_torchmetrics.tasks.duplicates import find_pairs
from reid_torchmetrics.tasks.walks import pair_samples
from tests.distributed import threads
from tests.distributed.problems import Problem
from tests.distributed.test_laws import spread

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

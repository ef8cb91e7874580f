"""Samples with several labels on any number of processes have the numbers of one process."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate
from reid_torchmetrics.functional.retrieval.evaluation import find_protocol, rank_samples
from reid_torchmetrics.functional.retrieval.measures import measure
from reid_torchmetrics.functional.world import ALONE
from tests.distributed import threads
from tests.distributed.failures import message_of
from tests.profiles import examples
from tests.strategies import ALL_TIES

REPORTS = ("map", "ndcg_3", "acg_3", "rank_1", "precision_2")
PROTOCOL = find_protocol("hashing").with_options({"reports": REPORTS, "gain": "exponential"})


class Problem:
    """Samples with labels, of whom each process sees some; a sampler repeated a few."""

    def __init__(self, seed: int, size: int) -> None:
        chosen = random.Random(seed)  # noqa: S311 - nothing is to be kept secret
        total, num_labels = chosen.randint(1, 24), chosen.choice([2, 63, 64, 130])
        share = chosen.choice([0.05, 0.4])
        rows = [[chosen.random() < share for _ in range(num_labels)] for _ in range(total)]
        self.labels = torch.tensor(rows)
        self.embeddings = torch.tensor([[chosen.randrange(3) for _ in range(3)] for _ in range(total)]).float()
        self.is_query = torch.tensor([chosen.random() < 0.4 for _ in range(total)])
        holders = [chosen.sample(range(size), min(size, 1 + (chosen.random() < 0.1))) for _ in range(total)]
        self.seen = [[sample for sample, who in enumerate(holders) if process in who] for process in range(size)]
        self.options = {"ties": chosen.choice(ALL_TIES), "max_bytes": chosen.choice([1, 500, 1 << 28])}

    def metric(self, positions: list[int]) -> ReIDMeanAP:
        metric = ReIDMeanAP(protocol=PROTOCOL, similarity="dot", **self.options)
        for first in range(0, len(positions), 5):
            part = torch.tensor(positions[first : first + 5])
            metric.update(self.embeddings[part], self.labels[part], is_query=self.is_query[part], index=part)
        return metric

    def values(self, world, positions: list[int]) -> list[list[float]]:
        metric = self.metric(positions)
        options, held = metric._ranking_options(), metric._accepted_samples()
        ranks = rank_samples(held.samples, options, world, max_bytes=metric.max_bytes)[0].ranks
        return [[round(value, 12) for value in measure(name, ranks, PROTOCOL).tolist()] for name in REPORTS]

    def expected(self) -> list[list[float]]:
        query, gallery = self.is_query.nonzero()[:, 0], (~self.is_query).nonzero()[:, 0]
        samples = (self.embeddings[query], self.embeddings[gallery], self.labels[query], self.labels[gallery])
        results = evaluate(*samples, protocol=PROTOCOL, similarity="dot", ties=self.options["ties"])
        return [[round(value, 12) for value in results.per_query[name].tolist()] for name in REPORTS]


@pytest.mark.filterwarnings("ignore")
@examples(50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_numbers_are_alike_on_any_number_of_processes(seed, size):
    problem = Problem(seed, size)
    total = len(problem.embeddings)
    shuffled = torch.randperm(total, generator=torch.Generator().manual_seed(seed)).tolist()
    expected = repr(problem.expected())  # NaN is not equal to itself
    assert repr(problem.values(ALONE, shuffled)) == expected
    if size > 1:
        together = threads.run(size, lambda world: repr(problem.values(world, problem.seen[world.process])))
        assert together == [expected] * size


def numbers(process: int, size: int) -> dict[str, float]:
    """Of a problem; the first process has no samples where there are others."""
    problem, metrics = Problem(5, 1), ReIDMetrics(protocol=PROTOCOL)
    positions = list(range(len(problem.embeddings)))
    own = positions if size == 1 else positions[process - 1 :: size - 1] if process else []
    if own:
        part = torch.tensor(own)
        metrics.update(problem.embeddings[part], problem.labels[part], is_query=problem.is_query[part], index=part)
    return {name: round(float(value), 6) for name, value in metrics.compute().items()}


def test_metrics_are_alike_on_real_processes(processes):
    wanted = numbers(0, 1)
    for size in (2, 3):
        assert processes.run(size, numbers) == [wanted] * size


def refused(process: int, size: int, kind: str) -> str:
    """The message while the processes hold other labels, or a sample has two kinds of them."""
    metric = ReIDMeanAP(similarity="dot")
    labels = {
        "another number": torch.eye(9)[:, : 9 - process].bool(),
        "identities": torch.arange(9) if process else torch.eye(9).bool(),
        "the same index": torch.eye(9).bool().roll(process, 0),
    }[kind]
    index = torch.arange(9) if kind == "the same index" else None
    metric.update(torch.eye(9), labels, is_query=torch.arange(9) < 3, index=index)
    return message_of(metric.compute)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("another number", "number of labels in `identities`"),
        ("identities", "number of labels in `identities`"),
        ("the same index", "`index` must be the number of a sample in its data set"),
    ],
)
def test_labels_that_differ_between_processes_are_refused_on_all(processes, kind, message):
    found = processes.run(2, refused, kind)
    assert found == [found[0]] * 2
    assert message in found[0]

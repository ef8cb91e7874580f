"""Names on any number of processes have the numbers of integers on one, and all processes get all names back."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import ReIDMetrics
from tests.distributed import recording
from tests.profiles import examples
from tests.reference.label_names import as_integers

NAMES = ["lynx_a", "Bo", "élan", "-1", "tiger 3", "ida"]


class Problem:
    """Samples with names, and the samples that each process sees, in an order of its own."""

    def __init__(self, seed: int, size: int) -> None:
        chosen = random.Random(seed)  # noqa: S311 - nothing is to be kept secret
        total = chosen.randint(1, 30)
        self.identities = [chosen.choice(NAMES) for _ in range(total)]
        self.cameras = [f"cam{chosen.randrange(3)}" for _ in range(total)]
        self.embeddings = torch.tensor([[chosen.randrange(4) for _ in range(3)] for _ in range(total)]).float()
        self.is_query = torch.tensor([chosen.random() < 0.4 for _ in range(total)])
        holders = [chosen.randrange(size) for _ in range(total)]
        self.seen = [[sample for sample, who in enumerate(holders) if who == process] for process in range(size)]
        for part in self.seen:
            chosen.shuffle(part)
        self.batch = chosen.randint(1, 8)

    def metric(self, places, identities, cameras, **options):
        metric = ReIDMetrics(**options)
        for first in range(0, len(places), self.batch):
            part = places[first : first + self.batch]
            labels = [identities[place] for place in part], [cameras[place] for place in part]
            index = torch.tensor(part)
            metric.update(self.embeddings[part], *labels, is_query=self.is_query[part], index=index)
        return metric


@pytest.mark.filterwarnings("ignore")
@examples(20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_numbers_and_names_are_alike_on_any_number_of_processes(seed, size):
    problem = Problem(seed, size)
    numbers, cameras = as_integers(problem.identities)[0], as_integers(problem.cameras)[0]
    expected = problem.metric(range(len(numbers)), numbers, cameras).results()
    queries = [place for place in range(len(numbers)) if problem.is_query[place]]

    def found(world):
        places = problem.seen[world.process]
        shared = {"distributed_available_fn": recording.is_shared} if world.size > 1 else {}
        metric = problem.metric(places, problem.identities, problem.cameras, **shared)
        return metric.results(nearest=3), metric.nearest(2)

    outcomes, _ = recording.run(size, found)
    for outcome in outcomes:
        assert outcome.error is None
        results, lists = outcome.value
        assert str(dict(results)) == str(dict(expected))
        if results.counts.not_ranked:
            continue
        columns = results._columns()
        assert columns.get("query_identities", []) == [problem.identities[place] for place in queries]
        for shown in (lists, results.nearest(2)):
            assert shown.names() == [
                [problem.identities[place] for place in row if place >= 0] for row in shown.index.tolist()
            ]

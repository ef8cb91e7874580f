"""Positions, clothes, sequences and identities on any number of processes are like the slow reference, and like one."""

import contextlib
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval.evaluation import rank_samples
from reid_torchmetrics.functional.retrieval.scores import DEFAULT_MAX_BYTES
from reid_torchmetrics.functional.world import ALONE
from tests.distributed import threads
from tests.distributed.failures import message_of
from tests.distributed.problems import RawRanks
from tests.paths import path
from tests.profiles import examples
from tests.reference.relevance import sort_gallery
from tests.reference.retrieval import positive_ranks

KEYS = {"identities": "identity", "cameras": "camera", "sequences": "sequence", "clothes": "clothes"}
OPTIONS = {"similarity": "dot", "junk_identities": ()}


class Problem:
    """Samples with some labels, of whom each process sees some; a sampler repeated a few."""

    def __init__(self, seed: int, size: int) -> None:
        chosen = random.Random(seed)  # noqa: S311 - nothing is to be kept secret
        total, num_axes = chosen.randint(0, 24), chosen.randint(1, 3)
        self.radius = chosen.choice([None, 0.0, 5.0, 25.0])
        self.options = OPTIONS | {"radius": self.radius}
        names = [name for name in KEYS if chosen.random() < 0.5]
        names += ["identities"] if self.radius is None and "identities" not in names else []
        self.labels: dict[str, Tensor] = {name: self._drawn(chosen, total, 3) for name in names}
        if "clothes" in names:
            self.options["clothes"] = chosen.choice(["keep", "drop_same", "drop_other"])
        if self.radius is not None or chosen.random() < 0.3:
            steps = [[1e6 + 5 * chosen.randint(0, 6) for _ in range(num_axes)] for _ in range(total)]
            self.labels["positions"] = torch.tensor(steps, dtype=torch.float64).reshape(total, num_axes)
        self.embeddings = torch.stack([self._drawn(chosen, total, 4) for _ in range(3)], dim=1).float()
        self.is_query = None if chosen.random() < 0.3 else self._drawn(chosen, total, 3) == 0
        holders = [chosen.sample(range(size), min(size, 1 + (chosen.random() < 0.1))) for _ in range(total)]
        self.seen = [[sample for sample, who in enumerate(holders) if process in who] for process in range(size)]
        self.max_bytes = chosen.choice([1, 500, DEFAULT_MAX_BYTES])
        self.batch_size = chosen.choice([1, 5, 100])

    @staticmethod
    def _drawn(chosen: random.Random, total: int, number: int) -> Tensor:
        return torch.tensor([chosen.randrange(number) for _ in range(total)], dtype=torch.int64)

    def metric(self, positions: list[int]) -> RawRanks:
        metric = RawRanks(max_bytes=self.max_bytes, **self.options)
        for first in range(0, len(positions), self.batch_size):
            part = torch.tensor(positions[first : first + self.batch_size])
            given = {name: values[part] for name, values in self.labels.items()}
            is_query = None if self.is_query is None else self.is_query[part]
            metric.update(self.embeddings[part], **given, is_query=is_query, index=part)
        return metric

    def ranks(self, world, positions: list[int]) -> list[list[int]]:
        metric = self.metric(positions)
        options = metric._ranking_options()
        ranks = rank_samples(metric._accepted_samples().samples, options, world, max_bytes=self.max_bytes)[0].ranks
        return [part.tolist() for part in ranks.rank.split(ranks.num_positives.tolist())]

    def expected(self) -> list[list[int]]:
        rules = {name: self.options[name] for name in ("clothes", "radius", "junk_identities") if name in self.options}
        total = range(len(self.embeddings))
        columns = {KEYS.get(name, "coordinates"): values.tolist() for name, values in self.labels.items()}
        samples = [{key: values[place] for key, values in columns.items()} for place in total]
        queries = [place for place in total if self.is_query is None or self.is_query[place]]
        gallery = [place for place in total if self.is_query is None or not self.is_query[place]]
        found = []
        for place in queries:
            itself = {"position": place} if self.is_query is None else {}
            sorted_ = sort_gallery(samples[place] | itself, [samples[each] for each in gallery], **rules)
            scores = (self.embeddings[gallery] @ self.embeddings[place]).tolist()
            found.append(positive_ranks(scores, sorted_.positive, sorted_.negative))
        return found


@pytest.mark.filterwarnings("ignore")
@examples(60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from([1, 1 << 20]))
def test_ranks_are_those_of_the_slow_reference_in_any_order_and_on_any_number_of_processes(seed, size, at_a_time):
    problem = Problem(seed, size)
    total = len(problem.embeddings)
    shuffled = torch.randperm(total, generator=torch.Generator().manual_seed(seed)).tolist()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(*path("labeled_pairs"), at_a_time)
        alone = problem.ranks(ALONE, shuffled)
        assert alone == (problem.expected() if alone else alone)
        if size > 1:
            together = threads.run(size, lambda world: problem.ranks(world, problem.seen[world.process]))
            assert together == [alone] * size


PLACES = torch.arange(40)[:, None] * torch.tensor([3.0, 4.0]) + 1e6
EMBEDDINGS = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))
IS_QUERY = torch.arange(40) % 3 == 0


def rates(process: int, size: int, *, first: int = 0) -> tuple[dict[str, float], list[list[int]]]:
    """Of samples without identities; the processes below `first` have none."""
    metrics = ReIDMetrics(protocol="pitts30k")
    if process >= first:
        own = torch.arange(process - first, 40, size - first)
        metrics.update(EMBEDDINGS[own], positions=PLACES[own], is_query=IS_QUERY[own], index=own)
    found, lists = metrics.compute(), metrics.nearest(3)
    return {name: float(value) for name, value in found.items()}, lists.index.tolist()


@pytest.mark.parametrize("first", [0, 1])
def test_metrics_without_identities_are_alike_on_real_processes(processes, first):
    wanted = rates(0, 1)
    for size in (2, 3):
        assert processes.run(size, rates_of, first) == [wanted] * size


def rates_of(process: int, size: int, first: int) -> tuple[dict[str, float], list[list[int]]]:
    return rates(process, size, first=first)


def refused(process: int, size: int, kind: str) -> tuple[str, list[int]]:
    """The message while something is amiss, and the samples that are held."""
    metric = ReIDMeanAP(protocol="pitts30k")
    batch = {"positions": PLACES[:9], "is_query": IS_QUERY[:9]}
    index = torch.arange(9)
    if process == 1:
        batch |= {
            "some processes": {"positions": None, "identities": torch.zeros(9, dtype=torch.int64)},
            "width": {"positions": PLACES[:9, :1]},
            "not finite": {"positions": PLACES[:9] / 0},
            "same index": {"positions": PLACES[1:10], "index": index},
            "same index, clothes": {"clothes": index + 1, "index": index},
        }[kind]
    elif "index" in kind:
        batch |= {"index": index} | ({"clothes": index} if "clothes" in kind else {})
    with contextlib.suppress(ValueError):
        metric.update(EMBEDDINGS[:9], **batch)
    return message_of(metric.compute), [len(getattr(metric, name)) for name in ("embeddings", "positions", "roles")]


REFUSED = {
    "some processes": ("process 1: ValueError: `positions` must be given for `radius` 25.0; got none.", 0),
    "width": ("All processes must have the same use of `positions`; got process 0: 2 columns; process 1: given.", 1),
    "not finite": ("process 1: ValueError: `positions` must be finite; got 9 rows with NaN or infinity, first [", 0),
    "same index": ("`index` must be the number of a sample in its data set, the same only for repetitions", 1),
    "same index, clothes": ("`index` must be the number of a sample in its data set, the same only for", 1),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_mistake_on_one_process_is_an_error_on_all_and_nothing_is_stored(processes, kind):
    message, num_stored = REFUSED[kind]
    for process, (said, stored) in enumerate(processes.run(2, refused, kind)):
        assert message in said
        assert stored == [num_stored if process == 1 else 1] * 3

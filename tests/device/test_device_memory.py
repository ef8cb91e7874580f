"""How much of a device's memory a ranking takes by default: a share of what is free."""

from unittest import mock

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.functional.retrieval import evaluate, rank_positives
from reid_torchmetrics.functional.retrieval.scores import DEFAULT_MAX_BYTES, EmbeddingScores, bytes_within
from reid_torchmetrics.tasks import RankCounter, expand_queries, rerank_k_reciprocal
from tests.device.problems import moved, problem
from tests.metrics.reid.samples import batches, fed

GIB = 1 << 30


def memory_stats(reserved: int, allocated: int) -> dict[str, dict[str, dict[str, int]]]:
    numbers = {"reserved_bytes": reserved, "allocated_bytes": allocated}
    return {name: {"all": {"current": number}} for name, number in numbers.items()}


@pytest.fixture
def here(simulated, monkeypatch):
    """The device, of which 70 GiB are free and 10 are kept by PyTorch, 2 of these with tensors."""
    told = {"mem_get_info": (70 * GIB, 80 * GIB), "memory_stats_as_nested_dict": memory_stats(10 * GIB, 2 * GIB)}
    for name, value in told.items():
        monkeypatch.setattr(torch.sim, name, lambda _, value=value: value, raising=False)
    return torch.device(simulated)


def test_the_memory_bound_is_an_eighth_of_the_free_or_unused_memory(here):
    assert bytes_within(None, here) == 78 * GIB // 8
    assert bytes_within(None, torch.device("cpu")) == DEFAULT_MAX_BYTES
    assert bytes_within(9, here) == 9


def test_the_memory_bound_without_memory_statistics_is_an_eighth_of_the_free_memory(here, monkeypatch):
    monkeypatch.delattr(torch.sim, "memory_stats_as_nested_dict")
    assert bytes_within(None, here) == 70 * GIB // 8


@pytest.mark.parametrize("error", [RuntimeError("does not support querying the available free memory"), None])
def test_a_device_that_does_not_tell_gives_as_much_as_a_cpu(here, monkeypatch, error):
    monkeypatch.delattr(torch.sim, "mem_get_info")
    if error is not None:
        monkeypatch.setattr(torch.sim, "mem_get_info", mock.Mock(side_effect=error), raising=False)
    assert bytes_within(None, here) == DEFAULT_MAX_BYTES


def test_little_memory_is_no_less_than_on_a_cpu(here, monkeypatch):
    monkeypatch.setattr(torch.sim, "mem_get_info", lambda _: (0, 80 * GIB))
    monkeypatch.setattr(torch.sim, "memory_stats_as_nested_dict", lambda _: memory_stats(2 * GIB, 2 * GIB))
    assert bytes_within(None, here) == DEFAULT_MAX_BYTES


def test_functions_and_metrics_take_it_and_ranks_do_not_depend_on_it(here, monkeypatch):
    given, asked, init = moved(problem(), here), [], EmbeddingScores.__init__
    expected = rank_positives(*given, max_bytes=5000)

    def seen(self, *args, max_bytes, **options):
        asked.append(max_bytes)
        init(self, *args, max_bytes=max_bytes, **options)

    monkeypatch.setattr(EmbeddingScores, "__init__", seen)
    found = rank_positives(*given), evaluate(*given).ranks
    assert all(torch.equal(each.rank, expected.rank) for each in found)
    fed(ReIDMeanAP().to(here), moved(batches(), here)).compute()
    expand_queries(*given[:2])
    rerank_k_reciprocal(*given[:2], k1=5, k2=2)
    RankCounter(given[0], *given[:1], *given[2:3] * 2).count(given[1], given[3] + 100, key=0)
    assert len(asked) > 5
    assert set(asked) <= {78 * GIB // 8, 78 * GIB // 16}  # re-ranking shares it

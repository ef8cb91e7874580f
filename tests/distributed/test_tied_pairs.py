"""Equal scores that decide the numbers are told of once, by one of the processes."""

import warnings

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP

IDENTITIES, IS_QUERY = torch.arange(240) // 2 % 6, torch.arange(240) < 40


def told(process: int, size: int, ties: str | None, collapsed_process: int) -> tuple[float, list[str]]:
    """The value of a metric, and what is said, where the samples of one process have one embedding, or of all (-1)."""
    embeddings = torch.randn(240, 8, generator=torch.Generator().manual_seed(0))
    shard = torch.arange(240) % 2
    embeddings[(shard == collapsed_process) | (collapsed_process < 0)] = 1.0
    metric = ReIDMeanAP(ties=ties)
    rows = torch.arange(240) if size == 1 else (shard == process)
    metric.update(embeddings[rows], IDENTITIES[rows], is_query=IS_QUERY[rows])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = metric.compute()
    return float(value), [str(warning.message) for warning in caught]


@pytest.mark.parametrize("collapsed_process", [-1, 0, 1])
def test_process_0_tells_it_once_wherever_the_ties_are(processes, collapsed_process):
    expected, _ = told(0, 1, None, collapsed_process)
    first, second = processes.run(2, told, None, collapsed_process)
    assert first[0] == second[0] == pytest.approx(expected, abs=1e-6)
    (line,) = first[1]
    assert "have equal scores" in line
    assert second[1] == []


def test_nobody_tells_it_where_ties_are_chosen(processes):
    assert [said for _, said in processes.run(2, told, "pessimistic", -1)] == [[], []]

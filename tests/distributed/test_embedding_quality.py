"""The quality of embeddings on several processes: the numbers of one, and the same errors on all."""

import pytest
import torch

from reid_torchmetrics import DistributedMetricError
from tests.tasks.metrics.test_embedding_quality import ALL, as_of, drawn, values


def each_step(process: int, size: int) -> list[dict[str, float]]:
    """A step of all processes, one that the last of them refuses, and all that is held."""
    embeddings, identities = drawn(7)
    metric = ALL(dist_sync_on_step=True).set_dtype(torch.float64)
    found = metric(embeddings[process::size], identities[process::size])
    with pytest.raises((ValueError, DistributedMetricError), match=r"`identities` must have shape \[9\]; got \[8\]"):
        metric(torch.eye(9), [*range(9 - process)])
    return [{name: float(value) for name, value in found.items()}, values(metric)]


def test_a_step_may_be_of_all_processes(processes):
    for found in processes.run(2, each_step):
        assert found == [as_of(drawn(7))] * 2

"""The quality of embeddings on several processes: the numbers of one, and the same errors on all."""

import math
import warnings
from unittest import mock

import pytest
import torch
from torch import Tensor, linalg

from reid_torchmetrics import DistributedMetricError, EmbeddingQuality
from reid_torchmetrics.tasks.metrics import embedding_quality
from tests.distributed.failures import message_of, out_of_memory
from tests.distributed.shards import SHARDINGS
from tests.tasks.metrics.test_embedding_quality import ALL, MEASURES, as_of, drawn, fed, values


def shared(process: int, size: int, sharding: str) -> dict[str, float]:
    own = torch.tensor(SHARDINGS[sharding](60, size)[process], dtype=torch.int64)
    return values(fed(ALL(), drawn(7), order=own))


@pytest.mark.parametrize(
    ("size", "sharding"), [(1, "contiguous"), (2, "round_robin"), (2, "empty_first"), (3, "uneven"), (3, "empty_last")]
)
def test_the_numbers_are_those_of_one_process(processes, size, sharding):
    for found in processes.run(size, shared, sharding):
        assert found == as_of(drawn(7))


def without_samples(process: int, size: int) -> tuple[list[float], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [float(value) for value in ALL().compute().values()]
    return found, [str(each.message) for each in caught]


def test_no_process_has_samples(processes):
    first, second = processes.run(2, without_samples)
    assert all(map(math.isnan, (*first[0], *second[0])))
    told = f"{', '.join(f'`{name}`' for name in MEASURES)} cannot be told of 0 embeddings, 0 of them NaN or infinite"
    assert (first[1], second[1]) == ([f"{told}, so the result is NaN."], [])


def refusals(process: int, size: int) -> list[str]:
    """What the processes say where one was given something that it, or all together, cannot use."""
    said = []
    metric = ALL()
    if process:
        with pytest.raises(ValueError, match="`identities` must be given"):
            metric.update(torch.eye(3))
    said.append(message_of(metric.compute))
    metric = fed(ALL(), (torch.randn(20, 2 + process), torch.arange(20)))
    said.append(message_of(metric.compute))
    metric = fed(EmbeddingQuality(MEASURES[process:2]), (torch.randn(20, 2), torch.arange(20)))
    said.append(message_of(metric.compute))
    metric = fed(EmbeddingQuality(), (torch.eye(2), torch.arange(2)))
    metric.merge_state(fed(EmbeddingQuality(), (torch.eye(2 + process), torch.arange(2 + process))))
    said.append(message_of(metric.compute))
    metric = fed(ALL(), drawn(7))
    for place, name in ((embedding_quality, "_sum_by_identity"), (linalg, "eigvalsh"), (Tensor, "exp_")):
        with out_of_memory(place, name) if process else mock.MagicMock():
            said.append(message_of(metric.compute))
    assert metric.compute()["hubness"].isfinite()
    return said


def test_an_error_of_one_process_is_an_error_on_all(processes):
    first, second = processes.run(2, refusals)
    assert first == second
    for text, message in zip(
        (
            "process 1: ValueError: `identities` must be given for the measure 'alignment'; got none.",
            "All processes must have the same embedding dimension; got process 0: 2; process 1: 3.",
            "All processes must have the same `measures`; got process 0: ('rankme', 'dead_dimensions'); process 1:",
            "process 1: ValueError: `embeddings` must all have the same dimension; got 2, 3.",
            *["process 1: OutOfMemoryError: simulated"] * 3,
        ),
        first,
        strict=True,
    ):
        assert text in message


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

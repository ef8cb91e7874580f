"""The quality of embeddings on several processes: the numbers of one, and the same errors on all."""

import math
import warnings
from unittest import mock

import pytest
import torch

from reid_torchmetrics import EmbeddingQuality
from reid_torchmetrics.metrics.reid import embedding_quality
from tests.distributed.failures import message_of, out_of_memory
from tests.distributed.shards import SHARDINGS
from tests.metrics.reid.test_embedding_quality import ALL, MEASURES, drawn, fed, values


def shared(process: int, size: int, sharding: str) -> dict[str, float]:
    embeddings, identities = drawn(7)
    own = torch.tensor(SHARDINGS[sharding](len(embeddings), size)[process], dtype=torch.int64)
    with mock.patch.object(embedding_quality, "_AT_A_TIME", 13):
        return values(fed(ALL(), (embeddings, identities), order=own))


@pytest.mark.parametrize(
    ("size", "sharding"), [(1, "contiguous"), (2, "round_robin"), (2, "empty_first"), (3, "uneven"), (3, "empty_last")]
)
def test_the_numbers_are_those_of_one_process(processes, size, sharding):
    expected = values(fed(ALL(), drawn(7)))
    for found in processes.run(size, shared, sharding):
        assert found == pytest.approx(expected, abs=1e-9)


def without_samples(process: int, size: int) -> tuple[list[float], list[str]]:
    metrics = ALL()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [float(value) for value in metrics.compute().values()]
    return found, [str(each.message) for each in caught]


def test_no_process_has_samples(processes):
    first, second = processes.run(2, without_samples)
    assert all(map(math.isnan, (*first[0], *second[0])))
    assert (first[1], second[1]) == (["No sample was given, so the result is NaN."], [])


def refusals(process: int, size: int) -> list[str]:
    """What the processes say where one was given something that it, or all together, cannot use."""
    said = []
    metrics = ALL()
    if process:
        with pytest.raises(ValueError, match="`identities` must be given"):
            metrics.update(torch.eye(3))
    said.append(message_of(metrics.compute))
    metrics = fed(ALL(), (torch.randn(20, 2 + process), torch.arange(20)))
    said.append(message_of(metrics.compute))
    metrics = fed(EmbeddingQuality(MEASURES[process:2]), (torch.randn(20, 2), torch.arange(20)))
    said.append(message_of(metrics.compute))
    metrics = fed(ALL(), drawn(7))
    for name in ("_directed", "normalize"):
        with out_of_memory(embedding_quality, name) if process else mock.MagicMock():
            said.append(message_of(metrics["uniformity" if name == "_directed" else "rankme"].compute))
    assert metrics["hubness"].compute().isfinite()
    return said


def test_what_one_process_refuses_is_an_error_on_all(processes):
    first, second = processes.run(2, refusals)
    assert first == second
    for text, message in zip(
        (
            "process 1: ValueError: `identities` must be given for the measure 'alignment'; got none.",
            "All processes must have the same embedding dimension; got process 0: 2; process 1: 3.",
            "All processes must have the same `measures`; got process 0: ('rankme', 'dead_dimensions'); process 1:",
            "process 1: OutOfMemoryError: simulated",
            "process 1: OutOfMemoryError: simulated",
        ),
        first,
        strict=True,
    ):
        assert text in message


def each_step(process: int, size: int) -> list[float]:
    embeddings, identities = drawn(7)
    metrics = ALL(dist_sync_on_step=True).set_dtype(torch.float64)
    found = metrics(embeddings[process::size], identities[process::size])
    again = values(metrics)
    assert again == pytest.approx({name: float(value) for name, value in found.items()}, abs=1e-9)
    return list(again.values())


def test_a_step_may_be_of_all_processes(processes):
    expected = values(fed(ALL(), drawn(7)))
    for found in processes.run(2, each_step):
        assert found == pytest.approx(list(expected.values()), abs=1e-9)

"""On a GPU: the same ranks as on the CPU, values on the metric's device. Skipped where there is none."""

import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import SIMILARITIES, TIE_POLICIES, rank_positives
from tests.metrics.samples import CLASSES, batches, fed

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def on_gpu(given: list[dict]) -> list[dict]:
    return [
        {name: value.cuda() if isinstance(value, torch.Tensor) else value for name, value in batch.items()}
        for batch in given
    ]


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("ties", TIE_POLICIES)
@pytest.mark.parametrize("max_bytes", [2000, 10**8])
def test_ranks_are_those_of_the_cpu(similarity, ties, max_bytes):
    query, gallery = torch.randint(-3, 4, (20, 8)).float(), torch.randint(-3, 4, (300, 8)).float()
    labels = [torch.arange(20) % 7, torch.arange(300) % 9, torch.arange(20) % 3, torch.arange(300) % 4]
    options = {"similarity": similarity, "ties": ties, "max_bytes": max_bytes}
    if similarity == "cosine":  # rounds differently there
        query, gallery = torch.randn(20, 8).double(), torch.randn(300, 8).double()
    found = rank_positives(query.cuda(), gallery.cuda(), *(values.cuda() for values in labels), **options)
    assert found.rank.is_cuda
    assert torch.equal(found.rank.cpu(), rank_positives(query, gallery, *labels, **options).rank)


@pytest.mark.parametrize("name", CLASSES)
def test_values_are_those_of_the_cpu_and_on_the_metrics_device(name):
    value = fed(CLASSES[name]().cuda(), on_gpu(batches())).compute()
    assert value.is_cuda
    torch.testing.assert_close(value.cpu(), fed(CLASSES[name](), batches()).compute())


def test_compute_on_cpu_moves_samples_as_they_come():
    metrics = fed(ReIDMetrics(compute_on_cpu=True).cuda(), on_gpu(batches()))
    assert not any(block.is_cuda for block in metrics["map"].embeddings)
    assert all(value.is_cuda for value in metrics.compute().values())


def test_deterministic_algorithms_are_enough():
    torch.use_deterministic_algorithms(mode=True)
    try:
        fed(ReIDMetrics().cuda(), on_gpu(batches())).compute()
    finally:
        torch.use_deterministic_algorithms(mode=False)

"""On a GPU: the same ranks as on the CPU, values on the metric's device. Skipped where there is none."""

import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import (
    SIMILARITIES,
    TIE_POLICIES,
    KReciprocal,
    QueryExpansion,
    evaluate,
    find_relevance,
    fnmr_at_fmr,
    rank_positives,
    score_embeddings,
    verify,
)
from tests.metrics.reid.samples import CLASSES, batches, fed

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


def problem() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    embeddings = [torch.randn(size, 8, generator=generator, dtype=torch.float64) for size in (20, 200)]
    identities, cameras = [torch.arange(20) % 7, torch.arange(200) % 9], [torch.arange(20) % 3, torch.arange(200) % 4]
    return embeddings, [*identities, *(labels + 1 for labels in cameras)]


OPTIONS = [
    {"ties": "expected"},
    {"protocol": "cuhk03_openreid"},
    {"protocol": "sysu_mm01_all_multi"},
    {"rerank": KReciprocal(k1=6, k2=3)},
    {"rerank": QueryExpansion(k=3)},
    {"multi_query": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_evaluation_is_that_of_the_cpu(options):
    embeddings, labels = problem()
    found = evaluate(*(values.cuda() for values in embeddings + labels), **options)
    expected = evaluate(*embeddings, *labels, **options)
    assert found.means == pytest.approx(expected.means, abs=1e-9)
    assert torch.equal(found.nearest(5).index.cpu(), expected.nearest(5).index)
    assert found.cmc.is_cuda


@pytest.mark.parametrize("similarity", ["cosine", "euclidean"])
def test_verification_is_that_of_the_cpu(similarity):
    embeddings, labels = problem()
    rates = []
    for device in ("cpu", "cuda"):
        relevance = find_relevance(*(values.to(device) for values in labels))
        scores = score_embeddings(*(values.to(device) for values in embeddings), relevance, similarity=similarity)
        found = verify(scores, relevance)
        missed = fnmr_at_fmr(scores, relevance, [0.1]).rates
        rates.append([*found.tar_at_far([0.01, 0.1]), found.equal_error_rate().rate, *missed])
    assert [float(rate) for rate in rates[0]] == pytest.approx([float(rate) for rate in rates[1]], abs=1e-9)

"""Re-ranking and drawn galleries need all samples on every process: the values are those of one process."""

import warnings
from unittest import mock

import pytest
import torch

from reid_torchmetrics import DistributedMetricError, GalleryDraw, KReciprocal, QueryExpansion, ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval.evaluation import ranking
from tests.distributed.shards import SHARDINGS, loaders
from tests.profiles import of_each

OPTIONS = {
    "k-reciprocal": {"rerank": KReciprocal(k1=6, k2=3)},
    "query expansion": {"rerank": QueryExpansion(k=3), "similarity": "euclidean"},
    "single shot": {"gallery_draw": GalleryDraw(1, "identity"), "ties": "stable"},
    "drawn by camera": {"gallery_draw": GalleryDraw(2, "identity_and_camera")},
    "two camera rules": {"protocol": "cuhk03_openreid"},
}


def fed_by(metric, roles, sharding, size, process, *, index):
    """The metric after the samples of a process."""
    for loader in loaders(roles):
        for batch in loader.batches(SHARDINGS[sharding](len(loader), size)[process], index=index):
            metric.update(**batch)
    return metric


def compute_all(process, size, roles):
    """Values, and the means of `results`."""
    found = {}
    for name, options in OPTIONS.items():
        for sharding, index in (("round_robin", True), ("padded_shuffled", True), ("empty_first", False)):
            together = fed_by(ReIDMetrics(**options), roles, sharding, size, process, index=index)
            found[name, sharding] = values_of(together), together.results().means
    return found


def values_of(metrics):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {key: float(value) for key, value in metrics.compute().items()}


@pytest.mark.parametrize(
    ("size", "roles"),
    of_each([(2, "two_loaders"), (2, "leave_one_out"), (3, "mixed"), (3, "leave_one_out"), (1, "mixed")], suite=3),
)
def test_every_process_computes_what_one_process_computes(processes, size, roles):
    outcomes = processes.run(size, compute_all, roles)
    alone = {
        name: values_of(fed_by(ReIDMetrics(**options), roles, "contiguous", 1, 0, index=False))
        for name, options in OPTIONS.items()
    }
    for outcome in outcomes:
        for case, (values, means) in outcome.items():
            assert values == pytest.approx(alone[case[0]], abs=1e-6), case
            assert means == pytest.approx(alone[case[0]], abs=1e-6), case


def compute_with_failure(process, size):
    metric = fed_by(ReIDMeanAP(rerank=KReciprocal(k1=6, k2=3)), "two_loaders", "round_robin", size, process, index=True)
    failing = mock.patch.object(ranking, "rank_problem", side_effect=torch.cuda.OutOfMemoryError("simulated"))
    try:
        with failing if process == size - 1 else mock.MagicMock():
            metric.compute()
    except DistributedMetricError as error:
        return str(error), float(metric.compute())
    return "no error", 0.0


def test_an_error_on_one_process_is_an_error_on_all(processes):
    outcomes = processes.run(2, compute_with_failure)
    assert outcomes[0] == outcomes[1]
    assert "process 1" in outcomes[0][0]
    assert outcomes[0][1] > 0

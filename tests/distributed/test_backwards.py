"""A similarity that returns distances is told of once, by one of the processes."""

import warnings

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import PROTOCOLS

EMBEDDINGS = torch.eye(24).repeat(3, 1)
IDENTITIES, IS_QUERY = torch.arange(72) % 24, torch.arange(72) < 24


def far(query, gallery):
    return (query[:, None] - gallery).norm(dim=2)


def near(query, gallery):
    return -far(query, gallery)


def told(process: int, size: int, similarity: str, options: dict) -> tuple[float, list[str]]:
    """The value of a metric with this process's share, and what is said meanwhile, by a second metric as well."""
    said = []
    for kind in (ReIDMetrics, ReIDMeanAP):
        metric = kind(similarity=globals()[similarity], **options)
        metric.update(EMBEDDINGS[process::size], IDENTITIES[process::size], is_query=IS_QUERY[process::size])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = metric.compute()
        said.append([str(warning.message) for warning in caught])
    return float(value), said


@pytest.mark.parametrize("options", [{}, {"ties": "stable"}, {"protocol": PROTOCOLS["cuhk03_openreid"]}])
def test_a_similarity_that_returns_distances_is_told_once_by_process_0(processes, options):
    expected, (text, again) = told(0, 1, "far", options)
    assert len(text) == 1
    assert text[0].startswith("`similarity` seems to return distances")
    assert again == text
    first, second = processes.run(2, told, "far", options)
    assert first == (pytest.approx(expected, abs=1e-6), [text, text])
    assert second == (first[0], [[], []])
    assert [said for _, said in processes.run(2, told, "near", options)] == [[[], []]] * 2

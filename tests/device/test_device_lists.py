"""Ranked lists and person search on a device: the values of the CPU, wherever the truth is."""

import pytest
import torch

from reid_torchmetrics.tasks import evaluate_lists, index_lists
from tests.device.problems import assert_as_on_the_cpu, moved

LISTS = torch.tensor([[3, 1, 1, 0], [2, 5, -1, -1], [-1, -1, -1, -1]])
TRUTHS = [
    ([[1, 7], [5], [4]], {}),
    (torch.tensor([[1, 7], [5, -1], [4, -1]]), {"num_positives": torch.tensor([2, 1, 3])}),
    ([{1: 2, 3: 0}, {5: 1}, {}], {"reports": ("ndcg_3", "bpref"), "gain": "exponential"}),
    ([{"easy": [1], "junk": [3]}, {"easy": [5]}, {"easy": []}], {"protocol": "roxford5k_easy"}),
]


@pytest.mark.parametrize(("positives", "options"), TRUTHS)
def test_lists_give_the_values_of_the_cpu(device, deterministic, positives, options):
    assert_as_on_the_cpu(
        device, lambda where: evaluate_lists(*moved((LISTS, positives), where), **moved(options, where))
    )


def test_lists_by_identities_give_the_values_of_the_cpu(device, deterministic):
    labels = {"query_identities": torch.arange(3), "gallery_identities": torch.arange(6) % 4 - 1}
    own = {"self_index": torch.tensor([1, -1, 3]), "protocol": "market1501", "same_camera": "keep"}
    assert_as_on_the_cpu(device, lambda where: evaluate_lists(*moved([LISTS], where), **moved(labels | own, where)))


def test_lists_of_an_engine_on_a_device_are_those_of_the_cpu(device, deterministic):
    distances = torch.tensor([[0.1, 0.2, 0.2, 0.3], [0.5, 0.6, torch.inf, torch.inf], [torch.inf] * 4])
    counts = torch.tensor([4, 2, 0])
    assert_as_on_the_cpu(device, lambda where: index_lists(*moved([LISTS, distances, counts], where)).lists)


def test_lists_of_python_are_evaluated_on_the_cpu():
    results = evaluate_lists({"a": ["x"]}, {"a": ["x"]})
    assert results.ranks.rank.device.type == "cpu"

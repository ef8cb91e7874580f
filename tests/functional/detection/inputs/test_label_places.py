"""Distinct labels and their places: by counting where there are many small ones, else by sorting."""

import pytest
import torch

from reid_torchmetrics.functional.detection.inputs import distinct_labels, place_of_labels
from tests.paths import taking


@pytest.mark.parametrize("few_labels", [0, 9])
@pytest.mark.parametrize(
    ("labels", "classes", "places"),
    [([7, 0, 7, 3], [0, 3, 7], [2, 0, 2, 1]), ([5, -2], [-2, 5], [1, 0]), ([1 << 20, 4], [4, 1 << 20], [1, 0])],
)
def test_labels_are_numbered_in_ascending_order(few_labels, labels, classes, places):
    with taking(few_labels=few_labels):
        found = distinct_labels(torch.tensor(labels[:1]), torch.tensor(labels[1:]))
        assert found.tolist() == classes
        assert place_of_labels(torch.tensor(labels), found).tolist() == places

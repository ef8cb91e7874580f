"""Results are mappings of names to numbers, as dicts, pandas and loggers take them."""

import json
import pickle
from collections.abc import Mapping

import pytest
import torch

from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.retrieval import evaluate
from reid_torchmetrics.tasks import evaluate_lists
from tests.functional.detection.detection_samples import images

RESULTS = {
    "retrieval": lambda: evaluate(torch.eye(3), torch.eye(3)[[0, 1, 1]], [0, 1, 2], [0, 1, 2]),
    "lists": lambda: evaluate_lists([[0, 1], [1, 0]], [[0], [0]]),
    "detection": lambda: evaluate_images(*images(3, 2)),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_are_mappings_of_floats(kind):
    results = RESULTS[kind]()
    expected = dict(results.means)
    assert isinstance(results, Mapping)
    assert len(results) == len(expected) > 0
    assert [*results] == [*results.keys()] == [*expected]
    assert [*results.values()] == [*expected.values()]
    assert [*results.items()] == [*expected.items()]
    assert dict(results) == {**results} == expected
    assert results.get("map") == expected["map"]
    assert results.get("nothing") is None
    assert json.loads(json.dumps(dict(results))) == expected
    with pytest.raises(KeyError, match="nothing"):
        results["nothing"]


@pytest.mark.parametrize("kind", RESULTS)
def test_a_series_of_pandas_has_names_and_numbers(kind):
    pandas = pytest.importorskip("pandas")
    results = RESULTS[kind]()
    assert pandas.Series(results).to_dict() == dict(results.means)


@pytest.mark.parametrize("kind", RESULTS)
def test_results_are_equal_only_to_themselves(kind):
    first, second = RESULTS[kind](), RESULTS[kind]()
    assert first == first  # noqa: PLR0124 - what is tested
    assert first != second
    assert first != dict(first)
    assert len({first, second}) == 2
    assert dict(pickle.loads(pickle.dumps(first))) == dict(first)

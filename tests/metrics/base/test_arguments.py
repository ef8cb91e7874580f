"""Arguments of constructors, and of methods that a collection hands to its members."""

import inspect

import numpy as np
import pytest
import torch
from torchmetrics import SumMetric

from reid_torchmetrics import DetectionMetrics, ReIDMeanAP, ReIDMetrics


def test_a_call_that_does_not_fit_names_the_collection_and_what_goes_by_name():
    with pytest.raises(TypeError, match=r"^ReIDMetrics\.update\(\): missing a required argument: 'embeddings'; `"):
        ReIDMetrics().update()
    message = r"^ReIDMetrics\.update\(\) got an unexpected argument 'is_querry', which may be `is_query`\.$"
    with pytest.raises(TypeError, match=message):
        ReIDMetrics().update(torch.eye(2), torch.arange(2), is_querry=True)


@pytest.mark.parametrize("method", ["update", "forward"])
@pytest.mark.parametrize("collection", [ReIDMetrics, DetectionMetrics])
def test_an_argument_is_for_some_member_of_a_collection(collection, method):
    call = getattr(collection(), method)
    with pytest.raises(
        TypeError, match=rf"^{collection.__name__}\.{method}\(\) got an unexpected argument 'junk_pairs'"
    ):
        call(torch.eye(2), torch.arange(2), junk_pairs=None)


def test_a_metric_beside_those_of_a_collection_has_its_arguments():
    given = []

    class Noting(SumMetric):
        def update(self, embeddings, identities, *, weather=None, is_query):
            given.append(weather)

    metrics = ReIDMetrics()
    metrics.add_metrics(Noting())
    metrics.update(torch.eye(2), torch.zeros(2).long(), is_query=torch.tensor([True, False]), weather="rain")
    assert given == ["rain"]


def test_options_may_be_numbers_of_numpy_and_are_shown_in_signatures():
    metric = ReIDMeanAP(junk_identities=np.array([-1, 3]), compute_on_cpu=np.True_)
    assert metric.compute_on_cpu is True
    shown = inspect.signature(ReIDMeanAP).parameters
    assert (shown["sync_on_compute"].default, shown["compute_on_cpu"].default) == (True, False)

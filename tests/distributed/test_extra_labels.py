"""Labels that users name in metrics, and mistakes with them on one process. `tests/contracts` has their numbers."""

import re

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics, ReIDOpenSet
from reid_torchmetrics.functional.world import DistributedMetricError


@pytest.mark.filterwarnings("ignore")
def test_an_open_set_takes_candidates_from_the_rules():
    metric = ReIDOpenSet(fpir=1.0, must_agree=("side",))
    query, gallery = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    metric.update(query, [7, 8], is_query=True, labels={"side": ["left", "left"]})
    metric.update(gallery, [7, 8], is_query=False, labels={"side": ["left", "right"]})
    assert metric.compute() == 1  # the mate of the second query is on the other side, so that it has none


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "`labels` must be given for `must_agree` ('side',); got none."),
        ({"side": ["left", "right"]}, "`labels['side']` must be names in every batch, or integers in every batch;"),
        ({"side": [0]}, "`labels` must hold labels of 2 samples; got 1."),
        ({"side": [0, 1], "view": [0, 1]}, "`labels` must hold no label but those that `must_agree` or `must_differ`"),
    ],
)
@pytest.mark.parametrize("metric", [ReIDMeanAP, ReIDMetrics])
def test_batches_whose_labels_do_not_fit_are_refused(metric, labels, message):
    made = metric(must_agree=("side",))
    made.update(torch.eye(2), [7, 8], is_query=True, labels={"side": [0, 1]})
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        made.update(torch.eye(2), [7, 8], is_query=False, labels=labels)


def test_merged_metrics_have_one_kind_of_labels():
    first, second = ReIDMeanAP(must_agree=("side",)), ReIDMeanAP(must_agree=("side",))
    first.update(torch.eye(2), [7, 8], is_query=True, labels={"side": [0, 1]})
    second.update(torch.eye(2), [7, 8], is_query=False, labels={"side": ["left", "right"]})
    first.merge_state(second)
    with pytest.raises(ValueError, match=r"`labels\['side'\]` must be names for all samples, or integers for all"):
        first.compute()


def test_samples_of_one_index_must_have_the_same_labels():
    metric = ReIDMeanAP(must_agree=("side",))
    index = torch.tensor([3])
    metric.update(torch.ones(1, 2), [7], is_query=True, index=index, labels={"side": ["left"]})
    metric.update(torch.ones(1, 2), [7], is_query=True, index=index, labels={"side": ["right"]})
    with pytest.raises((ValueError, DistributedMetricError), match="`index` must be the number of a sample"):
        metric.compute()

"""Labels that users name in metrics, and mistakes with them on one process. `tests/contracts` has their numbers."""

import contextlib
import re

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics, ReIDOpenSet
from reid_torchmetrics.functional.world import DistributedMetricError
from tests.distributed import recording
from tests.distributed.failures import message_of
from tests.extra_labels import ranks_in


@pytest.mark.filterwarnings("ignore")
def test_an_open_set_takes_candidates_from_the_rules():
    metric = ReIDOpenSet(fpir=1.0, must_agree=("side",))
    query, gallery = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    metric.update(query, [7, 8], is_query=True, labels={"side": ["left", "left"]})
    metric.update(gallery, [7, 8], is_query=False, labels={"side": ["left", "right"]})
    assert metric.compute() == 1  # the mate of the second query is on the other side, so that it has none


def kinds(process: int, size: int, names_of_other: bool, rules_differ: bool) -> str:
    """The message on each process where the second one has another kind of label, or other rules."""
    is_other = process == 1
    options = {"must_differ": ("side",)} if is_other and rules_differ else {"must_agree": ("side",)}
    metric = ReIDMeanAP(**options)
    side = ["left", "right"] if is_other and names_of_other else [0, 1]
    metric.update(torch.eye(2), [7, 8], is_query=torch.tensor([True, False]), labels={"side": side})
    return message_of(metric.compute)


def test_other_kinds_and_other_rules_on_a_process_are_an_error_of_all(processes):
    said = "All processes must have the same kind of `labels['side']`; got process 0: integers; process 1: names."
    assert processes.run(2, kinds, True, False) == [said] * 2
    for message in processes.run(2, kinds, False, True):
        assert "must_agree" in message
        assert "('side',)" in message


def refused(process: int, size: int) -> str:
    metric = ReIDMeanAP(must_agree=("side",))
    labels = {"labels": {"side": [0, 1]}} if process == 0 else {"labels": {"sid": [0, 1]}}
    with contextlib.suppress(ValueError):
        metric.update(torch.eye(2), [7, 8], is_query=torch.tensor([True, False]), **labels)
    return message_of(metric.compute)


def test_a_batch_that_one_process_refuses_is_an_error_of_all(processes):
    said = "process 1: ValueError: `labels` must hold 'side', which `must_agree` names; got 'sid'."
    assert all(said in message for message in processes.run(2, refused))


def test_a_process_without_samples_learns_the_labels():
    def results(world):
        metric = ReIDMetrics(must_agree=("side", "plate"), distributed_available_fn=recording.is_shared)
        if world.process == 1:
            labels = {"side": ["l", "r", "l"], "plate": [1, 1, 1]}
            is_query = torch.tensor([True, False, False])
            metric.update(torch.eye(3), [7, 7, 7], is_query=is_query, labels=labels)
        return metric.results()

    outcomes, _ = recording.run(2, results)
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert [ranks_in(outcome.value) for outcome in outcomes] == [[([1], 1)]] * 2


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

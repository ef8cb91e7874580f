"""Samples with several labels: other labels on one process are an error on all. `tests/contracts` has the numbers."""

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from tests.distributed.failures import message_of


def refused(process: int, size: int, kind: str) -> str:
    """The message while the processes hold other labels, or a sample has two kinds of them."""
    metric = ReIDMeanAP(similarity="dot")
    labels = {
        "another number": torch.eye(9)[:, : 9 - process].bool(),
        "identities": torch.arange(9) if process else torch.eye(9).bool(),
        "the same index": torch.eye(9).bool().roll(process, 0),
    }[kind]
    index = torch.arange(9) if kind == "the same index" else None
    metric.update(torch.eye(9), labels, is_query=torch.arange(9) < 3, index=index)
    return message_of(metric.compute)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("another number", "number of labels in `identities`"),
        ("identities", "number of labels in `identities`"),
        ("the same index", "`index` must be the number of a sample in its data set"),
    ],
)
def test_labels_that_differ_between_processes_are_refused_on_all(processes, kind, message):
    found = processes.run(2, refused, kind)
    assert found == [found[0]] * 2
    assert message in found[0]

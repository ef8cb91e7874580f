"""Labels that do not fit on one process are an error on all. Numbers of all labels are in `tests/contracts`."""

import contextlib

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from tests.distributed.failures import message_of

PLACES = torch.arange(40)[:, None] * torch.tensor([3.0, 4.0]) + 1e6
EMBEDDINGS = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))
IS_QUERY = torch.arange(40) % 3 == 0


def refused(process: int, size: int, kind: str) -> tuple[str, list[int]]:
    """The message while something is amiss, and the samples that are held."""
    metric = ReIDMeanAP(protocol="pitts30k")
    batch = {"positions": PLACES[:9], "is_query": IS_QUERY[:9]}
    index = torch.arange(9)
    if process == 1:
        batch |= {
            "some processes": {"positions": None, "identities": torch.zeros(9, dtype=torch.int64)},
            "width": {"positions": PLACES[:9, :1]},
            "not finite": {"positions": PLACES[:9] / 0},
            "same index": {"positions": PLACES[1:10], "index": index},
            "same index, clothes": {"clothes": index + 1, "index": index},
        }[kind]
    elif "index" in kind:
        batch |= {"index": index} | ({"clothes": index} if "clothes" in kind else {})
    with contextlib.suppress(ValueError):
        metric.update(EMBEDDINGS[:9], **batch)
    return message_of(metric.compute), [len(getattr(metric, name)) for name in ("embeddings", "positions", "roles")]


REFUSED = {
    "some processes": ("process 1: ValueError: `positions` must be given for `radius` 25.0; got none.", 0),
    "width": ("All processes must have the same use of `positions`; got process 0: 2 columns; process 1: given.", 1),
    "not finite": ("process 1: ValueError: `positions` must be finite; got 9 rows with NaN or infinity, first [", 0),
    "same index": ("`index` must be the number of a sample in its data set, the same only for repetitions", 1),
    "same index, clothes": ("`index` must be the number of a sample in its data set, the same only for", 1),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_mistake_on_one_process_is_an_error_on_all_and_nothing_is_stored(processes, kind):
    message, num_stored = REFUSED[kind]
    for process, (said, stored) in enumerate(processes.run(2, refused, kind)):
        assert message in said
        assert stored == [num_stored if process == 1 else 1] * 3

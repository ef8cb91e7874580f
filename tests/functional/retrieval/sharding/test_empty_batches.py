"""A batch without samples says nothing of cameras or `index`, whether it was given them or not."""

import functools

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from tests.distributed.failures import message_of
from tests.metrics.reid.samples import batches, fed, reference_of
from tests.profiles import of_each

COMBINATIONS = [(), ("cameras",), ("index",), ("cameras", "index")]


def given(*labels: str) -> list[dict]:
    """Batches with some of the optional labels."""
    listed = batches()
    for number, batch in enumerate(listed):
        batch["index"] = torch.arange(len(batch["identities"])) + 100 * number
    return [only(batch, labels) for batch in listed]


def only(batch: dict, labels: tuple[str, ...]) -> dict:
    """A batch without the optional labels that are not wanted."""
    return {name: values for name, values in batch.items() if name in labels or name not in ("cameras", "index")}


def without_samples(batch: dict) -> dict:
    return {name: values[:0] if isinstance(values, torch.Tensor) else values for name, values in batch.items()}


@functools.cache
def mean_ap(*labels: str) -> float:
    """What the slow reference says."""
    cameras = {} if "cameras" in labels else {"same_camera": "keep"}
    return float(torch.tensor(reference_of(batches(), **cameras).average_precision["rectangle"]).nanmean())


def computes(process: int, size: int, empty: tuple[int, ...]) -> list[tuple[float, bool]]:
    """Empty batches on some processes, samples on the others; both with any of the optional labels."""
    found = []
    active = [number for number in range(size) if number not in empty]
    for labels in COMBINATIONS:
        for of_empty in COMBINATIONS:
            metric = ReIDMeanAP()
            if process in empty:
                metric.update(**without_samples(given(*of_empty)[0]))
            else:
                fed(metric, given(*labels)[active.index(process) :: len(active)])
            results = metric.results()
            found.append((float(metric.compute()), results.setup.cameras))
    return found


@pytest.mark.parametrize(("size", "empty"), of_each([(2, (1,)), (3, (0, 2)), (2, (0,))], suite=2))
def test_an_empty_batch_on_a_process_does_not_count_as_a_use_of_a_label(processes, size, empty):
    found = processes.run(size, computes, empty)
    expected = [mean_ap(*labels) for labels in COMBINATIONS for _ in COMBINATIONS]
    for outcomes in found:
        assert [value for value, _ in outcomes] == pytest.approx(expected, abs=1e-6)
        assert [cameras for _, cameras in outcomes] == [
            "cameras" in each for each in COMBINATIONS for _ in COMBINATIONS
        ]


def differs(process: int, size: int) -> str:
    metric = ReIDMeanAP()
    metric.update(**(without_samples(given()[0]) if process == 2 else given(*[("cameras",), ()][process])[process]))
    return message_of(metric.compute)


def test_processes_with_samples_must_still_agree(processes):
    got = "process 0: given; process 1: not given; process 2: no samples"
    said = f"All processes must have the same use of `cameras`; got {got}."
    assert processes.run(3, differs) == [said] * 3


@pytest.mark.parametrize("of_empty", COMBINATIONS)
@pytest.mark.parametrize("labels", COMBINATIONS)
def test_a_metric_with_an_empty_batch_merges_with_any_other(labels, of_empty):
    for empty_first in (True, False):
        empty, full = ReIDMeanAP(), fed(ReIDMeanAP(), given(*labels))
        empty.update(**without_samples(given(*of_empty)[0]))
        merged, other = (empty, full) if empty_first else (full, empty)
        merged.merge_state(other)
        assert float(merged.compute()) == pytest.approx(mean_ap(*labels), abs=1e-6)
        assert merged.results().setup.cameras is ("cameras" in labels)

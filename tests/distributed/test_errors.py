"""An error on one process is an error on all, within seconds, and the metric can be used afterwards."""

import warnings
from unittest import mock

import pytest
import torch
from torch import distributed

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.functional.world import Settings
from tests.distributed.failures import message_of
from tests.metrics.reid.samples import batches, fed, reference_of

GIVEN = batches()


def refuses_a_batch(process: int, size: int, method: str) -> tuple[str, float]:
    """Process 1 is given a bad batch between good ones."""
    metric = ReIDMeanAP()
    for number, batch in enumerate(GIVEN[process::size]):
        if (process, number) == (1, 1):
            with pytest.raises(ValueError, match="identities"):
                getattr(metric, method)(torch.ones(3, 6), torch.ones(2).long(), torch.ones(3).long())
        getattr(metric, method)(**batch)
    return message_of(metric.compute), float(metric.compute())


@pytest.mark.filterwarnings("ignore:No query can be evaluated")
@pytest.mark.parametrize("method", ["update", "forward"])
def test_a_batch_that_one_process_refused_is_an_error_on_all_when_they_compute(processes, method):
    expected = torch.tensor(reference_of(GIVEN).average_precision["rectangle"]).nanmean()
    for message, value in processes.run(3, refuses_a_batch, method):
        assert message == "process 1: ValueError: `identities` must have shape [3]; got [2]."
        assert value == pytest.approx(float(expected), abs=1e-6)


def refuses_a_batch_then_resets(process: int, size: int) -> float:
    metric = ReIDMeanAP()
    if process == 1:
        with pytest.raises(TypeError):
            metric(torch.ones(3, 6), torch.ones(3).bool())
    metric.reset()
    return float(fed(metric, GIVEN[process::size]).compute())


def test_a_refused_batch_is_forgotten_with_the_others(processes):
    values = processes.run(2, refuses_a_batch_then_resets)
    assert values[0] == values[1] > 0


def nan_similarity(query, gallery):
    return torch.full((len(query), len(gallery)), torch.nan)


def fails_alike(process: int, size: int) -> str:
    metric = fed(ReIDMeanAP(similarity=nan_similarity), GIVEN[process::size])
    with pytest.raises(ValueError, match="must give scores that can be ordered; got NaN") as caught:
        metric.compute()
    return type(caught.value).__name__


def test_an_error_that_all_processes_meet_is_raised_as_it_is(processes):
    assert processes.run(2, fails_alike) == ["ValueError", "ValueError"]


def error_in_sync_context(process: int, size: int) -> tuple[bool, float]:
    metric = fed(ReIDMeanAP(), GIVEN[process::size])
    with pytest.raises(KeyError):
        with metric.sync_context():
            raise KeyError
    return metric._is_synced, float(metric.compute())


def test_an_error_in_a_sync_context_leaves_the_metric_unsynced(processes):
    outcomes = processes.run(2, error_in_sync_context)
    assert outcomes[0] == outcomes[1]
    assert not outcomes[0][0]


def without_this_process(process: int, size: int) -> str:
    group = distributed.new_group([0])
    metric = fed(ReIDMeanAP(process_group=group), GIVEN)
    if process == 0:
        return str(float(metric.compute()))
    with pytest.raises(ValueError, match="`process_group` must contain the process") as caught:
        metric.compute()
    assert not metric._is_synced
    return str(caught.value)


def test_a_process_outside_of_the_group_is_told_so(processes):
    processes.run(2, without_this_process)


def steps_with_a_bad_batch(process: int, size: int) -> list[str]:
    metric, said = ReIDMeanAP(dist_sync_on_step=True), []
    for step in range(4):
        good = torch.randn(6, 4), torch.arange(6) % 2
        batch = (torch.ones(6, 4), torch.ones(6).bool()) if (process, step) == (1, 2) else good
        said.append(message_of(lambda batch=batch: metric(*batch)))
    said.append(message_of(metric.compute))
    return said


def test_a_batch_that_is_refused_in_a_synchronized_step_fails_that_step_on_all(processes):
    first, second = processes.run(2, steps_with_a_bad_batch)
    assert first == second
    assert "process 1: TypeError: `identities` must have an integer dtype; got torch.bool." in first[2]
    assert all(text.startswith("no error") for number, text in enumerate(first) if number != 2)


def unspeakable(query, gallery):
    raise ValueError("a file named \udcff")


class MuteError(Exception):
    """An exception without a text."""

    def __str__(self) -> str:
        raise RuntimeError


def mute(query, gallery):
    raise MuteError


def cannot_be_said(process: int, size: int) -> list[str]:
    said = []
    for failing in (unspeakable, mute):
        metric = fed(ReIDMeanAP(similarity=failing), GIVEN[process::size])
        if process == 0:
            metric.similarity = "cosine"
        with mock.patch.object(metric, "_settings", return_value=Settings("the same", "", {}, {})):
            said.append(message_of(metric.compute))
    return said


def test_an_error_whose_text_cannot_be_sent_is_an_error_on_all(processes):
    for said in processes.run(2, cannot_be_said):
        assert said == ["process 1: ValueError: a file named \\udcff", "process 1: MuteError"]


def warns(process: int, size: int) -> tuple[str, str]:
    """No query can be evaluated, then all processes hold the same samples, while warnings are errors."""
    warnings.simplefilter("error")
    queries, repeated = ReIDMeanAP(), ReIDMeanAP()
    queries.update(torch.randn(3, 4), torch.arange(3), is_query=True)
    repeated.update(torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 3)
    said = message_of(queries.compute), message_of(repeated.compute)
    warnings.resetwarnings()
    return said


def test_warnings_that_are_errors_are_errors_on_all(processes):
    for first, second in processes.run(2, warns):
        assert "process 0: AdviceWarning: No query can be evaluated" in first
        assert "process 0: AdviceWarning: Several processes hold the same samples" in second


def other_functions(process: int, size: int) -> list[str]:
    """Two functions of one name on two processes, then one function, as every process makes it anew."""
    signs = (1 - 2 * process, 1)
    metrics = [
        fed(ReIDMeanAP(similarity=lambda a, b, sign=sign: sign * a @ b.T), GIVEN[process::size]) for sign in signs
    ]
    return [message_of(metric.compute) for metric in metrics]


def test_functions_of_one_name_that_differ_between_processes_are_an_error_on_all(processes):
    for first, second in processes.run(2, other_functions):
        assert "All processes must have the same `similarity`; got process 0: scores [" in first
        assert second.startswith("no error")

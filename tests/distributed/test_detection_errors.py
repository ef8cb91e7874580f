"""Metrics of detection: an error on one process is an error on all, within seconds, and the metric goes on."""

import functools
from unittest import mock

import pytest

from reid_torchmetrics.functional.detection.evaluation import image_matches, tensor_exchange
from reid_torchmetrics.functional.detection.matching import matching
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.distributed.detection_shards import alone, at, prints, problem, shards
from tests.distributed.failures import message_of, out_of_memory
from tests.functional.detection.detection_samples import fed

PLACES = {
    "matching": functools.partial(out_of_memory, matching, "_match"),
    "unpacking": functools.partial(out_of_memory, tensor_exchange, "_unpacked"),
}
"""some of the steps; `test_injected_errors` tries all of them on threads"""


def fails_then_works(process: int, size: int, place: str) -> tuple[str, object]:
    image_matches.matchings.clear()  # of metrics with the same images
    metric = fed(DetectionMAP(), *at(problem(9), shards("round_robin", size)[process]))
    with PLACES[place]() if process == size - 1 else mock.MagicMock():
        message = message_of(metric.compute)
    assert not metric._is_synced
    return message, prints(metric.compute())


@pytest.mark.parametrize("place", PLACES)
def test_a_process_that_runs_out_of_memory_fails_on_all(processes, place):
    expected = prints(alone(problem(9)).compute())
    message = "process 1: OutOfMemoryError: simulated"
    assert processes.run(2, fails_then_works, place) == [(message, expected)] * 2


def refuses(process: int, size: int, method: str, step: bool) -> list[str]:
    given, said = problem(10), []
    metric = DetectionMAP(metric="map", dist_sync_on_step=step)
    for number, place in enumerate(shards("round_robin", size)[process][:4]):
        preds, target = at(given, [place])
        if (process, number) == (1, 2):
            target = [{"labels": target[0]["labels"], "image_id": 1}]
        if step:
            said.append(message_of(lambda preds=preds, target=target: getattr(metric, method)(preds, target)))
        elif (process, number) == (1, 2):
            with pytest.raises(ValueError, match="boxes"):
                getattr(metric, method)(preds, target)
        else:
            getattr(metric, method)(preds, target)
    return [*said, message_of(metric.compute), message_of(metric.compute)]


@pytest.mark.parametrize("method", ["update", "forward"])
def test_a_batch_that_one_process_refused_is_an_error_on_all_when_they_compute(processes, method):
    first, second = processes.run(2, refuses, method, False)
    assert first == second
    missing = (
        "Expected all dicts in `target` to contain the `boxes` key; got `target[0]` with the keys labels, image_id."
    )
    assert first[0] == f"process 1: ValueError: {missing}"
    assert first[1].startswith("no error but ")


def test_a_batch_that_is_refused_in_a_synchronized_step_fails_that_step_on_all(processes):
    first, second = processes.run(2, refuses, "forward", True)
    assert first == second
    assert [text.startswith("process 1: ValueError: Expected all dicts in `target`") for text in first] == [
        False,
        False,
        True,
        *[False] * 3,
    ]


def differs(process: int, size: int, kind: str) -> str:
    changed = {"options": {"average": "micro"}, "metric": {"metric": "map_50"}, "limits": {}}
    metric = DetectionMAP(**changed.get(kind, {})) if process else DetectionMAP()
    if kind == "limits" and process:
        metric.max_detection_thresholds[-1] = 50
    given = problem(11, with_ids=not (process and kind == "ids"))
    return message_of(fed(metric, *at(given, shards("round_robin", size)[process])).compute)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("options", "have the same `average`; got process 0: 'macro'; process 1: 'micro'."),
        ("metric", "have the same `metric`; got process 0: None; process 1: 'map_50'."),
        ("limits", "have the same `max_detection_thresholds`; got process 0: [1, 10, 100]; process 1: [1, 10, 50]."),
        ("ids", "have the same use of `image_id`; got process 0: given; process 1: not given."),
    ],
)
def test_metrics_or_images_that_differ_between_processes_are_an_error_on_all(processes, kind, said):
    assert processes.run(2, differs, kind) == [f"All processes must {said}"] * 2

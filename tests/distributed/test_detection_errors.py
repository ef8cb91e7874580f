"""Metrics of detection that differ between processes are an error on all."""

import pytest

from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.distributed.detection_shards import at, problem, shards
from tests.distributed.failures import message_of
from tests.functional.detection.detection_samples import fed


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

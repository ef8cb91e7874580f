"""Results across classes and with boxes on several processes: the same on all, however the images are spread."""

import pytest

from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from reid_torchmetrics.tasks.detection_errors import CONFUSION_RULES
from tests.distributed.detection_shards import alone, at, prints, problem, shards, text_of
from tests.functional.detection.detection_samples import fed


def told(metric: DetectionMAP) -> object:
    results = metric.results(across_classes=True, boxes=True)
    found = results.detections()
    return prints(
        {
            **{rule: results.confusion_matrix(rule=rule).counts for rule in CONFUSION_RULES},
            **dict(enumerate(results.objects.to_tensors())),
            "kinds": results.error_breakdown().kind,
            "kinds of tidecv": results.error_breakdown(rule="tidecv").kind,
            "boxes": found.boxes,
            "worst": results.boxes_of(results.worst_images(2).image)[1][0]["boxes"],
        }
    )


def tells(process: int, size: int, sharding: str) -> object:
    order = shards(sharding, size)[process]
    return told(fed(DetectionMAP(), *at(problem(6), order[::-1]), size=4))


@pytest.mark.parametrize(("size", "sharding"), [(2, "uneven"), (2, "empty_first"), (3, "padded_shuffled")])
def test_all_processes_tell_what_one_does(processes, size, sharding):
    expected = told(alone(problem(6)))
    assert processes.run(size, tells, sharding) == [expected] * size


def asks_alone(process: int, size: int) -> list[str]:
    metric = fed(DetectionMAP(), *at(problem(6), [process]))
    return [text_of(lambda: metric.results(across_classes=process == 0)), text_of(lambda: metric.results(boxes=True))]


def test_processes_that_ask_for_other_results_are_told_so(processes):
    for refused, held in processes.run(2, asks_alone):
        assert "across_classes" in refused
        assert held.startswith("no error but DetectionResults(")

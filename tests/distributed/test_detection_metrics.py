"""The numbers of detection to log on several processes: the same as on one, after one matching on each."""

from contextlib import contextmanager
from unittest import mock

import pytest

from reid_torchmetrics import DetectionMAP, DetectionMetrics
from reid_torchmetrics.functional.detection.matching import matching
from tests.functional.detection.detection_samples import fed, images
from tests.paths import path

NUM_IMAGES = 11


@contextmanager
def counting():
    """Count the matchings of this process."""
    with mock.patch.object(*path("match_function"), wraps=matching._match) as counter:
        yield counter


def own(process: int, size: int, *, empty: int | None = None, with_ids: bool = True):
    given = images(71, NUM_IMAGES, with_ids=with_ids)
    return ([], []) if process == empty else tuple(side[process::size] for side in given)


def collection(process: int, size: int, empty: int | None, with_ids: bool) -> tuple[int, dict[str, float]]:
    metrics = fed(DetectionMetrics(classes=range(3)), *own(process, size, empty=empty, with_ids=with_ids))
    with counting() as counter:
        values = metrics.compute()
    return counter.call_count, {name: float(value) for name, value in values.items()}


@pytest.mark.parametrize(("size", "empty"), [(1, None), (2, None), (3, None), (2, 0), (2, 1)])
@pytest.mark.parametrize("with_ids", [True, False])
def test_a_collection_matches_once_and_has_the_values_of_one_process(processes, size, empty, with_ids):
    given = images(71, NUM_IMAGES, with_ids=with_ids)
    if empty is not None:
        given = tuple(side[1 - empty :: 2] for side in given)
    alone = fed(DetectionMetrics(classes=range(3), sync_on_compute=False), *given).compute()
    expected = {name: float(value) for name, value in alone.items()}
    assert processes.run(size, collection, empty, with_ids) == [(1, expected)] * size


def separate(process: int, size: int) -> tuple[int, list[float]]:
    metrics = [DetectionMAP(metric="map"), DetectionMAP(metric="f1_50"), DetectionMAP(metric="map", rule="voc")]
    with counting() as counter:
        values = [float(fed(metric, *own(process, size)).compute()) for metric in metrics]
    return counter.call_count, values


def test_separate_metrics_match_once(processes):
    given = images(71, NUM_IMAGES, with_ids=True)
    options = [{"metric": "map"}, {"metric": "f1_50"}, {"metric": "map", "rule": "voc"}]
    expected = [float(fed(DetectionMAP(sync_on_compute=False, **each), *given).compute()) for each in options]
    assert processes.run(3, separate) == [(1, expected)] * 3


def grows_on_one_process(process: int, size: int) -> tuple[int, list[float]]:
    """The second metric has one image more, on process 0 only, and process 1 finds its own as they were."""
    preds, target = own(process, size)
    first, second = fed(DetectionMAP(metric="map"), preds, target), fed(DetectionMAP(metric="map"), preds, target)
    with counting() as counter:
        values = [float(first.compute())]
        extra = images(72, 1)
        extra[1][0]["image_id"] = 9999
        fed(second, *(extra if process == 0 else ([], [])))
        values.append(float(second.compute()))
    return counter.call_count, values


def test_images_that_changed_on_one_process_are_matched_again_on_all(processes):
    outcomes = processes.run(2, grows_on_one_process)
    assert outcomes[0] == outcomes[1]
    count, (first, second) = outcomes[0]
    assert count == 2
    assert first != second
    extra = images(72, 1)
    extra[1][0]["image_id"] = 9999
    given = tuple([*side, *more] for side, more in zip(images(71, NUM_IMAGES, with_ids=True), extra, strict=True))
    assert second == float(fed(DetectionMAP(metric="map", sync_on_compute=False), *given).compute())


def by_oneself_and_together(process: int, size: int) -> list[float]:
    given = own(process, size)
    return [
        float(fed(DetectionMAP(metric="map", sync_on_compute=sync), *given).compute()) for sync in (True, False, True)
    ]


def test_a_process_by_itself_is_not_given_the_matching_of_all(processes):
    given = images(71, NUM_IMAGES, with_ids=True)
    parts = [given, *(tuple(side[process::2] for side in given) for process in range(2))]
    of_all, *own_values = (float(fed(DetectionMAP(metric="map"), *part).compute()) for part in parts)
    assert processes.run(2, by_oneself_and_together) == [[of_all, value, of_all] for value in own_values]

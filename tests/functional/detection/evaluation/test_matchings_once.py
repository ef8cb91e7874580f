"""Metrics that are fed the same images match once; other images or options match again."""

import copy
import gc
from unittest import mock

import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics
from reid_torchmetrics.functional.detection.evaluation import image_matches
from reid_torchmetrics.functional.detection.matching import matching
from tests.functional.detection.detection_samples import fed, images
from tests.paths import path

GIVEN = images(61, 10, with_ids=True)


@pytest.fixture(autouse=True)
def num_matchings(monkeypatch, nothing_kept):
    """Counts the matchings of a test, which begins with none remembered."""
    counter = mock.Mock(wraps=matching._match)
    monkeypatch.setattr(*path("match_function"), counter)
    return counter


def test_a_collection_matches_once(num_matchings):
    metrics = fed(DetectionMetrics(classes=range(4)), *GIVEN)
    values = metrics.compute()
    assert num_matchings.call_count == 1
    for member in metrics.values():
        member._computed = None
    assert metrics.compute() == values
    assert num_matchings.call_count == 1


@pytest.mark.parametrize("size", [1, 3])
def test_metrics_that_are_fed_the_same_batches_match_once(num_matchings, size):
    metrics = [DetectionMAP(), DetectionMAP(metric="map_50"), DetectionMAP(rule="voc"), DetectionMetrics()]
    values = [fed(metric, *GIVEN, size=size).compute() for metric in metrics]
    assert num_matchings.call_count == 1
    num_matchings.reset_mock()
    image_matches.matchings.clear()
    assert values[2]["map"] == fed(DetectionMAP(metric="map", rule="voc"), *GIVEN, size=size).compute()
    assert num_matchings.call_count == 1


@pytest.mark.parametrize(
    "options", [{"average": "micro"}, {"iou_thresholds": [0.5]}, {"max_detection_thresholds": [1, 2, 30]}]
)
def test_other_options_of_matching_match_again(num_matchings, options):
    fed(DetectionMAP(), *GIVEN).compute()
    value = fed(DetectionMAP(metric="map", **options), *GIVEN).compute()
    assert num_matchings.call_count == 2
    image_matches.matchings.clear()
    assert value == fed(DetectionMAP(metric="map", **options), *GIVEN).compute()


CHANGES = [
    lambda preds, target: preds[3].update(scores=preds[3]["scores"] / 2),
    lambda preds, target: preds[3].update(boxes=preds[3]["boxes"] + 1),
    lambda preds, target: preds[3].update(labels=preds[3]["labels"] + 1),
    lambda preds, target: target[3].update(labels=target[3]["labels"] + 1),
    lambda preds, target: target[3].update(iscrowd=torch.ones_like(target[3]["labels"])),
    lambda preds, target: target[3].update(area=torch.ones(len(target[3]["labels"]))),
    lambda preds, target: target[3].update(image_id=5000),
    lambda preds, target: [preds.pop(), target.pop()],
    lambda preds, target: preds[3].update(boxes=preds[3]["boxes"].double()),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.slow
def test_other_images_match_again(num_matchings, change):
    fed(DetectionMAP(), *GIVEN).compute()
    changed = copy.deepcopy(GIVEN)
    change(*changed)
    value = fed(DetectionMetrics(), *changed).compute()
    assert num_matchings.call_count == 2
    image_matches.matchings.clear()
    assert fed(DetectionMetrics(), *changed).compute() == value


def test_more_images_and_writing_to_those_that_are_held_match_again(num_matchings):
    metric = fed(DetectionMAP(metric="map"), GIVEN[0][:6], GIVEN[1][:6])
    first = metric.compute()
    second = fed(metric, GIVEN[0][6:], GIVEN[1][6:]).compute()
    assert num_matchings.call_count == 2
    assert first != second
    metric.detection_scores[0].mul_(0.01)
    metric._computed = None
    metric.compute()
    assert num_matchings.call_count == 3


@pytest.mark.slow
def test_nothing_is_remembered_longer_than_the_images():
    metrics = fed(DetectionMetrics(), *GIVEN)
    metrics.compute()
    assert len(image_matches.matchings._results) == 1
    metrics.reset()
    gc.collect()
    assert image_matches.matchings._results == []


def test_results_and_overlaps_are_made_anew(num_matchings):
    metric = fed(DetectionMAP(extended_summary=True), *GIVEN)
    first, second = metric.results(), metric.results()
    first.matches.scores.zero_()
    assert bool(second.matches.scores.any())
    metric.compute()
    assert image_matches.matchings._results == []

"""Breakdowns of errors by rule "tidecv": all that tidecv 1.0.1 recorded, in `tests/golden/tide.npz`."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.tasks.detection_errors import ErrorBreakdown, error_breakdown, pair_objects
from tests.golden.tide_cases import TideProblem, TideRecord, tide_problems
from tests.tasks.detection_errors.test_error_breakdown import BESIDE, BOX, breakdown_of

OPTIONS = {"at_75": {"iou_threshold": 0.75, "background_threshold": 0.2}}


def broken_down(problem: TideProblem, **options: float) -> ErrorBreakdown:
    columns = (problem.detection_boxes, problem.detection_scores, problem.detection_labels, problem.detection_images)
    true = (problem.ground_truth_boxes, problem.ground_truth_labels, problem.ground_truth_images, problem.is_crowd)
    objects = pair_objects(
        Detections(*(torch.from_numpy(each) for each in columns)),
        GroundTruths(*(torch.from_numpy(each) for each in true)),
    )
    return error_breakdown(objects, rule="tidecv", **options)


def percent(told: ErrorBreakdown) -> TideRecord:
    return TideRecord(
        100 * told.average_precision,
        {name: 100 * gain for name, gain in told.gains.items()},
        100 * told.false_positive_gain,
        100 * told.false_negative_gain,
        dict(told.counts),
    )


def with_crowds(problem: TideProblem, images: np.ndarray, labels: np.ndarray, boxes: np.ndarray) -> TideProblem:
    return replace(
        problem,
        ground_truth_boxes=np.concatenate([problem.ground_truth_boxes, boxes]),
        ground_truth_labels=np.concatenate([problem.ground_truth_labels, labels]),
        ground_truth_images=np.concatenate([problem.ground_truth_images, images]),
        is_crowd=np.concatenate([problem.is_crowd, np.ones(len(images), dtype=bool)]),
    )


def of_any_class(problem: TideProblem) -> TideProblem:
    """A crowd of any class is one of every class."""
    rows = problem.is_crowd.nonzero()[0]
    classes = np.unique(problem.detection_labels)
    images, boxes = problem.ground_truth_images[rows], problem.ground_truth_boxes[rows]
    size = len(classes)
    return with_crowds(problem, images.repeat(size), np.tile(classes, len(rows)), boxes.repeat(size, 0))


def of_whole_images(problem: TideProblem) -> TideProblem:
    """A region without a box covers its image."""
    boxes = np.tile([-1e4, -1e4, 2e4, 2e4], (len(problem.whole_images), 1))
    return with_crowds(problem, problem.whole_images, problem.whole_labels, boxes)


def detections_at(problem: TideProblem, rows: np.ndarray) -> TideProblem:
    names = ("detection_boxes", "detection_labels", "detection_images", "detection_scores")
    return replace(problem, **{name: getattr(problem, name)[rows] for name in names})


def of_known_images(problem: TideProblem) -> TideProblem:
    """Images in the order of the ground truths, without the detections of others."""
    order = {image: place for place, image in enumerate(dict.fromkeys(problem.ground_truth_images.tolist()))}
    known = detections_at(problem, np.isin(problem.detection_images, [*order]))
    columns = {name: getattr(known, name) for name in ("detection_images", "ground_truth_images")}
    return replace(
        known,
        **{name: np.array([order[each] for each in ids.tolist()], dtype=np.int64) for name, ids in columns.items()},
    )


def best_four(problem: TideProblem) -> TideProblem:
    """Of each image, whatever their classes."""
    order = np.argsort(-problem.detection_scores, kind="stable")
    kept = [order[problem.detection_images[order] == image][:4] for image in np.unique(problem.detection_images)]
    return detections_at(problem, np.sort(np.concatenate(kept)))


CHANGES = {"any": of_any_class, "whole": of_whole_images, "unregistered": of_known_images, "max4": best_four}


@pytest.mark.parametrize("problem", tide_problems(), ids=lambda problem: problem.name)
def test_all_numbers_are_those_of_tidecv(problem):
    assert len(problem.records) in {5, 6}
    for variant, recorded in problem.records.items():
        changed = CHANGES.get(variant, lambda same: same)(problem)
        found = percent(broken_down(changed, **OPTIONS.get(variant, {})))
        assert found.counts == recorded.counts, variant
        for name in ("average_precision", "gains", "false_positives", "false_negatives"):
            assert getattr(found, name) == pytest.approx(getattr(recorded, name), abs=1e-10), (variant, name)


@pytest.mark.parametrize("problem", tide_problems()[::6], ids=lambda problem: problem.name)
def test_average_precision_at_each_threshold_is_that_of_tidecv(problem):
    thresholds = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]
    found = [100 * broken_down(problem, iou_threshold=each).average_precision for each in thresholds]
    assert found == pytest.approx(problem.range.tolist(), abs=1e-10)


def test_a_class_without_anything_leaves_the_mean():
    """Where tidecv divides by zero, gains are 0, or nothing is defined."""
    told = breakdown_of([(2, BESIDE, 0.9)], [], rule="tidecv")
    assert (told.average_precision, told.gains["background"]) == (0.0, 0.0)
    assert breakdown_of([], [(1, BOX)], rule="tidecv").gains["miss"] == 0.0
    told = breakdown_of([(1, BOX, 0.9), (2, BESIDE, 0.8)], [(1, BOX)], rule="tidecv")
    assert (told.average_precision, told.gains["background"]) == (0.5, 0.5)
    assert np.isnan(breakdown_of([], [], rule="tidecv").gains["miss"])


def test_detections_outside_the_area_range_are_left_out():
    """A box with a negative width is on background in tidecv, which knows no areas."""
    told = breakdown_of([(1, [30.0, 0.0, -10.0, 10.0], 0.9), (1, BOX, 0.8)], [(1, BOX)], rule="tidecv")
    assert told.average_precision == 1
    assert not any(told.counts.values())
    assert told.kind.tolist() == [-1, -1]


def test_results_are_asked_for_it_by_name():
    metric = DetectionMAP(box_format="xywh", rule="voc")
    boxes, labels = torch.tensor([BOX, BESIDE]), torch.tensor([1, 2])
    metric.update(
        [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": labels}],
        [{"boxes": boxes[:1], "labels": labels[:1]}],
    )
    results = metric.results(across_classes=True)
    assert results.error_breakdown().average_precision == 1
    assert results.error_breakdown(rule="tidecv").average_precision == 0.5
    with pytest.raises(ValueError, match=r"^`rule` must be one of 'coco', .*'tidecv'; got 'tide'\.$"):
        results.error_breakdown(rule="tide")

"""DOTA's Task 1: equal to the recorded numbers of DOTA_devkit, and by hand."""

import math

import pytest
import torch

from reid_torchmetrics import VocMAP
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.tasks.rotated_boxes import crossing_edges, rotated_iou
from tests.golden import dota_cases

SQUARE = [0.0, 0, 10, 0, 10, 10, 0, 10]
HALF = [0.0, 0, 5, 0, 5, 10, 0, 10]
TRAPEZOID = [0.0, 0, 10, 0, 5, 10, 0, 10]


def images(found: list, truths: list, difficult: list | None = None) -> tuple[list, list]:
    """One image of one class, with scores that fall."""
    scores = torch.linspace(0.9, 0.1, len(found))
    preds = {"rotated_boxes": torch.tensor(found), "scores": scores, "labels": torch.zeros(len(found)).long()}
    target = {"rotated_boxes": torch.tensor(truths), "labels": torch.zeros(len(truths)).long()}
    return [preds], [target | ({} if difficult is None else {"difficult": difficult})]


@pytest.mark.parametrize("rule", dota_cases.RULES)
def test_every_recorded_average_precision_is_equal(rule):
    expected = torch.from_numpy(dota_cases.arrays()["average_precision"][:, :, dota_cases.RULES.index(rule)]).flatten()
    results = evaluate_images(*dota_cases.images(), evaluator="voc", iou_type="rotated", rule=rule)
    ours, compared = expected.new_full((len(expected),), math.nan), ~expected.isnan()
    ours[results.classes] = results.average_precision[0]
    assert int(compared.sum()) == 1329
    torch.testing.assert_close(ours[compared], expected[compared], rtol=0, atol=1e-9)


def test_every_recorded_overlap_is_equal():
    """Polygons of crossing edges, which may overlap by less than 0 there, are refused here."""
    first, second, expected = dota_cases.pairs()
    is_crossing = crossing_edges(first) | crossing_edges(second)
    ours = rotated_iou(first[~is_crossing], second[~is_crossing]).diagonal()
    assert int((expected[:200] > 0.2).sum()) >= 100
    assert 0 < int(is_crossing.sum()) < 0.5 * len(first)
    torch.testing.assert_close(ours, expected[~is_crossing], rtol=0, atol=1e-9)


def test_an_overlap_at_the_threshold_is_none():
    for found, expected in ((HALF, 0), (TRAPEZOID, 1)):  # 0.5 and 0.75 of the square
        metric = VocMAP(iou_type="rotated", metric="map")
        metric.update(*images([found], [SQUARE]))
        assert float(metric.compute()) == expected


def test_a_detection_that_takes_a_ground_truth_again_is_wrong_and_one_of_a_difficult_one_is_ignored():
    far = [each + 20 for each in SQUARE]
    preds, target = images([far, SQUARE, TRAPEZOID], [SQUARE, far], [0, 1])
    metric = VocMAP(iou_type="rotated", rule="voc07")
    metric.update(preds, target)
    curve = metric.results().ranked.for_class(0)
    assert (curve.is_ignored.tolist(), curve.is_true_positive.tolist()) == ([True, False, False], [False, True, False])
    assert float(metric.compute()["map"]) == 1


def test_numbers_and_corners_may_meet():
    square = torch.tensor([[5.0, 5, 10, 10, math.pi / 2]], dtype=torch.float64)
    corners = torch.tensor([SQUARE, HALF, TRAPEZOID, SQUARE[::-1]], dtype=torch.float64)
    for overlaps in (rotated_iou(square, corners)[0], rotated_iou(corners, square)[:, 0]):
        torch.testing.assert_close(overlaps, torch.tensor([1, 0.5, 0.75, 1]).double(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("invalid", ["count", "drop"])
def test_corners_that_are_not_finite_are_wrong_or_dropped_with_their_flags(invalid):
    preds, target = images([[math.nan] * 8, SQUARE], [SQUARE], [0])
    if invalid == "drop":
        target = images([], [[math.nan] * 8, SQUARE], [1, 0])[1]
    metric = VocMAP(iou_type="rotated", metric="map", invalid=invalid)
    with pytest.warns(UserWarning, match="not finite"):
        metric.update(preds, target)
    assert float(metric.compute()) == {"count": 0.5, "drop": 1}[invalid]


def test_options_that_the_evaluator_does_not_know_are_refused():
    sides = images([SQUARE], [SQUARE])
    for options, message in (
        ({"iou_type": "rotated", "whole_pixels": True}, "`whole_pixels` must be False with iou_type 'rotated'; got Tr"),
        ({"iou_type": "segm"}, "`iou_type` must be left out with evaluator 'voc'; got 'segm'."),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate_images(*sides, evaluator="voc", **options)
    with pytest.raises(ValueError, match="`whole_pixels` must be False with iou_type 'rotated'; got True"):
        VocMAP(iou_type="rotated", whole_pixels=True)
    with pytest.raises(ValueError, match="`iou_type` must be one of 'bbox', 'rotated'; got 'segm'"):
        VocMAP(iou_type="segm")


def test_results_are_saved_with_their_evaluator(tmp_path):
    metric = VocMAP(iou_type="rotated")
    metric.update(*images([SQUARE], [SQUARE]))
    results = metric.results()
    results.save(tmp_path / "results.json")
    assert results.evaluator.title == "DOTA"
    assert type(results).load(tmp_path / "results.json").evaluator == results.evaluator

"""Lists of thresholds in any order, with repetitions, of numbers of any kind, or by name: TorchMetrics' values."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics
from reid_torchmetrics.functional.detection import evaluate_images
from tests.functional.detection.detection_samples import box, fed, images, is_same, torchmetrics_peer
from tests.functional.detection.mask_samples import mask_images

LISTS = [
    {"iou_thresholds": [0.75, 0.5, 0.9]},
    {"iou_thresholds": [0.5, 0.75, 0.5, 0.5]},
    {"iou_thresholds": [np.float64(0.75), torch.tensor(0.5), np.float32(0.3)]},
    {"iou_thresholds": [1, 0]},
    {"rec_thresholds": [0.0, 0.25, 0.25, 1.0]},
    {"rec_thresholds": [np.float32(0.1), torch.tensor(0.3, dtype=torch.float64), 1]},
    {"max_detection_thresholds": [100, 1, 3]},
    {"max_detection_thresholds": [100, 2, 2]},
    {"max_detection_thresholds": [100, 100, 100]},
    {"max_detection_thresholds": [np.int64(100), np.float64(3), torch.tensor(1)]},
    {"max_detection_thresholds": [torch.tensor(2), np.uint8(100), 1.0]},
    {"iou_thresholds": [0.6, 0.5, 0.5], "rec_thresholds": [0.5, 0.5], "max_detection_thresholds": [100, 1, 1]},
]


@pytest.mark.parametrize("options", LISTS)
@pytest.mark.parametrize("iou_type", ["bbox", "segm"])
def test_every_value_is_that_of_torchmetrics(iou_type, options):
    preds, target = images(3) if iou_type == "bbox" else mask_images(3, 10)
    kept = [row for row, each in enumerate(zip(preds, target, strict=True)) if all(len(i["labels"]) for i in each)]
    given = [preds[row] for row in kept], [{**target[row], "image_id": row} for row in kept]
    options = {"iou_thresholds": [0.5, 0.75], "rec_thresholds": [0.0, 0.5, 1.0], **options}
    options |= {"iou_type": iou_type, "class_metrics": True, "extended_summary": True}
    ours = fed(DetectionMAP(**options), *given).compute()
    with torchmetrics_peer() as peer:
        theirs = fed(peer(**options), *given).compute()
    assert ours.keys() == theirs.keys()
    assert all(is_same(ours[name], theirs[name]) for name in ours.keys() - {"ious"})


def test_recalls_are_put_in_ascending_order():
    """One of two objects is found, so precision is 1 up to recall 0.5, and 0 at 0.9.

    pycocotools leaves off at the first recall that is not reached: the order 0.9, 0.1 gives it 0 at both.
    """
    found = {"boxes": box(0, 0, 9, 9), "scores": torch.ones(1), "labels": torch.tensor([1])}
    true = {"boxes": torch.cat([box(0, 0, 9, 9), box(50, 50, 59, 59)]), "labels": torch.tensor([1, 1])}
    metric = DetectionMAP(rec_thresholds=[0.9, np.float64(0.1)], extended_summary=True)
    metric.update([found], [true])
    values = metric.compute()
    assert metric.rec_thresholds == [0.1, 0.9]
    assert float(values["map"]) == pytest.approx(0.5)
    assert values["precision"][0, :, 0, 0, 2].tolist() == pytest.approx([1, 0])
    with torchmetrics_peer() as peer:
        theirs = [fed(peer(rec_thresholds=recalls), [found], [true]).compute() for recalls in ([0.9, 0.1], [0.1, 0.9])]
    assert [float(each["map"]) for each in theirs] == pytest.approx([0, 0.5])


@pytest.mark.parametrize("value", [1.5, float("inf"), np.float32(2.5), torch.tensor(0.5)])
def test_a_limit_that_is_no_whole_number_is_refused(value):
    with pytest.raises(TypeError, match=r"^`max_detection_thresholds` must be an int; got float\.$"):
        DetectionMAP(max_detection_thresholds=[value, 10, 100])


BY_NAME = {"thresholds": "torchmetrics"}


@pytest.mark.parametrize("backend", ["pycocotools", "faster_coco_eval"])
@pytest.mark.slow
def test_thresholds_of_torchmetrics_by_name_give_its_numbers_to_the_bit(backend):
    """In its own lists alone, and where one of both is given.

    Precision is 1 in faster-coco-eval where pycocotools divides 1 by 1 + 2^-52.
    """
    pytest.importorskip(backend)
    differing, options = 0, {"backend": backend, "class_metrics": True, "extended_summary": True}
    for seed in range(6):
        preds, target = images(seed, 6)
        # Some boxes are cut to overlap theirs by 3/5, 4/5, 19/20 or 3/4, thresholds that are others in float32.
        for found, true in zip((item["boxes"] for item in preds), (item["boxes"] for item in target), strict=True):
            cut = torch.tensor([0.4, 0.2, 0.05, 0.25])[(torch.arange(len(true)) + seed) % 4]
            found[: len(true)] = true
            found[: len(true), 3] -= (true[:, 3] - true[:, 1]) * cut
        given = ({}, {"iou_thresholds": [0.5, 0.6]}, {"rec_thresholds": [0.0, 0.3, 1.0]})[seed % 3]
        ours = fed(DetectionMAP(**BY_NAME, **options, **given), preds, target).compute()
        exact = fed(DetectionMAP(**options, **given), preds, target).compute()
        with torchmetrics_peer() as peer:
            theirs = fed(peer(**options, **given), preds, target).compute()
        assert ours.keys() == theirs.keys()
        rounded = {"precision"} if backend == "faster_coco_eval" else set()
        assert all(is_same(ours[name], theirs[name]) for name in ours.keys() - {"ious"} - rounded)
        assert (ours["precision"] - theirs["precision"]).abs().max() <= 2**-52
        differing += not is_same(ours["map"], exact["map"])
    assert differing >= 3


def test_thresholds_go_by_name_wherever_detections_are_evaluated():
    preds, target = images(2)
    expected = fed(DetectionMAP(**BY_NAME), preds, target).compute()["map"]
    results = evaluate_images(preds, target, **BY_NAME)
    assert torch.tensor(results["map"], dtype=torch.float32) == expected
    assert fed(DetectionMetrics(("map",), **BY_NAME), preds, target).compute()["map"] == expected
    assert repr(DetectionMAP(**BY_NAME)).endswith("metric=None, thresholds='torchmetrics')")
    assert "rec_thresholds=[0.5], thresholds=" in repr(DetectionMAP(**BY_NAME, rec_thresholds=[0.5]))
    with pytest.raises(ValueError, match=r"^`thresholds` must be left out with evaluator 'voc'; got 'torchmetrics'\.$"):
        evaluate_images(preds, target, evaluator="voc", **BY_NAME)


@pytest.mark.parametrize(("limits", "as_of"), [([100], [1, 10, 100]), ([50], [1, 1, 50])])
def test_one_limit_gives_the_numbers_of_three(limits, as_of):
    options = {"class_metrics": True, "extended_summary": True}
    found, of_three = (
        fed(DetectionMAP(max_detection_thresholds=each, **options), *images(4)).compute() for each in (limits, as_of)
    )
    assert [name for name in found if name.removeprefix("mar_").isdigit()] == [
        f"mar_{limit}" for limit in sorted(limits)
    ]
    grids = ("precision", "recall", "scores")
    assert all(is_same(found[name], of_three[name][..., -len(limits) :]) for name in grids)
    assert all(is_same(found[name], of_three[name]) for name in found.keys() - {*grids})
    results = fed(DetectionMAP(max_detection_thresholds=limits), *images(4)).results()
    assert f"maxDets={max(limits):>3d} ] = " in str(results)

"""`DetectionMAP` on a GPU: the values of the CPU, on the metric's device. Skipped where there is none."""

import warnings

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.metrics.detection.detection_samples import Dicts, fed, images, is_same

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def on_gpu(items: Dicts) -> Dicts:
    return [
        {key: value.cuda() if isinstance(value, Tensor) else value for key, value in item.items()} for item in items
    ]


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("with_ids", [True, False])
def test_values_are_those_of_the_cpu_and_on_the_device_of_the_metric(average, with_ids):
    preds, target = images(51, 30, with_ids=with_ids)
    options = {"average": average, "class_metrics": True, "extended_summary": True}
    value = fed(DetectionMAP(**options).cuda(), on_gpu(preds), on_gpu(target)).compute()
    assert {each.device.type for name, each in value.items() if name != "ious"} == {"cuda"}
    assert {each.device.type for each in value["ious"].values()} == {"cuda"}
    found = {name: each.cpu() for name, each in value.items() if name != "ious"}
    found["ious"] = {group: each.cpu() for group, each in value["ious"].items()}
    expected = fed(DetectionMAP(**options), preds, target).compute()
    assert is_same({name: found[name] for name in expected}, expected)


def test_images_on_the_cpu_give_values_on_the_device_of_the_metric():
    preds, target = images(52, with_ids=True)
    for options in ({}, {"compute_on_cpu": True}):
        value = fed(DetectionMAP(metric="map", **options).cuda(), preds, target).compute()
        assert value.device.type == "cuda"
        assert value.cpu() == fed(DetectionMAP(metric="map"), preds, target).compute()


@pytest.mark.parametrize("kind", [int, torch.tensor, lambda number: torch.tensor([number], device="cuda")])
def test_a_batch_waits_once_for_the_device(kind):
    preds, target = (on_gpu(side) for side in images(53, 40, with_ids=True))
    for item in target:
        item["image_id"] = kind(item["image_id"])
    metric = DetectionMAP().cuda()
    fed(metric, preds, target, size=40)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            fed(metric, preds, target, size=40)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert len([each for each in said if "synchroniz" in str(each.message)]) == 1


def test_results_are_those_of_the_cpu():
    preds, target = images(54, 30)
    results = [fed(DetectionMAP(), *given).results() for given in ((preds, target), (on_gpu(preds), on_gpu(target)))]
    for name, values in vars(results[1].detections()).items():
        assert not isinstance(values, Tensor) or torch.equal(values.cpu(), getattr(results[0].detections(), name))


def test_errors_of_images_are_those_of_the_cpu():
    preds, target = images(53, 20, with_ids=True)
    found = fed(DetectionMAP().cuda(), on_gpu(preds), on_gpu(target)).results().worst_images(20)
    expected = fed(DetectionMAP(), preds, target).results().worst_images(20)
    assert {name: values.tolist() for name, values in vars(found).items()} == {
        name: values.tolist() for name, values in vars(expected).items()
    }

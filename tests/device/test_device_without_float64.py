"""A device without float64, such as MPS: what lies there is computed on the CPU, and metrics hold it there."""

from types import SimpleNamespace

import pytest
import torch

from reid_torchmetrics import DetectionMAP, PairVerification, ReIDMeanAP, ReIDMetrics
from reid_torchmetrics._arrays import lacks_float64
from reid_torchmetrics.functional.detection import pairwise_iou
from reid_torchmetrics.functional.retrieval import evaluate, rank_positives
from tests.device import simulated_device
from tests.device.problems import moved, problem
from tests.device.waiting import waits_of
from tests.metrics.reid.samples import batches, fed


@pytest.fixture(autouse=True)
def _mode(simulated, monkeypatch):
    monkeypatch.setattr(simulated_device, "has_float64", False)


@pytest.mark.parametrize(("name", "expected"), [("mps", True), ("cpu", False), ("cuda", False), ("meta", False)])
def test_devices_are_told_apart_by_their_type(name, expected):
    assert lacks_float64(torch.device(name)) is expected


@pytest.mark.parametrize("has_fp64", [False, True])
def test_devices_of_intel_are_told_apart_by_their_properties(monkeypatch, has_fp64):
    monkeypatch.setattr(torch.xpu, "get_device_properties", lambda _: SimpleNamespace(has_fp64=has_fp64))
    assert lacks_float64(torch.device("xpu:1")) is not has_fp64


def test_the_simulated_device_refuses_float64_as_mps_does(simulated):
    assert lacks_float64(torch.device(simulated))
    here = torch.ones(2, device=simulated)
    for work in (
        torch.Tensor.double,
        lambda each: each.sum(dtype=torch.float64),
        lambda each: each.view(torch.float64),
    ):
        with pytest.raises(TypeError, match="Cannot convert a MPS Tensor to float64"):
            work(here)


def test_results_of_functions_are_on_the_cpu_and_those_of_compute_on_the_device(simulated):
    given = moved(problem(), simulated)
    boxes = torch.tensor([[0.0, 0, 4, 4]], device=simulated)
    found = [rank_positives(*given).rank, evaluate(*given).cmc, pairwise_iou(boxes, boxes, box_format="xywh")]
    assert [each.device.type for each in found] == ["cpu"] * 3
    metrics = fed(ReIDMetrics().to(simulated), moved(batches(), simulated))
    assert {each.device.type for each in metrics.compute().values()} == {simulated}


def test_an_update_neither_moves_embeddings_nor_waits(simulated):
    metric, given = ReIDMeanAP().to(simulated), moved(batches(), simulated)
    fed(metric, given)
    waits = waits_of(simulated, lambda: fed(metric, given))
    assert not waits, waits
    assert {each.device.type for each in metric.embeddings} == {simulated}


def test_tensors_on_the_device_and_on_the_cpu_may_be_passed_together(simulated):
    query, gallery, *labels = moved(problem(), "cpu")
    found = rank_positives(moved(query, simulated), gallery, moved(labels[0], simulated), *labels[1:])
    assert torch.equal(found.rank, rank_positives(query, gallery, *labels).rank)


def test_states_of_float64_stay_on_the_cpu(simulated):
    metric = PairVerification()
    same = torch.tensor([True, False, True])
    metric.update(torch.eye(3), torch.ones(3, 3), same, index=torch.tensor([2, 0, 1]))
    expected = metric.compute()
    metric.to(simulated)
    assert (metric.scores[0].device.type, metric.same[0].device.type) == ("cpu", simulated)
    value = metric.compute()
    assert (value.device.type, float(value)) == (simulated, float(expected))


def test_an_image_without_objects_is_held_where_the_others_are():
    objects = {
        "masks": torch.ones(1, 4, 4, dtype=torch.bool),
        "labels": torch.tensor([0]),
        "scores": torch.tensor([0.5]),
    }
    found = {}
    for device in ("cpu", "sim"):
        metric = DetectionMAP(iou_type="segm").to(device)
        for num_objects in (1, 0):
            image = {key: moved(value[:num_objects], device) for key, value in objects.items()}
            metric.update([image], [image | {"area": moved(torch.ones(num_objects), device)}])
        found[device] = metric.compute()["map"].item()
    assert found["sim"] == found["cpu"] > 0

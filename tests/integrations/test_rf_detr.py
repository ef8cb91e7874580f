"""RF-DETR's metric gets the numbers of its own back end, bit for bit, from this package's."""

import pickle
import sys
import types
from importlib.util import find_spec
from typing import get_args
from unittest import mock

import pytest
import torch
import torchmetrics
from torchmetrics.detection.mean_ap import MeanAveragePrecision

from reid_torchmetrics.integrations import register_rf_detr
from reid_torchmetrics.integrations.rf_detr import RfDetrBackend
from tests.functional.detection.detection_samples import fed, images, torchmetrics_peer
from tests.real_packages import modules_of

LIMITS = [1, 10, 500]
BACKENDS = ("faster_coco_eval", "hotcoco", "ufcoco", "vernier")
DEFAULT_BACKEND = "vernier"
"""the values of RF-DETR 1.11.2 and their default; a nightly test reads those of the package"""
NEEDS_PEER = pytest.mark.skipif(find_spec("faster_coco_eval") is None, reason="faster-coco-eval is not installed")


@pytest.fixture
def coco_map(monkeypatch):
    """A stand-in of `rfdetr.training.coco_map`: a registry, and a metric that asks it for a back end."""
    with torchmetrics_peer() as peer:

        class OnePassCocoMeanAveragePrecision(peer):
            def __init__(self, backend, **options):
                super().__init__(backend="faster_coco_eval", sync_on_compute=False, **options)
                if module._BACKENDS[backend] is not None:  # RF-DETR's own are those of TorchMetrics here
                    self._coco_backend = module._BACKENDS[backend]()
                self.warn_on_many_detections = False

            def compute(self):
                return super().compute()

        module = types.ModuleType("rfdetr.training.coco_map")
        module._BACKENDS = dict.fromkeys(BACKENDS)
        module.OnePassCocoMeanAveragePrecision = OnePassCocoMeanAveragePrecision
        for name in ("rfdetr", "rfdetr.training"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        monkeypatch.setitem(sys.modules, "rfdetr.training.coco_map", module)
        yield module


def with_masks(items):
    masked = []
    for item in items:
        masks = torch.zeros(len(item["labels"]), 260, 260, dtype=torch.bool)
        for mask, (left, top, right, bottom) in zip(masks, item["boxes"].long().clamp(min=0).tolist(), strict=True):
            mask[top:bottom, left:right] = True
        masked.append(item | {"masks": masks})
    return masked


def check_numbers(coco_map, iou_type, class_metrics) -> None:
    """Compare the default back end after `register_rf_detr()` with RF-DETR's own one of TorchMetrics."""
    options = {"iou_type": iou_type, "class_metrics": class_metrics, "max_detection_thresholds": LIMITS}
    for seed in range(3):
        sides = images(seed, 8)
        if "segm" in iou_type:
            sides = [*map(with_masks, sides)]
        own = dict(coco_map._BACKENDS)
        expected = fed(coco_map.OnePassCocoMeanAveragePrecision(backend="faster_coco_eval", **options), *sides, size=3)
        expected_numbers = expected.compute()
        register_rf_detr()
        metric = fed(coco_map.OnePassCocoMeanAveragePrecision(backend=DEFAULT_BACKEND, **options), *sides, size=3)
        numbers = metric.compute()
        coco_map._BACKENDS.update(own)
        assert isinstance(metric._coco_backend, RfDetrBackend)
        assert numbers.keys() == expected_numbers.keys()
        for name, value in expected_numbers.items():
            assert numbers[name].dtype == value.dtype
            assert torch.equal(numbers[name], value), name


@NEEDS_PEER
@pytest.mark.parametrize("class_metrics", [True, False])
@pytest.mark.parametrize("iou_type", ["bbox", ("bbox", "segm")])
def test_numbers_are_those_of_the_back_end_in_form_and_bits(coco_map, iou_type, class_metrics):
    check_numbers(coco_map, iou_type, class_metrics)


@NEEDS_PEER
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # of RF-DETR's dependencies
@pytest.mark.parametrize("iou_type", ["bbox", ("bbox", "segm")])
def test_every_value_of_the_setting_of_rf_detr_evaluates_with_this_package(iou_type):
    parent = mock.patch.object(torchmetrics.detection, "MeanAveragePrecision", MeanAveragePrecision, create=True)
    with modules_of("rfdetr", absent=["torchvision"]) as import_module:
        with parent:  # TorchMetrics leaves it out without torchvision
            real_map = import_module("rfdetr.training.coco_map")
        config = import_module("rfdetr.config")
    assert config.TrainConfig.model_fields["eval_backend"].default == DEFAULT_BACKEND
    assert sorted(get_args(config.CocoEvalBackend)) == sorted(real_map._BACKENDS) == list(BACKENDS)
    with torchmetrics_peer(), mock.patch.dict(sys.modules, {real_map.__name__: real_map}):
        check_numbers(real_map, iou_type, class_metrics=True)
        register_rf_detr()
        for name in get_args(config.CocoEvalBackend):
            metric = real_map.OnePassCocoMeanAveragePrecision(backend=name)
            assert isinstance(metric._coco_backend, RfDetrBackend)


def test_all_back_ends_are_replaced_unless_one_is_named(coco_map):
    register_rf_detr("hotcoco")
    assert [name for name, backend in coco_map._BACKENDS.items() if backend is RfDetrBackend] == ["hotcoco"]
    register_rf_detr()
    assert set(coco_map._BACKENDS.values()) == {RfDetrBackend}


@NEEDS_PEER
def test_the_metric_is_pickled_with_the_back_end(coco_map):
    register_rf_detr("vernier")
    backend = coco_map._BACKENDS["vernier"]()
    assert isinstance(pickle.loads(pickle.dumps(backend)), RfDetrBackend)
    assert coco_map._BACKENDS["hotcoco"] is None
    assert backend.uses_coco_evaluator is False


def test_an_unknown_back_end_is_refused(coco_map):
    with pytest.raises(
        ValueError, match="`name` must be one of 'faster_coco_eval', 'hotcoco', 'ufcoco', 'vernier'; got 'other'"
    ):
        register_rf_detr("other")

"""RF-DETR's metric gets the numbers of its own back end, bit for bit, from this package's."""

import pickle
import sys
import types

import pytest
import torch

from reid_torchmetrics.integrations import register_rf_detr
from reid_torchmetrics.integrations.rf_detr import RfDetrBackend
from tests.functional.detection.detection_samples import fed, images, torchmetrics_peer

LIMITS = [1, 10, 500]
pytest.importorskip("faster_coco_eval")


@pytest.fixture
def coco_map(monkeypatch):
    """A stand-in of `rfdetr.training.coco_map`: a registry, and a metric that asks it for a back end."""
    with torchmetrics_peer() as peer:

        class OnePassCocoMeanAveragePrecision(peer):
            def __init__(self, backend="hotcoco", **options):
                super().__init__(
                    backend="faster_coco_eval", max_detection_thresholds=LIMITS, sync_on_compute=False, **options
                )
                if backend != "faster_coco_eval":
                    self._coco_backend = module._BACKENDS[backend]()
                self.warn_on_many_detections = False

            def compute(self):
                return super().compute()

        module = types.ModuleType("rfdetr.training.coco_map")
        module._BACKENDS = {"hotcoco": None, "vernier": None}
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


@pytest.mark.parametrize("class_metrics", [True, False])
@pytest.mark.parametrize("iou_type", ["bbox", ("bbox", "segm")])
def test_numbers_are_those_of_the_back_end_in_form_and_bits(coco_map, iou_type, class_metrics):
    register_rf_detr()
    for seed in range(3):
        sides = images(seed, 8)
        if "segm" in iou_type:
            sides = [*map(with_masks, sides)]
        options = {"iou_type": iou_type, "class_metrics": class_metrics}
        expected, found = (
            fed(coco_map.OnePassCocoMeanAveragePrecision(backend, **options), *sides, size=3).compute()
            for backend in ("faster_coco_eval", "hotcoco")
        )
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name].dtype == value.dtype
            assert torch.equal(found[name], value), name


def test_the_metric_is_pickled_with_the_back_end(coco_map):
    register_rf_detr("vernier")
    backend = coco_map._BACKENDS["vernier"]()
    assert isinstance(pickle.loads(pickle.dumps(backend)), RfDetrBackend)
    assert coco_map._BACKENDS["hotcoco"] is None
    assert backend.uses_coco_evaluator is False


def test_an_unknown_back_end_is_refused(coco_map):
    with pytest.raises(ValueError, match="`name` must be one of 'hotcoco', 'vernier'; got 'other'"):
        register_rf_detr("other")

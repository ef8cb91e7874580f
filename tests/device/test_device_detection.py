"""Metrics of detection on a second device: the values of the CPU."""

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from tests.device.problems import assert_as_on_the_cpu, moved
from tests.functional.detection.detection_samples import fed, images, named
from tests.functional.detection.mask_samples import mask_images

PREDICTED, TRUE = images(51, 12, with_ids=True)


def test_arrays_and_lists_go_to_the_first_tensor(device, deterministic):
    true = [{name: each[name].tolist() for name in ("boxes", "labels")} for each in TRUE]

    def values(where):
        predicted = [moved(each, where) | {"scores": each["scores"].numpy()} for each in PREDICTED]
        return fed(DetectionMAP().to(where), predicted, true).compute()

    assert_as_on_the_cpu(device, values)


@pytest.mark.parametrize("options", [{}, {"compute_on_cpu": True}])
def test_images_on_the_cpu_give_values_on_the_device_of_the_metric(device, options):
    def value(where):
        return fed(DetectionMAP(metric="map", **options).to(where), PREDICTED, TRUE).compute()

    assert_as_on_the_cpu(device, value)


def test_boxes_of_images_with_names_are_those_of_the_cpu(device):
    given = PREDICTED, named(TRUE, [*"abcdefghijkl"])

    def boxes(where):
        metric = fed(DetectionMAP().to(where), *moved(given, where))
        worst = metric.results().worst_images(3)
        found, true = metric.boxes_of(worst.image_ids)
        return [metric.boxes_of(worst.image)[0], found, [each.pop("image_id") for each in true], true]

    assert_as_on_the_cpu(device, boxes)


def test_metrics_are_merged_there(device):
    first, second = (slice(0, 6), slice(6, 12))

    def value(where):
        metric = fed(DetectionMAP().to(where), *moved((PREDICTED[first], TRUE[first]), where))
        other = fed(DetectionMAP().to(where), *moved((PREDICTED[second], TRUE[second]), where))
        metric.merge_state(other)
        return metric.compute()

    assert_as_on_the_cpu(device, value)


@pytest.mark.parametrize("key", ["iscrowd", "area"])
@pytest.mark.parametrize("others_have", [True, False])
def test_tensors_of_an_image_without_boxes_may_lie_on_any_device(device, key, others_have):
    found, true = images(53, 4)
    true = [{name: value for name, value in item.items() if name in ("boxes", "labels")} for item in true]
    if others_have:
        for item in true:
            item[key] = torch.ones(len(item["labels"]), dtype=torch.int64)
    nothing = torch.empty(0)
    none_found = {"boxes": torch.empty(0, 4), "scores": nothing, "labels": nothing}
    none_true = {"boxes": torch.empty(0, 4), "labels": nothing, key: nothing}

    def value(where):
        metric = DetectionMAP().to(where)
        for place in (0, 2):
            preds, target = moved((found, true), where)
            preds.insert(place, none_found)
            target.insert(place, none_true)
            metric.update(preds, target)
        return metric.compute()

    assert_as_on_the_cpu(device, value)


@pytest.mark.filterwarnings("ignore:.* are not finite or have")
@pytest.mark.parametrize("key", ["boxes", "keypoints", "rotated_boxes"])
def test_shapes_that_are_invalid_count_as_on_the_cpu(device, deterministic, key):
    samples = mask_images(5, 6, with_boxes=True)
    for side in samples:
        for item in side:
            boxes = item["boxes"].double()
            item["keypoints"] = boxes[:, None, :3] + torch.arange(17.0)[:, None]
            item["rotated_boxes"] = torch.cat([boxes[:, :2], boxes[:, 2:] + 1, boxes[:, :1] / 100], 1)
    for item in samples[0]:
        item[key][::2] = -item[key][::2]
        item[key][1::3] /= 0
    iou_type = {"boxes": "bbox", "rotated_boxes": "rotated"}.get(key, key)

    def values(where):
        given = [[dict(zip(item, moved([*item.values()], where), strict=True)) for item in side] for side in samples]
        metric = fed(DetectionMAP(iou_type=iou_type).to(where), *given)
        assert metric.num_invalid > 0
        return [metric.compute(), metric.results(across_classes=True).summary(), metric.num_invalid]

    assert_as_on_the_cpu(device, values)

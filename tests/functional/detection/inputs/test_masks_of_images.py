"""Masks in `DetectionMAP`: the numbers of pycocotools and TorchMetrics, from states that hold no mask."""

import json
import pickle

import pytest
import torch
from pycocotools import mask as coco_masks

from reid_torchmetrics import DetectionMAP
from tests.functional.detection.detection_samples import FLOAT32_THRESHOLDS, fed, is_same, torchmetrics_peer
from tests.functional.detection.mask_samples import HEIGHT, WIDTH, coco_rows, compressed, mask_images
from tests.profiles import of_each
from tests.pycocotools_shapes import largest_difference, run_coco

PREDS, TARGET = mask_images(3, 8)


def both_sides(preds, target):
    """Images with something on both sides: TorchMetrics leaves images without masks out, and their false positives."""
    kept = [place for place, each in enumerate(zip(preds, target, strict=True)) if all(len(i["labels"]) for i in each)]
    return [preds[place] for place in kept], [target[place] for place in kept]


@pytest.mark.parametrize("seed", of_each(range(6), suite=2))
@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("iou_type", ["segm", ("bbox", "segm"), ("segm", "bbox")])
def test_every_value_is_that_of_torchmetrics(iou_type, average, seed):
    preds, target = both_sides(*mask_images(seed, 10, with_boxes=True))
    # Of two types TorchMetrics evaluates the second one as "macro" where it has evaluated classes before.
    options = {"iou_type": iou_type, "average": average, "class_metrics": average == "macro", "extended_summary": True}
    ours = fed(DetectionMAP(**options, **FLOAT32_THRESHOLDS), preds, target).compute()
    with torchmetrics_peer() as peer:
        theirs = fed(peer(**options), preds, target).compute()
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        if name.endswith("ious"):
            places = {image: place for place, image in enumerate(each["image_id"] for each in target)}
            given_ious = {(places[image], label): each for (image, label), each in ours[name].items()}
            assert all(is_same(given_ious[key], each) for key, each in value.items())
        else:
            assert is_same(ours[name], value), name


def test_run_lengths_are_evaluated_as_the_masks_that_they_stand_for():
    expected = fed(DetectionMAP(iou_type="segm"), PREDS, TARGET).compute()
    encoded = [[item | {"masks": compressed(item["masks"])} for item in side] for side in (PREDS, TARGET)]
    assert is_same(fed(DetectionMAP(iou_type="segm"), *encoded).compute(), expected)
    assert is_same(fed(DetectionMAP(iou_type="segm"), PREDS, encoded[1]).compute(), expected)
    whole = [[item | {"masks": item["masks"].to(torch.uint8)} for item in side] for side in (PREDS, TARGET)]
    assert is_same(fed(DetectionMAP(iou_type="segm"), *whole).compute(), expected)


def test_no_mask_is_held():
    metric = fed(DetectionMAP(iou_type="segm"), PREDS, TARGET)
    held = sum(tensor.nbytes for name in metric.metric_state for tensor in getattr(metric, name))
    num_pairs = sum(len(p["labels"]) * len(t["labels"]) for p, t in zip(PREDS, TARGET, strict=True))
    num_shapes = sum(len(item["labels"]) for item in (*PREDS, *TARGET))
    assert held <= 8 * num_pairs + 100 * num_shapes + 100 * len(PREDS) < 2 * HEIGHT * WIDTH  # two masks of many


@pytest.mark.parametrize("iou_type", ["segm", ("bbox", "segm")])
def test_batches_merging_and_copies_change_no_number(iou_type):
    preds, target = mask_images(5, 9, with_boxes=True)
    options = {"iou_type": iou_type, "extended_summary": True, "class_metrics": True}
    expected = fed(DetectionMAP(**options), preds, target).compute()
    first, second = (fed(DetectionMAP(**options), preds[part], target[part], 2) for part in (slice(4), slice(4, None)))
    first.merge_state(second)
    assert is_same(first.compute(), expected)
    assert is_same(pickle.loads(pickle.dumps(first)).compute(), expected)
    repeated = fed(DetectionMAP(**options), [*preds, *preds[2:5]], [*target, *target[2:5]])
    assert is_same(repeated.compute(), expected)
    reversed_order = fed(DetectionMAP(**options), preds[::-1], target[::-1])
    assert is_same(reversed_order.compute(), expected)
    assert is_same(DetectionMAP(**options)(preds, target), expected)


def test_masks_that_changed_under_an_id_are_refused():
    other = TARGET[0] | {"masks": TARGET[0]["masks"].roll(1, 1), "area": TARGET[0]["area"] + 1}
    metric = fed(DetectionMAP(iou_type="segm"), [PREDS[0], PREDS[0]], [TARGET[0], other])
    with pytest.raises(ValueError, match="`image_id` must be the same only for repetitions of an image; got 10"):
        metric.compute()


def test_metrics_of_other_shapes_are_not_merged():
    metric = DetectionMAP(iou_type="segm")
    with pytest.raises(ValueError, match=r"`iou_type` must be \('segm',\) in both metrics; got \('bbox',\)."):
        metric.merge_state(DetectionMAP())


def test_one_value_of_one_type_is_logged():
    preds, target = mask_images(5, 9, with_boxes=True)
    values = fed(DetectionMAP(iou_type=("bbox", "segm")), preds, target).compute()
    for name in ("bbox_map", "segm_map_75"):
        assert torch.equal(
            fed(DetectionMAP(iou_type=("bbox", "segm"), metric=name), preds, target).compute(), values[name]
        )
    assert not torch.equal(values["bbox_map"], values["segm_map"])
    with pytest.raises(ValueError, match="`metric` must be one of 'bbox_map', 'bbox_map_50'"):
        DetectionMAP(iou_type=("bbox", "segm"), metric="map")


def test_results_are_those_of_the_type_that_is_asked_for():
    preds, target = mask_images(5, 9, with_boxes=True)
    metric = fed(DetectionMAP(iou_type=("bbox", "segm")), preds, target)
    values = metric.compute()
    assert metric.results().summary()["map"].float() == values["bbox_map"]
    assert metric.results("segm").summary()["map"].float() == values["segm_map"]
    with pytest.raises(ValueError, match="`iou_type` must be one of 'bbox', 'segm'; got 'keypoints'"):
        metric.results("keypoints")


def test_boxes_of_images_with_masks_alone_are_those_that_hold_the_masks():
    mask = torch.zeros(1, 9, 12, dtype=torch.bool)
    mask[0, 2:5, 4:10] = True
    items = {"masks": mask, "labels": torch.tensor([1])}
    for box_format, expected in {"xyxy": [4, 2, 10, 5], "xywh": [4, 2, 6, 3], "cxcywh": [7, 3.5, 6, 3]}.items():
        metric = DetectionMAP(box_format, iou_type="segm")
        metric.update([items | {"scores": torch.tensor([0.5])}], [items])
        assert metric.boxes_of(torch.tensor([0]))[0][0]["boxes"].tolist() == [expected]
        assert metric.compute()["map"] == 1


def test_an_area_that_is_given_counts_also_below_one_pixel():
    mask = torch.ones(1, 2, 2, dtype=torch.bool)
    items = {"masks": mask, "labels": torch.tensor([1])}
    for area, expected in ((0.5, 1), (4.0, -1)):  # the mask has 4 pixels, and is outside of the range without 0.5
        metric = DetectionMAP(iou_type="segm", area_ranges={"tiny": (0, 1)}, metric="map")
        metric.update([items | {"scores": torch.tensor([0.5])}], [items | {"area": torch.tensor([area])}])
        assert metric.compute() == expected


def test_files_of_coco_are_read_with_polygons_and_run_lengths(tmp_path):
    polygon = [3.2, 2.1, 20.7, 4.0, 15.0, 30.3]
    results, annotations, coco_images = coco_rows(PREDS, TARGET)
    rle = coco_masks.merge(coco_masks.frPyObjects([polygon], HEIGHT, WIDTH))
    row = {"image_id": 10, "category_id": 0, "bbox": [0, 0, 1, 1], "iscrowd": 0, "area": 80.0}
    annotations.append(row | {"segmentation": rle})
    labels = [0, 1]
    arrays, _ = run_coco("segm", results, annotations, images=coco_images, labels=labels)
    annotations[-1]["segmentation"] = [polygon]
    for item in (*results, *annotations):
        if isinstance(item["segmentation"], dict):
            item["segmentation"]["counts"] = item["segmentation"]["counts"].decode()
    paths = [tmp_path / "results.json", tmp_path / "truth.json"]
    paths[0].write_text(json.dumps(results), encoding="utf-8")
    paths[1].write_text(json.dumps({"images": coco_images, "annotations": annotations}), encoding="utf-8")
    read = DetectionMAP.coco_to_tm(*map(str, paths), iou_type="segm")
    assert largest_difference(fed(DetectionMAP(iou_type="segm"), *read).results().coco, arrays) <= 1e-12
    del coco_images[0]["height"]
    paths[1].write_text(json.dumps({"images": coco_images, "annotations": annotations}), encoding="utf-8")
    with pytest.raises(
        ValueError, match="must have `height` and `width`, whole numbers of at least 1, in each image with polygons"
    ):
        DetectionMAP.coco_to_tm(*map(str, paths), iou_type="segm")


def test_images_without_masks_have_tensors_without_entries():
    empty = {"masks": torch.tensor([]), "scores": torch.tensor([]), "labels": torch.tensor([])}
    mask = {"masks": torch.ones(1, 2, 2).bool(), "labels": torch.tensor([1]), "scores": torch.tensor([0.5])}
    metric = DetectionMAP(iou_type="segm")
    metric.update([empty, mask, empty], [mask, empty | {"masks": []}, empty])
    assert metric.compute()["map"] == 0
    metric.reset()
    metric.update([empty], [empty])
    assert metric.compute()["map"] == -1


WRONG = [
    ({"boxes": torch.zeros(1, 4)}, ValueError, "Expected all dicts in `preds` to contain the `masks` key"),
    ({"masks": torch.ones(1, 2, 2)}, TypeError, r"`preds\[0\]\['masks'\]` must have dtype bool or an integer dtype"),
    ({"masks": torch.ones(2, 2).bool()}, ValueError, r"`preds\[0\]\['masks'\]` must have shape \[N, H, W\]; got"),
    (
        {"masks": torch.ones(2, 2, 3).bool()},
        ValueError,
        r"`preds\[0\]\['masks'\]` must have one for each of 1 labels; got 2.",
    ),
    (
        {"masks": torch.ones(1, 2, 3).bool()},
        ValueError,
        r"`target\[0\]\['masks'\]` must be of an image of 2 x 3, as those of `preds`; got 2 x 2.",
    ),
    (
        {"masks": [torch.ones(2, 2)]},
        TypeError,
        "must be a tensor or a list of dicts of 'size' and 'counts'; got Tensor",
    ),
    ({"masks": [{"counts": []}]}, TypeError, "got a dict of 'counts' in the list."),
    ({"masks": [{"size": [2, 2], "counts": [3]}]}, ValueError, "must hold masks of the image: `counts` must be at"),
]


@pytest.mark.parametrize(("found", "error", "message"), WRONG)
def test_values_that_are_no_masks_are_refused_and_nothing_is_stored(found, error, message):
    base = {"labels": torch.tensor([1]), "scores": torch.tensor([0.5])}
    metric = DetectionMAP(iou_type="segm")
    with pytest.raises(error, match=message):
        metric.update([base | found], [base | {"masks": torch.ones(1, 2, 2).bool()}])
    assert not any(getattr(metric, name) for name in metric.metric_state)

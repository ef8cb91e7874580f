"""Values of `DetectionMAP`: those of TorchMetrics and of pycocotools, and what is its own."""

import itertools
import json
import warnings

import pytest
import torch

from reid_torchmetrics import YoloMAP
from reid_torchmetrics.functional.detection import RunLengths
from reid_torchmetrics.functional.detection.curves import AP_RULES, average_precision, curves_from_matches
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.functional.detection.detection_samples import (
    FLOAT32_THRESHOLDS,
    Dicts,
    box,
    fed,
    images,
    is_same,
    torchmetrics_peer,
)
from tests.golden.coco_cases import val2014

NUMBERS = ["map", "map_50", "map_75", "map_small", "map_medium", "map_large"]
NUMBERS += ["mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"]


@pytest.mark.filterwarnings("ignore:Encountered more than")
@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("limits", [[1, 10, 100], [100, 1, 3], [1, 2, 3]])
@pytest.mark.slow
def test_every_value_with_its_thresholds_is_that_of_torchmetrics(average, limits):
    with torchmetrics_peer() as peer:
        for seed in range(8):
            preds, target = images(seed)
            options = {
                "average": average,
                "max_detection_thresholds": limits,
                "class_metrics": bool(seed % 4),
                "extended_summary": bool(seed % 3),
                **FLOAT32_THRESHOLDS,
            }
            first, second = (fed(each(**options), preds, target).compute() for each in (DetectionMAP, peer))
            if 100 not in limits:  # TorchMetrics has -1 there, and so in the values of classes
                for name in ("map", "map_per_class"):
                    del first[name], second[name]
            assert is_same(first, second)


def test_a_detection_beyond_100_counts_as_in_torchmetrics():
    found = {
        "boxes": torch.cat([box(50, 50, 60, 60).repeat(110, 1), box(0, 0, 10, 10)]),
        "scores": torch.linspace(1, 0.1, 111),
        "labels": torch.zeros(111, dtype=torch.int64),
    }
    true = {"boxes": box(0, 0, 10, 10), "labels": torch.zeros(1, dtype=torch.int64)}
    options = {"max_detection_thresholds": [1, 100, 200], "class_metrics": True, "extended_summary": True}
    with torchmetrics_peer() as peer:
        first, second = (fed(each(**options, **FLOAT32_THRESHOLDS), [found], [true]) for each in (DetectionMAP, peer))
        value = first.compute()
        assert is_same(value, second.compute())
    assert value["map"] == value["map_per_class"] == 0
    assert value["mar_200"] == 1
    assert value["map_50"] > 0


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_boxes_are_converted_in_their_own_dtype_as_in_torchmetrics(box_format, dtype):
    generator = torch.Generator().manual_seed(3)
    preds, target = images(3, 30)
    for item in preds + target:
        item["boxes"] = (item["boxes"] + torch.rand(item["boxes"].shape, generator=generator)).to(dtype)
        if box_format == "xyxy":
            item["boxes"][:, 2:] += 1  # sides that shrink below 0 are refused
    with torchmetrics_peer() as peer:
        options = {"box_format": box_format, "extended_summary": True, **FLOAT32_THRESHOLDS}
        assert is_same(*(fed(each(**options), preds, target).compute() for each in (DetectionMAP, peer)))


@pytest.mark.parametrize("without", ["detections", "ground truths", "boxes"])
def test_images_without_boxes_have_the_values_of_torchmetrics(without):
    preds = [{"boxes": box(1, 1, 5, 5), "scores": torch.ones(1), "labels": torch.tensor([2])}]
    target = [{"boxes": box(1, 1, 5, 5), "labels": torch.tensor([2])}]
    if without != "ground truths":
        preds = [dict.fromkeys(("boxes", "scores"), torch.tensor([])) | {"labels": torch.tensor([]).int()}]
    if without != "detections":
        target = [{"boxes": torch.tensor([]), "labels": torch.tensor([]).int()}]
    with torchmetrics_peer() as peer:
        options = {"class_metrics": True, **FLOAT32_THRESHOLDS}
        assert is_same(*(fed(each(**options), preds, target).compute() for each in (DetectionMAP, peer)))


def test_a_metric_without_images_gives_minus_one_and_no_class():
    values = {}
    for metric in (DetectionMAP(), DetectionMAP(class_metrics=True, extended_summary=True), DetectionMAP(metric="map")):
        with pytest.warns(UserWarning, match="before the ``update`` method"):
            values[metric] = metric.compute()
    plain, full, one = values.values()
    assert plain.pop("classes").shape == (0,)
    assert [*plain] == [*NUMBERS, "map_per_class", "mar_100_per_class"]
    assert {float(value) for value in plain.values()} == {-1}
    assert full["ious"] == {}
    assert full["precision"].shape == (10, 101, 0, 4, 3)
    assert full["map_per_class"].shape == (0,)
    assert one == -1


def real_images(order: list[int], *, with_ids: bool) -> tuple[Dicts, Dicts]:
    """The images of COCO val2014, in some order."""
    real = {name: torch.from_numpy(values) for name, values in vars(val2014()).items()}
    preds, target = [], []
    for image in real["images"][order]:
        found, true = (real[f"{side}_images"] == image for side in ("detection", "ground_truth"))
        preds.append({name: real[f"detection_{name}"][found] for name in ("boxes", "scores", "labels")})
        target.append({name: real[f"ground_truth_{name}"][true] for name in ("boxes", "labels")})
        target[-1] |= {"iscrowd": real["is_crowd"][true], "area": real["areas"][true]}
        if with_ids:
            target[-1]["image_id"] = image
    return preds, target


def test_the_numbers_of_val2014_are_those_of_pycocotools_in_whatever_order_the_images_come():
    expected = [float(value) for value in val2014().stats]
    for seed in range(3):
        order = torch.randperm(100, generator=torch.Generator().manual_seed(seed)).tolist()
        metric = fed(DetectionMAP(box_format="xywh"), *real_images(order, with_ids=True), size=seed + 1)
        numbers = metric.results().summary()
        assert [float(numbers[name]) for name in NUMBERS] == pytest.approx(expected, rel=0, abs=1e-12)
        values = metric.compute()
        assert [float(values[name]) for name in NUMBERS] == pytest.approx(expected, rel=0, abs=1e-7)


def test_without_image_id_the_order_of_the_images_decides_on_equal_scores():
    orders = range(100), range(99, -1, -1)
    metrics = [fed(DetectionMAP(box_format="xywh"), *real_images([*order], with_ids=False)) for order in orders]
    first, second = (metric.results().summary()["map"] for metric in metrics)
    assert first != second
    assert first == pytest.approx(float(second), abs=1e-3)


@pytest.mark.parametrize("kind", ["int", "tensor", "row"])
def test_the_first_of_images_with_the_same_id_counts(kind):
    preds, target = images(6, 9, with_ids=True)
    made = {"int": int, "tensor": torch.tensor, "row": lambda number: torch.tensor([number], dtype=torch.int32)}[kind]
    for item in target:
        item["image_id"] = made(item["image_id"])
    options = {"class_metrics": True, "extended_summary": True}
    value = fed(DetectionMAP(**options), preds, target).compute()
    assert sorted({image for image, _ in value["ious"]}) == sorted(int(item["image_id"]) for item in target)
    changed = [item | {"scores": 1 - item["scores"]} for item in preds]
    again = [preds, target], [changed[3:5], target[3:5]], [preds[:2], target[:2]]
    repeated = [[*itertools.chain(*side)] for side in zip(*again, strict=True)]
    assert is_same(fed(DetectionMAP(**options), *repeated).compute(), value)


@pytest.mark.filterwarnings("ignore:Encountered more than")
def test_map_is_at_the_largest_limit_where_100_is_none_of_them():
    preds, target = images(7, 6)
    value = fed(DetectionMAP(max_detection_thresholds=(3, 2, 1)), preds, target).compute()
    assert [name for name in value if name.startswith("mar_")][:2] == ["mar_1", "mar_2"]
    assert value["map"] == fed(DetectionMAP(max_detection_thresholds=[2, 1, 3]), preds, target).compute()["map"] > 0


@pytest.mark.parametrize("rule", AP_RULES)
@pytest.mark.parametrize("average", ["macro", "micro"])
def test_interpolation_is_the_rule_that_makes_average_precision_of_the_curves(rule, average):
    preds, target = images(9, 10)
    metric = fed(DetectionMAP(rule=rule, class_metrics=True, average=average), preds, target)
    value = metric.compute()
    coco = fed(DetectionMAP(class_metrics=True, average=average), preds, target).compute()
    expected = average_precision(curves_from_matches(metric.results().matches), AP_RULES[rule])
    assert value["map"] == pytest.approx(float(expected[0].nanmean()), abs=1e-6)
    assert value["map_50"] == pytest.approx(float(expected[0, 0].nanmean()), abs=1e-6)
    assert value["mar_100"] == coco["mar_100"]
    assert (value["map_per_class"] == coco["map_per_class"]).all() == (rule == "coco")
    assert value["map_per_class"].shape == coco["map_per_class"].shape


def test_area_ranges_of_ones_own_name_the_values():
    preds, target = images(10)
    ranges = {"any": (0, 1e9), "tiny": (0.0, 100.0), "rest": (100.0, 1e9)}
    value = fed(DetectionMAP(area_ranges=ranges, extended_summary=True), preds, target).compute()
    assert [*value][:8] == ["map", "map_50", "map_75", "map_tiny", "map_rest", "mar_1", "mar_10", "mar_100"]
    assert [*value][8:10] == ["mar_tiny", "mar_rest"]
    assert value["precision"].shape[3] == 3
    same = fed(DetectionMAP(area_ranges={"all": (0, 1e10)}), preds, target).compute()
    assert {name: float(same[name]) for name in ("map", "mar_100")} == {
        name: float(fed(DetectionMAP(), preds, target).compute()[name]) for name in ("map", "mar_100")
    }
    assert "map_small" not in same


@pytest.mark.parametrize("kind", [DetectionMAP, YoloMAP])
def test_values_can_be_written_to_and_take_part_in_gradients(kind):
    metric = fed(kind(), *images(11))
    weight = torch.ones((), requires_grad=True)
    value = metric.compute()["map"]
    (weight * value).backward()
    assert weight.grad == value
    value.zero_()
    matches = metric.results().matches
    assert not any(each.is_inference() for each in (matches.scores, matches.matched, metric.detection_boxes[0]))


def test_a_bound_on_memory_changes_nothing():
    preds, target = images(13)
    options = {"extended_summary": True, "average": "micro"}
    assert is_same(*(fed(DetectionMAP(max_bytes=size, **options), preds, target).compute() for size in (1, 10**9)))


def test_all_labels_are_one_class_in_every_number_but_those_of_the_classes():
    """With `class_metrics` the classes are matched, too: means, grids and points stay those of the one class."""
    preds, target = images(19)
    both, one = (
        fed(DetectionMAP(average="micro", class_metrics=each, extended_summary=True), preds, target).compute()
        for each in (True, False)
    )
    assert both["precision"].shape[2] == 1
    names = [name for name in one if not name.endswith("_per_class")]
    assert is_same({name: both[name] for name in names}, {name: one[name] for name in names})
    for name in ("map", "f1_50", "precision_50", "confidence_50", "lrp"):
        values = [
            fed(DetectionMAP(average="micro", class_metrics=each, metric=name), preds, target).compute()
            for each in (True, False)
        ]
        assert values[0] == values[1], name


def test_an_image_with_too_many_detections_is_warned_of():
    found = {"boxes": box(1, 1, 5, 5).repeat(11, 1), "scores": torch.ones(11), "labels": torch.arange(11)}
    true = {"boxes": box(1, 1, 5, 5), "labels": torch.tensor([2])}
    metric = DetectionMAP(max_detection_thresholds=[1, 5, 10])
    with pytest.warns(
        UserWarning, match="Encountered more than 10 detections in a single image; of one class in an image only"
    ) as said:
        metric.update([found], [true])
    assert said[0].filename == __file__
    metric.warn_on_many_detections = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.update([found], [true])
        DetectionMAP(max_detection_thresholds=[1, 2, 11]).update([found], [true])
    assert len(metric.detection_counts) == 2


def test_only_the_first_shapes_of_a_repeated_image_are_written(tmp_path):
    full, half = torch.ones(1, 4, 6, dtype=torch.bool), torch.zeros(1, 4, 6, dtype=torch.bool)
    half[..., :3] = True
    metric = DetectionMAP(iou_type="segm", keep_shapes=True)
    for image, mask in ((7, half), (8, full), (7, full)):
        detection = {"masks": mask, "scores": torch.tensor([0.5]), "labels": torch.tensor([1])}
        ground_truth = {"masks": full, "labels": torch.tensor([1]), "image_id": image}
        metric.update([detection], [ground_truth])
    metric.tm_to_coco(str(tmp_path / "images"))
    sides = [f"{tmp_path}/images_{side}.json" for side in ("preds", "target")]
    read, _ = DetectionMAP.coco_to_tm(*sides, iou_type="segm")
    # Half of the 24 pixels in image 7, as it came first, and all of them in image 8.
    assert [int(RunLengths.from_coco(image["masks"]).to_masks().sum()) for image in read] == [12, 24]


def test_boxes_beside_masks_are_read(tmp_path):
    found = {"image_id": 1, "category_id": 2.0, "bbox": [0, 0, 5, 5], "score": 0.5, "segmentation": {}}
    true = found | {"category_id": 2, "segmentation": [[0, 0, 5, 5, 5, 0]]}
    paths = [tmp_path / "results.json", tmp_path / "data_set.json"]
    for path, content in zip(paths, ([found], {"images": [{"id": 1}], "annotations": [true]}), strict=True):
        path.write_text(json.dumps(content), encoding="utf-8")
    images_read = DetectionMAP.coco_to_tm(*map(str, paths))
    assert float(fed(DetectionMAP(box_format="xywh", metric="map"), *images_read).compute()) == 1

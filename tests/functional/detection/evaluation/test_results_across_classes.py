"""What results are asked for across classes, with boxes, and in words."""

import json

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from tests.coming_from.coco_files import write
from tests.functional.detection.detection_samples import fed, images
from tests.functional.detection.evaluation.test_detection_results import two_images
from tests.pycocotools_peer import run_coco

NAMES = {3: "bicycle", 5: "car"}


def test_a_wrong_label_is_counted_as_what_it_is_and_a_crowd_hides_a_detection():
    """Image 9: class 3 is found once, once more on background at 0.6, and 0.9 lies in a crowd. Image 4: 5 for 3."""
    results = fed(DetectionMAP(), *two_images()).results(across_classes=True)
    found = results.confusion_matrix(confidence=0.5)
    assert found.classes.tolist() == [3, 5]
    assert found.counts.tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert results.confusion_matrix(confidence=0.85).counts.tolist() == [[0, 0, 2], [0, 0, 0], [0, 0, 0]]


def test_without_a_confidence_each_class_has_that_with_its_best_f1():
    """It is 0.7 for class 3; nothing of class 5 is right at any, so that of all classes holds, which is 0.7, too."""
    results = fed(DetectionMAP(), *two_images()).results(across_classes=True)
    assert results.confusion_matrix().counts.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]
    results = fed(DetectionMAP(average="micro"), *two_images()).results(across_classes=True)
    assert results.confusion_matrix().counts.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_any_threshold_of_overlap_from_a_tenth_on_may_be_asked_for():
    results = fed(DetectionMAP(), *two_images()).results(across_classes=True)
    assert results.confusion_matrix(confidence=0.5, iou_threshold=0.123).counts[0, 1] == 1
    with pytest.raises(ValueError, match=r"`iou_threshold` must be at least 0\.1, .*; got 0\.05\."):
        results.confusion_matrix(confidence=0.5, iou_threshold=0.05)
    with pytest.raises(ValueError, match=r"`iou_threshold` must be one of 0\.5, .*; got 0\.123\."):
        results.confusion_matrix(iou_threshold=0.123)


def test_kinds_of_errors_are_told_with_what_they_cost():
    """A wrong label for class 3, whose AP is 51/101 for it; another at 0.6 is a duplicate of 0.7, behind
    all that is right. With its right label the detection at 0.8 is the first: 1 at all recalls.
    """
    told = fed(DetectionMAP(), *two_images()).results(across_classes=True).error_breakdown()
    assert {kind for kind, count in told.counts.items() if count} == {"classification", "duplicate"}
    assert told.average_precision == pytest.approx(51 / 101)
    assert told.gains["classification"] == pytest.approx(50 / 101)
    assert told.gains["duplicate"] == 0
    assert told.false_negative_gain == pytest.approx(50 / 101)
    micro = fed(DetectionMAP(average="micro"), *two_images()).results(across_classes=True).error_breakdown()
    assert {kind for kind, count in micro.counts.items() if count} == {"duplicate"}
    assert micro.average_precision == pytest.approx(1)


@pytest.mark.usefixtures("unannotated")
def test_the_error_names_the_option_that_results_lack():
    results = fed(DetectionMAP(), *two_images()).results()
    with pytest.raises(
        ValueError, match=r"`across_classes` must be True in `results\(\.\.\.\)` for a confusion matrix; got False\."
    ):
        results.confusion_matrix()
    with pytest.raises(ValueError, match=r"`across_classes` must be True .* for a breakdown of errors; got False\."):
        results.error_breakdown()
    with pytest.raises(ValueError, match=r"`boxes` must be True in `results\(\.\.\.\)` to use `boxes_of`; got False\."):
        results.boxes_of(results.images)
    with pytest.raises(TypeError, match=r"`across_classes` must be True or False; got int\."):
        DetectionMAP().results(across_classes=1)
    with pytest.raises(TypeError, match=r"`boxes` must be True or False; got str\."):
        DetectionMAP().results(boxes="yes")
    assert results.detections().boxes is None


def test_detections_beyond_the_largest_limit_are_neither_listed_nor_counted():
    metric = DetectionMAP(max_detection_thresholds=[1])
    metric.warn_on_many_detections = False
    results = fed(metric, *two_images()).results(across_classes=True)
    assert results.detections().index.tolist() == [0, 1]
    assert results.confusion_matrix(confidence=0.0).counts.tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
@pytest.mark.parametrize("with_ids", [True, False])
def test_boxes_are_those_that_were_given(box_format, with_ids):
    preds, target = images(43, 9, with_ids=with_ids)
    metric = fed(DetectionMAP(box_format=box_format), preds, target)
    results = metric.results(boxes=True)
    assert metric.results().detections().boxes is None
    found = results.detections()
    names = [item.get("image_id", number) for number, item in enumerate(target)]
    expected = [
        preds[names.index(image)]["boxes"][index]
        for image, index in zip(found.image.tolist(), found.index.tolist(), strict=True)
    ]
    assert torch.equal(found.boxes, torch.stack(expected))
    worst = results.worst_images(4).image
    for mine, theirs in zip(results.boxes_of(worst), metric.boxes_of(worst), strict=True):
        for one, other in zip(mine, theirs, strict=True):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[key], other[key]) for key in one)
    with pytest.raises(ValueError, match=r"`image` must hold images that were given to `update`; got -1\."):
        results.boxes_of(torch.tensor([-1]))


def test_results_of_no_images_are_empty():
    results = DetectionMAP().results(across_classes=True, boxes=True)
    assert results.detections().boxes.shape == (0, 4)
    assert results.detections().ground_truth.shape == (10, 0)
    assert results.summary()["map"] == -1
    assert len(results.image_errors()) == len(results.worst_images(3)) == 0
    assert results.best_confidences() == {}
    assert results.confusion_matrix().counts.tolist() == [[0]]
    assert results.class_table() == "no classes"
    assert str(results).startswith("DetectionResults(0 images, 0 classes, 0 ground truths, 0 detections)\n")
    assert json.loads(json.dumps(results.to_dict(), allow_nan=False))["numbers"]["map"]["value"] is None


def test_results_print_the_lines_of_pycocotools_each_with_its_name(tmp_path):
    preds, target = images(45, 12, with_ids=True)
    for item in target:
        item.pop("iscrowd", None)
        item.pop("area", None)
    results = fed(DetectionMAP(), preds, target).results()
    first, *lines, last = str(results).splitlines()
    results_file, data_set = write(tmp_path, preds, target, first_id=1, is_xywh=False, with_masks=False)
    expected = run_coco(data_set, results_file)[1].splitlines()
    assert len(lines) == len(expected) == 12
    for line, theirs, name in zip(lines, expected, results.summary(), strict=True):
        assert line == f"{theirs}  {name}"
    assert first == (
        f"DetectionResults(12 images, {len(results.coco.classes)} classes, {results.num_positives.sum()} ground truths,"
        f" {len(results.labels)} detections)"
    )
    assert last == (
        " Boxes matched by the rules of COCO; means over classes; AP as in COCO; n/a without ground truths."
    )


def test_classes_have_their_names_in_tables_and_dicts():
    """Class 3 has one box of two, at 0.7, before one on background: 51/101. Class 5 has no ground truths."""
    results = fed(DetectionMAP(class_names=NAMES), *two_images()).results()
    assert results.class_table().splitlines() == [
        "class    ground truths  detections    map  map_50  map_75  mar_100     f1  confidence",
        "bicycle              2           3  0.505   0.505   0.505    0.500  0.667       0.700",
        "car                  0           1    n/a     n/a     n/a      n/a    n/a         n/a",
    ]
    assert [*results.class_numbers()] == ["bicycle", "car"]
    assert results.class_numbers()["bicycle"]["map"] == pytest.approx(51 / 101)
    assert [*fed(DetectionMAP(), *two_images()).results().class_numbers()] == ["class 3", "class 5"]
    micro = fed(DetectionMAP(class_names=NAMES, average="micro"), *two_images()).results()
    assert [*micro.class_numbers()] == ["all classes together"]


def test_a_long_name_leaves_the_columns_where_they_are():
    results = fed(DetectionMAP(class_names={3: "b" * 50, 5: "car"}), *two_images()).results()
    assert len({len(line) for line in results.class_table().splitlines()}) == 1
    assert "b" * 39 + "…" in results.class_table()


def test_a_dict_of_results_goes_into_json():
    results = fed(DetectionMAP(class_names=NAMES, area_ranges={"all": (0.0, float("inf"))}), *two_images()).results()
    told = json.loads(json.dumps(results.to_dict(), allow_nan=False))
    assert told["num_images"] == 2
    assert told["numbers"]["map_50"]["value"] == pytest.approx(51 / 101)
    assert told["numbers"]["map_50"]["convention"].startswith("average precision, as in COCO; at IoU 0.5; area range")
    assert told["classes"]["car"] == {
        "ground truths": 0,
        "detections": 1,
        **dict.fromkeys(("map", "map_50", "map_75", "mar_100", "f1", "confidence")),
    }
    assert told["area_ranges"] == {"all": [0.0, None]}
    assert told["rule"] == "coco"


@pytest.mark.usefixtures("unannotated")
def test_names_of_classes_are_checked():
    assert DetectionMAP(class_names=["car", "bus"]).class_names == {0: "car", 1: "bus"}
    with pytest.raises(TypeError, match=r"`class_names` must be a mapping of labels .*; got str\."):
        DetectionMAP(class_names="car")
    with pytest.raises(TypeError, match=r"`class_names` must have ints as labels .*; got '1': 'car'\."):
        DetectionMAP(class_names={"1": "car"})
    with pytest.raises(ValueError, match=r"`class_names` must give every class a name of its own; got 'car' twice\."):
        DetectionMAP(class_names=["car", "car"])

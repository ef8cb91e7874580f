"""KITTI's files: what is read is what stands in them, regions are crowds, and faults are named."""

# ruff: noqa: E501 - a message stays on one line, to be searched for

import re

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.data import KITTI_CLASSES, read_kitti
from tests.data.texts import write

SPACE = "1.5 1.6 4.0 1.0 2.0 30.0 0.5"
NO_SPACE = "-1 -1 -1 -1000 -1000 -1000 -10"
CAR, PEDESTRIAN = KITTI_CLASSES.index("Car"), KITTI_CLASSES.index("Pedestrian")


def labeled(name: str, box: str) -> str:
    return f"{name} 0.00 0 -1.57 {box} {SPACE}"


def detected(name: str, box: str, score: float) -> str:
    return f"{name} -1 -1 -10 {box} {NO_SPACE} {score}"


def test_each_image_has_its_boxes_by_name(folders):
    write(folders[0], "000001.txt", labeled("Car", "10 20 30.5 40"), labeled("Pedestrian", "1 2 3 4"))
    write(folders[1], "000001.txt", detected("Pedestrian", "1 2 3 5", -3.5))
    write(folders[1], "000000.txt", detected("Car", "0 0 4 4", 12.25))
    preds, target = read_kitti(*folders)
    assert [image["image_id"] for image in target] == ["000000", "000001"]
    assert preds[1]["boxes"].tolist() == [[1, 2, 3, 5]]
    assert [image["scores"].tolist() for image in preds] == [[12.25], [-3.5]]
    assert target[1]["boxes"].tolist() == [[10, 20, 30.5, 40], [1, 2, 3, 4]]
    assert target[1]["labels"].tolist() == [CAR, PEDESTRIAN]
    assert target[1]["iscrowd"].tolist() == [0, 0]
    assert target[0]["boxes"].shape == (0, 4)
    assert (target[0]["labels"].dtype, target[0]["iscrowd"].dtype) == (torch.int64, torch.int64)


def test_a_region_is_a_crowd_of_each_class_in_its_image(folders):
    region = f"DontCare -1 -1 -10 50 50 90 90 {NO_SPACE}"
    write(folders[0], "a.txt", region, labeled("Car", "0 0 10 10"))
    write(folders[0], "b.txt", region)
    write(folders[1], "a.txt", detected("Pedestrian", "55 55 60 60", 0.9))
    _, target = read_kitti(*folders)
    assert target[0]["labels"].tolist() == [CAR, CAR, PEDESTRIAN]
    assert target[0]["iscrowd"].tolist() == [0, 1, 1]
    assert target[0]["boxes"].tolist() == [[0, 0, 10, 10], [50, 50, 90, 90], [50, 50, 90, 90]]
    assert len(target[1]["labels"]) == 0


def test_detections_in_a_region_do_not_count(folders):
    car, pedestrian, in_region, in_nothing = "0 0 10 10", "0 20 10 40", "55 55 60 60", "155 155 160 160"
    region = f"DontCare -1 -1 -10 50 50 90 90 {NO_SPACE}"
    write(folders[0], "a.txt", region, labeled("Car", car), labeled("Pedestrian", pedestrian))
    found = [("Car", in_region, 0.9), ("Car", car, 0.8), ("Pedestrian", in_nothing, 0.9)]
    write(folders[1], "a.txt", *(detected(*each) for each in [*found, ("Pedestrian", pedestrian, 0.8)]))
    metric = DetectionMAP(class_metrics=True)
    metric.update(*read_kitti(*folders))
    # The car is first among the detections that count. The pedestrian is second, with a precision of 1/2.
    assert metric.compute()["map_per_class"].tolist() == pytest.approx([1, 0.5])


def test_other_classes_may_be_given(folders):
    write(folders[0], "a.txt", labeled("Trailer", "0 0 1 1"))
    write(folders[1], "a.txt", detected("Trailer", "0 0 1 1", 1))
    assert read_kitti(*folders, class_names=["Car", "Trailer"])[1][0]["labels"].tolist() == [1]


def test_ground_truths_may_all_have_the_score_1(folders):
    write(folders[0], "a.txt", detected("Car", "1 2 3 4", 1.0))
    write(folders[1], "a.txt", detected("Car", "1 2 3 4", 0.5))
    preds, target = read_kitti(*folders)
    assert preds[0]["scores"].tolist() == [0.5]
    assert target[0]["boxes"].tolist() == [[1, 2, 3, 4]]


RULE = "lines of 'type truncated occluded alpha left top right bottom height width length x y z rotation_y"
GOOD_LABEL, GOOD_RESULT = labeled("Car", "1 2 3 4"), detected("Car", "1 2 3 4", 1)
FAULTS = [
    ("Car 0 0 0 1 2 3 4", GOOD_RESULT, f"`labels` must have {RULE}'; got 'Car 0 0 0 1 2 3 4', {{labels}}:2."),
    (detected("Car", "1 2 3 4", 1), GOOD_RESULT, f"`labels` must have {RULE}'; got"),
    (GOOD_LABEL, GOOD_LABEL, f"`results` must have {RULE} score'; got '{GOOD_LABEL}', {{results}}:2."),
    (labeled("car", "1 2 3 4"), GOOD_RESULT, "`labels` must have classes of `class_names` only; got 'car'"),
    (GOOD_LABEL, detected("DontCare", "1 2 3 4", 1), "`results` must have classes of `class_names` only; got 'DontCare'"),
    (labeled("Car", "1 2 inf 4"), GOOD_RESULT, "`labels` must have a finite number for 'right'; got 'inf' in"),
    (labeled("DontCare", "1 2 3 x"), GOOD_RESULT, "`labels` must have a finite number for 'bottom'; got 'x' in"),
    (labeled("Car", "1 4 3 2"), GOOD_RESULT, "`labels` must have right and bottom edges behind left and top ones; got"),
    (labeled("DontCare", "3 2 1 4"), GOOD_RESULT, "`labels` must have right and bottom edges behind left and top ones; got"),
    (GOOD_LABEL, detected("Car", "1 2 3 4", "high"), "`results` must have a finite number for 'score'; got 'high'"),
]  # fmt: skip
"""a line of labels, a line of results, and what is said of them"""


@pytest.mark.parametrize(("label", "result", "message"), FAULTS)
def test_a_malformed_line_is_named_with_its_file(folders, label, result, message):
    paths = {"labels": folders[0] / "a.txt", "results": folders[1] / "a.txt"}
    write(folders[0], "a.txt", GOOD_LABEL, label)
    write(folders[1], "a.txt", GOOD_RESULT, result)
    with pytest.raises(ValueError, match=re.escape(message.format(**paths)) + ".*") as raised:
        read_kitti(*folders)
    assert str(raised.value).endswith("a.txt:2.")


def test_the_regions_are_no_class(folders):
    with pytest.raises(ValueError, match="`class_names` must be without 'DontCare', which is no class"):
        read_kitti(*folders, class_names=("Car", "DontCare"))

"""DOTA's files: what is read is what stands in them, and what is wrong in them is named."""

import re
from pathlib import Path

import pytest
import torch

from reid_torchmetrics import VocMAP
from reid_torchmetrics.data import DOTA_CLASSES, read_dota

SHIP = "1.0 2 11 2.5 11 12 1 12"
PLANE, SHIP_LABEL = DOTA_CLASSES.index("plane"), DOTA_CLASSES.index("ship")


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    results, annotations = tmp_path / "results", tmp_path / "labelTxt"
    results.mkdir()
    annotations.mkdir()
    lines = ["imagesource:GoogleEarth", "gsd:0.25", f"{SHIP} ship 1", "21 2 31 2 31 12 21 12 ship"]
    (annotations / "P0002.txt").write_text("\n".join([*lines, f"{SHIP} plane 0"]), encoding="utf-8")
    (annotations / "P0001.txt").write_text("imagesource:GoogleEarth\ngsd:null\n", encoding="utf-8")
    (results / "Task1_ship.txt").write_text(f"P0002 0.9 {SHIP}\nP0002 0.5 21 2 31 2 31 12 21 12\n", encoding="utf-8")
    (results / "Task1_small-vehicle.txt").write_text(f"\nP0001 0.25 {SHIP}\n", encoding="utf-8")
    return annotations, results


def test_each_image_has_its_corners_by_name(folders):
    preds, target = read_dota(*folders)
    assert [each["image_id"] for each in target] == ["P0001", "P0002"]
    assert [each["labels"].tolist() for each in preds] == [[DOTA_CLASSES.index("small-vehicle")], [SHIP_LABEL] * 2]
    assert (
        preds[1]["rotated_boxes"][0].tolist()
        == target[1]["rotated_boxes"][0].tolist()
        == [1, 2, 11, 2.5, 11, 12, 1, 12]
    )
    assert preds[1]["scores"].tolist() == [0.9, 0.5]
    assert target[1]["labels"].tolist() == [SHIP_LABEL, SHIP_LABEL, PLANE]
    assert target[1]["difficult"].tolist() == [True, False, False]
    assert (target[0]["labels"].dtype, len(target[0]["rotated_boxes"])) == (torch.int64, 0)


def test_the_files_are_what_a_metric_takes(folders):
    metric = VocMAP(iou_type="rotated", rule="voc07", class_metrics=True)
    metric.update(*read_dota(*folders))
    # The first ship is difficult, the second one found; the plane is not.
    assert {name: value.tolist() for name, value in metric.compute().items() if name != "map_75"} == {
        "map": 0.5,
        "map_50": 0.5,
        "map_per_class": [0, -1, 1],
        "map_50_per_class": [0, -1, 1],
        "map_75_per_class": [-1, -1, -1],
        "classes": [PLANE, DOTA_CLASSES.index("small-vehicle"), SHIP_LABEL],
    }


def test_other_classes_may_be_given(folders):
    names = ("ship", "small-vehicle", "plane", "container-crane")
    assert read_dota(*folders, class_names=names)[1][1]["labels"].tolist() == [0, 0, 2]


def test_an_image_without_objects_has_corners_of_eight_numbers(folders):
    assert read_dota(*folders)[1][0]["rotated_boxes"].shape == (0, 8)


RESULTS, LABELS = "results/Task1_ship.txt", "labelTxt/P0003.txt"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (RESULTS, "P0001 0.9 1 2 3 4", "and x and y of four corners in a line; got 'P0001 0.9 1 2 3 4',"),
        (RESULTS, f"P1 0.9 {SHIP}", "in annotated images only; got 'P1', "),
        ("results/Task1_boat.txt", "", "with names that end with a class; got 'Task1_boat.txt'."),
        (LABELS, SHIP, "four corners and a class in a line, and maybe a flag; got '1.0 2 11"),
        (LABELS, f"{SHIP} ship 0 1", "ship 0 1', "),
        (LABELS, f"{SHIP} ship easy", "P0003.txt:1."),
        (LABELS, f"{SHIP[:-2]}x ship", "P0003.txt:1."),
        (LABELS, f"{SHIP[:-2]}nan ship 0", "`annotations` must have a finite number for 'y4'; got 'nan' in '1.0"),
        (LABELS, f"{SHIP[:-2]}inf ship 0", "P0003.txt:1."),
        (RESULTS, f"P0001 nan {SHIP}", "a finite number for 'confidence'; got 'nan' in 'P0001 nan "),
        (RESULTS, f"P0001 0.9 {SHIP[:-2]}-inf", "Task1_ship.txt:1."),
        (LABELS, f"{SHIP} boat 0", "`class_names` only; got 'boat'"),
    ],
)
def test_a_wrong_value_is_named(folders, file, text, message):
    (folders[0].parent / file).write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(message)):
        read_dota(*folders)

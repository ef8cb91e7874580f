"""Text files of Cartucho's mAP and Padilla's tools: what is read is what stands in them, and faults are named."""

# ruff: noqa: E501 - a message stays on one line, to be searched for

import re

import pytest
import torch

from reid_torchmetrics import DetectionMAP, VocMAP
from reid_torchmetrics.data import read_cartucho
from tests.data.texts import write

CLASSES = ("cat", "dog")


def test_each_image_has_its_boxes_by_name(folders):
    labels, results = folders
    write(labels, "b.txt", "dog 1 2 11 12", "cat 5 6 7.5 8")
    write(labels, "a.txt")
    write(results, "b.txt", "\ufeffdog 0.75 1 2 11 13", "", "cat 0.5 0 0 4 4\r")
    write(results, "c.txt", "cat 0.25 1 1 2 2")
    preds, target = read_cartucho(*folders, CLASSES)
    assert [image["image_id"] for image in target] == ["a", "b", "c"]
    assert [len(image["scores"]) for image in preds] == [0, 2, 1]
    assert preds[1]["boxes"].tolist() == [[1, 2, 11, 13], [0, 0, 4, 4]]
    assert preds[1]["scores"].tolist() == [0.75, 0.5]
    assert preds[1]["labels"].tolist() == [1, 0]
    assert target[1]["boxes"].tolist() == [[1, 2, 11, 12], [5, 6, 7.5, 8]]
    assert target[1]["labels"].tolist() == [1, 0]
    assert target[0]["boxes"].shape == (0, 4)
    assert set(target[1]) == {"boxes", "labels", "image_id"}
    assert target[0]["labels"].dtype == torch.int64


def test_the_word_difficult_is_a_flag_of_all_images(folders):
    labels, results = folders
    write(labels, "a.txt", "dog 0 0 9 9 difficult", "dog 20 20 29 29")
    write(labels, "b.txt", "cat 0 0 9 9")
    write(results, "a.txt", "dog 0.9 20 20 29 29")
    preds, target = read_cartucho(*folders, CLASSES)
    assert [image["difficult"].tolist() for image in target] == [[True, False], [False]]
    metric = VocMAP(class_metrics=True)
    metric.update(preds, target)
    # The difficult dog does not count, the other one is found; the cat is missed.
    assert metric.compute()["map_50_per_class"].tolist() == [0, 1]


def test_the_files_are_what_a_metric_takes(folders):
    labels, results = folders
    write(labels, "a.txt", "dog 0 0 10 10")
    write(results, "a.txt", "dog 0.9 0 0 10 8")
    metric = DetectionMAP()
    metric.update(*read_cartucho(*folders, CLASSES))
    # The overlap is 80 / 100: 7 of the thresholds 0.5, 0.55, ..., 0.95.
    assert metric.compute()["map"].item() == pytest.approx(0.7)


@pytest.mark.parametrize(("box_format", "numbers"), [("xyxy", "2 4 6 12"), ("xywh", "2 4 4 8"), ("cxcywh", "4 8 4 8")])
def test_every_box_format_gives_the_same_edges(folders, box_format, numbers):
    write(folders[0], "a.txt", f"dog {numbers}")
    write(folders[1], "a.txt", f"dog 0.5 {numbers}")
    preds, target = read_cartucho(*folders, CLASSES, box_format=box_format)
    assert preds[0]["boxes"].tolist() == target[0]["boxes"].tolist() == [[2, 4, 6, 12]]


def test_shares_become_pixels_with_sizes(folders):
    for name in ("a", "b"):
        write(folders[0], f"{name}.txt", "dog 0.5 0.5 0.25 0.5")
        write(folders[1], f"{name}.txt", "dog 0.5 0.5 0.5 0.25 0.5")
    sizes = {"a.jpg": (80, 40), "b.jpg": (8, 4)}
    preds, target = read_cartucho(*folders, CLASSES, box_format="cxcywh", image_sizes=sizes)
    # The left edge is at 0.375 of 80 pixels, the top edge at 0.25 of 40 pixels.
    assert target[0]["boxes"].tolist() == [[30, 10, 50, 30]]
    assert preds[1]["boxes"].tolist() == [[3, 1, 5, 3]]


FAULTS = [
    ("dog 1 2 3", "dog 1 1 2 3 4", "`labels` must have lines of 'class left top right bottom', perhaps with 'difficult' behind, and no spaces in names; got 'dog 1 2 3', {labels}:2."),
    ("dog 1 2 3 4 5", "dog 1 1 2 3 4", "`labels` must have lines of 'class left top right bottom', perhaps with 'difficult' behind, and no spaces in names; got 'dog 1 2 3 4 5', {labels}:2."),
    ("traffic light 1 2 3 4 difficult", "dog 1 1 2 3 4", "`labels` must have lines of 'class left top right bottom', perhaps with 'difficult' behind, and no spaces in names; got 'traffic light 1 2 3 4 difficult', {labels}:2."),
    ("dog 1 2 3 4", "dog 1 2 3 4", "`results` must have lines of 'class confidence left top right bottom' and no spaces in names; got 'dog 1 2 3 4', {results}:2."),
    ("dog 1 2 3 4", "dog,1,1,2,3,4", "`results` must have lines of 'class confidence left top right bottom' and no spaces in names; got 'dog,1,1,2,3,4', {results}:2."),
    ("dgo 1 2 3 4", "dog 1 1 2 3 4", "`labels` must have classes of `class_names` only; got 'dgo'"),
    ("dog 1 2 3 4", "fish 1 1 2 3 4", "`results` must have classes of `class_names` only; got 'fish' in 'fish 1 1 2 3 4', {results}:2."),
    ("dog 1 2 x 4", "dog 1 1 2 3 4", "`labels` must have a finite number for 'right'; got 'x' in 'dog 1 2 x 4', {labels}:2."),
    ("dog 1 2 3 4", "dog nan 1 2 3 4", "`results` must have a finite number for 'confidence'; got 'nan' in 'dog nan 1 2 3 4', {results}:2."),
    ("dog 3 2 1 4", "dog 1 1 2 3 4", "`labels` must have right and bottom edges behind left and top ones; got 'dog 3 2 1 4', {labels}:2."),
]  # fmt: skip
"""a line of labels, a line of results, and what is said of them"""


@pytest.mark.parametrize(("label", "result", "message"), FAULTS)
def test_a_malformed_line_is_named_with_its_file(folders, label, result, message):
    write(folders[0], "a.txt", "dog 10 10 20 20", label)
    write(folders[1], "a.txt", "dog 0.5 10 10 20 20", result)
    message = message.format(labels=folders[0] / "a.txt", results=folders[1] / "a.txt")
    with pytest.raises(ValueError, match=re.escape(message)):
        read_cartucho(*folders, CLASSES)


def test_a_confidence_behind_the_box_is_an_error(folders):
    write(folders[0], "a.txt", "dog 10 10 20 20")
    write(folders[1], "a.txt", "dog 10 10 20 20 0.9", "dog 30 10 40 20 0.8")
    message = f"`results` must have the confidence in front of the box; got 'dog 10 10 20 20 0.9', {folders[1]}"
    with pytest.raises(ValueError, match=re.escape(message)):
        read_cartucho(*folders, CLASSES)


def test_shares_with_confidences_in_percent_are_read(folders):
    write(folders[0], "a.txt", "dog 0.1 0.1 0.2 0.2")
    write(folders[1], "a.txt", "dog 90 0.1 0.1 0.2 0.2")
    preds, _ = read_cartucho(*folders, CLASSES)
    assert preds[0]["scores"].tolist() == [90]


@pytest.mark.parametrize("other", ["labels", "results"])
def test_shares_on_one_side_and_pixels_on_the_other_are_an_error(folders, other):
    boxes = {"labels": "0.1 0.1 0.2 0.2", "results": "0.1 0.1 0.2 0.2"} | {other: "10 10 20 20"}
    write(folders[0], "a.txt", f"dog {boxes['labels']}")
    write(folders[1], "a.txt", f"dog 0.5 {boxes['results']}")
    with pytest.raises(ValueError, match=f"`{other}` must have coordinates in the unit of "):
        read_cartucho(*folders, CLASSES)


def test_pixels_are_an_error_where_sizes_are_given(folders):
    write(folders[0], "a.txt", "dog 10 10 20 20")
    write(folders[1], "a.txt", "dog 0.5 10 10 20 20")
    with pytest.raises(ValueError, match=r"`results` must have shares of the image, from 0 to 1, .*a\.txt:1\."):
        read_cartucho(*folders, CLASSES, image_sizes=(100, 100))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_names": ()}, "`class_names` must"),
        ({"box_format": "ltrb"}, "`box_format` must be one of"),
        ({"image_sizes": {"b": (10, 10)}}, "`image_sizes` must have the size of each image; got none of 'a'."),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_errors(folders, options, message):
    write(folders[0], "a.txt", "dog 0.1 0.1 0.2 0.2")
    write(folders[1], "a.txt", "dog 0.5 0.1 0.1 0.2 0.2")
    with pytest.raises(ValueError, match=re.escape(message)):
        read_cartucho(*folders, **{"class_names": CLASSES} | options)

"""YOLO's files: what is read is what stands in them, and what is wrong in them is named."""

import re
from pathlib import Path

import pytest

from reid_torchmetrics import YoloMAP
from reid_torchmetrics.data import read_yolo


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    results, labels = tmp_path / "results", tmp_path / "labels"
    results.mkdir()
    labels.mkdir()
    (labels / "b.txt").write_text("3 0.5 0.5 0.25 0.5\n0 0.25 0.125 0.5 0.125 0.5 0.75\n", encoding="utf-8")
    (results / "b.txt").write_text("3 0.5 0.5 0.25 0.5 0.875\n\n", encoding="utf-8")
    (results / "a.txt").write_text("1 0.5 0.5 1 1 0.25\n", encoding="utf-8")
    return labels, results


def test_boxes_and_polygons_are_read_as_corners_in_pixels(folders):
    preds, target = read_yolo(*folders, image_sizes=(640, 480))
    assert [each["image_id"] for each in target] == ["a", "b"]
    assert preds[1]["boxes"].tolist() == [[240, 120, 400, 360]]
    assert (preds[1]["scores"].tolist(), preds[1]["labels"].tolist()) == ([0.875], [3])
    assert target[1]["boxes"].tolist() == [[240, 120, 400, 360], [160, 60, 320, 360]]
    assert target[1]["labels"].tolist() == [3, 0]


def test_an_image_with_a_file_in_one_folder_has_no_objects_in_the_other(folders):
    preds, target = read_yolo(*folders)
    assert (len(preds[0]["boxes"]), target[0]["boxes"].shape) == (1, (0, 4))


def test_without_sizes_boxes_are_shares(folders):
    preds, _ = read_yolo(*folders)
    assert preds[1]["boxes"].tolist() == [[0.375, 0.25, 0.625, 0.75]]


def test_each_image_may_have_a_size_of_its_own(folders):
    preds, _ = read_yolo(*folders, image_sizes={"a": (10, 20), "b": (640, 480)})
    assert [each["boxes"].tolist() for each in preds] == [[[0, 0, 10, 20]], [[240, 120, 400, 360]]]


def test_a_metric_knows_the_images_by_their_names(folders):
    metric = YoloMAP(metric="recall")
    metric.update(*read_yolo(*folders, image_sizes=(640, 480)))
    ranked = metric.results().ranked
    assert (ranked.image_ids, ranked.for_class(3).image_ids) == (["a", "b"], ["b"])  # class 1, then class 3
    assert metric.compute() == 0.5  # class 3 is found, class 0 is not


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ({"b": (1, 2)}, ValueError, "`image_sizes` must have the size of each image; got none of 'a'."),
        ((640,), ValueError, "`image_sizes` must be width and height; got (640,)."),
        ((640, 0), ValueError, "`image_sizes`"),
        (640, TypeError, "`image_sizes`"),
    ],
)
def test_sizes_are_checked(folders, sizes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        read_yolo(*folders, image_sizes=sizes)


def test_a_box_may_leave_the_image_by_a_rounding(folders):
    (folders[0] / "b.txt").write_text("3 0.5 0.5 1.004 1.0\n3 0.9 0.5 0.3 0.5\n", encoding="utf-8")
    assert read_yolo(*folders)[1][1]["boxes"][1].tolist() == pytest.approx([0.75, 0.25, 1.05, 0.75])


DARKNET = [(0.9, 0.3, 0.5, 0.2, 0.4), (0.8, 0.6, 0.5, 0.3, 0.1), (0.8, 0.7, 0.6, 0.2, 0.2), (0.5, 0.4, 0.3, 0.4, 0.2)]
"""confidence, center, width and height; read as a box the first three leave the image"""


def lines(rows):
    return "".join("0 " + " ".join(map(str, row)) + "\n" for row in rows)


def test_a_confidence_in_front_of_the_box_is_named(folders):
    (folders[1] / "a.txt").write_text(lines(DARKNET[:1]), encoding="utf-8")
    (folders[1] / "b.txt").write_text(lines(DARKNET[1:]), encoding="utf-8")
    message = (
        "`results` must have the confidence behind the box, as boxes leave the image otherwise; got '0 0.9 0.3 0.5 0.2"
    )
    with pytest.raises(ValueError, match=re.escape(message) + r" 0\.4', .*a\.txt:1\.$"):
        read_yolo(*folders)


CORNERS = [(0, 0, 0.4, 0.4), (0.1, 0.05, 0.5, 0.4), (0.05, 0.1, 0.3, 0.3), (0.6, 0.7, 0.2, 0.1)]
"""left top corner, width and height; read as a center three boxes leave the image on the left, and three at the top"""


def test_the_left_top_corner_in_the_place_of_the_center_is_named(folders):
    (folders[1] / "a.txt").write_text(lines([(*box, 0.9) for box in CORNERS]), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"`results` must have center, width .*, and not the left top corner, as boxes"
    ):
        read_yolo(*folders)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("axis", [0, 1])
def test_boxes_that_leave_the_image_on_one_side_are_centers(axis, folders):
    rows = [(*[0.5 if place == axis else number for place, number in enumerate(box)], 0.9) for box in CORNERS]
    (folders[1] / "a.txt").write_text(lines(rows), encoding="utf-8")
    read_yolo(*folders)


@pytest.mark.parametrize(
    "rows",
    [
        [(*box, confidence) for confidence, *box in DARKNET],  # the same behind it
        DARKNET[:2],  # few
        [*DARKNET, *[(0.5, 0.5, 0.5, 0.5, 0.5)] * 100],  # too few of them
        [(0.9, 0.05, 0.3, 0.2, 0.5)] * 5,  # of a detector that does not clip: they would leave it otherwise, too
    ],
)
def test_boxes_that_leave_the_image_are_read_where_the_order_is_not_sure(folders, rows):
    (folders[1] / "a.txt").write_text(lines(rows), encoding="utf-8")
    (folders[1] / "b.txt").write_text("", encoding="utf-8")
    assert len(read_yolo(*folders)[0][0]["boxes"]) == len(rows)


def test_the_boxes_of_an_image_keep_no_other_boxes(tmp_path):
    for folder, score in (("labels", ""), ("results", " 0.5")):
        (tmp_path / folder).mkdir()
        for name in range(100):
            (tmp_path / folder / f"{name}.txt").write_text(f"0 0.5 0.5 0.5 0.5{score}\n", encoding="utf-8")
    (image, *_), _ = read_yolo(tmp_path / "labels", tmp_path / "results")
    assert image["boxes"].untyped_storage().nbytes() == 4 * 8


@pytest.mark.parametrize("corners_in", ["labels", "results", "labels results"])
def test_two_corners_in_the_place_of_center_and_size_are_refused(corners_in, tmp_path):
    corners, boxes = "0 .5 .6 .9 .9", "0 .7 .75 .4 .3"
    folders = []
    for name, confidence in (("labels", ""), ("results", " .9")):
        folder = tmp_path / name
        folder.mkdir()
        for image in "abc":
            line = corners if name in corners_in else boxes
            (folder / f"{image}.txt").write_text(f"{line}{confidence}\n", encoding="utf-8")
        folders.append(folder)
    first = corners_in.split()[0]
    with pytest.raises(ValueError, match=f"`{first}` must have center, width and height, and not two corners"):
        read_yolo(*folders)

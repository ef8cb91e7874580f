"""Kinds of lines in YOLO's files: boxes, polygons, corners and keypoints, found for all files of both folders."""

# ruff: noqa: E501 - a message stays on one line, to be searched for

import re

import pytest
import torch

from reid_torchmetrics import DetectionMAP, YoloMAP
from reid_torchmetrics.data import read_yolo

BOX = "0 0.5 0.5 0.2 0.4"  # left 0.4, top 0.3, right 0.6, bottom 0.7
OTHER_BOX = "1 0.25 0.25 0.1 0.1"
PENTAGON = "0 0.1 0.1 0.3 0.1 0.4 0.2 0.3 0.3 0.1 0.3"
TRIANGLE = "1 0.5 0.5 0.9 0.5 0.9 0.9"
SLANTED = "0 0.2 0.3 0.3 0.2 0.8 0.7 0.7 0.8"
"""from the upper left to the lower right"""
CROSSING = "0 0.8 0.3 0.7 0.2 0.2 0.7 0.3 0.8"
"""from the upper right to the lower left"""
UPRIGHT = "0 0.2 0.2 0.4 0.2 0.4 0.3 0.2 0.3"
TRAPEZOID = "0 0.2 0.2 0.8 0.2 0.6 0.4 0.4 0.4"


def pose(box: str, num_keypoints: int, width: int, visibility: str = "2") -> str:
    """A line of a box with keypoints on its diagonal, the first of which is not labeled."""
    _, x, y, w, h = map(float, box.split())
    words = [box, "0", "0"] + ["0"] * (width == 3)
    for place in range(1, num_keypoints):
        share = place / num_keypoints - 0.5
        words += [f"{x + share * w:.4f}", f"{y + share * h:.4f}"] + [visibility] * (width == 3)
    return " ".join(words)


def fill(folders, labels, results, confidence=" 0.9"):
    """Write each line into a file of its own; results get a confidence."""
    for folder, lines, end in zip(folders, (labels, results), ("", confidence), strict=True):
        for place, line in enumerate(lines):
            (folder / f"{place}.txt").write_text(f"{line}{end}\n", encoding="utf-8")


def map_of(preds, target, metric):
    metric.update(preds, target)
    return metric.compute()


CENTERED = [0.4, 0.3, 0.6, 0.7]  # the edges of `BOX`
POSES = [(number, width) for number in (3, 4, 5, 12, 17, 24, 26) for width in (2, 3)]


@pytest.mark.parametrize(("number", "width"), POSES)
@pytest.mark.parametrize("iou_type", [None, "bbox"])
def test_boxes_of_lines_with_keypoints_are_their_first_four_numbers(folders, number, width, iou_type):
    lines = [pose(BOX, number, width), pose(OTHER_BOX, number, width)]
    fill(folders, lines, [pose(BOX, number, width, "0.75"), pose(OTHER_BOX, number, width, "0.5")])
    preds, target = read_yolo(*folders, iou_type=iou_type)
    for images in (preds, target):
        assert images[0]["boxes"].tolist() == [pytest.approx(CENTERED)]
        assert images[1]["boxes"].tolist() == [pytest.approx([0.2, 0.2, 0.3, 0.3])]
    assert preds[0]["scores"].tolist() == [0.9]
    assert float(map_of(preds, target, YoloMAP())["map"]) == pytest.approx(0.995)


@pytest.mark.parametrize(("number", "width"), [(1, 2), (1, 3), (2, 2), *POSES])
def test_keypoints_are_read_in_pixels_with_their_visibility(folders, number, width):
    fill(folders, [pose(BOX, number, width, "1")], [pose(BOX, number, width, "0.75")])
    preds, target = read_yolo(*folders, image_sizes=(100, 200), iou_type="keypoints")
    assert target[0]["keypoints"].shape == preds[0]["keypoints"].shape == (1, number, 3)
    assert target[0]["keypoints"][0, 0].tolist() == [0, 0, 0]
    assert target[0]["boxes"].tolist() == [pytest.approx([40, 60, 60, 140])]
    assert target[0]["area"].tolist() == [pytest.approx(20 * 80)]
    if number > 1:
        share = 1 / number - 0.5
        visibility = {2: (2, 2), 3: (1, 0.75)}[width]
        for images, last in zip((target, preds), visibility, strict=True):
            x, y, number_behind = images[0]["keypoints"][0, 1].tolist()
            assert (x, y) == (pytest.approx(50 + share * 20, abs=0.02), pytest.approx(100 + share * 80, abs=0.02))
            assert number_behind == last


def test_keypoints_are_what_a_metric_takes(folders):
    fill(folders, [pose(BOX, 5, 3), pose(OTHER_BOX, 5, 3)], [pose(BOX, 5, 2), pose(OTHER_BOX, 5, 2)])
    sides = read_yolo(*folders, image_sizes=(640, 480), iou_type="keypoints")
    assert map_of(*sides, DetectionMAP(iou_type="keypoints", sigmas=(0.1,) * 5))["map"] == 1


def test_keypoints_without_sizes_are_those_of_square_images(folders):
    fill(folders, [pose(BOX, 5, 3)], [pose(BOX, 5, 3)])
    with pytest.warns(UserWarning, match="without `image_sizes` their similarity is that of square images"):
        _, target = read_yolo(*folders, iou_type="keypoints")
    assert target[0]["area"].tolist() == [pytest.approx(0.2 * 0.4)]


def test_boxes_of_a_detector_are_compared_with_those_of_keypoints(folders):
    fill(folders, [pose(BOX, 5, 3)], [BOX])
    preds, target = read_yolo(*folders)
    assert preds[0]["boxes"].tolist() == target[0]["boxes"].tolist() == [pytest.approx(CENTERED)]


def test_rotated_boxes_are_read_as_corners(folders):
    fill(folders, [SLANTED], [CROSSING])
    preds, target = read_yolo(*folders, iou_type="rotated", image_sizes=(100, 200))
    assert target[0]["rotated_boxes"].tolist() == [pytest.approx([20, 60, 30, 40, 80, 140, 70, 160])]
    assert "boxes" not in target[0]
    assert map_of(preds, target, DetectionMAP(iou_type="rotated"))["map_50"] == 0


def test_parallelograms_across_the_axes_are_rotated_boxes_with_a_warning(folders):
    fill(folders, [SLANTED, UPRIGHT], [CROSSING, UPRIGHT])
    with pytest.warns(
        UserWarning, match="The 8 numbers of 4 lines are read as four corners of rotated boxes"
    ) as warned:
        preds, target = read_yolo(*folders)
    assert len(warned) == 1
    assert preds[0]["rotated_boxes"].tolist() == [pytest.approx([0.8, 0.3, 0.7, 0.2, 0.2, 0.7, 0.3, 0.8])]
    assert target[0]["boxes"].tolist() == [pytest.approx([0.2, 0.2, 0.8, 0.8])]


TWO_KEYPOINTS = "0 0.5 0.5 0.4 0.4 0.4 0.4 0.6 0.6"


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        (UPRIGHT, ("'keypoints'", "'rotated'", "'segm'")),
        (TRAPEZOID, ("'rotated'", "'segm'", "'bbox'")),
        (TWO_KEYPOINTS, ("'keypoints'", "'rotated'", "'segm'")),
        ("0 0.5 0.5 0.4 0.4 0.4 0.6", ("'keypoints'", "'segm'")),
    ],
)
def test_lines_of_several_meanings_are_an_error_that_names_the_option(folders, line, candidates):
    fill(folders, [line], [line])
    with pytest.raises(ValueError, match=r"^`iou_type` must be given where lines may be several things: ") as error:
        read_yolo(*folders)
    assert all(candidate in str(error.value) for candidate in candidates)
    assert f"got None for '{line}', {folders[0] / '0.txt'}:1." in str(error.value)
    for candidate in candidates:
        read_yolo(*folders, iou_type=candidate.strip("'"), image_sizes=(100, 100))
    if "'bbox'" not in candidates:  # the box of keypoints is another one than that around a polygon
        with pytest.raises(
            ValueError, match=r"^`iou_type` must be another one where lines may be several .*; got 'bbox'"
        ):
            read_yolo(*folders, iou_type="bbox")


def test_the_boxes_around_corners_are_read_if_they_are_asked_for(folders):
    fill(folders, [SLANTED], [CROSSING])
    preds, target = read_yolo(*folders, iou_type="bbox")
    assert preds[0]["boxes"].tolist() == target[0]["boxes"].tolist() == [pytest.approx([0.2, 0.2, 0.8, 0.8])]
    assert "rotated_boxes" not in target[0]


def test_polygons_are_read_as_masks_of_pixels(folders):
    square = "0 0.2 0.1 0.6 0.1 0.6 0.5 0.2 0.5"
    fill(folders, [square, PENTAGON], [square, PENTAGON])
    preds, target = read_yolo(*folders, iou_type="segm", image_sizes=(10, 20))
    (mask,) = target[0]["masks"]
    assert mask["size"] == [20, 10]
    assert map_of(preds, target, DetectionMAP(iou_type="segm"))["map"] == 1
    # Columns 2 to 5 and rows 2 to 9 of a 20 x 10 image: 4 x 8 pixels.
    pixels = torch.zeros(1, 20, 10, dtype=torch.bool)
    pixels[0, 2:10, 2:6] = True
    whole = [{"masks": pixels, "labels": torch.tensor([0])}]
    assert map_of(preds[:1], whole, DetectionMAP(iou_type="segm"))["map"] == 1


def test_masks_need_the_sizes_of_images(folders):
    fill(folders, [PENTAGON], [PENTAGON])
    with pytest.raises(ValueError, match=r"^`image_sizes` must be given for iou_type='segm', .*; got None\.$"):
        read_yolo(*folders, iou_type="segm")


def test_boxes_and_polygons_of_any_length_may_mix(folders):
    fill(folders, [BOX, PENTAGON, TRIANGLE], [PENTAGON, BOX, SLANTED])
    preds, target = read_yolo(*folders)
    assert target[1]["boxes"].tolist() == [pytest.approx([0.1, 0.1, 0.4, 0.3])]
    assert preds[2]["boxes"].tolist() == [pytest.approx([0.2, 0.2, 0.8, 0.8])]


TRACKS = [
    (None, [BOX, OTHER_BOX]),
    ("bbox", [pose(BOX, 5, 3)]),
    ("keypoints", [pose(BOX, 17, 3)]),
    ("segm", [PENTAGON, TRIANGLE]),
    ("rotated", [SLANTED]),
]


@pytest.mark.parametrize(("iou_type", "lines"), TRACKS)
def test_tracking_ids_behind_the_confidence_are_left_out(folders, iou_type, lines):
    fill(folders, lines, lines, confidence=" 0.9 12")
    preds, target = read_yolo(*folders, iou_type=iou_type, image_sizes=(100, 100))
    assert [image["scores"].tolist() for image in preds] == [[0.9]] * len(lines)
    assert len(target) == len(lines)


WHOLE_TRACKING_ID = "a tracking id may follow the confidence if it is a whole number"


@pytest.mark.parametrize(
    ("confidence", "message"),
    [
        *((f" 0.9 {number}", WHOLE_TRACKING_ID) for number in ("0.5", "1.0", "-1")),
        ("", "and a confidence in a line; .* Ultralytics writes .* `save_conf=True`"),
        (" 87", r"`results` must have numbers from 0 to 1 .*: word 6, '87', is none\.$"),
    ],
)
def test_a_wrong_confidence_or_tracking_id_is_named(folders, confidence, message):
    fill(folders, [BOX], [BOX], confidence=confidence)
    with pytest.raises(ValueError, match=message):
        read_yolo(*folders)


@pytest.mark.parametrize(
    ("iou_type", "line"),
    [
        (None, BOX),
        (None, PENTAGON),
        ("rotated", SLANTED),
        ("segm", TRIANGLE),
        ("keypoints", pose(BOX, 17, 3)),
        (None, pose(BOX, 17, 3)),
        (None, pose(BOX, 17, 2)),
        (None, pose(BOX, 4, 3)),
    ],
)
def test_exchanged_folders_are_recognized_with_every_kind(folders, iou_type, line):
    fill(folders, [line] * 2, [line.replace(" 2 ", " 0.5 ")] * 2)
    labels, results = folders
    meant = read_yolo(labels, results, iou_type=iou_type, image_sizes=(100, 100))
    with pytest.warns(UserWarning, match="`labels` and `results` were exchanged") as warned:
        preds, target = read_yolo(results, labels, iou_type=iou_type, image_sizes=(100, 100))
    assert len(warned) == 1
    assert [image["scores"].tolist() for image in preds] == [[0.9], [0.9]]
    assert str((preds, target)) == str(meant)


@pytest.mark.parametrize(
    ("iou_type", "labels", "results", "message"),
    [
        ("rotated", [BOX], [BOX], "`labels` must have a class, x and y of four corners in a line; got '0 0.5 0.5 0.2 0.4'"),
        ("segm", [PENTAGON, BOX], [PENTAGON], "`labels` must have a class, a polygon in a line; got '0 0.5 0.5 0.2 0.4'"),
        ("keypoints", [BOX], [BOX], "`labels` must have a class, a box and keypoints of 2 or 3 numbers"),
        ("keypoints", [pose(BOX, 5, 3)] * 2 + [BOX], [], "`labels` must have a class, a box and 5 keypoints in a line; got '0 0.5"),
        (None, [pose(BOX, 5, 3)] * 3 + [pose(BOX, 5, 3)[:-2]], [], "a class, a box and 5 keypoints in a line; got '0 0.5"),
        (None, [pose(BOX, 5, 3)], [pose(BOX, 4, 3)], "`results` must have a class, a box and 5 keypoints and a confidence in"),
        ("corners", [BOX], [BOX], "`iou_type` must be one of 'bbox', 'segm', 'keypoints', 'rotated'; got 'corners'."),
    ],
)  # fmt: skip
def test_lines_that_do_not_fit_are_named(folders, iou_type, labels, results, message):
    fill(folders, labels, results or [labels[0]])
    with pytest.raises(ValueError, match=re.escape(message)):
        read_yolo(*folders, iou_type=iou_type, image_sizes=(100, 100))


def test_keypoints_outside_of_their_boxes_are_named_with_the_option_that_reads_them(folders):
    outside = "0 0.2 0.2 0.1 0.1" + " 0.8 0.8 2" * 3
    fill(folders, [outside], [outside])
    with pytest.raises(
        ValueError, match=r"with 13 numbers behind the class; iou_type='keypoints' reads boxes and keypoints"
    ):
        read_yolo(*folders)
    _, target = read_yolo(*folders, iou_type="keypoints", image_sizes=(100, 100))
    assert target[0]["boxes"].tolist() == [pytest.approx([15, 15, 25, 25])]


@pytest.mark.parametrize("iou_type", [None, "bbox", "segm", "rotated", "keypoints"])
def test_files_without_lines_are_images_without_objects(folders, iou_type):
    for folder in folders:
        (folder / "a.txt").write_text("\n", encoding="utf-8")
    preds, target = read_yolo(*folders, iou_type=iou_type, image_sizes=(100, 100))
    assert len(preds[0]["scores"]) == len(target[0]["labels"]) == 0
    assert map_of(preds, target, DetectionMAP(iou_type=iou_type or "bbox"))["map"] == -1


@pytest.mark.parametrize("name", ["classes.txt", "predefined_classes.txt", "README.roboflow.txt", "readme.txt"])
def test_a_list_of_classes_or_a_readme_is_no_image(folders, name):
    fill(folders, [BOX], [BOX])
    for folder in folders:
        (folder / name).write_text("person\ntraffic light\n", encoding="utf-8")
    assert [image["image_id"] for image in read_yolo(*folders)[1]] == ["0"]


def test_a_list_of_classes_alone_is_named(folders):
    fill(folders, [], [BOX])
    (folders[0] / "classes.txt").write_text("person\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"`labels` must be a folder of .txt files; got .* with 'classes.txt' alone"):
        read_yolo(*folders)


def test_an_image_may_be_called_like_a_list_of_classes(folders):
    for folder, end in zip(folders, ("", " 0.9"), strict=True):
        (folder / "classes.txt").write_text(f"{BOX}{end}\n", encoding="utf-8")
    assert [image["image_id"] for image in read_yolo(*folders)[1]] == ["classes"]


@pytest.mark.parametrize("word", ["1", "1.0", "1.", "1e0", "+1"])
def test_classes_may_be_whole_floats(folders, word):
    fill(folders, [f"{word}{BOX[1:]}"], [f"{word}{BOX[1:]}"])
    assert read_yolo(*folders)[1][0]["labels"].tolist() == [1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1.5 0.5 0.5 0.2 0.4", "word 1, '1.5', is no whole number."),
        ("person 0.5 0.5 0.2 0.4", "word 1, 'person', is no whole number."),
        ("nan 0.5 0.5 0.2 0.4", "word 1, 'nan', is no whole number."),
        ("0, 0.5 0.5 0.2 0.4", "word 1, '0,', has a comma."),
        ("0,0.5,0.5,0.2,0.4", "word 1, '0,0.5,0.5,0.2,0.4', has a comma."),
        ("-1 0.5 0.5 0.2 0.4", "word 1, '-1', is outside of it."),
        ("0 0.5 0,5 0.2 0.4", "word 3, '0,5', has a comma."),
        ("0 0.5 0.5 0.2 x", "word 5, 'x', is no number."),
        ("0 0.5 0.5 320 0.4", "word 4, '320', is none."),
        ("0 0.5 nan 0.5 0.4", "word 3, 'nan', is no number."),
        ("0 0.5 0.5 0.2 inf", "word 5, 'inf', is none."),
    ],
)
def test_a_wrong_word_is_named(folders, line, message):
    fill(folders, [line], [BOX])
    with pytest.raises(ValueError, match=rf"^`labels` must have .* got '{re.escape(line)}', .*0.txt:1: ") as error:
        read_yolo(*folders)
    assert str(error.value).endswith(message)


@pytest.mark.parametrize(
    ("line", "is_dota"),
    [
        ("imagesource:GoogleEarth", True),
        ("1 2 11 2 11 12 1 12 ship", True),
        ("1 2 11 2 11 12 1 12 ship 0", True),
        ("P0002 0.9 1 2 11 2 11 12 1 12", True),
        ("ship 0.1 0.2 0.5 0.2 0.5 0.6 0.1 0.6", False),
        ("ship 0.1 0.2 0.5 0.2 0.5 0.6 0.1 0.6 0.9", False),
        ("ship 5 2", False),
    ],
)
def test_lines_of_dota_are_told_with_what_reads_them(folders, line, is_dota):
    fill(folders, [line], [BOX])
    with pytest.raises(ValueError, match=re.escape(line)) as error:
        read_yolo(*folders)
    assert str(error.value).endswith("; for lines of DOTA pass `--evaluator dota` or call `read_dota`.") == is_dota


def test_names_are_compared_with_or_without_the_suffix_of_an_image(folders):
    labels, results = folders
    (labels / "a.txt").write_text(BOX, encoding="utf-8")
    (results / "a.jpg.txt").write_text(f"{BOX} 0.9", encoding="utf-8")
    preds, target = read_yolo(labels, results, image_sizes={"images/a.png": (10, 10)})
    assert [image["image_id"] for image in target] == ["a"]
    assert preds[0]["boxes"].tolist() == [pytest.approx([4, 3, 6, 7])]


def test_two_files_of_detections_for_one_image_are_named(folders):
    labels, results = folders
    (labels / "a.txt").write_text(BOX, encoding="utf-8")
    for name in ("a.jpg.txt", "a.txt"):
        (results / name).write_text(f"{BOX} 0.9", encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"`results` must have one name for each image or class; got 'a.*' and 'a.*' for 'a'\.$"
    ):
        read_yolo(*folders)

"""CSV files of Open Images: what is read is what stands in them, groups are crowds, and faults are named."""

# ruff: noqa: E501 - a message stays on one line, to be searched for

import re
from pathlib import Path

import pytest

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.data import read_open_images

DOG, CAT = "/m/0bt9lr", "/m/01yrx"
HEADER = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside"
RESULT_HEADER = "ImageID,LabelName,Score,XMin,XMax,YMin,YMax"


def annotated(image: str, name: str, edges: str, group: str = "0") -> str:
    return f"{image},xclick,{name},1,{edges},0,0,{group},0,0"


@pytest.fixture
def paths(tmp_path) -> tuple[Path, Path]:
    return tmp_path / "annotations.csv", tmp_path / "results.csv"


def write(path: Path, *lines: str) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(paths, annotations, results, header=HEADER, result_header=RESULT_HEADER, **options):
    write(paths[0], header, *annotations)
    write(paths[1], result_header, *results)
    return read_open_images(*paths, [CAT, DOG], **options)


def test_each_image_has_its_boxes_by_name(paths):
    annotations = [
        annotated("b", DOG, "0.25,0.5,0.125,1"),
        annotated("a", CAT, "0,1,0,1"),
        annotated("b", CAT, "0,1,0,1", "1"),
    ]
    preds, target = read(paths, annotations, [f"b,{DOG},0.75,0.25,0.5,0,1", f"c,{CAT},0.5,0,1,0,1"])  # fmt: skip
    assert [image["image_id"] for image in target] == ["a", "b", "c"]
    # The file has XMin, XMax, YMin, YMax; a box has left, top, right, bottom.
    assert target[1]["boxes"].tolist() == [[0.25, 0.125, 0.5, 1], [0, 0, 1, 1]]
    assert target[1]["labels"].tolist() == [1, 0]
    assert target[1]["iscrowd"].tolist() == [0, 1]
    assert preds[1]["boxes"].tolist() == [[0.25, 0, 0.5, 1]]
    assert preds[1]["scores"].tolist() == [0.75]
    assert [image["labels"].tolist() for image in preds] == [[], [1], [0]]
    assert target[2]["boxes"].shape == (0, 4)


def test_shares_become_pixels_with_sizes(paths):
    sizes = {"a": (80, 40)}
    preds, target = read(paths, [annotated("a", DOG, "0.25,0.5,0,1")], [f"a,{DOG},1,0,1,0.5,1"], image_sizes=sizes)
    assert target[0]["boxes"].tolist() == [[20, 0, 40, 40]]
    assert preds[0]["boxes"].tolist() == [[0, 20, 80, 40]]


@pytest.mark.parametrize("score", ["Score", "Confidence", "confidence", "Conf"])
def test_the_columns_may_have_any_order_and_case(paths, score):
    header = f"{score},xmax,xmin,YMAX,ymin,LabelName,ImageId"
    preds, _ = read(paths, [annotated("a", DOG, "0,1,0,1")], [f"0.5,0.75,0.25,1,0,{DOG},a"], result_header=header)
    assert preds[0]["boxes"].tolist() == [[0.25, 0, 0.75, 1]]
    assert preds[0]["scores"].tolist() == [0.5]


def test_detections_in_a_group_do_not_count(paths):
    annotations = [annotated("a", DOG, "0,0.25,0,0.25"), annotated("a", DOG, "0.5,1,0.5,1", "1")]
    results = [f"a,{DOG},0.9,0.5,0.75,0.5,0.75", f"a,{DOG},0.8,0,0.25,0,0.25"]
    metric = DetectionMAP()
    metric.update(*read(paths, annotations, results))
    assert metric.compute()["map"].item() == pytest.approx(1)
    # The same without the flag: the second detection finds one object of two, with a precision of 1/2.
    annotations[1] = annotated("a", CAT, "0.5,1,0.5,1", "1")
    metric = DetectionMAP()
    metric.update(*read(paths, annotations, results))
    assert metric.compute()["map"].item() == pytest.approx(0.5)


@pytest.mark.parametrize(("word", "is_crowd"), [("1", 1), ("0", 0), ("-1", 0), ("", 0), ("True", 1), ("false", 0)])
def test_a_flag_may_be_unknown_or_a_word(paths, word, is_crowd):
    annotations = [annotated("a", DOG, "0,1,0,1", word)]
    _, target = read(paths, annotations, [f"a,{DOG},1,0,1,0,1"])
    assert target[0]["iscrowd"].tolist() == [is_crowd]


def test_exchanged_files_are_read_as_they_are_meant_with_a_warning(paths):
    write(paths[1], HEADER, annotated("a", DOG, "0,1,0,1"))
    write(paths[0], RESULT_HEADER, f"a,{DOG},0.5,0,1,0,1")
    with pytest.warns(UserWarning, match="`annotations` and `results` were exchanged"):
        preds, target = read_open_images(*paths, [DOG])
    assert preds[0]["scores"].tolist() == [0.5]
    assert len(target[0]["labels"]) == 1


GOOD, GOOD_RESULT = annotated("a", DOG, "0,1,0,1"), f"a,{DOG},1,0,1,0,1"
FAULTS = [
    (annotated("a", "dog", "0,1,0,1"), GOOD_RESULT, "`annotations` must have classes of `class_names` only; got 'dog' in"),
    (GOOD, "a,dog,1,0,1,0,1", "`results` must have classes of `class_names` only; got 'dog' in"),
    (annotated("a", DOG, "0,x,0,1"), GOOD_RESULT, "`annotations` must have a finite number for 'XMax'; got 'x' in"),
    (GOOD, f"a,{DOG},,0,1,0,1", "`results` must have a finite number for 'Score'; got '' in"),
    (annotated("a", DOG, "0,640,0,480"), GOOD_RESULT, "`annotations` must have shares of the image, from 0 to 1, in a line"),
    (GOOD, f"a,{DOG},1,0,1.5,0,1", "`results` must have shares of the image, from 0 to 1, in a line"),
    (annotated("a", DOG, "1,0,0,1"), GOOD_RESULT, "`annotations` must have right and bottom edges behind left and top ones"),
    (annotated("a", DOG, "0,1,0,1", "2"), GOOD_RESULT, "`annotations` must have 0, 1 or -1 in the column 'IsGroupOf'; got '2'"),
    (GOOD, f"a,{DOG},1,0,1,0", f"`results` must have 7 values in a row, as many as names in the header; got 6 in 'a,{DOG},1,0,1,0'"),
    (GOOD, f"a,{DOG},1,0,1,0,1,1", "`results` must have 7 values in a row, as many as names in the header; got 8 in"),
    (GOOD, f",{DOG},1,0,1,0,1", "`results` must have an image in the column 'ImageID' of each row"),
]  # fmt: skip
"""a row of annotations, a row of results, and what is said of them"""


@pytest.mark.parametrize(("annotation", "result", "message"), FAULTS)
def test_a_malformed_row_is_named_with_its_file(paths, annotation, result, message):
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        read(paths, [GOOD, annotation], [GOOD_RESULT, result])
    path = paths[1] if message.startswith("`results`") else paths[0]
    assert str(raised.value).endswith(f"{path}:3.")


@pytest.mark.parametrize(
    ("header", "result_header", "message"),
    [
        ("ImageID,LabelName,XMin,XMax,YMin", RESULT_HEADER, "`annotations` must have a column 'YMax'; got the header 'ImageID,LabelName,XMin,XMax,YMin'"),
        (HEADER, "ImageId,PredictionString", "`results` must have a column 'LabelName'; got the header 'ImageId,PredictionString'"),
        (HEADER, "ImageID,LabelName,XMin,XMax,YMin,YMax", "`results` must have a column 'Score' or 'Confidence'; got the header"),
        (HEADER, f"{RESULT_HEADER},Confidence", "`results` must have columns of different meanings; got the header"),
        ("", RESULT_HEADER, "`annotations` must have a column 'ImageID'; got the header ''"),
        (HEADER, RESULT_HEADER, "`annotations` must have a row for each box; got a header alone"),
    ],
)  # fmt: skip
def test_a_header_that_does_not_fit_is_shown(paths, header, result_header, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(paths, [], [], header, result_header)


def test_files_without_a_common_image_are_an_error_with_the_first_name_of_each(paths):
    with pytest.raises(ValueError, match=r"an image in common .*'b' first in .*results\.csv', and 'a' first in "):
        read(paths, [GOOD], [f"b,{DOG},1,0,1,0,1"])


def test_suffixes_of_images_are_left_out_of_the_comparison(paths):
    preds, target = read(paths, [GOOD], [f"a.jpg,{DOG},0.5,0,1,0,1"])
    assert [image["image_id"] for image in target] == ["a"]
    assert preds[0]["scores"].tolist() == [0.5]


def test_a_file_that_is_no_table_is_named(paths):
    write(paths[0], HEADER, GOOD)
    paths[1].write_bytes(b"\xff\x00\x01")
    with pytest.raises(ValueError, match=r"results\.csv: the file must be a table in CSV"):
        read_open_images(*paths, [DOG])
    with pytest.raises(FileNotFoundError):
        read_open_images(paths[0], paths[1].with_name("missing.csv"), [DOG])

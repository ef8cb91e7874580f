"""Pascal VOC's files: what is read is what stands in them, and what is wrong in them is named."""

import re
from pathlib import Path

import pytest
import torch

from reid_torchmetrics import VocMAP
from reid_torchmetrics.data import VOC_CLASSES, find_voc_classes, read_voc

DOG = """
<object><name>dog</name><difficult>0</difficult>
<bndbox><xmin>11</xmin><ymin>21</ymin><xmax>110.5</xmax><ymax>120</ymax></bndbox>
<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part></object>
"""
HARD_CAT = """
<object><name>cat</name><difficult>1</difficult>
<bndbox><xmax>5</xmax><xmin>1</xmin><ymin>2</ymin><ymax>6</ymax></bndbox></object>
"""


def changed_dog(old: str, new: str) -> str:
    """A document with a dog that is written otherwise."""
    return f"<annotation>{DOG.replace(old, new)}</annotation>"


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    results, annotations = tmp_path / "results", tmp_path / "annotations"
    results.mkdir()
    annotations.mkdir()
    (annotations / "2008_000002.xml").write_text(f"<annotation>{DOG}{HARD_CAT}</annotation>", encoding="utf-8")
    (annotations / "2008_000001.xml").write_text("<annotation></annotation>", encoding="utf-8")
    (results / "comp4_det_test_dog.txt").write_text(
        "2008_000002 0.9 11 21 110.5 120\n2008_000001 0.25 1 2 3 4\n\n", encoding="utf-8"
    )
    (results / "cat.txt").write_text("2008_000002 0.5 1 2 5 7\n", encoding="utf-8")
    return annotations, results


def test_each_image_has_its_boxes_by_name(folders):
    preds, target = read_voc(*folders)
    cat, dog = VOC_CLASSES.index("cat"), VOC_CLASSES.index("dog")
    assert [each["image_id"] for each in target] == ["2008_000001", "2008_000002"]
    assert [each["labels"].tolist() for each in preds] == [[dog], [cat, dog]]
    assert preds[1]["boxes"].tolist() == [[1, 2, 5, 7], [11, 21, 110.5, 120]]
    assert preds[1]["scores"].tolist() == [0.5, 0.9]
    assert (target[1]["labels"].tolist(), target[1]["difficult"].tolist()) == ([dog, cat], [False, True])
    assert target[1]["boxes"].tolist() == [[11, 21, 110.5, 120], [1, 2, 5, 6]]
    assert (target[0]["boxes"].shape, target[0]["labels"].dtype) == ((0, 4), torch.int64)


def test_a_class_is_the_longest_name_that_ends_a_file(folders):
    (folders[1] / "results_hot_dog.txt").write_text("2008_000002 0.5 1 2 5 7\n", encoding="utf-8")
    preds, _ = read_voc(*folders, class_names=("cat", "dog", "hot_dog"))
    assert preds[1]["labels"].tolist() == [0, 1, 2]


def test_documents_without_objects_have_no_class(folders):
    annotations, results = folders
    (annotations / "2008_000002.xml").unlink()
    for path in results.iterdir():
        path.unlink()
    names = find_voc_classes(annotations)
    (results / "a.txt").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape("with names that end with a class; got 'a.txt'.")):
        read_voc(annotations, results, names)
    assert names == ()


def test_a_metric_knows_the_images_by_their_names(folders):
    metric = VocMAP(whole_pixels=False)
    metric.update(*read_voc(*folders))
    results = metric.results()
    assert results.ranked.image_ids == ["2008_000002", "2008_000002", "2008_000001"]
    # The hard cat is not to be found, and the dog is found before a dog that is not there.
    assert (metric.compute()["map"], results.classes.tolist()) == (
        1,
        [VOC_CLASSES.index("cat"), VOC_CLASSES.index("dog")],
    )
    assert str(results.ranked.for_class(VOC_CLASSES.index("dog"))).splitlines() == [
        "DetectionCurve: 1 ground truth, 2 detections",
        "  rank        image  score  is  TP  FP  precision  recall",
        "     1  2008_000002  0.900  TP   1   0     1.0000  1.0000",
        "     2  2008_000001  0.250  FP   1   1     0.5000  1.0000",
    ]


YMIN = "`annotations` must have a finite number for 'ymin'; got"
DIFFICULT = "a finite number for 'difficult'; got 'hard' in 'dog 11 21 110.5 120 hard'"
EDGES = "right and bottom edges behind left and top ones; got 'dog 11 21 10 120 0', "
FIRST_TAG = "the first tag must be 'annotation'"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("results/dog.txt", "2008_000002 0.9 1 2 3\n", "four edges in a line; got '2008_000002 0.9 1 2 3',"),
        ("results/dog.txt", "2008_000002 high 1 2 3 4\n", "a finite number for 'confidence'; got 'high' in "),
        ("results/dog.txt", "\n7 0.9 1 2 3 4\n", "in annotated images only; got '7', "),
        ("results/cow_boy.txt", "", "with names that end with a class; got 'cow_boy.txt'."),
        ("annotations/2.xml", "<annotation><object></annotation>", "`annotations` must have objects with a name"),
        ("annotations/2.xml", changed_dog("dog", "wolf"), "`class_names` only; got 'wolf'"),
        ("annotations/2.xml", changed_dog("21", "top"), f"{YMIN} 'top' in 'dog 11 top 110.5 120 0', "),
        ("annotations/2.xml", changed_dog("ymin", "y"), "an object without 'bndbox/ymin'"),
        ("annotations/2.xml", changed_dog("21", "nan"), f"{YMIN} 'nan' in "),
        ("annotations/2.xml", changed_dog(">0<", ">hard<"), DIFFICULT),
        ("annotations/2.xml", changed_dog("110.5", "10"), EDGES),
        ("annotations/2.xml", changed_dog("110.5", "?"), "2.xml: object[0]."),
        ("annotations/2.xml", "<annotations></annotations>", f"2.xml: {FIRST_TAG}; got 'annotations'."),
        (
            "results/dog.txt",
            "2008_000002 nan 1 2 3 4\n",
            "a finite number for 'confidence'; got 'nan' in ",
        ),
        ("results/dog.txt", "2008_000002 0.5 1 2 inf 4\n", "dog.txt:1."),
    ],
)
def test_a_wrong_value_is_named(folders, file, text, message):
    (folders[0].parent / file).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(message)):
        read_voc(*folders)


@pytest.mark.parametrize(
    ("tag", "is_difficult"),
    [
        ("", False),
        ("<difficult/>", False),
        ("<difficult> \n </difficult>", False),
        ("<difficult>Unspecified</difficult>", False),
        ("<difficult>unspecified</difficult>", False),
        ("<difficult> 1 </difficult>", True),
        ("<Difficult>1</Difficult>", True),
        ("<DIFFICULT>0</DIFFICULT>", False),
    ],
)
def test_an_object_is_difficult_if_its_tag_says_so(folders, tag, is_difficult):
    text = changed_dog("<difficult>0</difficult>", tag)
    (folders[0] / "2008_000002.xml").write_text(text, encoding="utf-8")
    assert read_voc(*folders)[1][1]["difficult"].tolist() == [is_difficult]


def test_tags_may_have_capital_letters(folders):
    text = f"<annotation><!-- a comment -->{HARD_CAT}</annotation>"
    (folders[0] / "2008_000002.xml").write_text(text.upper().replace("CAT", "cat"), encoding="utf-8")
    assert read_voc(*folders)[1][1]["boxes"].tolist() == [[1, 2, 5, 6]]


@pytest.mark.parametrize("reference", ["2008_000002.jpg", "images/2008_000002", "images\\2008_000002.png"])
def test_a_line_names_an_image_by_the_last_part_with_or_without_suffix(folders, reference):
    (folders[1] / "cat.txt").write_text(f"{reference} 0.5 1 2 5 7\n", encoding="utf-8")
    assert read_voc(*folders)[0][1]["scores"].tolist() == [0.5, 0.9]

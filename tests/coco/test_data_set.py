"""`COCO` reads what pycocotools reads, and answers as it does."""

import contextlib
import io

import numpy as np
import pytest
from pycocotools import coco as their_coco

from reid_torchmetrics.coco import COCO
from tests.coco.drawn import draw
from tests.files.json_files import write_json

DATA_SET, RESULTS = draw(3, "segm")
POLYGON = [3.2, 2.1, 20.7, 4.0, 15.0, 20.3]


def both(data_set=DATA_SET):
    theirs = their_coco.COCO()
    theirs.dataset = data_set
    with contextlib.redirect_stdout(io.StringIO()):
        theirs.createIndex()
    return COCO(data_set), theirs


IMAGES, CATEGORIES = ([row["id"] for row in DATA_SET[name]] for name in ("images", "categories"))
QUESTIONS = [
    ("getAnnIds", {}),
    ("getAnnIds", {"imgIds": IMAGES[0], "iscrowd": False}),
    ("getAnnIds", {"imgIds": [*IMAGES[::-1], -1], "catIds": CATEGORIES[:1], "areaRng": [10, 2000]}),
    ("getCatIds", {}),
    ("getCatIds", {"catNms": [f"c{CATEGORIES[0]}"]}),
    ("getCatIds", {"catIds": CATEGORIES[-1]}),
    ("getImgIds", {}),
    ("getImgIds", {"catIds": CATEGORIES}),
    ("getImgIds", {"imgIds": IMAGES[:2], "catIds": CATEGORIES[:1]}),
    ("loadAnns", {"ids": [1, 2]}),
    ("loadCats", {"ids": CATEGORIES[0]}),
    ("loadImgs", {"ids": np.array(IMAGES)}),
]


@pytest.mark.parametrize(("name", "options"), QUESTIONS)
def test_questions_have_the_answers_of_pycocotools(name, options):
    ours, theirs = (getattr(coco, name)(**options) for coco in both())
    assert (ours, set(map(str, ours))) == (theirs, set(map(str, theirs))) or sorted(ours) == sorted(theirs)


def test_a_data_set_says_what_it_is(capsys):
    for coco in both(DATA_SET | {"info": {"year": 2014}}):
        capsys.readouterr()
        coco.info()
        assert capsys.readouterr().out == "year: 2014\n"


def test_the_tables_are_those_of_pycocotools():
    ours, theirs = both()
    for name in ("anns", "imgs", "cats", "imgToAnns", "catToImgs"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_files_are_read(tmp_path):
    data_set, results = draw(4, "bbox")
    truth_path, results_path = write_json(tmp_path, truth=data_set, results=results)
    truth = COCO(truth_path)
    assert truth.dataset == data_set
    assert truth.loadRes(results_path).anns == truth.loadRes(results).anns


@pytest.mark.parametrize("key", ["bbox", "segmentation", "keypoints", "caption"])
def test_results_get_the_areas_and_boxes_of_pycocotools(key):
    data_set, rows = draw(5, "keypoints" if key == "keypoints" else "segm")
    for row in rows:
        row["caption"] = "a cat"
        for other in {"bbox", "segmentation", "keypoints", "caption"} - {key}:
            row.pop(other, None)
    given = [dict(row) for row in rows]
    ours, theirs = both(data_set)
    found = ours.loadRes(rows).anns
    assert rows == given  # nothing was written into them
    with contextlib.redirect_stdout(io.StringIO()):
        expected = theirs.loadRes(rows).anns
    assert found.keys() == expected.keys()
    for number, row in expected.items():
        for name in {"area", "bbox", "iscrowd"} & row.keys():
            assert np.array_equal(found[number][name], row[name])


def test_an_array_of_results_is_read():
    rows = np.array([[IMAGES[0], 1.5, 2, 3, 4, 0.5, CATEGORIES[0]]])
    (row,) = COCO(DATA_SET).loadRes(rows).anns.values()
    wanted = {"image_id": IMAGES[0], "category_id": CATEGORIES[0], "bbox": [1.5, 2, 3, 4], "score": 0.5, "area": 12}
    assert row == wanted | {"id": 1, "iscrowd": 0}
    with pytest.raises(ValueError, match=r"`data` must have shape \[results, 7\]; got \[1, 6\]\."):
        COCO(DATA_SET).loadRes(rows[:, 1:])


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools with NumPy 2
def test_masks_of_annotations_are_those_of_pycocotools():
    data_set, _ = draw(3, "segm")
    height, width = (data_set["images"][0][name] for name in ("height", "width"))
    image = {"image_id": data_set["images"][0]["id"]}
    lengths = {"size": [height, width], "counts": [30, 10, height * width - 40]}
    ours, theirs = both(data_set)
    for segmentation in (data_set["annotations"][0]["segmentation"], [POLYGON], [POLYGON, [1, 1, 5, 1, 5, 9]], lengths):
        row = image | {"segmentation": segmentation}
        assert ours.annToRLE(row) == theirs.annToRLE(row)
        assert np.array_equal(ours.annToMask(row), theirs.annToMask(row))
        assert ours.annToMask(row).dtype == np.uint8
    box = theirs.annToRLE(image | {"segmentation": [[1, 2, 1, 6, 4, 6, 4, 2]]})
    assert ours.annToRLE(image | {"bbox": [1, 2, 3, 4]}) == box


def test_a_file_that_is_no_data_set_is_refused(tmp_path):
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="`annotation_file` must hold a data set of COCO, an object; got a list"):
        COCO(tmp_path / "list.json")
    with pytest.raises(
        ValueError, match=r"`annotation_file` must have `id` in every row of `images`; got the keys height"
    ):
        COCO({"images": [{"height": 2}]})
    with pytest.raises(ValueError, match="`annotation_file` must have `image_id` in every row of `annotations`; got"):
        COCO({"annotations": [{"id": 2}]})


def test_results_that_do_not_belong_to_the_data_set_are_refused():
    truth = COCO(DATA_SET)
    with pytest.raises(IndexError, match="`resFile` must hold at least one result; got an empty list"):
        truth.loadRes([])
    with pytest.raises(ValueError, match="`resFile` must have results in images of the data set only; got -1"):
        truth.loadRes([RESULTS[0] | {"image_id": -1}])
    with pytest.raises(ValueError, match="`resFile` must hold a list of results; got a dict"):
        truth.loadRes({})
    with pytest.raises(ValueError, match=r"`annotations` must have a mask, or a box as `bbox`, .* in annotation 9 of"):
        truth.annToMask({"id": 9, "image_id": IMAGES[0]})


@pytest.mark.parametrize("categories", [{}, {"categories": [{"id": 1}]}])
@pytest.mark.parametrize("category", [{}, {"category_id": 1}])
def test_a_name_of_a_category_is_compared_only_with_names_of_the_data_set(categories, category):
    data_set = COCO()
    data_set.dataset = {"images": [{"id": 1, "height": 9, "width": 9}], "annotations": [], **categories}
    data_set.createIndex()
    row = {"image_id": 1, "bbox": [0, 0, 2, 2], "score": 0.5, "category_name": "cat", **category}
    if categories and not category:
        with pytest.raises(ValueError, match="category_id"):
            data_set.loadRes([row])
    else:
        assert data_set.loadRes([row]).anns[1]["category_name"] == "cat"


def shown(annotations, **options):
    """What `showAnns` adds to empty axes."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    COCO(
        {
            "images": [{"id": 1, "height": 30, "width": 40}],
            "categories": [{"id": 1, "skeleton": [[1, 2], [2, 3], [3, 1]]}],
            "annotations": [],
        }
    ).showAnns(annotations, **options)
    return pyplot.gca()


def test_polygons_boxes_and_masks_are_shown_where_they_are():
    of = {"image_id": 1, "category_id": 1, "bbox": [3, 2, 17, 18]}
    data_set = COCO({"images": [{"id": 1, "height": 30, "width": 40}]})
    mask = data_set.annToRLE(of | {"segmentation": [POLYGON]})
    axes = shown([of | {"segmentation": [POLYGON, POLYGON[::-1]]}, of | {"segmentation": mask}], draw_bbox=True)
    polygons = [patch.get_path().vertices[:-1].ravel().tolist() for patch in axes.patches[:2]]
    assert polygons == [POLYGON, POLYGON[::-1]]
    assert [patch.get_bbox().bounds for patch in axes.patches[2:]] == [(3, 2, 17, 18)] * 2
    (image,) = (each.get_array() for each in axes.images)
    expected = data_set.annToMask(of | {"segmentation": mask})
    assert (image[:, :, 3] == expected / 2).all()
    assert expected.any()


def test_visible_keypoints_are_shown_with_their_bones():
    axes = shown([{"image_id": 1, "category_id": 1, "keypoints": [1, 2, 2, 5, 6, 1, 9, 9, 0]}])
    bone, points = (line.get_xydata().tolist() for line in axes.lines)
    assert bone == points == [[1, 2], [5, 6]]


def test_captions_are_printed_and_what_is_neither_is_refused(capsys):
    COCO().showAnns([{"caption": "a cat"}, {"caption": "a dog"}])
    assert capsys.readouterr().out == "a cat\na dog\n"
    COCO().showAnns([])
    with pytest.raises(
        ValueError, match=r"^`anns` must have a `segmentation`, `keypoints` or a `caption`; got the keys"
    ):
        COCO().showAnns([{"id": 3, "bbox": [0, 0, 1, 1]}])

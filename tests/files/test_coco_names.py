"""Results are assigned to images and categories by names, where both files have them."""

import re

import pytest

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.coco import COCO
from reid_torchmetrics.command import main
from tests.files.json_files import write_json

IMAGES = [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}, {"id": 3, "file_name": "c.jpg"}]
CATEGORIES = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
OBJECTS = [("a.jpg", "cat", 5), ("a.jpg", "dog", 50), ("b.jpg", "dog", 20)]
"""the name of the image, that of the category, and the left edge of each object"""


def rows_of(objects, images, categories):
    """Return rows for objects, by the ids in two tables."""
    image_ids = {row["file_name"]: row["id"] for row in images}
    category_ids = {row["name"]: row["id"] for row in categories}
    rows = []
    for number, (image, category, left) in enumerate(objects, start=1):
        ids = {"id": number, "image_id": image_ids[image], "category_id": category_ids[category]}
        rows.append({**ids, "bbox": [left, 5, 30, 20], "area": 600, "iscrowd": 0})
    return rows


@pytest.fixture
def evaluated(tmp_path):
    """A function that writes a data set and detections, and returns the map."""

    def evaluate(results, **changes):
        annotations = rows_of(OBJECTS, IMAGES, CATEGORIES)
        data_set = {"images": IMAGES, "categories": CATEGORIES, "annotations": annotations, **changes}
        metric = DetectionMAP("xywh")
        metric.update(*DetectionMAP.coco_to_tm(*write_json(tmp_path, results=results, data_set=data_set)))
        return float(metric.compute()["map"])

    return evaluate


def detections_as_data_set(images, categories, objects=OBJECTS):
    annotations = [{**row, "score": 0.9} for row in rows_of(objects, images, categories)]
    return {"images": images, "categories": categories, "annotations": annotations}


def test_detections_in_a_data_set_are_found_by_the_names_in_its_own_tables(evaluated):
    images = [{"id": 7, "file_name": "images/b.jpg"}, {"id": 1, "file_name": "a.jpg"}]
    categories = [{"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}, {"id": 3, "name": "bird"}]
    objects = [("images/b.jpg" if name == "b.jpg" else name, *rest) for name, *rest in OBJECTS]
    assert evaluated(detections_as_data_set(images, categories, objects)) == 1


def test_without_names_detections_in_a_data_set_are_found_by_their_ids(evaluated):
    results = detections_as_data_set(IMAGES, CATEGORIES)
    results["images"] = [{"id": row["id"]} for row in IMAGES]
    del results["categories"]
    assert evaluated(results) == 1


@pytest.mark.parametrize(
    ("images", "categories", "message"),
    [
        (
            [{"id": 1, "file_name": "x.jpg"}],
            CATEGORIES,
            "must have images of the data set; got 'x.jpg' where the data set",
        ),
        ([*IMAGES, {"id": 9, "file_name": "x.jpg"}], CATEGORIES, 'images of the data set only; got "x.jpg" in'),
        (IMAGES, [*CATEGORIES, {"id": 9, "name": "bird"}], "where the data set has 'cat', 'dog'"),
        ([*IMAGES, IMAGES[0]], CATEGORIES, "must have each `id` of `images` once"),
        ([*IMAGES, {"id": 9, "file_name": "x/c.jpg"}], CATEGORIES, "or class; got (3, 'c.jpg') and (9, 'x/c.jpg')"),
    ],
)
def test_a_name_that_the_data_set_lacks_is_an_error(images, categories, message, evaluated):
    objects = [(images[-1]["file_name"], categories[-1]["name"], 5)]
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluated(detections_as_data_set(images, categories, objects))


def test_categories_that_the_data_set_lacks_can_be_left_out(tmp_path, capsys):
    categories = [*CATEGORIES, {"id": 9, "name": "bird"}]
    results = detections_as_data_set(IMAGES, categories, [*OBJECTS, ("a.jpg", "bird", 5)])
    data_set = detections_as_data_set(IMAGES, CATEGORIES)
    for row in data_set["annotations"]:
        del row["score"]
    paths = write_json(tmp_path, data_set=data_set, results=results)
    assert main(["detect", *paths, "--unknown-categories", "drop"]) == 0
    assert "without 1 of categories that the data set lacks" in capsys.readouterr().err


def with_names(names):
    rows = rows_of(OBJECTS, IMAGES, CATEGORIES)
    return [{**row, "score": 0.9, "category_name": name} for row, name in zip(rows, names, strict=True)]


def test_names_of_categories_change_nothing_where_they_agree_and_decide_over_ids(evaluated):
    results = with_names(("cat", "dog", "dog"))
    assert evaluated(results) == 1
    assert evaluated([row | {"category_id": 3 - row["category_id"]} for row in results]) == 1


def test_of_names_that_no_category_has_a_warning_tells(evaluated):
    with pytest.warns(UserWarning, match="categories by `category_id`, as no `category_name` is one of the data set"):
        assert evaluated(with_names(("CAT", "DOG", "DOG"))) == 1


def test_a_name_of_no_category_beside_names_of_some_is_an_error(evaluated):
    with pytest.raises(ValueError, match=r"one of 'cat', 'dog' in every row.* as `category_name`; got .bird"):
        evaluated(with_names(("cat", "dog", "bird")))


@pytest.mark.parametrize(
    "changes",
    [{"images": [*IMAGES, {"id": 1, "file_name": "x.jpg"}]}, {"categories": [*CATEGORIES, {"id": 1, "name": "bird"}]}],
)
def test_two_images_or_categories_of_one_id_are_an_error_and_a_warning_of_pycocotools_class(changes, evaluated):
    (name,) = changes
    message = f"must have each `id` of `{name}` once; got .* in `{name}"
    with pytest.raises(ValueError, match=message):
        evaluated(with_names(("cat", "dog", "dog")), **changes)
    data_set = {"images": IMAGES, "categories": CATEGORIES, "annotations": [], **changes}
    with pytest.warns(UserWarning, match=message):
        COCO(data_set)


def test_detections_in_images_that_their_own_table_lacks_are_refused(evaluated):
    results = detections_as_data_set([{"id": 7, "file_name": "b.jpg"}, *IMAGES[::2]], CATEGORIES)
    results["annotations"][0]["image_id"] = 2  # an id of the other data set
    with pytest.raises(ValueError, match=r"must have ids of its own images.* as `image_id`; got 2 in `results\[0\]`"):
        evaluated(results)


@pytest.mark.parametrize("key", ["image_id", "file_name"])
def test_two_names_of_one_image_are_refused(key, evaluated):
    row = {"image_id": 1, "category_id": 1, "bbox": [5, 5, 30, 20], "score": 0.9}
    with pytest.raises(ValueError, match=r"one name for each image or class; got '(a.jpg|x/a.png)' and .* for 1"):
        evaluated([row | {key: "a.jpg"}, row | {key: "x/a.png"}])


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"category_id": 0}, "categories of the data set only; got 0 .*; are yours counted from 0"),
        ({"category_name": "dog"}, "must have the name of the `category_id`, 'cat', which counts, .* got \"dog\""),
    ],
)
def test_the_class_of_pycocotools_warns_of_other_categories(in_memory, changes, message, tmp_path):
    row = {"image_id": 1, "category_id": 1, "bbox": [5, 5, 30, 20], "score": 0.9}
    rows = [row | {"category_name": "cat"}, row | changes]
    truth = COCO({"images": IMAGES, "categories": CATEGORIES, "annotations": []})
    with pytest.warns(UserWarning, match=message):
        results = truth.loadRes(rows if in_memory else write_json(tmp_path, results=rows)[0])
    assert results.anns[2]["category_id"] == changes.get("category_id", 1)


def test_the_class_of_pycocotools_says_what_reads_detections_in_a_data_set():
    truth = COCO({"images": IMAGES, "categories": CATEGORIES, "annotations": []})
    with pytest.raises(ValueError, match=r"got a dict with results as `annotations`: `DetectionMAP.coco_to_tm` reads"):
        truth.loadRes(detections_as_data_set(IMAGES, CATEGORIES))

"""Every column of COCO's files: a missing, misspelled or invalid value is an error that names the file and the row."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import DetectionMAP, LvisMAP
from reid_torchmetrics.files.coco_columns import FINITE_NUMBER, TABLES
from tests.files.json_files import write_json
from tests.profiles import examples

BOX = [10.0, 10.0, 30.0, 40.0]
SHAPES = {
    "bbox": BOX,
    "segmentation": [[10, 10, 40, 10, 40, 50, 10, 50]],
    "keypoints": [10, 10, 2, 40, 50, 1],
    "rotated_box": [25.0, 30.0, 30.0, 40.0, 0.0],
}
IOU_TYPES = {"bbox": "bbox", "segmentation": "segm", "keypoints": "keypoints", "rotated_box": "rotated"}
ROW = {"image_id": 7, "category_id": 3, **SHAPES}
LISTS = {"neg_category_ids": [], "not_exhaustive_category_ids": []}


def contents():
    """A data set with one object, and one result; the second row of each list is the one that is changed."""
    images = [{"id": image, "file_name": f"{image}.jpg", "width": 100, "height": 80, **LISTS} for image in (5, 7)]
    annotation = {"area": 1200, "iscrowd": 0, "ignore": 0, "num_keypoints": 2, **ROW}
    return {
        "images": images,
        "categories": [{"id": 1, "name": "cat"}, {"id": 3, "name": "dog"}],
        "annotations": [{"id": 40, **annotation}, {"id": 41, **annotation}],
        "results": [{"score": 0.5, **ROW}, {"score": 0.9, **ROW}],
    }


def read(folder, lists, iou_type, kind=DetectionMAP, **options):
    data_set = {name: rows for name, rows in lists.items() if name != "results"}
    if kind is DetectionMAP:
        data_set["images"] = [{key: row[key] for key in row if key not in LISTS} for row in lists["images"]]
    return kind.coco_to_tm(*write_json(folder, found=lists["results"], truth=data_set), iou_type, **options)


def file_of(name):
    return "found.json" if name == "results" else "truth.json"


def iou_type_of(column):
    """The shape whose evaluation reads a column."""
    return IOU_TYPES.get(column.key, "keypoints" if column.key == "num_keypoints" else "bbox")


VALUES = (0, 1, 2, -1, 2**63, 2**70, 10**400, 0.5, 1.0, math.nan, math.inf, True, None, "", "a", {}, np.float64(1))
LISTED_VALUES = ([], [1, 2, 3], [1, 2, 3, 4], [1, "2", 3], [1, 2.5, math.nan, 4, 5], [10**400] * 4, (1, 2, 3, 4))
KINDS = {column.kind for table in TABLES.values() for column in table if column.kind is not None}


@examples(200)
@given(
    st.lists(st.sampled_from(VALUES))
    | st.lists(st.sampled_from((0.5, 3, 2**70, math.nan)))
    | st.lists(st.sampled_from(LISTED_VALUES))
)
def test_the_first_invalid_value_of_many_is_that_of_a_test_of_each(values):
    for kind in (*KINDS, FINITE_NUMBER):
        invalid = [position for position, value in enumerate(values) if not kind.is_valid(value)]
        assert kind.first_invalid(values) == min(invalid, default=None)


COLUMNS = [(name, column) for name, table in TABLES.items() for column in table]
REQUIRED = [(name, column) for name, column in COLUMNS if column.is_required]
OPTIONAL = [(name, column) for name, column in COLUMNS if not column.is_required]


def ids(columns):
    return [f"{name}.{column.key}" for name, column in columns]


def test_only_what_the_formats_call_optional_has_a_default():
    shapes = {"bbox", "segmentation", "keypoints", "rotated_box"}
    optional = {name: {column.key for column in table if not column.is_required} for name, table in TABLES.items()}
    assert optional == {
        "images": {"file_name", "width", "height"},
        "categories": {"name"},
        "annotations": {"iscrowd", "area", "ignore", "num_keypoints"} | shapes,
        "results": shapes,
    }


@pytest.mark.parametrize(("name", "column"), REQUIRED, ids=ids(REQUIRED))
@pytest.mark.parametrize("kind", [DetectionMAP, LvisMAP])
def test_a_missing_column_is_an_error_that_names_the_file_the_row_and_the_key_that_came(tmp_path, name, column, kind):
    for other_key in ("something", *column.other_keys):
        lists = contents()
        row = lists[name][1]
        row[other_key] = row.pop(column.key)
        rule = rf"{file_of(name)}` must have `{column.key}` in every row of `{name}`; got .*{other_key}.* `{name}\[1\]`"
        with pytest.raises(ValueError, match=rule):
            read(tmp_path, lists, "bbox", kind)


INVALID = {
    "id": (None, 1.5, [], {}, True, 10**30),
    "image_id": (None, 1.5, [], {}, True),
    "category_id": (None, 1.5, "cat", [], {}, True, 10**30),
    "score": (None, "0.5", [], {}, True, float("nan"), 10**400),
    "iscrowd": (None, "0", 2, -1, [], {}, 0.5),
    "ignore": (None, "0", 2, -1, [], {}, 0.5),
    "area": (None, "1200", -1, [], {}, True, float("nan"), 10**400),
    "num_keypoints": (None, "2", -1, 1.5, [], {}),
    "file_name": (7, [], {}),
    "name": (7, [], {}),
    "bbox": ("10 10 30 40", [10, 10, 30], [10, 10, "30", 40], [10, 10, None, 40], {"x": 1}, 7, [10, 10, 30, 10**400]),
    "keypoints": ("", [], [10, 10], [10, 10, "2"], {"x": 1}, 7, None),
    "rotated_box": ([], [1, 2, 3, 4], [1, 2, 3, 4, "0"], {"x": 1}, None),
    "segmentation": (
        7,
        "polygon",
        [10, 10, 40, 10, 40, 50],
        [[10, 10, 40, 50]],
        [[10, 10, 40, 10, 40, 50, 10]],
        [[10, 10], [40, 10], [40, 50]],
        [[10, 10, 40, 10, 40, "50"]],
        [[10, 10, 40, 10, 40, 1e30]],
        {"size": [80, 100]},
        {"counts": [8000]},
        {"size": [80], "counts": [8000]},
        {"size": [80, 100], "counts": [7999]},
        {"size": [80, 100], "counts": [-1, 8001]},
        {"size": [80, 100], "counts": "x"},
        {"size": [80, 100], "counts": "0"},
        {"size": [40, 100], "counts": [4000]},
    ),
}


@pytest.mark.parametrize(("name", "column"), COLUMNS, ids=ids(COLUMNS))
def test_an_invalid_value_is_an_error_that_names_the_file_the_row_and_the_key(tmp_path, name, column):
    kind = LvisMAP if column.key == "ignore" else DetectionMAP
    iou_type = iou_type_of(column)
    for value in INVALID.get(column.key, ()):
        lists = contents()
        lists[name][1][column.key] = value
        with pytest.raises(ValueError, match=rf"{file_of(name)}` must .*`{column.key}`.*`{name}\[1\]`"):
            read(tmp_path, lists, iou_type, kind)


# Names and sizes decide no number where they are optional.
DECIDING = [(name, column) for name, column in OPTIONAL if name in ("annotations", "results")]


@pytest.mark.parametrize(("name", "column"), DECIDING, ids=ids(DECIDING))
def test_a_misspelled_optional_key_of_a_row_is_an_error_that_names_it(tmp_path, name, column):
    spellings = [column.key.upper(), f"{column.key}s", column.key.replace("_", "")]
    spellings += ["is_crowd", "isCrowd", "crowd"] if column.key == "iscrowd" else []
    kind = LvisMAP if column.key == "ignore" else DetectionMAP
    for spelling in dict.fromkeys(spellings):
        lists = contents()
        row = lists[name][1]
        if spelling == column.key:
            continue
        row[spelling] = row.pop(column.key)
        message = rf"{file_of(name)}` must have `{column.key}` in .*got `{spelling}` in its place in `{name}\[1\]`"
        with pytest.raises(ValueError, match=message):
            read(tmp_path, lists, iou_type_of(column), kind)


@pytest.mark.parametrize("size", [{"width": "100"}, {"height": 0}, {"width": None}, {"height": []}])
def test_the_size_of_an_image_with_polygons_is_checked_and_named(tmp_path, size):
    lists = contents()
    lists["images"][1] |= size
    message = r"truth\.json` must have `height` and `width`, .* for `annotations\[0\]` \(id 40, image 7\)"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, lists, "segm")
    read(tmp_path, lists, "bbox")


@pytest.mark.parametrize("num_annotations", [0, 1, 2])
def test_the_first_mask_of_another_size_than_the_first_one_of_its_image_is_named(tmp_path, num_annotations):
    lists = contents()
    del lists["annotations"][num_annotations:]
    lists["results"] = [
        {**lists["results"][0], "segmentation": {"size": [80, 100], "counts": [8000]}} for _ in range(5)
    ]
    lists["results"][3]["segmentation"] = {"size": [40, 100], "counts": [4000]}
    rule = r"found\.json` must have a mask of 80 x 100 pixels, .* got \[40, 100\] in `results\[3\]`"
    with pytest.raises(ValueError, match=rule):
        read(tmp_path, lists, "segm")


def test_keys_that_the_format_does_not_know_are_left_alone(tmp_path):
    lists = contents()
    for row in lists["annotations"] + lists["results"]:
        row |= {"attributes": {"occluded": False}, "track_id": 4, "caption": "a dog", "size": [3, 4], "class": "dog"}
    preds, target = read(tmp_path, lists, "bbox")
    assert preds[1]["scores"].tolist() == [0.5, 0.9]
    assert target[1]["area"].tolist() == [1200, 1200]


def test_optional_columns_have_their_defaults(tmp_path):
    lists = contents()
    for row in lists["annotations"]:
        for key in ("iscrowd", "area", "num_keypoints", "id"):
            del row[key]
    _, target = read(tmp_path, lists, "keypoints")
    assert target[1]["iscrowd"].tolist() == [0, 0]
    assert target[1]["area"].tolist() == [0, 0]  # to `update` 0 means the area of the box
    assert target[1]["num_keypoints"].tolist() == [2, 2]


INVALID_SHAPES = [
    ("bbox", [10, 10, -30, 40]),
    ("bbox", [10, float("nan"), 30, 40]),
    ("keypoints", [10, float("inf"), 2, 40, 50, 1]),
    ("rotated_box", [25, 30, -30, 40, 0.0]),
]


@pytest.mark.parametrize(("key", "value"), INVALID_SHAPES)
def test_an_invalid_ground_truth_is_named_unless_the_metric_drops_it(tmp_path, key, value):
    lists = contents()
    lists["annotations"][1][key] = value
    with pytest.raises(
        ValueError, match=rf"truth\.json` must have .* as `{key}`; got .* `annotations\[1\]` \(id 41, image 7\)"
    ):
        read(tmp_path, lists, IOU_TYPES[key])
    _, target = read(tmp_path, lists, IOU_TYPES[key], invalid="drop")
    assert len(target[1]["labels"]) == 2


def test_results_of_unknown_categories_are_an_error_or_left_out_with_a_line(tmp_path):
    lists = contents()
    lists["results"].append({"score": 0.7, **ROW, "category_id": 80})
    with pytest.raises(
        ValueError, match=r"got 80 as `category_id` in `results\[2\]` \(image 7\); those of the data set are 1, 3"
    ):
        read(tmp_path, lists, "bbox")
    guesses = []
    preds, _ = read(tmp_path, lists, "bbox", unknown_categories="drop", guesses=guesses)
    assert preds[1]["scores"].tolist() == [0.5, 0.9]
    line = f"{tmp_path / 'found.json'}: left out 1 of 3 results of categories that the data set lacks"
    assert guesses == [line]

    # Results of masks of which some have boxes are read by rows, and the line comes once.
    del lists["results"][1]["bbox"]
    for row in lists["results"]:
        row["segmentation"] = {"size": [80, 100], "counts": [0, 8000]}
    for row in lists["annotations"]:
        del row["ignore"]
    guesses = []
    read(tmp_path, lists, "segm", unknown_categories="drop", detection_areas="shape", guesses=guesses)
    assert guesses == [line]


def test_boxes_that_count_as_masks_are_told_and_a_data_set_without_masks_is_an_error(tmp_path):
    for empty in ([], None):
        lists = contents()
        lists["annotations"][1]["segmentation"] = empty
        with pytest.warns(
            UserWarning, match=r"truth\.json: 1 of 2 annotations have no `segmentation`: their boxes count"
        ):
            read(tmp_path, lists, "segm")
        lists["annotations"][0]["segmentation"] = empty
        with pytest.raises(
            ValueError, match=r"truth\.json` must have a `segmentation` in its annotations .* in 2 annotations"
        ):
            read(tmp_path, lists, "segm")


@pytest.mark.parametrize("name", ["results", "annotations"])
@pytest.mark.parametrize("key", ["rotated_box", "obb", "rbox", "poly"])
def test_rotated_boxes_have_the_keys_of_this_package_of_hotcoco_or_of_ultralytics(tmp_path, key, name):
    lists = contents()
    value = [25.0, 30.0, 30.0, 40.0, 0.0] if key != "poly" else [10.0, 10.0, 40.0, 10.0, 40.0, 50.0, 10.0, 50.0]
    for row in lists[name]:
        del row["rotated_box"]
        row[key] = value
    images = read(tmp_path, lists, "rotated")[name == "annotations"]
    boxes = images[1]["rotated_boxes"].tolist()
    assert boxes == [value] * len(boxes) != []

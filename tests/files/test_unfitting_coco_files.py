"""COCO's files that do not fit: the message says what to do."""

import json
import re
import warnings
from pathlib import Path

import pytest

from reid_torchmetrics import DetectionMAP, LvisMAP
from reid_torchmetrics.coco import COCO
from tests.files.json_files import write_json

BOX = [0.0, 0.0, 40.0, 40.0]
CATEGORIES = [{"id": each, "name": str(each)} for each in (1, 2, 3)]
NAMES = {1: "000000.jpg", 2: "val/000001.png", 7: "000002.jpg"}


def data_set(names=NAMES, **changed):
    rows = [
        {"id": k, "image_id": image, "category_id": 2, "bbox": BOX, "area": 1600} for k, image in enumerate(names, 1)
    ]
    images = [{"id": image} | ({} if name is None else {"file_name": name}) for image, name in names.items()]
    return {"images": images, "categories": CATEGORIES, "annotations": rows} | changed


def results(*images, label=2):
    return [{"image_id": image, "category_id": label, "bbox": BOX, "score": 0.5} for image in images]


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write detections and a data set to `dt.json` and `gt.json`."""
    monkeypatch.chdir(tmp_path)
    return lambda detections, truth: write_json(Path(), dt=detections, gt=truth)


def refusal(paths, kind=DetectionMAP):
    with pytest.raises(ValueError, match=r"^`..\.json` must") as raised:
        kind.coco_to_tm(*paths)
    return str(raised.value)


@pytest.mark.parametrize("kind", [DetectionMAP, LvisMAP])
def test_file_names_without_suffix_stand_for_images_and_a_line_says_it(write, kind):
    truth = data_set()
    truth["images"] = [each | {"neg_category_ids": [], "not_exhaustive_category_ids": []} for each in truth["images"]]
    guesses = []
    preds, target = kind.coco_to_tm(*write(results("000002", "000000", "000002"), truth), guesses=guesses)
    assert [item["image_id"] for item in target] == [1, 2, 7]
    assert [len(item["scores"]) for item in preds] == [1, 0, 2]
    assert guesses == ["dt.json: `image_id` as `file_name` without suffix"]
    kind.coco_to_tm(*write(results(7, 7), truth), guesses=guesses)
    kind.coco_to_tm(*write([], truth), guesses=guesses)
    assert len(guesses) == 1
    kind.coco_to_tm(*write(results("000000"), truth))  # nobody asks


def test_file_names_of_digits_may_be_integers(write):
    """As Ultralytics writes them; numbers that are all ids are ids, with a line if they are names, too."""
    guesses = []
    preds, _ = DetectionMAP.coco_to_tm(*write(results(2, 0, 2), data_set()), guesses=guesses)
    assert [len(item["scores"]) for item in preds] == [1, 0, 2]
    assert guesses == ["dt.json: `image_id` as `file_name` without suffix"]
    preds, _ = DetectionMAP.coco_to_tm(*write(results(2, 1, 2), data_set()), guesses=guesses)
    assert [len(item["scores"]) for item in preds] == [1, 2, 0]
    assert guesses[1:] == ["dt.json: `image_id` as `id`, though each is also the `file_name` of an image"]
    assert refusal(write(results(0, 5), data_set())).startswith(
        "`dt.json` must have results in images of the data set only"
    )


def test_reading_says_nothing_of_boxes_that_may_be_corners(write):
    truth = data_set()
    truth["images"] = [image | {"width": 500, "height": 400} for image in truth["images"]]
    rows = [row | {"bbox": [200, 150, 440, 330]} for _ in range(10) for row in results(1)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DetectionMAP.coco_to_tm(*write(rows, truth))


def test_decisions_on_which_a_number_may_depend_are_warnings_without_a_list_for_them(write):
    paths = write(results("a", "a", "b"), data_set({"a": "b.jpg", "b": "a.jpg"}))
    message = r"^dt\.json: `image_id` as `id`, though each is also the `file_name` of an image$"
    with pytest.warns(UserWarning, match=message) as told:
        DetectionMAP.coco_to_tm(*paths)
    assert [warning.category for warning in told] == [UserWarning]


UNKNOWN = (
    "results in images of the data set only; got {0} as `image_id` in `results[{1}]` (image {0}); those of the data"
)


@pytest.mark.parametrize(
    ("images", "names", "message"),
    [
        (("a", "000000"), NAMES, UNKNOWN.format('"a"', 0) + " set are 1, 2, 7."),
        (("000000", 9), NAMES, UNKNOWN.format('"000000"', 0) + " set are 1, 2, 7."),
        ((1,), {}, UNKNOWN.format(1, 0) + " set are none."),
        (("None",), {1: None}, UNKNOWN.format('"None"', 0) + " set are 1."),
        ((1, 0), dict.fromkeys(range(1, 9)), UNKNOWN.format(0, 1) + " set are 1, 2, 3, 4, 5, ...."),
        (
            ("a",),
            {1: "a.jpg", 2: "b.jpg", 3: "val/a.png"},
            ('the name of one image, and not of the images 1, 3, as `image_id`; got "a" in `results[0]` (image "a").'),
        ),
    ],
)
def test_images_that_are_unknown_or_several_are_refused(write, images, names, message):
    assert refusal(write(results(*images), data_set(names))) == f"`dt.json` must have {message}"


@pytest.mark.parametrize(("label", "end"), [(0, "; are yours counted from 0?"), (4, "."), (-1, ".")])
def test_unknown_categories_are_told_with_those_of_the_data_set(write, label, end):
    message = refusal(write(results(1, label=label), data_set()))
    assert message == (
        f"`dt.json` must have results in categories of the data set only; got {label} as `category_id` in `results[0]`"
        f" (image 1); those of the data set are 1, 2, 3{end}"
    )


def test_swapped_files_are_told(write):
    said = refusal(write(data_set(), results(1)))
    assert said.startswith('`dt.json` must hold a list of objects; got {"images": ')
    assert said.endswith(", a data set whose annotations have no `score`; the two files may be exchanged.")
    paths = write(data_set(), results(1))
    with pytest.raises(ValueError, match=r"an object; got a list; `loadRes` reads results\.$"):
        COCO("gt.json")
    with pytest.raises(ValueError, match=r"^`resFile` must hold a list of results; got a dict: is it the data set\?$"):
        COCO("dt.json").loadRes(paths[0])
    unknown = r'images of the data set only; got "a" as `image_id` in `results\[0\]` .*; those of .* are 1, 2, 7\.$'
    with pytest.raises(ValueError, match=unknown):
        COCO("dt.json").loadRes(results("a"))


FORMS = [
    ("cvat.xml", '<?xml version="1.0"?><annotations><image/></annotations>', "'.xml': of CVAT; convert it by `globox"),
    ("gt.txt", "1,-1,32.0,65.0,169.0,78.0,1,1,1.0\n", "'.txt': of MOT; tracks are evaluated by other packages"),
    ("a.csv", "x_min,y_min\n1,2\n", "'.csv': tables are read with the columns of Open Images"),
    ("via.json", '{"a.jpg1": {"filename": "a.jpg", "regions": []}}', "]}}, of VIA; convert it by `globox"),
    ("createml.json", '[{"image": "a.jpg", "annotations": []}]', ", of CreateML; convert it by `supervision"),
    ("labels.json", '{"classes": null, "labels": {}}', ", of FiftyOne; export it as `fiftyone"),
    ("bdd.json", '[{"name": "a.jpg", "labels": []}]', ", of BDD100K; convert it by `globox"),
    ("items.json", '{"dm_format_version": "1.0", "items": [{}]}', ", of datumaro; convert it by `datumaro"),
]


@pytest.mark.parametrize(("name", "text", "said"), FORMS)
def test_forms_of_other_tools_are_named_with_what_converts_them(write, name, text, said):
    results_path, _ = write(results(1), data_set())
    Path(name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(said)):
        DetectionMAP.coco_to_tm(results_path, name)
    if not name.endswith(".json"):
        with pytest.raises(ValueError, match=re.escape(said)):
            COCO(name)
    scored = data_set(annotations=results(1))
    with pytest.raises(ValueError, match=re.escape(said)):
        DetectionMAP.coco_to_tm(*write(scored, data_set())[:1], name)


def test_results_of_coco_with_names_of_files_get_the_ids_of_the_images(write):
    write(data_set(), [])
    for rows, images in (
        (results("000002", "000000"), [7, 1]),
        ([row | {"file_name": "000002.jpg"} for row in results(2)], [7]),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            read = COCO("dt.json").loadRes(rows)
        assert [row["image_id"] for row in read.anns.values()] == images
        # The id 2 is that of another image.
        told = ["resFile: images by `file_name`, not by `image_id`"] * (images == [7])
        assert [str(warning.message) for warning in caught] == told


def converted(message, path, known):
    line = re.search(r"convert it by `(.*)`", message)[1]
    with path.open(encoding="utf-8") as file:
        exec(line, {"json": json, "Path": Path, "file": file, **known})  # noqa: S102 - as a user would paste it
    return "results.json", "gt.json"


def test_a_list_of_predictions_beside_tables_of_its_own_becomes_annotations(write):
    rows = [row | {"image_id": 5, "category_id": 9} for row in results(2)]
    own = {"images": [{"id": 5, "file_name": "000001.jpg"}], "categories": [{"id": 9, "name": "2"}]}
    paths = write({"predictions": rows} | own, data_set())
    preds, _ = DetectionMAP.coco_to_tm(*converted(refusal(paths), Path(paths[0]), {}))
    assert [item["labels"].tolist() for item in preds] == [[], [2], []]


def test_lines_of_json_are_made_a_list(write):
    paths = write([], data_set())
    Path(paths[0]).write_text("".join(f"{json.dumps(row)}\n" for row in results(1, 7)), encoding="utf-8")
    preds, _ = DetectionMAP.coco_to_tm(*converted(refusal(paths), Path(paths[0]), {}))
    assert [len(item["scores"]) for item in preds] == [1, 0, 1]


def test_the_first_annotation_without_a_score_is_named_where_others_have_one(write):
    rows = results(1, 2)
    del rows[1]["score"]
    message = refusal(write(data_set(annotations=rows), data_set()))
    assert "must have `score` in every row of `results`; got the keys" in message
    assert "`results[1]`" in message


@pytest.mark.parametrize(("ids", "label", "first"), [((1, 2, 3), 0, 0), ((0, 1, 2), 3, 1)])
def test_a_class_beyond_the_others_says_from_where_they_may_be_counted(write, ids, label, first):
    truth = data_set(categories=[{"id": number, "name": str(number)} for number in ids])
    assert refusal(write(results(1, label=label), truth)).endswith(f"; are yours counted from {first}?")


@pytest.mark.parametrize("key", ["mask", "rle", "polygons"])
def test_masks_under_another_key_are_refused_and_not_replaced_by_boxes(write, key):
    truth = data_set()
    for row in truth["annotations"]:
        row["segmentation"] = [[0, 0, 40, 0, 40, 40]]
    truth["images"] = [image | {"height": 50, "width": 50} for image in truth["images"]]
    paths = write([row | {key: [[0, 0, 40, 0, 40, 40]]} for row in results(1)], truth)
    with pytest.raises(ValueError, match=rf"must have masks as `segmentation`; got `{key}` in its place"):
        DetectionMAP.coco_to_tm(*paths, iou_type="segm")


SHARES = [[0.25, 0.25, 0.75, 0.25, 0.75, 1]]
TINY = [0.2, 0.2, 0.7, 0.7]


@pytest.mark.parametrize("side", ["results", "annotations"])
@pytest.mark.parametrize(
    ("segmentation", "box", "is_told"),
    [
        (SHARES, BOX, True),
        (SHARES, TINY, False),
        ([[0, 0, 1, 0, 1, 1]], BOX, False),
        ([[0, 0, 40, 0, 40, 40.5]], BOX, False),
        ([[-0.5, 0, 1, 0, 1, 1]], BOX, False),
    ],
)
def test_polygons_as_shares_of_the_image_are_refused_where_boxes_are_larger(side, segmentation, box, is_told, write):
    truth, rows = data_set(), results(1)
    truth["images"] = [image | {"height": 50, "width": 60} for image in truth["images"]]
    for row in [*truth["annotations"], *rows]:
        row["segmentation"] = [[0, 0, 40, 0, 40, 40]]
    for row in rows if side == "results" else truth["annotations"]:
        row |= {"segmentation": segmentation, "bbox": box}
    paths = write(rows, truth)
    if is_told:
        file = "dt" if side == "results" else "gt"
        with pytest.raises(
            ValueError, match=rf"^`{file}\.json` must have polygons in pixels, not as shares .*{side}\["
        ):
            DetectionMAP.coco_to_tm(*paths, iou_type="segm")
    else:
        DetectionMAP.coco_to_tm(*paths, iou_type="segm")


def test_polygons_as_shares_are_refused_without_boxes(write):
    truth = data_set()
    truth["images"] = [image | {"height": 50, "width": 60} for image in truth["images"]]
    for row in truth["annotations"]:
        row["segmentation"] = [[0, 0, 40, 0, 40, 40]]
    rows = [{"image_id": 1, "category_id": 2, "score": 0.5, "segmentation": SHARES}]
    with pytest.raises(ValueError, match="polygons in pixels, not as shares of the image"):
        DetectionMAP.coco_to_tm(*write(rows, truth), iou_type="segm")


PIXEL = [[0, 0, 1, 0, 1, 0.9, 0, 0.9]]


def in_pixel():
    """A data set with an image of one pixel, and results without boxes."""
    truth = data_set()
    truth["images"] = [{"id": 1, "height": 1, "width": 1, "file_name": "a.jpg"}]
    truth["annotations"] = [truth["annotations"][0] | {"image_id": 1, "segmentation": PIXEL, "bbox": [0, 0, 1, 1]}]
    label = truth["annotations"][0]["category_id"]
    return truth, [{"image_id": 1, "category_id": label, "score": 0.5, "segmentation": PIXEL}]


def test_polygons_in_an_image_of_one_pixel_are_read(write):
    truth, rows = in_pixel()
    metric = DetectionMAP(iou_type="segm")
    metric.update(*DetectionMAP.coco_to_tm(*write(rows, truth), iou_type="segm"))
    assert metric.compute()["map"] == 1


def test_boxes_count_as_masks_where_segmentations_are_empty(write):
    truth, rows = in_pixel()
    rows[0] |= {"segmentation": [], "bbox": [0, 0, 1, 1]}
    with pytest.warns(UserWarning, match="have no `segmentation`: their boxes count as masks"):
        predictions, _ = DetectionMAP.coco_to_tm(*write(rows, truth), iou_type="segm")
    assert predictions[0]["scores"].tolist() == [0.5]


FURTHER_KEYS = {
    "supervision": ("x_min", "y_min", "x_max", "y_max"),
    "Roboflow": ("x", "y", "width", "height", "class", "confidence"),
    "Ultralytics": ("name", "class", "confidence", "box"),
    "tasks": ("data", "predictions"),
    "data sets": ("data", "annotations", "image", "annotation_id", "name", "labels"),
}


@pytest.mark.parametrize("form", FURTHER_KEYS)
def test_results_of_coco_may_have_keys_of_other_forms(write, form):
    truth, rows = in_pixel()
    truth["shapes"] = ["square", "circle"]
    rows[0] |= dict.fromkeys(FURTHER_KEYS[form], 1)
    predictions, _ = DetectionMAP.coco_to_tm(*write(rows, truth), iou_type="segm")
    assert predictions[0]["scores"].tolist() == [0.5]

"""Files of boxes that are read as columns give what the reader of rows gives, however their text is laid out."""

import json
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.files import CocoReading, coco_rows, coco_tables, json_blocks, read_coco
from reid_torchmetrics.files.json_blocks import UnreadRowsError
from tests.profiles import examples

BOXES = st.tuples(*[st.one_of(st.integers(0, 400), st.floats(0, 400))] * 4).map(list)
IMAGES = [{"id": 7, "file_name": "a.jpg", "height": 480, "width": 640}, {"id": 3}, {"id": 12, "height": 1, "width": 2}]
CATEGORIES = [{"id": 1, "name": "cat"}, {"id": 5, "name": "a },{ b"}]
OTHERS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(1, 99),
        "segmentation": st.just([[1.5, 2, 3, 4, 5, 6]]),
        "note": st.sampled_from(['},{"', "}, {", "é", '"]}']),
        "attributes": st.just([{"a": 1}, {"b": [2, {"c": 3}]}]),
    },
)
PLACES = st.fixed_dictionaries(
    {"image_id": st.sampled_from([7, 3, 12]), "category_id": st.sampled_from([1, 5]), "bbox": BOXES}
)
RESULTS = st.tuples(PLACES, OTHERS, st.floats(0, 1)).map(lambda parts: {**parts[0], **parts[1], "score": parts[2]})
ANNOTATIONS = st.tuples(
    PLACES,
    OTHERS,
    st.fixed_dictionaries({}, optional={"iscrowd": st.sampled_from([0, 1, True]), "area": st.floats(0, 1e4)}),
).map(lambda parts: {**parts[0], **parts[1], **parts[2]})
LAYOUTS = {
    "one line": json.dumps,
    "no spaces": partial(json.dumps, separators=(",", ":")),
    "indented": partial(json.dumps, indent=2),
    "wide": partial(json.dumps, separators=(" ,\n\n ", "\t: ")),
}


def reading(**options):
    defaults = {
        "iou_type": ("bbox",),
        "is_federated": False,
        "invalid": "count",
        "unknown_categories": "raise",
        "detection_areas": "coco",
        "notes": [],
    }
    return CocoReading(**defaults | options)


def written(folder, results, annotations, layout="one line", images=IMAGES, categories=CATEGORIES):
    write = LAYOUTS[layout]
    paths = [str(folder / name) for name in ("results.json", "truth.json")]
    data_set = {"info": {"annotations": []}, "images": images, "annotations": annotations, "categories": categories}
    for path, content in zip(paths, (results, data_set), strict=True):
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(write(content))
    return paths


def check_equal(images, expected_images):
    for items, expected_items in zip(images, expected_images, strict=True):
        assert len(items) == len(expected_items)
        for item, expected in zip(items, expected_items, strict=True):
            assert item.keys() == expected.keys()
            for key, value in expected.items():
                if isinstance(value, torch.Tensor):
                    assert item[key].dtype == value.dtype
                    assert torch.equal(item[key], value)
                else:
                    assert item[key] == value


@examples(60)
@given(
    st.lists(RESULTS, max_size=12),
    st.lists(ANNOTATIONS, max_size=6),
    st.sampled_from(list(LAYOUTS)),
    st.integers(20, 400),
)
def test_columns_are_the_rows_for_any_layout_and_size_of_blocks(
    tmp_path_factory, results, annotations, layout, num_bytes
):
    paths = written(tmp_path_factory.mktemp("files"), results, annotations, layout)
    expected = coco_rows.read_rows(*paths, reading())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_blocks, "_BLOCK", num_bytes)
        check_equal(read_coco(*paths, reading()), expected)
    check_equal(coco_tables.read_tables(*paths, reading()), expected)


ROW = {"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]}


RESULT = {**ROW, "score": 0.5}


@pytest.mark.parametrize(
    "changes",
    [
        {"category_id": 1.0},
        {"image_id": 7.0},
        {"bbox": [1, 2, 3]},
        {"bbox": None},
        {"category_id": 2**63},
        {"iscrowd": 0.0},
        {"iscrowd": 2},
        {"isCrowd": 1},
        {"area": -1},
        {"area": None},
        {"ignore": 1},
        {"bbox": [1, 2, -3, 4]},
    ],
    ids=str,
)
def test_unusual_annotations_are_left_to_the_reader_of_rows(tmp_path, changes):
    paths = written(tmp_path, [RESULT], [ROW, {**ROW, **changes}])
    with pytest.raises(UnreadRowsError):
        coco_tables.read_tables(*paths, reading())


@pytest.mark.parametrize(
    "results",
    [
        {"annotations": [RESULT]},
        [7],
        [{**ROW}],
        [{**ROW, "score": "0.5"}],
        [{**RESULT, "file_name": "a.jpg"}, RESULT],
        [{**RESULT, "category_name": "dog"}],
        [{**RESULT, "category_name": "cat"}, RESULT],
        [{**RESULT, "image_id": 99}],
        [{**RESULT, "category_id": 99}],
    ],
    ids=str,
)
def test_unusual_results_are_left_to_the_reader_of_rows(tmp_path, results):
    paths = written(tmp_path, results, [ROW])
    with pytest.raises(UnreadRowsError):
        coco_tables.read_tables(*paths, reading())


def test_results_of_unknown_categories_are_left_out_with_a_note(tmp_path):
    results = [RESULT, {**ROW, "score": 0.4, "category_id": 99, "image_id": 98}]
    paths = written(tmp_path, results, [ROW])
    options, expected_options = (reading(unknown_categories="drop") for _ in range(2))
    images = coco_tables.read_tables(*paths, options)
    check_equal(images, coco_rows.read_rows(*paths, expected_options))
    assert options.notes == expected_options.notes
    assert "left out 1 of 2 results" in options.notes[0].text


def test_results_name_images_by_their_files(tmp_path):
    images = [{"id": 7, "file_name": "5.jpg"}, {"id": 3, "file_name": "9.jpg"}]
    paths = written(tmp_path, [{**ROW, "image_id": "9", "score": 0.5}], [ROW], images=images)
    options = reading()
    (_, detections), _ = coco_tables.read_tables(*paths, options)
    assert detections["scores"].tolist() == [0.5]
    assert [note.text for note in options.notes] == [f"{paths[0]}: `image_id` as `file_name` without suffix"]


@pytest.mark.parametrize("image_id", [7, 3, 99, "a"])
def test_results_with_names_of_files_and_categories_are_read_as_columns(tmp_path, image_id):
    images = [{"id": 7, "file_name": "a.jpg"}, {"id": 3, "file_name": "val/b.jpg"}]
    named = {**RESULT, "image_id": image_id, "file_name": "a.jpg", "category_name": "cat"}
    other = {**RESULT, "image_id": image_id, "file_name": "b.jpg", "category_name": "cat", "score": 0.25}
    paths = written(tmp_path, [named, other, {**named, "score": 0.75}], [ROW], images=images)
    options, expected_options = reading(), reading()
    found = coco_tables.read_tables(*paths, options)
    check_equal(found, coco_rows.read_rows(*paths, expected_options))
    assert [item["scores"].tolist() for item in found[0]] == [[0.5, 0.75], [0.25]]
    assert options.notes == expected_options.notes


def test_a_text_that_is_no_json_is_left_to_the_reader_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(json_blocks, "_BLOCK", 64)
    path = tmp_path / "results.json"
    rows = json.dumps([RESULT] * 20)
    _, data_set = written(tmp_path, [], [ROW])
    nested = json.dumps([{**RESULT, "note": "deep"}]).replace('"deep"', "[" * 100_000 + "]" * 100_000)
    for text in (rows[:-1], rows.replace("0.5", "0.5.5"), "", rows + "]", rows.replace("}, {", "} {"), nested):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UnreadRowsError):
            coco_tables.read_tables(str(path), data_set, reading())


def test_the_reader_of_rows_gets_the_paths_and_options_of_a_file_that_is_unlike_most(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(coco_tables, "read_rows", lambda *arguments: calls.append(arguments))
    paths = written(tmp_path, [{**RESULT, "image_id": 7.0}], [ROW])
    options = reading()
    read_coco(*paths, options)
    assert calls == [(*paths, options)]

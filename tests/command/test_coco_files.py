"""`detect` with COCO's files: what it guesses, and what seems wrong with the boxes and labels, in one line each."""

import os

import pytest

from tests.files.json_files import write_json

NUM = 60


def problem():
    """Results that are right, and their data set: one object in each image."""
    rows, images, lists = [], [], {"neg_category_ids": [], "not_exhaustive_category_ids": []}
    for image in range(1, NUM + 1):
        box = [7.5 * image, 7.0 * image, 40.0 + image % 7, 50.0]
        rows.append({"id": image, "image_id": image, "category_id": 1 + image % 2, "bbox": box, "area": 2000})
        images.append({"id": image, "file_name": f"{image}.jpg", **lists})
    categories = [{"id": label, "frequency": "r"} for label in range(3)]
    return [row | {"score": 0.5} for row in rows], {"images": images, "categories": categories, "annotations": rows}


def corners(row):
    x, y, width, height = row["bbox"]
    return [x, y, x + width, y + height]


def centered(row):
    x, y, width, height = row["bbox"]
    return [x + width / 2, y + height / 2, width, height]


WARNING = "reid-torchmetrics: warning: "
CHANGES = {
    "nothing": (lambda row: {}, None),
    "names of files": (
        lambda row: {"image_id": str(row["image_id"])},
        "dt.json: `image_id` as `file_name` without suffix",
    ),
    "labels from 0": (
        lambda row: {"category_id": row["category_id"] - 1},
        f"{WARNING}Only 0 of {NUM} ground truths that are found have the label of their detection; most frequent are 0",
    ),
    "shares": (
        lambda row: {"bbox": [each / 600 for each in row["bbox"]]},
        f"{WARNING}Most of {NUM} checked boxes of `detections` lie within [0, 1], boxes of `ground_truths` do",
    ),
    "corners": (
        lambda row: {"bbox": corners(row)},
        f"{WARNING}Almost no width is below its x, and almost no height below its y, in {NUM} checked boxes of",
    ),
    "centers": (
        lambda row: {"bbox": centered(row)},
        f"{WARNING}Only 0 of {NUM} checked ground truths are found at an overlap of 0.5, ",
    ),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("evaluator", ["coco", "lvis"])
def test_a_suspicion_is_one_line(command, tmp_path, change, evaluator):
    results, data_set = problem()
    changed, text = CHANGES[change]
    if evaluator == "lvis":
        data_set["images"][0]["neg_category_ids"] = [0]
    paths = write_json(tmp_path, gt=data_set, dt=[row | changed(row) for row in results])
    said = command("detect", *map(os.path.basename, paths), "--evaluator", evaluator)
    assert said.status == 0
    lines = said.err.splitlines()
    assert len(lines) == (text is not None)
    assert all(line.startswith(text) for line in lines)


@pytest.mark.filterwarnings("default")
def test_lists_that_are_all_empty_are_one_line(command, tmp_path):
    results, data_set = problem()
    results[0]["category_id"] = 0
    paths = write_json(tmp_path, gt=data_set, dt=results)
    (line,) = command("detect", *paths, "--evaluator", "lvis").err.splitlines()
    assert line.startswith(f"{WARNING}None of {NUM} images has `neg_category_ids` or `not_exhaustive")

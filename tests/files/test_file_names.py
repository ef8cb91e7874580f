"""References to images by the names of their files."""

import pytest

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.files import ImagesByName
from tests.files.json_files import write_json

FILES = {
    "train/a.jpg": 1,
    "val/a.jpg": 2,
    "data/val/d.jpg": 6,
    "val/d.jpg": 7,
    "0003.png": 3,
    "images\\b.v2.jpeg": 4,
    "c": 5,
}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("train/a.jpg", [1]),
        ("data/val/a", [2]),
        ("val\\a.png", [2]),
        ("a.jpg", [1, 2]),
        ("a", [1, 2]),
        ("other/a.jpg", [1, 2]),
        ("val/d.jpg", [7]),
        ("x/data/val/d.jpg", [6]),
        ("0003", [3]),
        (3, [3]),
        ("3", [3]),
        ("03", [3]),
        (4, []),
        ("b.v2", [4]),
        ("x/b.v2.jpeg", [4]),
        ("b", []),
        ("c", [5]),
        ("c.txt", [5]),
        ("C", []),
        ("", []),
    ],
)
def test_names_compare_by_their_last_part_and_by_folders_where_it_is_not_enough(reference, found):
    assert ImagesByName(list(FILES), list(FILES.values())).find(reference) == found


BOX = {"category_id": 1, "bbox": [10, 10, 30, 40]}


def told(folder, names, rows):
    """The images that results are found in, and the lines; `names` are the file names of the images 1, 2, ..."""
    images = [{"id": number, "file_name": name} for number, name in enumerate(names, start=1)]
    truth = {"images": images, "annotations": [{"image_id": 1, **BOX}], "categories": [{"id": 1}]}
    paths = write_json(folder, found=[{"score": 0.5, **BOX, **row} for row in rows], truth=truth)
    guesses = []
    preds, target = DetectionMAP.coco_to_tm(*paths, guesses=guesses)
    found = [item["image_id"] for item, dicts in zip(target, preds, strict=True) for _ in dicts["scores"]]
    return found, [line.rpartition(": ")[2] for line in guesses]


BY_NAME = ["images by `file_name`, not by `image_id`"]
STEMS = ["`image_id` as `file_name` without suffix"]
AS_IDS = ["`image_id` as `id`, though each is also the `file_name` of an image"]
NO_NAMES = ["images by `image_id`, as no `file_name` is one of the data set"]
SWAPPED = ["2.jpg", "1.jpg", "x/3.jpg"]


@pytest.mark.parametrize(
    ("rows", "found", "lines"),
    [
        ([{"image_id": 1, "file_name": "1.jpg"}], [2], BY_NAME),
        ([{"image_id": 1, "file_name": "1.jpg"}, {"image_id": 2, "file_name": "2.jpg"}], [1, 2], BY_NAME),
        ([{"image_id": 3, "file_name": "y\\3.jpg"}], [3], []),
        ([{"image_id": "1", "file_name": "1"}], [2], BY_NAME),
        ([{"image_id": 1}, {"image_id": 2}], [1, 2], AS_IDS),
        ([{"image_id": 3}, {"image_id": 3}], [3, 3], []),
        ([{"image_id": "1.jpg"}, {"image_id": 3}], [2, 3], STEMS),
        ([{"image_id": "x\\3"}, {"image_id": "2"}], [1, 3], STEMS),
        ([{"image_id": 1, "file_name": "crop_7.png"}], [1], NO_NAMES),
    ],
)
def test_results_are_found_by_names_where_they_have_names(tmp_path, rows, found, lines):
    images, told_lines = told(tmp_path, SWAPPED, rows)
    assert (images, told_lines) == (found, lines)


@pytest.mark.parametrize(
    ("names", "others", "message"),
    [
        (
            SWAPPED,
            [{"image_id": 2}],
            r"an image of the data set in every row, or in none, as `file_name`; got null in `results\[1\]`",
        ),
        (
            SWAPPED,
            [{"image_id": 2, "file_name": "9.jpg"}],
            r'as `file_name`; got "9.jpg" in `results\[1\]` \(image 2\)',
        ),
        (
            ["x/1.jpg", "y/1.jpg"],
            [],
            r'one image, and not of the images 1, 2, as `file_name`; got "1.jpg" in `results\[0\]`',
        ),
    ],
)
def test_names_that_contradict_and_decide_nothing_are_an_error(tmp_path, names, others, message):
    with pytest.raises(ValueError, match=message):
        told(tmp_path, names, [{"image_id": 1, "file_name": "1.jpg"}, *others])

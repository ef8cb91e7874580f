"""Malformed files of COCO end in the right number or in an error that names the row, through every entry point."""

import pytest

from tests import fuzz_coco_files
from tests.profiles import IS_QUICK


def test_each_kind_of_value_in_any_place_is_a_right_number_or_a_named_error(tmp_path):
    counts, faults = fuzz_coco_files.run(4 if IS_QUICK else 25, 20261127, tmp_path)
    assert faults == []
    assert counts["outcomes"] > 40


@pytest.mark.parametrize("iou_type", fuzz_coco_files.IOU_TYPES)
def test_the_files_before_any_change_have_one_number_through_all_entry_points(tmp_path, iou_type):
    files = fuzz_coco_files.write(tmp_path, fuzz_coco_files.documents())
    # The second result of the first class is wrong: precision 1 up to a recall of 1/3, at 34 recalls, then 3/4 at 67.
    expected = ((34 + 67 * 3 / 4) / 101 + 1) / 2
    for entry in fuzz_coco_files.entry_points(iou_type).values():
        assert entry(*files, iou_type) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("width", [10**29, 2**31, 10**400, -5, 0, 0.5, None, "120", True, 1e300, float("inf")], ids=str)
def test_a_size_that_no_image_has_counts_for_no_box(tmp_path, width):
    contents = fuzz_coco_files.documents()
    right = fuzz_coco_files.write(tmp_path, contents)
    entries = fuzz_coco_files.entry_points("bbox")
    expected = {name: entry(*right, "bbox") for name, entry in entries.items()}
    for image in contents["truth"]["images"]:
        image["width"] = width
    files = fuzz_coco_files.write(tmp_path, contents)
    assert {name: entry(*files, "bbox") for name, entry in entries.items()} == expected

"""`detect --evaluator lvis`: the numbers of lvis-api from LVIS' files."""

import json

import numpy as np
import pytest

from tests.golden.federated_cases import detection_cases

CASE = next(case for case in detection_cases("lvis") if "lvis_segm" in case.outputs)


@pytest.fixture
def written(tmp_path):
    """The paths of a problem's data set and results."""
    return CASE.write(tmp_path, masks=True, boxes=False)[::-1]


def numbers(said):
    assert said.status == 0, said.err
    return [-1 if each["value"] is None else each["value"] for each in json.loads(said.out)["numbers"].values()]


@pytest.mark.parametrize(
    ("words", "output"),
    [
        ([], "lvis"),
        (["--max-detections", "7"], "lvis_max7"),
        (["--fixed"], "fixed"),
        (["--fixed", "--max-detections", "20"], "fixed20"),
        (["--iou-type", "segm"], "lvis_segm"),
    ],
)
def test_files_have_the_numbers_of_lvis(command, tmp_path, words, output):
    data_set, results = CASE.write(tmp_path, masks="segm" in words, boxes="segm" not in words)[::-1]
    said = command("detect", data_set, results, "--evaluator", "lvis", *words, "--json", "-")
    np.testing.assert_allclose(numbers(said), CASE.outputs[output]["results"], atol=1e-12)


@pytest.mark.usefixtures("written")
def test_boxes_and_masks_are_evaluated_by_one_command(command):
    words = ("detect", "data_set.json", "results.json", "--evaluator", "lvis", "--json", "-", "--iou-type")
    both = json.loads(command(*words, "bbox", "segm").out)
    # Detections of both have the areas of the first shape in the file.
    of_all_sizes = ("map", "map_50", "map_75", "map_rare", "map_common", "map_frequent", "mar_300")
    for iou_type in ("bbox", "segm"):
        alone = json.loads(command(*words, iou_type).out)["numbers"]
        assert both[iou_type]["numbers"].keys() == alone.keys()
        for name in of_all_sizes:
            assert both[iou_type]["numbers"][name]["value"] == alone[name]["value"], (iou_type, name)


@pytest.mark.slow
def test_its_numbers_have_names_and_outputs(command, tmp_path, written):
    words = ["--evaluator", "lvis", "--iou-type", "segm", "--save", "ours.npz", "--pictures", "pictures"]
    said = command("detect", *written, *words, "--report", "report.html", "--fail-under", "map_rare=1")
    assert said.status == 1
    assert "map_rare is" in said.err
    assert all((tmp_path / name).stat().st_size for name in ("ours.npz", "report.html"))
    assert [*(tmp_path / "pictures").iterdir()]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--iou-type segm", "`data_set.json` must be annotated in full"),
        (
            "--evaluator lvis --iou-type keypoints",
            "`data_set.json` must have `keypoints` in every row of `annotations`",
        ),
        (
            "--evaluator lvis --iou-type segm --average micro",
            "`--average` must be given with another `--evaluator`; got 'lvis'.",
        ),
        ("--iou-type segm --fixed", "`--fixed` must be given with another `--evaluator`; got 'coco'."),
    ],
)
def test_options_that_do_not_fit_are_one_line(command, tmp_path, written, words, line):
    assert written
    said = command("detect", "data_set.json", "results.json", *words.split())
    assert said.err.splitlines()[-1].startswith(f"reid-torchmetrics: {line}")
    assert (said.status, said.out) == (1, "")


def test_a_data_set_without_frequencies_is_one_line(command, tmp_path, written):
    data_set = json.loads((tmp_path / "data_set.json").read_text(encoding="utf-8"))
    del data_set["categories"][0]["frequency"]
    (tmp_path / "data_set.json").write_text(json.dumps(data_set), encoding="utf-8")
    said = command("detect", *written, "--iou-type", "segm", "--evaluator", "lvis")
    assert "must have one of 'r', 'c', 'f' as `frequency`; got null in `categories[0]`" in said.err
    assert said.status == 1

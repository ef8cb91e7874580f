"""`detect --evaluator dota`: the numbers of DOTA's Task 1 from its files."""

import json

import pytest

SQUARE, HALF = "0 0 10 0 10 10 0 10", "0 0 5 0 5 10 0 10"


@pytest.fixture
def folders(tmp_path):
    """A plane that is found second, a ship that is found by half, and a harbor without detections."""
    truths, found = tmp_path / "labelTxt", tmp_path / "results"
    truths.mkdir()
    found.mkdir()
    lines = ["imagesource:GoogleEarth", "gsd:0.1", *(f"{SQUARE} {name} 0" for name in ("plane", "ship", "harbor"))]
    (truths / "P0001.txt").write_text("\n".join(lines), encoding="utf-8")
    (found / "Task1_plane.txt").write_text(f"P0001 0.9 {HALF}\nP0001 0.8 {SQUARE}\n", encoding="utf-8")
    (found / "Task1_ship.txt").write_text(f"P0001 0.9 {HALF}\n", encoding="utf-8")
    return "labelTxt", "results"


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ([], 0.5 / 3),
        (["--rule", "voc"], 0.5 / 3),
        (["--iou-thresholds", "0.4"], 2 / 3),
        (["--iou-type", "rotated"], 0.5 / 3),
    ],
)
def test_files_have_the_numbers_of_task_1(command, folders, words, value):
    said = command("detect", *folders, "--evaluator", "dota", *words, "--json", "-")
    assert said.status == 0, said.err
    assert json.loads(said.out)["numbers"]["map"]["value"] == pytest.approx(value, abs=1e-12)


def test_thresholds_in_percent_are_refused_with_the_reason(command, folders):
    said = command("detect", *folders, "--evaluator", "dota", "--iou-thresholds", "50")
    assert (said.status, said.out) == (1, "")
    assert "`--iou-thresholds` must hold shares from 0 to 1; got 50.0: 50 % is 0.5." in said.err


@pytest.mark.slow
def test_its_outputs_are_written_with_the_names_of_the_classes(command, tmp_path, folders):
    words = ["--save", "ours.npz", "--pictures", "pictures", "--report", "report.html"]
    said = command("detect", *folders, "--evaluator", "dota", *words)
    assert said.status == 0, said.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(word in page for word in ("DOTA", "harbor", "P0001"))
    assert [*(tmp_path / "pictures").iterdir()]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--iou-type bbox", "`--iou-type` must be one of 'rotated'; got 'bbox'."),
        ("--average micro", "`--average` must be given with another `--evaluator`; got 'dota'."),
        ("--rule coco", "`--rule` must be one of 'voc', 'voc07'; got 'coco'."),
        ("--class-names plane ship", "`--class-names` only; got 'harbor'"),
    ],
)
def test_options_of_others_are_refused(command, folders, words, line):
    said = command("detect", *folders, "--evaluator", "dota", *words.split())
    assert (said.status, line in said.err) == (1, True), said.err

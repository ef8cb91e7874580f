"""What the command prints: text in percent, and tables of papers with a row for each model."""

import csv
import json
import os
import struct
from unittest import mock

import numpy as np
import pytest

from reid_torchmetrics.command import main
from reid_torchmetrics.command.terminal import fitting
from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate
from reid_torchmetrics.tasks import compare
from tests.command.test_coco_files import problem as detections
from tests.files.json_files import write_json


def lists(tmp_path):
    """Two queries; the first one is found at rank 1, the other at rank 2: the mean AP is 3/4."""
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 0.9 x\nq2 Q0 d3 1 0.9 x\nq2 Q0 d2 2 0.5 x\n", encoding="utf-8")
    (tmp_path / "b.run").write_text("q1 Q0 d1 1 0.9 x\nq2 Q0 d2 1 0.9 x\n", encoding="utf-8")
    (tmp_path / "truth.qrels").write_text("q1 0 d1 1\nq2 0 d2 1\n", encoding="utf-8")
    return ["truth.qrels", "--reports", "map", "mean_rank"]


TABLES = {
    "markdown": [
        "| model | mAP (%) | Mean rank |",
        "| :--   |     --: |       --: |",
        "| model |    75.0 |       1.5 |",
    ],
    "latex": [r"model & mAP (\%) & Mean rank \\", r"\midrule", r"model &     75.0 &       1.5 \\"],
    "csv": ["model,mAP (%),Mean rank", "model,75.0,1.5"],
}


@pytest.mark.parametrize("form", TABLES)
def test_a_table_has_the_row_of_the_model(command, tmp_path, form):
    lines = command("lists", "a.run", *lists(tmp_path), "--format", form).out.splitlines()
    start = lines.index(TABLES[form][0])
    assert lines[start : start + len(TABLES[form])] == TABLES[form]


@pytest.mark.parametrize(
    ("words", "number"),
    [([], "75.00%"), (["--format", "text"], "75.00%"), (["--decimals", "0"], "75%"), (["--decimals", "3"], "75.000%")],
)
def test_text_is_in_percent_and_json_in_shares(command, tmp_path, words, number):
    said = command("lists", "a.run", *lists(tmp_path), *words, "--json", "a.json")
    assert said.out.splitlines()[1].split()[:2] == ["map", number]
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["measures"]["map"]["value"] == 0.75


def test_pairs_as_a_table(command, tmp_path):
    np.savez(tmp_path / "pairs.npz", scores=[0.9, 0.4, 0.6, 0.1], same=[1, 1, 0, 0])
    said = command(
        "pairs", "pairs.npz", "--format", "csv", "--reports", "auc", "eer", "eer_voxceleb", "min_dcf", "tar_at_far"
    )
    head, numbers = said.out.splitlines()
    assert head == "model,AUC (%),EER (%),EER (VoxCeleb) (%),minDCF (%),TAR@FAR (%)"
    assert numbers.startswith("model,75.0,50.0,")
    said = command("pairs", "pairs.npz", "--format", "markdown", "--reports", "auc", "min_dcf", "--p-target", "0.01")
    caption = "2 pairs of one identity, 2 of two. AUC: area under the ROC curve. minDCF: least detection cost, p"
    assert said.out.splitlines()[-1].replace("\\", "") == f"{caption}_target 0.01."


def test_embeddings_as_a_table(command, files, problem):
    said = command("evaluate", *files, "--format", "latex")
    assert said.out == f"{evaluate(*problem).to_latex()}\n"


def test_models_that_are_compared_are_rows(command, tmp_path):
    words = lists(tmp_path)
    for name in "ab":
        command("lists", f"{name}.run", *words, "--save", f"{name}.npz")
    expected = compare({name: RetrievalResults.load(tmp_path / f"{name}.npz") for name in "ab"}, num_resamples=9)
    for form, text in (("markdown", expected.to_markdown()), ("latex", expected.to_latex())):
        assert command("compare", "a.npz", "b.npz", "--num-resamples", "9", "--format", form).out == f"{text}\n"
    said = command("compare", "a.npz", "b.npz", "--num-resamples", "9", "--seed", "7", "--format", "markdown")
    assert said.out.splitlines()[2:4] == ["| a     |      75.0 |       1.5 |", "| b     | **100.0** |   **1.0** |"]
    assert said.out.endswith("sign flips of queries; seed 7.\n")


def test_every_kind_of_detections_has_a_row_of_its_name(command, tmp_path):
    rows, data_set = detections()
    for row in (*rows, *data_set["annotations"]):
        left, top, width, height = row["bbox"]
        ends = left + width, top + height
        row |= {"segmentation": [[left, top, ends[0], top, *ends, left, ends[1]]], "iscrowd": 0}
    for image in data_set["images"]:
        image |= {"width": 600, "height": 600}
    said = command(
        "detect", *write_json(tmp_path, gt=data_set, dt=rows), "--iou-type", "bbox", "segm", "--format", "csv"
    )
    tables = [[*csv.DictReader(table.splitlines())] for table in said.out.split("\n\n")]
    assert [(row["model"], row["mAP (%)"]) for (row,) in tables] == [("bbox", "100.0"), ("segm", "100.0")]
    said = command("detect", "gt.json", "dt.json")
    assert said.out.splitlines()[1].endswith("= 100.00%  map")


@pytest.mark.parametrize("words", [["--format", "text"], ["--format", "csv"], ["--decimals", "1"]])
def test_options_of_printed_tables_need_something_that_is_printed(command, tmp_path, words):
    said = command("lists", "a.run", *lists(tmp_path), "--json", "-", *words)
    assert said.status == 1
    rule = "`--json -` must come without `--format` and `--decimals`, as it prints JSON; got both."
    assert said.err == f"reid-torchmetrics: {rule}\n"


def test_decimals_are_not_below_0(command, tmp_path):
    said = command("lists", "a.run", *lists(tmp_path), "--decimals", "-1")
    assert (said.status, said.err) == (1, "reid-torchmetrics: `--decimals` must be at least 0; got -1.\n")


WIDE = [
    "DetectionResults(1 image)",
    "  map   4.31%  average precision, not interpolated",
    " area=   all ] = 100.00%  map",
]
NARROW = [
    *("DetectionResults(1", "  image)"),
    *("  map   4.31%", "        average", "        precision,", "        not", "        interpolated"),
    *(" area=   all ]", "         = 100.00%", "         map"),
]


def test_text_fits_a_narrow_terminal_without_losing_a_word():
    assert "\n".join(fitting(line, 20) for line in WIDE).splitlines() == NARROW
    assert [fitting(line, 60) for line in WIDE] == WIDE


def terminal(width: int, *words: str) -> str:
    """What the command prints on a terminal of some columns."""
    pty = pytest.importorskip("pty")
    import fcntl  # noqa: PLC0415 - not on Windows
    import termios  # noqa: PLC0415

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    # The text is short enough for the buffer of the terminal, so it is read at the end.
    with os.fdopen(theirs, "w", encoding="utf-8") as screen, mock.patch("sys.stdout", screen):
        with mock.patch("sys.__stdout__", screen), mock.patch.dict(os.environ):
            os.environ.pop("COLUMNS", None)
            assert main([*words]) == 0
            print("the end", file=screen, flush=True)
            text = ""
            while not text.endswith("the end\r\n"):
                text += os.read(ours, 4096).decode()
    os.close(ours)
    return text.removesuffix("the end\r\n").replace("\r\n", "\n")


def test_results_fit_a_terminal_and_tables_are_whole(command, tmp_path):
    words = ["lists", "a.run", *lists(tmp_path)]
    text = command(*words).out
    narrow = terminal(60, *words)
    assert max(map(len, text.splitlines())) > 60
    assert max(map(len, narrow.splitlines())) <= 60
    assert narrow.split() == text.split()
    for more in (["--format", "csv"], ["--format", "markdown"], ["--json", "-"]):
        assert terminal(20, *words, *more) == command(*words, *more).out

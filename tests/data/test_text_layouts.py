"""Labels in text, as the projects that are named write them."""

import numpy as np
import pytest

from reid_torchmetrics.command import main
from reid_torchmetrics.data import read_labels, read_pairs
from tests.data.texts import written


def read(folder, text, name="labels.txt", **options):
    labels = read_labels(written(folder / name, text), **options)
    return {key: values.tolist() for key, values in labels.items()}


LAYOUTS = {
    "VeRi name_query.txt": (
        "0002_c002_00030600_0.jpg\r\n0002_c003_00084280_0.jpg\r\n",
        {"names": ["0002_c002_00030600_0.jpg", "0002_c003_00084280_0.jpg"]},
    ),
    "MSMT17 list_query.txt": (
        "0000/0000_000_01_0303morning_0015_0.jpg 0\n0007/0007_001_14_0113noon_1_2.jpg 7\n",
        {
            "names": ["0000/0000_000_01_0303morning_0015_0.jpg", "0007/0007_001_14_0113noon_1_2.jpg"],
            "identities": [0, 7],
        },
    ),
    "In-shop list_eval_partition.txt": (
        (
            "2\nimage_name item_id evaluation_status\n"
            "img/WOMEN/Dresses/id_00000002/02_1_front.jpg                  id_00000002 query\n"
            "img/WOMEN/Dresses/id_00000002/02_2_side.jpg                   id_00000002 gallery\n"
        ),
        {
            "names": ["img/WOMEN/Dresses/id_00000002/02_1_front.jpg", "img/WOMEN/Dresses/id_00000002/02_2_side.jpg"],
            "identities": ["id_00000002", "id_00000002"],
        },
    ),
    "SOP Ebay_test.txt": (
        (
            "image_id class_id super_class_id path\n59552 11319 1 bicycle_final/111.JPG\n"
            "59553 11320 1 bicycle_final/112.JPG\n"
        ),
        {"names": ["bicycle_final/111.JPG", "bicycle_final/112.JPG"], "identities": [11319, 11320]},
    ),
    "CUB image_class_labels.txt": ("1 1\n2 1\n3 200\n", {"identities": [1, 1, 200]}),
    "CUB images.txt": ("1 001.A/a.jpg\n2 001.A/b.jpg\n", {"names": ["001.A/a.jpg", "001.A/b.jpg"]}),
    "numbers, one in a line": ("3\n5\n3\n\n", {"identities": [3, 5, 3]}),
    "names of persons, one in a line": ("bo\nal\nbo\n", {"identities": ["bo", "al", "bo"]}),
    "letters, one in a line, are no header": ("y\nx\ny\n", {"identities": ["y", "x", "y"]}),
    "a header of one column": ("pid\n3\n5\n", {"identities": [3, 5]}),
    "tabs": ("path\tpid\na b.jpg\t3\n", {"names": ["a b.jpg"], "identities": [3]}),
    "commas": ("a.jpg,3\nb.jpg,4\n", {"names": ["a.jpg", "b.jpg"], "identities": [3, 4]}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_labels_in_text_are_read_as_their_project_writes_them(layout, tmp_path):
    text, expected = LAYOUTS[layout]
    assert read(tmp_path, text) == expected


def test_names_behind_the_mark_of_a_remark_are_names(tmp_path):
    labels = np.array([[3, 1], [5, 2]])
    for name, delimiter in (("a.csv", ","), ("a.txt", " ")):
        np.savetxt(tmp_path / name, labels, fmt="%d", delimiter=delimiter, header=delimiter.join(["pid", "camid"]))
        read = read_labels(tmp_path / name)
        assert (read["identities"].tolist(), read["cameras"].tolist()) == ([3, 5], [1, 2])


@pytest.mark.parametrize(("name", "delimiter"), [("a.tsv", "\t"), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", ",")])
def test_the_delimiter_of_a_table_is_found_in_its_header(name, delimiter, tmp_path):
    rows = [["path", "pid", "camid"], ['"a, b; c.jpg"', "3", "1"], ["d.jpg", "4", "2"]]
    text = "\n".join(delimiter.join(row) for row in rows)
    names = {"names": ["a, b; c.jpg", "d.jpg"]}
    assert read(tmp_path, text, name) == names | {"identities": [3, 4], "cameras": [1, 2]}


def test_the_columns_of_a_text_without_a_header_are_named_by_their_places(tmp_path):
    # VehicleID's lists have names without a suffix, so that either column may be the identity.
    text = "0014132 1234\n0014133 1234\n"
    labels = read(tmp_path, text, names={"identities": "column 2", "names": "column 1"})
    assert labels == {"identities": [1234, 1234], "names": [14132, 14133]}


def test_a_guess_by_the_place_of_a_column_is_said(tmp_path):
    guesses = []
    path = written(tmp_path / "a.txt", "a.jpg 3\nb.jpg 4\n")
    read_labels(path, guesses=guesses)
    assert guesses == [f"{path}: `column 2` as identities", f"{path}: `column 1` as names"]


def test_an_array_of_a_label_may_be_text(tmp_path):
    assert read(tmp_path, "2\n1\n", field="cameras") == {"cameras": [2, 1]}
    assert read(tmp_path, "a.jpg\nb.jpg\n", field="identities") == {"identities": ["a.jpg", "b.jpg"]}


def test_a_word_of_the_field_counts_before_the_words_of_benchmarks(tmp_path):
    assert read(tmp_path, "pid,class_id\n3,8\n", "a.csv") == {"identities": [3]}
    assert read(tmp_path, "class_id,height\n8,1.5\n", "b.csv") == {"identities": [8]}


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.txt"])
def test_a_list_of_pairs_may_have_tabs(name, tmp_path):
    pairs = written(tmp_path / name, "a\tb\ttarget\na\tc\tnontarget\n")
    scores, same = read_pairs(pairs, written(tmp_path / "scores.txt", "0.75\n0.25\n"))
    assert (scores.tolist(), same.tolist()) == ([0.75, 0.25], [True, False])


def test_the_lists_of_veri_and_msmt17_are_the_labels_of_a_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", np.eye(3)[:2])
    np.save("g.npy", np.eye(3)[[1, 1, 0]])
    words = ["evaluate", "q.npy", "g.npy", "--labels", "q.txt", "g.txt", "--reports", "rank_1"]
    written(tmp_path / "q.txt", "0002_c002_00030600_0.jpg\n0005_c003_00084280_0.jpg\n")
    written(tmp_path / "g.txt", "0005_c003_1_0.jpg\n0005_c004_1_0.jpg\n0002_c001_1_0.jpg\n")
    assert main([*words, "--protocol", "veri776", "--file-names", "veri776"]) == 0
    assert "100" in capsys.readouterr().out  # the first item of the query's identity and camera is junk
    written(tmp_path / "q.txt", "0/0000_000_01_a_0_0.jpg 0\n7/0007_001_14_a_0_0.jpg 7\n")
    written(tmp_path / "g.txt", "7/0007_001_14_b.jpg 7\n7/0007_001_02_a.jpg 7\n0/0000_000_02_b.jpg 0\n")
    assert main([*words, "--protocol", "msmt17", "--file-names", "msmt17"]) == 0
    said = capsys.readouterr()
    assert "labels from file names as in msmt17" in said.err
    assert "without cameras" not in said.err
    assert "100" in said.out

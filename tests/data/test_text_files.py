"""Text in the encodings, delimiters and numbers of Windows' shells, Excel and R, read as the same text in UTF-8."""

import json

import numpy as np
import pandas as pd
import pytest

from reid_torchmetrics.command import main
from reid_torchmetrics.data import (
    read_ground_truth,
    read_labels,
    read_open_images,
    read_pairs,
    read_retrieved,
    read_samples,
    read_yolo,
    read_yolo_names,
)
from tests.data.texts import written

BOXES = "ImageID,LabelName,Score,XMin,XMax,YMin,YMax\na,J\u00e4ger,1,0.1,0.2,0.1,0.2\n"
READERS = {
    "labels.csv": ("pid,camid\nJ\u00e4ger,1\nb,2\n", read_labels),
    "labels.txt": ("J\u00e4ger\nb\n", read_labels),
    "run.txt": ("q Q0 J\u00e4ger 1 0.5 t\n", read_retrieved),
    "items.txt": ("J\u00e4ger\nb\n", read_retrieved),
    "lists.csv": ("id,images\nq,J\u00e4ger b\n", read_retrieved),
    "lists.json": ('{"q": ["J\u00e4ger"]}', read_ground_truth),
    "pairs.csv": ("score,same\n0.5,1\n0.25,0\n", read_pairs),
    "classes.txt": ("J\u00e4ger\nb\n", read_yolo_names),
    "data.yaml": ("names: [J\u00e4ger, b]\n", read_yolo_names),
    "boxes.csv": (BOXES, lambda path: read_open_images(path, path, ["J\u00e4ger"])),
    "a.txt": ("0 0.5 0.5 0.25 0.25 0.5\n", lambda path: read_yolo(path.parent, path.parent, iou_type="bbox")),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])  # of PowerShell and Excel
def test_a_mark_at_the_start_tells_the_encoding(name, encoding, tmp_path):
    text, read = READERS[name]
    outcomes = []
    for each in ("utf-8", encoding):
        (tmp_path / name).write_text(text, encoding=each)
        try:
            outcomes.append(str(read(tmp_path / name)))
        except ValueError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_json_of_coco_may_be_in_utf_16(tmp_path, capsys):
    box = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 10, 10]}
    categories = [{"id": 1, "name": "J\u00e4ger"}]
    truth = {"images": [{"id": 1}], "categories": categories, "annotations": [{"id": 1, "area": 100, **box}]}
    paths = []
    for name, content in (("truth.json", truth), ("found.json", [{"score": 0.5, **box}])):
        paths.append(str(tmp_path / name))
        (tmp_path / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-16")
    assert main(["detect", *paths, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["numbers"]["map"]["value"] == pytest.approx(1)


@pytest.mark.parametrize("delimiter", [";", ",", "\t"])
def test_the_first_line_of_excel_names_the_delimiter(delimiter, tmp_path):
    rows = [["pid", "camid"], ["3", "1"], ["5", "2"]]
    table = f"sep={delimiter}\r\n" + "".join(f"{delimiter.join(row)}\r\n" for row in rows)
    labels = read_labels(written(tmp_path / "a.csv", table))
    assert (labels["identities"].tolist(), labels["cameras"].tolist()) == ([3, 5], [1, 2])
    with pytest.raises(ValueError, match=r"got 1 cells for 2 names in line 5\.$"):
        read_labels(written(tmp_path / "a.csv", f"{table}7\r\n"))
    lists = f"sep={delimiter}\nid{delimiter}images\nq{delimiter}a b\n"
    assert read_retrieved(written(tmp_path / "lists.csv", lists)) == {"q": ["a", "b"]}


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ";"), ("a.tsv", "\t"), ("a.txt", "\t")])
def test_decimal_commas_beside_another_delimiter_are_points(name, delimiter, tmp_path):
    # As R's write.csv2, and Excel and pandas in Germany.
    table = pd.DataFrame({"pid": [3, 5], "x": [1.5, 2.0], "y": [-0.25, 1e-7]})
    table["name"] = ["1,5 m.jpg", "2,5.jpg"]
    embeddings = np.array([[0.5, 1e-7], [2.0, 0.25]])
    table[["feat_0", "feat_1"]] = embeddings
    table.to_csv(tmp_path / name, sep=delimiter, decimal=",", index=False)
    labels = read_labels(tmp_path / name)
    np.testing.assert_array_equal(labels["positions"], [[1.5, -0.25], [2.0, 1e-7]])
    assert (labels["identities"].tolist(), labels["names"].tolist()) == ([3, 5], table["name"].tolist())
    if name != "a.txt":
        (samples,) = read_samples(tmp_path / name)
        assert np.array_equal(samples.embeddings, embeddings)


def test_commas_in_other_cells_stay(tmp_path):
    labels = read_labels(written(tmp_path / "a.csv", "pid;camid\n1,2;1\n1,2,3;2\n"))
    assert labels["identities"].tolist() == ["1,2", "1,2,3"]
    labels = read_labels(written(tmp_path / "b.csv", 'pid,camid\n"1,5",1\n"2,5",2\n'))  # thousands, or decimals
    assert labels["identities"].tolist() == ["1,5", "2,5"]

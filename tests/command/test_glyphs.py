"""Names of classes that a figure's font lacks: the command says so in one line."""

import json

import pytest

from reid_torchmetrics.command import main


@pytest.mark.filterwarnings("default")
def test_a_report_and_pictures_with_chinese_names_have_one_warning(tmp_path, monkeypatch, capsys):
    box = {"image_id": 1, "bbox": [0, 0, 10, 10]}
    annotations = [{**box, "id": label, "category_id": label, "area": 100, "iscrowd": 0} for label in (1, 2)]
    categories = [{"id": 1, "name": "狗"}, {"id": 2, "name": "猫"}]
    data_set = {"images": [{"id": 1}], "categories": categories, "annotations": annotations}
    results = [{**box, "category_id": label, "score": 0.5} for label in (1, 2)]
    monkeypatch.chdir(tmp_path)
    for name, content in (("gt.json", data_set), ("dt.json", results)):
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    assert main(["detect", "gt.json", "dt.json", "--report", "report.html", "--pictures", "pictures"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "lyph" in line]
    (line,) = lines
    assert line.startswith("reid-torchmetrics: warning: The font DejaVu Sans has no glyphs for '狗', '猫'.")

"""The detection example: its detector, and the whole script at a reduced size."""

import re
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

pytest.importorskip("lightning")
event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

example = pytest.importorskip("detection_module")

SMALL = ("--epochs", "1", "--train-images", "400", "--test-images", "20", "--accelerator", "cpu")


def test_the_overlap_of_a_box_with_its_half_is_one_half():
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0]]).expand(3, 4)
    others = torch.tensor([[0.0, 0.0, 4.0, 2.0], [5.0, 5.0, 6.0, 6.0], [2.0, 2.0, 6.0, 6.0]])
    assert example.overlap(boxes, others).tolist() == pytest.approx([8 / 16, 0, 4 / 28])


def test_the_cell_in_the_middle_of_a_shape_is_nearest_and_has_its_box():
    box = torch.tensor([[8.0, 12.0, 40.0, 28.0]])  # the middle, 24 and 20, is on the corner of four cells
    nearness, boxes, weights = example.cells_of({"boxes": box, "labels": torch.tensor([2]), "image_id": 0})
    assert nearness.shape == (3, example.SIDE // example.STRIDE, example.SIDE // example.STRIDE)
    assert nearness[:2].max() == 0
    assert (nearness[2] == 1).nonzero().tolist() == [[4, 5], [4, 6], [5, 5], [5, 6]]
    assert example.cell_centers()[4, 5].tolist() == [22, 18]
    assert boxes[4, 5].tolist() == box[0].tolist()
    assert weights[4, 5] == 1
    assert weights[0, 0] == 0


def test_the_detector_gives_what_the_metric_takes():
    images, targets = example.collate([example.draw_scene(number, seed=0) for number in range(3)])
    detections = example.Detector().eval().detect(images, most=7)
    assert [set(found) for found in detections] == [{"boxes", "scores", "labels"}] * 3
    for found in detections:
        assert found["boxes"].shape == (7, 4)
        assert found["scores"].tolist() == sorted(found["scores"].tolist(), reverse=True)
        assert set(found["labels"].tolist()) <= set(example.CLASSES)
    metric = example.DetectionModule().val_map
    metric.update(detections, targets)
    assert 0 <= metric.compute() <= 1


def run_here(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    """Run the script with `folder` as the working directory, in this process: another would import all anew."""
    monkeypatch.chdir(folder)
    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "0")  # as before, when the test is over
    monkeypatch.setattr(sys, "argv", ["detection_module.py", "--output", "written", *options])
    example.main()


def numbers_of(printed: str, name: str) -> list[float]:
    """The numbers in per cent of the line that begins with `name`."""
    line = re.search(rf"^{name}((?: +\d+\.\d){{6}})$", printed, re.MULTILINE)
    assert line, printed
    return [float(value) for value in line[1].split()]


def test_the_script_learns_and_logs_and_writes_only_where_it_was_told(tmp_path, monkeypatch, capsys):
    run_here(tmp_path, monkeypatch, *SMALL)
    printed = capsys.readouterr().out
    assert re.search(r"^per cent +mAP +mAP50 +mAP75 +small +medium +recall$", printed, re.MULTILINE)
    before, after = numbers_of(printed, "before training"), numbers_of(printed, "after training")
    assert max(before) < 1
    assert after[5] > 2  # in so few steps, 7.3 on one processor; mAP50 is about 80 in the whole example
    assert [path.name for path in tmp_path.iterdir()] == ["written"]
    for name in ("precision_recall.png", "detections.png"):
        with Image.open(tmp_path / "written" / name) as image:
            assert min(image.size) > 100
    report = (tmp_path / "written" / "report.html").read_text(encoding="utf-8")
    assert "Images with the most errors" in report
    assert "with its boxes" in report
    logs = [event_accumulator.EventAccumulator(str(file)) for file in tmp_path.glob("written/tensorboard/*/events.*")]
    tags = [log.Reload().Tags() for log in logs]
    logged = {tag for tag_lists in tags for tag in tag_lists["scalars"]}
    assert {"val/map", *(f"val/{name}" for name in example.LOGGED)} <= logged
    pictures = {tag for tag_lists in tags for tag in tag_lists["images"]}
    curves = {f"val/{name}" for name in ("precision_recall", "confidence", "kinds_of_errors")}
    curves |= {"val/confusion_matrix"}
    assert pictures == curves | {"val/worst_images"}

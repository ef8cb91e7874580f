"""What a report says of confused classes and of kinds of errors."""

import pytest
import torch

from reid_torchmetrics import DetectionMAP, plot
from reid_torchmetrics.plot import figures, matrices
from reid_torchmetrics.report import detection_page, write_report
from tests.functional.detection.detection_samples import fed
from tests.functional.detection.evaluation.test_detection_results import two_images
from tests.report import problems
from tests.report.pages import data, read, section

NAMES = {3: "bicycle", 5: "car"}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Class 3 is detected as class 5, once, with 0.8; nothing else of class 5 is right at any confidence."""
    metric = fed(DetectionMAP(class_names=NAMES, average="micro"), *two_images())
    results = metric.results(across_classes=True)
    return read(write_report(results, tmp_path_factory.mktemp("report") / "page.html"))


@pytest.mark.slow
def test_classes_that_are_confused_are_listed_with_the_names_of_the_metric(page):
    assert section(page, "errors").rows("Classes that are confused most") == [
        {"ground truth": "bicycle", "detected as": "car", "times": "1"}
    ]


def test_kinds_of_errors_have_their_counts_gains_and_meaning(page):
    kinds = {row["kind"]: row for row in section(page, "errors").rows("Kinds of errors")}
    assert kinds["duplicate"]["errors"] == "1"
    assert kinds["duplicate"]["AP gained (points)"] == "0.00"
    assert (
        kinds["miss"]["meaning"]
        == "an unmatched ground truth that no detection would match with another class or place"
    )
    assert data(page)["errors"]["counts"]["duplicate"] == 1


@pytest.mark.slow
def test_neither_the_matrix_nor_the_grid_of_very_many_classes_is_made_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(detection_page, "_MOST_ROWS", 60)
    for module in (plot, figures, matrices):
        monkeypatch.setattr(module, "MOST_CLASSES", 10)
    labels = torch.arange(80)
    boxes = torch.tensor([[0.0, 0.0, 9.0, 9.0]]) + 20 * labels[:, None]
    metric = DetectionMAP(max_detection_thresholds=[1, 10, 100])
    found = {"boxes": boxes, "scores": torch.full((80,), 0.5), "labels": labels.roll(1)}
    metric.update([found], [{"boxes": boxes, "labels": labels}])
    drawn, draw = [], figures.plot_confusion_matrix
    monkeypatch.setattr(figures, "plot_confusion_matrix", lambda *a, **k: drawn.append(a[0]) or draw(*a, **k))
    results = metric.results(across_classes=True)
    page = read(write_report(results, tmp_path / "page.html"))
    (matrix,), few = drawn, section(page, "errors")
    assert (matrix.counts.shape, matrix.num_left_out) == ((11, 11), 70)
    assert "without 70 classes confused less" in few.text
    assert "coco" not in vars(results)
    table = section(page, "classes")
    assert len(table.one("tbody").all("tr")) == 60
    assert table.one("summary").text == "60 of 80 classes, those with the lowest AP; all are in the JSON below"
    assert len(data(page)["classes"]) == 80


@pytest.mark.parametrize("results", [problems.detection, problems.coco])
@pytest.mark.slow
def test_results_that_do_not_know_say_how_they_would(results, tmp_path):
    page = read(write_report(results(), tmp_path / "page.html"))
    assert "results(across_classes=True)" in section(page, "errors").text
    assert data(page)["errors"] is None


@pytest.mark.slow
def test_without_confusion_the_report_says_so(tmp_path):
    preds, target = two_images()
    metric = fed(DetectionMAP(iou_thresholds=[0.5]), preds[:1], target[:1])
    page = read(write_report(metric.results(across_classes=True), tmp_path / "page.html"))
    assert "No class is detected as another." in section(page, "errors").text

"""From boxes: what the page on Ultralytics says of recorded numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics, YoloMAP
from reid_torchmetrics.tasks.detection_errors import CONFUSION_RULES
from tests.coming_from.pages import Row, check_row, live, names, names_of, rows
from tests.golden.coco_cases import FOLDER

PROBLEMS, RECORDED = (
    json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in ("confusion", "ultralytics")
)
SCORES = torch.from_numpy(np.linspace(0, 1, 1000))
Dicts = list[dict[str, torch.Tensor]]


def images_of(problem: dict[str, Any]) -> tuple[Dicts, Dicts]:
    """Detections and ground truths of each image, corners in float64."""
    preds, target = [], []
    for image in problem["images"]:
        found = torch.tensor(image["detections"], dtype=torch.float64).view(-1, 6)
        true = torch.tensor(image["ground_truths"], dtype=torch.float64).view(-1, 5)
        labels, scores = found[:, 0].long(), SCORES[found[:, 5].long()]
        preds.append({"boxes": found[:, 1:5], "scores": scores, "labels": labels})
        target.append({"boxes": true[:, 1:], "labels": true[:, 0].long()})
    return preds, target


@pytest.mark.parametrize("place", range(len(PROBLEMS)))
def test_the_numbers_of_every_class_are_those_of_ultralytics(place: int) -> None:
    metric = YoloMAP()
    metric.update(*images_of(PROBLEMS[place]))
    found = metric.results()
    has_labels = found.matches.num_positives[0] > 0
    assert found.classes[has_labels].tolist() == RECORDED[place]["classes"]
    expected = np.array(RECORDED[place]["average_precision"]).T
    np.testing.assert_allclose(found.average_precision[:, has_labels].numpy(), expected, rtol=0, atol=1e-12)
    for output in ("precision", "recall"):
        values = found.averages.at_confidence[output][has_labels]
        np.testing.assert_allclose(values.numpy(), RECORDED[place][output], rtol=0, atol=1e-12)


def theirs_of(place: int, output: str) -> Any:
    recorded = RECORDED[place]
    precisions = np.array(recorded["average_precision"]).T
    if output == "confusion_matrix":
        (matrix,) = (each["matrix"] for each in PROBLEMS[place]["ultralytics"] if each["confidence"] == 0.25)
        return np.array(matrix)
    means = dict(zip(("precision", "recall", "map50", "map"), recorded["mean_results"], strict=True))
    return {"average_precision": precisions, "map75": recorded["map75"], **means}[output]


def ours_of(place: int, what: str, output: str, options: dict[str, Any]) -> Any:
    images = images_of(PROBLEMS[place])
    if what.startswith("`DetectionMetrics`"):
        collection = DetectionMetrics()
        collection.update(*images)
        return float(collection.compute()[f"{output}_50"])
    if "matrix" in output:
        metric = DetectionMAP()
        metric.update(*images)
        chosen = {"confidence": 0.25, "iou_threshold": 0.45, **options}
        return metric.results(across_classes=True).confusion_matrix(**chosen).counts
    if what.startswith("`DetectionMAP`"):
        metric = DetectionMAP(**options)
        metric.update(*images)
        return float(metric.results().summary()[output])
    metric = YoloMAP(**options)
    metric.update(*images)
    results, names = metric.results(), {"map50": "map_50", "map75": "map_75"}
    if output == "average_precision":
        return results.average_precision[:, results.matches.num_positives[0] > 0]
    return float(results.summary()[names.get(output, output)])


@pytest.mark.parametrize("row", rows("ultralytics"), ids=names_of)
def test_ultralytics_differs_as_the_page_says(row: Row) -> None:
    problem, _, output = row.key.split("/")
    place = int(problem) - 1

    check_row(row, lambda options: ours_of(place, row.what, output, options), live(row, theirs_of(place, output)))


def test_the_function_of_the_page_reads_folders(tmp_path: Path) -> None:
    found, truths = "0 .5 .5 .4 .36 .9\n0 .8 .8 .1 .1 .6\n1 .2 .22 .2 .2 .8", "0 .5 .5 .4 .4\n1 .2 .2 .2 .2"
    for folder, lines in (("found", found), ("truths", truths)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "image.txt").write_text(lines, encoding="utf-8")
    numbers = names("ultralytics")["yolo_results"](str(tmp_path / "found"), str(tmp_path / "truths"))
    assert (numbers["map50"], numbers["map"]) == pytest.approx((0.9950, 0.7960))
    assert numbers["maps"].tolist() == pytest.approx([0.8955, 0.6965])


def test_the_confusion_matrix_of_the_page_is_of_a_rule_that_there_is() -> None:
    assert "ultralytics" in CONFUSION_RULES

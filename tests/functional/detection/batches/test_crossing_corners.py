"""Four corners that are not in turn, so that edges cross: a ground truth is an error, a detection a false positive."""

import json
import pickle
import warnings
from itertools import permutations

import pytest
import torch

from reid_torchmetrics import DetectionMAP, VocMAP
from reid_torchmetrics.data import read_dota
from reid_torchmetrics.functional.detection import evaluate_images

CORNERS = [(0.0, 0.0), (8.0, 0.0), (8.0, 4.0), (0.0, 4.0)]  # in turn
CROSSED = [(0.0, 0.0), (8.0, 0.0), (0.0, 4.0), (8.0, 4.0)]
UNEVEN = [(0.0, 0.0), (8.0, 4.0), (8.0, 0.0), (0.0, 2.0)]  # parts of different areas
RULE = (
    "corners in turn around the box, such as left top, right top, right bottom, left bottom, whose edges do not cross"
)
WARNING = "detected objects are not finite or have a negative size or corners that are not in turn"


def flat(corners):
    return [number for corner in corners for number in corner]


def image(detected, true):
    """The dicts of an image with one detection and one ground truth."""
    labels = torch.tensor([1])
    detection = {"rotated_boxes": torch.tensor([flat(detected)]), "scores": torch.tensor([0.9]), "labels": labels}
    return detection, {"rotated_boxes": torch.tensor([flat(true)]), "labels": labels}


def by_metric(metric_class):
    def evaluate(preds, target, **options):
        metric = metric_class(iou_type="rotated", **options)
        metric.update(preds, target)
        return float(metric.compute()["map"])

    return evaluate


def by_function(evaluator):
    def evaluate(preds, target, **options):
        results = evaluate_images(preds, target, evaluator=evaluator, iou_type="rotated", **options)
        return round(float(results.summary()["map"]), 9)

    return evaluate


DOORS = {
    "DetectionMAP": by_metric(DetectionMAP),
    "VocMAP": by_metric(VocMAP),
    "evaluate_images, COCO": by_function("coco"),
    "evaluate_images, VOC": by_function("voc"),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_ground_truth_in_a_crossing_order_is_an_error_that_names_the_order_image_and_row(door):
    sound = image(CORNERS, CORNERS)
    for crossing in (CROSSED, UNEVEN):
        crossed = image(CORNERS, crossing)
        with pytest.raises(ValueError, match=RULE) as caught:
            DOORS[door]([sound[0], crossed[0]], [sound[1], crossed[1]])
        message = str(caught.value)
        assert message.startswith("`target[1]['rotated_boxes']` must have")
        assert message.endswith(f"got {flat(crossing)} in row 0.")


@pytest.mark.filterwarnings(f"ignore:.* {WARNING}")
@pytest.mark.parametrize("door", DOORS)
def test_all_orders_of_the_corners_of_a_box_are_itself_or_a_false_positive(door):
    values = []
    for corners in permutations(CORNERS):
        detection, ground_truth = image(corners, CORNERS)
        values.append(DOORS[door]([detection], [ground_truth]))
    assert sorted(values) == [0] * 16 + [1] * 8  # four first corners and two directions


@pytest.mark.filterwarnings(f"ignore:.* {WARNING}")
@pytest.mark.parametrize("door", DOORS)
def test_a_detection_in_a_crossing_order_counts_is_left_out_or_is_an_error(door):
    crossed = image(UNEVEN, CORNERS)
    sound = image(CORNERS, CORNERS)
    detection = {key: torch.cat([crossed[0][key], sound[0][key]]) for key in crossed[0]}
    detection["scores"] = torch.tensor([0.9, 0.8])
    assert DOORS[door]([detection], [sound[1]]) == pytest.approx(0.5, abs=1e-6)  # the best detection is wrong
    with pytest.raises(ValueError, match=rf"^`preds\[0\]\['rotated_boxes'\]` must have {RULE}; got .* in row 0\.$"):
        DOORS[door]([detection], [sound[1]], invalid="raise")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Dropped 1 objects")
        assert DOORS[door]([detection], [sound[1]], invalid="drop") == 1


@pytest.mark.parametrize("metric_class", [DetectionMAP, VocMAP])
def test_detections_in_a_crossing_order_are_told_once_and_counted(metric_class):
    detection, ground_truth = image(CROSSED, CORNERS)
    for invalid, counter in (("count", "num_invalid"), ("drop", "num_dropped")):
        metric = metric_class(iou_type="rotated", invalid=invalid)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                metric.update([detection], [ground_truth])
        (warning,) = caught
        assert "corners that are not in turn, so that edges cross" in str(warning.message)
        assert warning.filename == __file__
        assert getattr(metric, counter) == 3


@pytest.mark.filterwarnings(f"ignore:.* {WARNING}")
def test_a_detection_in_a_crossing_order_stays_a_false_positive_in_tables_merged_metrics_and_checkpoints():
    detection, ground_truth = image(UNEVEN, CORNERS)
    metric = DetectionMAP(iou_type="rotated", keep_shapes=True)
    metric.update([detection], [ground_truth])
    matrix = metric.results(across_classes=True).confusion_matrix(confidence=0.5)
    assert matrix.counts.tolist() == [[0, 1], [1, 0]]  # missed, and found in the background
    merged = DetectionMAP(iou_type="rotated", keep_shapes=True)
    merged.update([detection], [ground_truth])
    merged.merge_state(metric)
    assert (float(merged.compute()["map"]), merged.num_invalid) == (0, 2)
    restored = pickle.loads(pickle.dumps(metric))
    assert float(restored.compute()["map"]) == 0


def test_corners_as_rows_of_x_and_y_are_read_as_eight_numbers_on_both_sides():
    detection, ground_truth = image(CORNERS, CORNERS)
    forms = (
        lambda boxes: boxes.view(-1, 4, 2),
        lambda boxes: boxes.view(-1, 4, 2).numpy(),
        lambda boxes: boxes.view(-1, 4, 2).tolist(),
    )
    for door in DOORS.values():
        for form in forms:
            pairs = [{**item, "rotated_boxes": form(item["rotated_boxes"])} for item in (detection, ground_truth)]
            assert door([pairs[0]], [ground_truth]) == 1
            assert door([detection], [pairs[1]]) == 1
    crossed, _ = image(CROSSED, CORNERS)
    crossed["rotated_boxes"] = crossed["rotated_boxes"].view(-1, 4, 2)
    for invalid in ("count", "drop"):
        metric = DetectionMAP(iou_type="rotated", invalid=invalid)
        with pytest.warns(UserWarning, match="edges cross"):
            metric.update([crossed], [ground_truth])
        assert metric.num_invalid + metric.num_dropped == 1


def dota_folders(folder, detected, true):
    """Folders of DOTA with one plane in one image."""
    (folder / "labelTxt").mkdir()
    (folder / "results").mkdir()
    line = " ".join(map(str, flat(true)))
    (folder / "labelTxt" / "P1.txt").write_text(f"gsd:1\n{line} plane 0\n", encoding="utf-8")
    line = " ".join(map(str, flat(detected)))
    (folder / "results" / "Task1_plane.txt").write_text(f"P1 0.9 {line}\n", encoding="utf-8")
    return folder / "results", folder / "labelTxt"


def test_a_line_of_dota_in_a_crossing_order_is_named(tmp_path):
    folders = dota_folders(tmp_path, CROSSED, CROSSED)
    with pytest.raises(ValueError, match=rf"^`annotations` must have {RULE}; got '0.0 .* plane 0', .*P1.txt:2\.$"):
        read_dota(*folders[::-1])
    metric = VocMAP(iou_type="rotated", invalid="drop")
    with pytest.warns(UserWarning, match="Dropped 2 objects"):
        metric.update(*read_dota(*folders[::-1], invalid="drop"))


def test_a_row_of_coco_files_in_a_crossing_order_is_named(tmp_path):
    annotation = {"id": 41, "image_id": 7, "category_id": 1, "bbox": [0, 0, 8, 4], "rotated_box": flat(CORNERS)}
    five = annotation | {"id": 42, "image_id": 8, "rotated_box": [4, 2, 8, 4, 0]}
    crossed = annotation | {"id": 43, "image_id": 9, "rotated_box": flat(UNEVEN)}
    data_set = {"images": [{"id": number} for number in (7, 8, 9)], "annotations": [annotation, five, crossed]}
    (tmp_path / "gt.json").write_text(json.dumps(data_set), encoding="utf-8")
    (tmp_path / "dt.json").write_text("[]", encoding="utf-8")
    files = str(tmp_path / "dt.json"), str(tmp_path / "gt.json")
    with pytest.raises(ValueError, match=rf"gt.json` must have {RULE} as `rotated_box`; got .* \(id 43, image 9\)"):
        DetectionMAP.coco_to_tm(*files, "rotated")
    _, target = DetectionMAP.coco_to_tm(*files, "rotated", invalid="drop")
    assert len(target[2]["rotated_boxes"]) == 1

"""What validation loops and files hold besides good boxes: NaN, negative sizes, numbers of NumPy, masks, names."""

import json
import math
import re
import warnings

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics
from tests.functional.detection.detection_samples import fed, images, is_same

NAN, INF = math.nan, math.inf


def spoiled():
    """Good images, and the same with boxes that cannot be evaluated between theirs."""
    good, bad = images(91, 6, with_ids=True), images(91, 6, with_ids=True)
    wrong = torch.tensor([[NAN, 0, 1, 1], [5, 5, 4, 9], [5, 5, 9, 4], [0, 0, INF, 1], [0, 0, 9, 9], [0, 0, 9, 9]])
    scores = torch.tensor([0.9, 0.9, 0.9, 0.9, NAN, INF])
    labels = torch.arange(6) % 2
    for place in (1, 4):
        item = bad[0][place]
        bad[0][place] = {
            "boxes": torch.cat([wrong[:3], item["boxes"], wrong[3:]]),
            "scores": torch.cat([scores[:3], item["scores"], scores[3:]]),
            "labels": torch.cat([labels[:3], item["labels"], labels[3:]]),
        }
    item = bad[1][3]
    bad[1][3] = item | {
        "boxes": torch.cat([wrong[:1], item["boxes"]]),
        "labels": torch.cat([labels[:1], item["labels"]]),
        "area": torch.cat([torch.ones(1), item["area"]]),
    }
    bad[1][3].pop("iscrowd", None)
    good[1][3].pop("iscrowd", None)
    return good, bad


def test_boxes_that_cannot_be_evaluated_are_left_out_with_one_warning_and_counted():
    good, bad = spoiled()
    metric = DetectionMAP(invalid="drop", class_metrics=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fed(metric, *bad, size=2)
    (warning,) = caught
    assert str(warning.message).startswith("Dropped 6 boxes that are not finite or have a negative size. Later drops")
    assert warning.filename.endswith("detection_samples.py")
    assert metric.num_dropped == 13
    assert is_same(metric.compute(), fed(DetectionMAP(class_metrics=True), *good, size=2).compute())
    metric.reset()
    assert metric.num_dropped == 0


def test_invalid_boxes_can_be_refused():
    _, bad = spoiled()
    with pytest.raises(
        ValueError, match=r"^`preds\[1\]\['boxes'\]` must be finite; got \[nan, 0\.0, 1\.0, 1\.0\] in row 0\.$"
    ):
        fed(DetectionMAP(invalid="raise"), *bad)


@pytest.mark.filterwarnings("ignore:.* are not finite or have")
@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_a_box_that_is_nowhere_is_left_out_whatever_its_size(box_format):
    metric = DetectionMAP(box_format, invalid="drop")
    boxes, labels = torch.tensor([[torch.nan, 1, 5, 5], [1, 1, 5, 5]]), torch.zeros(2, dtype=torch.int64)
    found = {"boxes": boxes, "scores": torch.ones(2), "labels": labels}
    metric.update([found], [{"boxes": boxes[1:], "labels": labels[1:]}])
    assert metric.num_dropped == 1
    assert metric.compute()["map"] == 1


@pytest.mark.filterwarnings("ignore:.* are not finite or have")
def test_a_step_and_merging_count_what_was_dropped():
    _, bad = spoiled()
    metric = DetectionMAP(invalid="drop", metric="map")
    metric(*bad)
    metric(*bad)
    assert metric.num_dropped == 26
    other = fed(DetectionMAP(invalid="drop"), *bad)
    metric.merge_state(other)
    assert metric.num_dropped == 39


@pytest.mark.filterwarnings("ignore:.* are not finite or have")
def test_a_collection_drops_them_too():
    good, bad = spoiled()
    assert fed(DetectionMetrics(invalid="drop"), *bad).compute() == fed(DetectionMetrics(), *good).compute()


def test_other_mistakes_are_refused_although_invalid_shapes_are_dropped():
    metric = DetectionMAP(invalid="drop")
    box = {"boxes": torch.ones(1, 4), "scores": torch.ones(1), "labels": torch.ones(1)}
    with pytest.raises(TypeError, match=r"`preds\[0\]\['labels'\]` must have an integer dtype; got torch.float32"):
        metric.update([box], [{"boxes": torch.ones(0, 4), "labels": torch.ones(0)}])
    with pytest.raises(ValueError, match="`invalid` must be one of 'count', 'drop', 'raise'; got 'ignore'"):
        DetectionMAP(invalid="ignore")


def test_thresholds_and_limits_may_be_numbers_of_numpy_and_tensors():
    options = {
        "iou_thresholds": [np.float32(0.75), torch.tensor(0.5), np.float64(0.5)],
        "rec_thresholds": [torch.tensor(0.5), np.float64(0), 0.5, np.float32(1)],
        "max_detection_thresholds": [torch.tensor(10), np.float64(1), 100],
    }
    plain = {
        "iou_thresholds": [0.75, 0.5, 0.5],
        "rec_thresholds": [0.0, 0.5, 0.5, 1.0],
        "max_detection_thresholds": [1, 10, 100],
    }
    given = images(92, 5)
    found, expected = (fed(DetectionMAP(**each, extended_summary=True), *given) for each in (options, plain))
    assert is_same(found.compute(), expected.compute())
    assert found.max_detection_thresholds == [1, 10, 100]


def test_a_recall_that_is_given_twice_counts_twice():
    given = images(93, 5)
    metric = fed(DetectionMAP(rec_thresholds=[0.2, 0.2, 0.8], extended_summary=True), *given)
    values = metric.compute()
    precision = values["precision"]
    assert torch.equal(precision[:, 0], precision[:, 1])
    mean = precision[..., 0, 2][precision[..., 0, 2] > -1].mean()
    assert float(values["map"]) == pytest.approx(float(mean), abs=1e-6)


KINDS = [("sparse", lambda values: values.to_sparse()), ("nested", lambda values: torch.nested.nested_tensor([values]))]
FOUND = {"boxes": torch.ones(2, 4), "scores": torch.ones(2), "labels": torch.ones(2, dtype=torch.int64)}
TRUE = {"boxes": torch.ones(2, 4), "labels": torch.ones(2, dtype=torch.int64), "area": torch.ones(2)}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(("kind", "changed"), KINDS)
@pytest.mark.parametrize(("side", "key"), [(0, "boxes"), (0, "scores"), (1, "labels"), (1, "area")])
def test_tensors_that_hold_no_block_of_values_are_refused_in_words(kind, changed, side, key):
    given = [dict(FOUND), dict(TRUE)]
    given[side][key] = changed(given[side][key])
    message = f"`{('preds', 'target')[side]}[0]['{key}']` must be a dense tensor; got a {kind} one."
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        DetectionMAP().update([given[0]], [given[1]])


@pytest.mark.slow
def test_tensors_without_values_are_refused_in_words():
    given = [{name: values.to("meta") for name, values in each.items()} for each in (FOUND, TRUE)]
    with pytest.raises(TypeError, match=r"^`preds\[0\]\['boxes'\]` must have values; got a meta tensor\.$"):
        DetectionMAP().update([given[0]], [given[1]])


GOOD_ROW = {"image_id": 1, "category_id": 2, "bbox": [0, 0, 5, 5], "score": 0.5}
FILES = [
    (
        {"bbox": None, "segmentation": {}},
        "must have `bbox` in every row of `results`; got a mask alone in `results[0]` (image 1).",
    ),
    (
        {"bbox": None},
        (
            "must have `bbox` in every row of `results`; got the keys image_id, category_id, score in `results[0]`"
            " (image 1)."
        ),
    ),
    (
        {"image_id": None},
        "must have `image_id` in every row of `results`; got the keys category_id, bbox, score in `results[0]`.",
    ),
    (
        {"image_id": 1.5},
        "must have a whole number below 2**63 or a name as `image_id`; got 1.5 in `results[0]` (image 1.5).",
    ),
    (
        {"category_id": "dog"},
        'must have a whole number below 2**63 as `category_id`; got "dog" in `results[0]` (image 1).',
    ),
]


def written(folder, row, images=({"id": 1},)):
    results, data_set = folder / "results.json", folder / "data_set.json"
    results.write_text(json.dumps([row]), encoding="utf-8")
    data_set.write_text(
        json.dumps({"images": images, "annotations": [GOOD_ROW | {"segmentation": [[0, 0, 5, 5, 5, 0]]}]}),
        encoding="utf-8",
    )
    return str(results), str(data_set)


@pytest.mark.parametrize(("change", "message"), FILES)
def test_rows_of_files_that_cannot_be_read_are_refused_in_words(tmp_path, change, message):
    row = {name: value for name, value in (GOOD_ROW | change).items() if value is not None}
    paths = written(tmp_path, row)
    with pytest.raises(ValueError, match=f"^{re.escape(f'`{paths[0]}` {message}')}$"):
        DetectionMAP.coco_to_tm(*paths)


def test_boxes_beside_masks_are_read(tmp_path):
    preds, target = DetectionMAP.coco_to_tm(*written(tmp_path, GOOD_ROW | {"segmentation": {}, "category_id": 2.0}))
    assert float(fed(DetectionMAP(box_format="xywh", metric="map"), preds, target).compute()) == 1

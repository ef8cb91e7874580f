"""Detected boxes that are inverted or not finite, as an untrained network gives them, in the metrics."""

# ruff: noqa: E501 - a message stays on one line, to be searched for

import json
import math
import re
import warnings

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics, LvisMAP, VocMAP, YoloMAP
from tests.coming_from.coco_files import stats_of
from tests.functional.detection.detection_samples import (
    FLOAT32_THRESHOLDS,
    box,
    fed,
    images,
    is_same,
    torchmetrics_peer,
)

NAN, INF = math.nan, math.inf
KINDS = {
    "one side inverted": (9.0, 2.0, 4.0, 8.0),
    "both inverted": (9.0, 8.0, 4.0, 2.0),
    "NaN": (NAN, NAN, NAN, NAN),
    "infinite": (0.0, 0.0, INF, 9.0),
}
NAMES = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large", "mar_1", "mar_10", "mar_100")
NAMES += ("mar_small", "mar_medium", "mar_large")

pytestmark = pytest.mark.filterwarnings("ignore:.* are not finite or have", "ignore:Encountered more than 100")


def numbers(metric: DetectionMAP) -> np.ndarray:
    summary = metric.results().summary()
    return np.array([float(summary[name]) for name in NAMES])


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_torchmetrics_has_the_same_numbers_in_every_format(box_format):
    preds, target = spoilt(KINDS.keys() - {"NaN"})
    with torchmetrics_peer() as peer:
        theirs = fed(peer(box_format=box_format, **FLOAT32_THRESHOLDS), *in_format(preds, target, box_format)).compute()
    ours = fed(
        DetectionMAP(box_format=box_format, **FLOAT32_THRESHOLDS), *in_format(preds, target, box_format)
    ).compute()
    assert {name: float(ours[name]) for name in NAMES} == pytest.approx({n: float(theirs[n]) for n in NAMES}, abs=1e-6)
    assert float(ours["map"]) > 0


def spoilt(kinds=tuple(KINDS), given=None):
    """Images with boxes of some kinds between the others, which have the best scores."""
    preds, target = images(7, 6) if given is None else given
    bad = torch.tensor([KINDS[kind] for kind in KINDS if kind in kinds])
    changed = [
        {
            "boxes": torch.cat([item["boxes"], bad]),
            "scores": torch.cat([item["scores"], torch.linspace(0.99, 0.95, len(bad))]),
            "labels": torch.cat([item["labels"], torch.full((len(bad),), 3)]),  # which has ground truths
        }
        for item in preds
    ]
    return changed, target


def in_format(preds, target, box_format):
    def converted(item):
        boxes = item["boxes"]
        size = boxes[:, 2:] - boxes[:, :2]
        near = {"xyxy": boxes[:, :2], "xywh": boxes[:, :2], "cxcywh": boxes[:, :2] + size / 2}[box_format]
        return item | {"boxes": torch.cat([near, boxes[:, 2:] if box_format == "xyxy" else size], 1)}

    return [*map(converted, preds)], [*map(converted, target)]


def test_one_warning_says_how_many_there_are_and_a_number_counts_all():
    preds, target = spoilt()
    metric = DetectionMAP()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fed(metric, preds, target, size=2)
        metric.reset()
        assert metric.num_invalid == 0
        fed(metric, preds, target, size=2)
        metric.compute()
        metric.results(across_classes=True, boxes=True)
    warning, after_reset = caught
    assert str(after_reset.message) == str(warning.message)
    assert str(warning.message) == (
        "8 detected boxes are not finite or have a negative size: the network has not learned yet, or `box_format` is"
        " another one. They overlap nothing, so they are false positives or, for their area, ignored. Later ones are"
        ' silent; see `metric.num_invalid`. `invalid="raise"` makes them an error, "drop" leaves them out, but flatters'
        " the detector."
    )
    assert warning.filename.endswith("detection_samples.py")
    assert (metric.num_invalid, metric.num_dropped) == (24, 0)


def test_steps_merging_and_collections_count_them():
    given = spoilt()
    metric = DetectionMAP(metric="map")
    metric(*given)
    metric(*given)
    assert metric.num_invalid == 48
    metric.merge_state(fed(DetectionMAP(), *given))
    assert metric.num_invalid == 72
    collection = fed(DetectionMetrics(prefix="val/"), *given)
    assert (collection.num_invalid, collection.num_dropped) == (24, 0)
    collection.compute()
    collection.reset()
    assert collection.num_invalid == 0
    assert fed(DetectionMetrics(invalid="drop"), *given).num_dropped == 24


METRICS = [
    *(DetectionMAP, LvisMAP, VocMAP, YoloMAP, lambda **options: VocMAP(whole_pixels=False, **options)),
    *(
        lambda matching=matching, **options: YoloMAP(matching=matching, **options)
        for matching in ("yolov4", "scaled_yolov4")
    ),
]


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_counts_drops_or_refuses_them(metric):
    given, good = spoilt(), images(7, 6)
    values = {invalid: fed(metric(invalid=invalid), *given).compute() for invalid in ("count", "drop")}
    assert is_same(values["drop"], fed(metric(), *good).compute())
    assert float(values["count"]["map"]) < float(values["drop"]["map"])
    assert is_same(values["count"], fed(metric(), *given).compute())
    with pytest.raises(
        ValueError, match=re.escape("`preds[0]['boxes']` must be finite; got [nan, nan, nan, nan] in row ")
    ):
        fed(metric(invalid="raise"), *given)
    with pytest.raises(ValueError, match="`invalid` must be one of 'count', 'drop', 'raise'; got 'ignore'"):
        metric(invalid="ignore")


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_a_box_that_is_nowhere_is_left_out_whatever_its_size(box_format):
    metric = DetectionMAP(box_format, invalid="drop")
    boxes, labels = torch.tensor([[torch.nan, 1, 5, 5], [1, 1, 5, 5]]), torch.zeros(2, dtype=torch.int64)
    found = {"boxes": boxes, "scores": torch.ones(2), "labels": labels}
    metric.update([found], [{"boxes": boxes[1:], "labels": labels[1:]}])
    assert metric.num_dropped == 1
    assert metric.compute()["map"] == 1


def test_the_flags_of_voc_are_dropped_with_their_boxes():
    true = {"boxes": torch.tensor([[NAN, 0, 1, 1], [0, 0, 9, 9], [20, 20, 30, 30.0]]), "labels": torch.zeros(3).int()}
    found = {"boxes": true["boxes"][1:], "scores": torch.tensor([0.9, 0.8]), "labels": torch.zeros(2).int()}
    metric = VocMAP(invalid="drop", metric="map")
    metric.update([found], [true | {"difficult": torch.tensor([0, 1, 0])}])
    assert metric.ground_truth_difficult[0].tolist() == [True, False]
    assert (float(metric.compute()), metric.num_dropped) == (1.0, 1)


ERRORS = [
    ("preds", "scores", torch.tensor([NAN]), "`preds[1]['scores']` must be finite; got nan in row 0."),
    ("preds", "scores", torch.tensor([INF]), "`preds[1]['scores']` must be finite; got inf in row 0."),
    ("target", "boxes", box(1, 1, NAN, 5), "`target[1]['boxes']` must be finite; got [1.0, 1.0, nan, 5.0] in row 0."),
    ("target", "boxes", torch.tensor([[5.0, 1, 1, 5]]), "`target[1]['boxes']` must have a width and height of at least 0; got -4 x 4 in row 0, if `box_format` is right."),
    ("target", "area", torch.tensor([INF]), "`target[1]['area']` must be finite; got inf in row 0."),
    ("preds", "labels", torch.ones(1), "`preds[1]['labels']` must have an integer dtype; got torch.float32."),
]  # fmt: skip


@pytest.mark.parametrize(("side", "key", "value", "message"), ERRORS)
def test_scores_and_ground_truths_are_refused_beside_such_boxes(side, key, value, message):
    label = torch.tensor([0])
    sides = {
        "preds": [{"boxes": box(NAN, 1, 1, 5), "scores": torch.ones(1), "labels": label} for _ in range(2)],
        "target": [{"boxes": box(1, 1, 5, 5), "labels": label} for _ in range(2)],
    }
    sides[side][1][key] = value
    metric = DetectionMAP()
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}$"):
        metric.update(sides["preds"], sides["target"])
    assert metric.num_invalid == 0
    assert not metric.detection_boxes


def test_results_say_what_became_of_them():
    label = torch.zeros(4, dtype=torch.int64)
    found = {"boxes": torch.tensor([*KINDS.values()]), "scores": torch.tensor([0.9, 0.8, 0.7, 0.6]), "labels": label}
    results = fed(DetectionMAP(), [found], [{"boxes": box(0, 0, 9, 9), "labels": label[:1]}]).results(
        across_classes=True, boxes=True
    )
    # Both inverted, and NaN; the others are ignored for their areas.
    assert results.confusion_matrix(confidence=0.5).counts.tolist() == [[0, 1], [2, 0]]
    assert results.confusion_matrix(confidence=0.5, rule="ultralytics").counts.tolist() == [[0, 1], [4, 0]]
    breakdown = results.error_breakdown()
    assert (breakdown.counts["background"], breakdown.counts["miss"]) == (2, 1)
    worst = results.worst_images(1)
    assert worst.image.tolist() == [0]
    preds, _ = results.boxes_of(worst.image)
    assert torch.equal(preds[0]["boxes"].nan_to_num(), found["boxes"].nan_to_num())
    assert "1 image," in str(results)


def test_files_hold_them_as_python_writes_them_and_pycocotools_reads_them(tmp_path):
    preds, target = spoilt(KINDS.keys() - {"NaN"})
    metric = fed(DetectionMAP(), preds, target)
    metric.tm_to_coco(str(tmp_path / "images"))
    paths = str(tmp_path / "images_preds.json"), str(tmp_path / "images_target.json")
    np.testing.assert_allclose(stats_of(*paths, "bbox", {}), numbers(metric), rtol=0, atol=1e-12)
    read = fed(DetectionMAP(box_format="xywh"), *DetectionMAP.coco_to_tm(*paths))
    np.testing.assert_array_equal(numbers(read), numbers(metric))
    assert json.loads((tmp_path / "images_preds.json").read_text(encoding="utf-8"))

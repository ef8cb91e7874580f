"""The numbers of detection to log: by their names, of classes, at a confidence, and of one matching for all metrics."""

import re

import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics
from tests.functional.detection.detection_samples import fed, images

GIVEN = images(61, 10, with_ids=True)
COCO = [
    *("map", "map_50", "map_75", "map_small", "map_medium", "map_large"),
    *("mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"),
]
POINTS = ["precision_50", "recall_50", "f1_50"]


def example() -> tuple[list, list]:
    """Two classes in one image: of 5 two are found and one box is wrong, of 8 the one there is, with a low score."""
    boxes = torch.tensor([[x, 0.0, x + 10.0, 10.0] for x in (0.0, 20.0, 40.0, 60.0, 80.0)])
    found = {
        "boxes": boxes[[0, 1, 4, 3]],
        "scores": torch.tensor([0.9, 0.4, 0.6, 0.2]),
        "labels": torch.tensor([5, 5, 5, 8]),
    }
    return [found], [{"boxes": boxes[:4], "labels": torch.tensor([5, 5, 5, 8])}]


def number(metric: str, **options) -> float:
    return float(fed(DetectionMAP(metric=metric, **options), *example()).compute())


def test_precision_recall_and_f1_are_means_over_classes_at_the_best_confidence():
    # F1 of 5 and of 8 from the scores on: 0.9: 2/4, 0. 0.6: 2/5, 0. 0.4: 4/6, 0. 0.2: 4/6, 1, the highest mean.
    assert number("confidence_50") == pytest.approx(0.2)
    assert number("precision_50") == pytest.approx((2 / 3 + 1) / 2)
    assert number("recall_50") == pytest.approx((2 / 3 + 1) / 2)
    assert number("f1_50") == pytest.approx((2 / 3 + 1) / 2)


def test_numbers_are_read_at_the_confidence_of_the_user():
    # From 0.5 on 5 has a right and a wrong box, 8 has none: it has no precision.
    expected = {"confidence_50": 0.5, "precision_50": 1 / 2, "recall_50": (1 / 3 + 0) / 2, "f1_50": (2 / 5 + 0) / 2}
    for name, value in expected.items():
        assert number(name, confidence=0.5) == pytest.approx(value)
    assert [number(name, confidence=0.95) for name in POINTS] == [0, 0, 0]


def test_a_score_in_float32_reaches_a_confidence_of_its_digits():
    assert number("recall_50", confidence=0.9) == pytest.approx((1 / 3 + 0) / 2)


def test_a_label_behind_a_slash_stands_for_one_class():
    assert number("map_50/5") == pytest.approx((34 + 33 * 2 / 3) / 101)  # recalls up to 1/3, and up to 2/3
    assert [number("map/8"), number("mar_100/8"), number("map_75/8")] == [1, 1, 1]
    assert number("recall_50/5") == pytest.approx(2 / 3)
    assert number("f1_50/8", confidence=0.1) == 1
    assert number("f1_50/8", confidence=0.3) == 0


def test_classes_of_which_there_is_nothing_give_minus_one():
    assert [number(f"{name}/77") for name in ("map", "mar_small", *POINTS)] == [-1] * 5
    assert [number(f"map/{label}") for label in (-3, 10**12)] == [-1, -1]
    empty = torch.empty(0)
    nothing = [dict.fromkeys(("boxes", "scores", "labels"), empty)], [dict.fromkeys(("boxes", "labels"), empty)]
    for name in (*COCO, *POINTS, "confidence_75"):
        assert float(fed(DetectionMAP(metric=name), *nothing).compute()) == -1


def test_numbers_without_a_true_positive_are_zero_and_there_is_no_best_confidence():
    preds, target = example()
    preds[0]["boxes"] = preds[0]["boxes"] + 500
    values = {
        name: float(fed(DetectionMAP(metric=name), preds, target).compute()) for name in (*POINTS, "confidence_50")
    }
    assert values == {"precision_50": 0, "recall_50": 0, "f1_50": 0, "confidence_50": -1}


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_values_of_the_metric_are_those_of_the_results(seed, average):
    given = images(seed, 9, with_ids=True)
    results = fed(DetectionMAP(average=average), *given).results()
    points = results.at_confidence(0.4)
    has_positives = points.num_positives > 0
    for name, values in (("precision", points.precision), ("recall", points.recall), ("f1", points.f1)):
        value = fed(DetectionMAP(metric=f"{name}_75", confidence=0.4, average=average), *given).compute()
        assert float(value) == pytest.approx(float(values[5, has_positives].nanmean()), abs=1e-6)


def test_the_collection_has_the_numbers_of_coco_and_three_at_a_confidence():
    values = fed(DetectionMetrics(prefix="val/"), *GIVEN).compute()
    assert list(values) == [f"val/{name}" for name in (*COCO, *POINTS)]
    expected = fed(DetectionMAP(), *GIVEN).compute()
    for name in COCO:
        assert torch.equal(values[f"val/{name}"], expected[name])
    for name in POINTS:
        assert values[f"val/{name}"] == fed(DetectionMAP(metric=name), *GIVEN).compute()


@pytest.mark.parametrize(("classes", "names"), [({5: "dog", 8: "cat"}, ["dog", "cat"]), ((5, 8), ["5", "8"])])
def test_the_collection_has_numbers_of_classes(classes, names):
    metrics = DetectionMetrics(("map",), classes=classes, class_values=("map_50", "f1_50"), postfix="_x")
    values = fed(metrics, *example()).compute()
    assert list(values) == [f"{name}_x" for name in ("map", *(f"{v}/{c}" for v in ("map_50", "f1_50") for c in names))]
    assert values[f"map_50/{names[1]}_x"] == 1


def test_numbers_at_no_confidence_alone_need_none():
    assert list(DetectionMetrics(("map", "map_50"))) == ["map", "map_50"]


def test_a_confidence_is_that_of_the_numbers_which_have_one():
    values = fed(DetectionMetrics(("map", "recall_50"), confidence=0.5), *example()).compute()
    assert float(values["recall_50"]) == pytest.approx(1 / 6)


def test_results_and_boxes_are_those_of_a_member():
    metrics = fed(DetectionMetrics(), *GIVEN)
    results = metrics.results()
    assert results.summary()["map"] == fed(DetectionMAP(), *GIVEN).results().summary()["map"]
    found, true = metrics.boxes_of(results.worst_images(2).image)
    assert len(found) == len(true) == 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"metric": "map/dog"},
            ValueError,
            "`metric` must have a label behind the slash, as in 'map/3'; got 'map/dog'.",
        ),
        (
            {"metric": "map/3", "average": "micro"},
            ValueError,
            "`metric` must be a mean with average 'micro', which knows one class; got 'map/3'.",
        ),
        (
            {"metric": "map", "confidence": 0.5},
            ValueError,
            (
                "`confidence` must be None unless `metric` is a precision, recall or F1, such as 'f1_50'; got 0.5 for"
                " 'map'."
            ),
        ),
        ({"metric": "f1_50", "confidence": "high"}, TypeError, "`confidence` must be a number; got str."),
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_bad_options_of_the_metric_are_refused(options, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        DetectionMAP(**options)


def test_an_unknown_number_is_refused_with_those_there_are():
    with pytest.raises(
        ValueError, match=r"^`metric` must be one of 'map', .* and 14 more; got 'mAP', which may be 'map'\.$"
    ):
        DetectionMAP(metric="mAP/3")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"values": "map"}, TypeError, "`values` must be a tuple or list of strings; got 'map'."),
        ({"values": ()}, ValueError, "`values` must hold at least one name and none twice; got ()."),
        (
            {"values": ("map", "map")},
            ValueError,
            "`values` must hold at least one name and none twice; got ('map', 'map').",
        ),
        ({"classes": {1: "a.b"}}, ValueError, "`classes` must have distinct names without a dot; got ['a.b']."),
        (
            {"classes": {1: "a", 2: "a"}},
            ValueError,
            "`classes` must have distinct names without a dot; got ['a', 'a'].",
        ),
        ({"classes": {"a": 1}}, TypeError, "`classes` must hold ints only; got 'a'."),
        (
            {"values": ("map",), "confidence": 0.5},
            ValueError,
            "`confidence` must be None unless `values` have a precision, recall or F1, such as 'f1_50'; got 0.5.",
        ),
    ],
)
def test_bad_options_of_the_collection_are_refused(options, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        DetectionMetrics(**options)


@pytest.mark.parametrize("option", [{"metrics": 1}, {"metric": "map"}])
def test_unknown_options_are_named(option):
    with pytest.raises(ValueError, match=f"`{next(iter(option))}`"):
        DetectionMetrics(**option)


def test_classes_of_boxes_and_masks_have_the_mean_average_precision_of_both():
    masks = torch.zeros(1, 20, 20, dtype=torch.bool)
    masks[:, 2:12, 2:12] = True
    true = {"boxes": torch.tensor([[2.0, 2.0, 12.0, 12.0]]), "labels": torch.tensor([3]), "masks": masks}
    metrics = DetectionMetrics(iou_type=("bbox", "segm"), classes={3: "dog"})
    metrics.update([true | {"scores": torch.tensor([0.5])}], [true])
    value = metrics.compute()
    assert [name for name in value if "/" in name] == ["bbox_map/dog", "segm_map/dog"]
    assert value["bbox_map/dog"] == value["segm_map/dog"] == 1


def test_the_numbers_of_classes_may_be_of_one_type():
    metrics = DetectionMetrics(iou_type=("bbox", "segm"), classes=[3], class_values=("segm_map_50",))
    assert [name for name in metrics if "/" in name] == ["segm_map_50/3"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"classes": {1: "cat", 2: "dog"}}, ["cat", "dog"]),
        ({"classes": {1: "cat", 2: "dog"}, "class_names": {1: "a", 2: "b"}}, ["a", "b"]),
        ({"classes": [1, 2], "class_names": {1: "a", 2: "b"}}, ["a", "b"]),
    ],
)
def test_results_have_the_names_of_the_logged_classes(options, names):
    boxes = torch.tensor([[10.0, 10, 50, 50], [60.0, 60, 90, 90]])
    labels = torch.tensor([1, 2])
    metric = DetectionMetrics(["map"], **options)
    metric.update(
        [{"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": labels}], [{"boxes": boxes, "labels": labels}]
    )
    assert list(metric.results().class_numbers()) == names

"""`DetectionMAP.results`: arrays in full, the list of matches, and operating points."""

import pytest
import torch

from reid_torchmetrics.functional.detection import DetectionResults, pairwise_iou
from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from reid_torchmetrics.tasks.operating_points import best_confidence
from tests.functional.detection.detection_samples import box, fed, images
from tests.tasks.test_image_boxes import numbers_of


def two_images() -> tuple[list[dict], list[dict]]:
    """Image 9: two detections of one ground truth, and one in a crowd. Image 4: a wrong label, and a missed box."""
    preds = [
        {
            "boxes": torch.cat([box(0, 0, 10, 8), box(50, 50, 55, 55), box(0, 0, 10, 10)]),
            "scores": torch.tensor([0.6, 0.9, 0.7]),
            "labels": torch.tensor([3, 3, 3]),
        },
        {"boxes": box(20, 20, 30, 30), "scores": torch.tensor([0.8]), "labels": torch.tensor([5])},
    ]
    target = [
        {
            "boxes": torch.cat([box(40, 40, 60, 60), box(0, 0, 10, 10)]),
            "labels": torch.tensor([3, 3]),
            "iscrowd": torch.tensor([1, 0]),
            "image_id": 9,
        },
        {"boxes": box(20, 20, 30, 30), "labels": torch.tensor([3]), "image_id": 4},
    ]
    return preds, target


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_every_detection_is_listed_with_what_it_took(average):
    found = fed(DetectionMAP(average=average), *two_images()).results().detections()
    assert len(found) == 4
    assert found.image.tolist() == [4, 9, 9, 9]
    assert found.index.tolist() == [0, 0, 1, 2]
    assert found.label.tolist() == [5, 3, 3, 3]
    assert found.score.tolist() == pytest.approx([0.8, 0.6, 0.9, 0.7])
    is_right = average == "micro"  # the label does not matter
    assert found.iou_thresholds[0] == 0.5
    assert found.ground_truth[0].tolist() == [0 if is_right else -1, -1, 0, 1]
    assert found.is_true_positive[0].tolist() == [is_right, False, False, True]
    assert found.is_ignored[0].tolist() == [False, False, True, False]
    assert found.ground_truth.shape == (10, 4)


def test_an_unmatched_detection_outside_of_the_first_area_range_is_ignored():
    preds, target = two_images()
    found = fed(DetectionMAP(area_ranges={"large": (90.0, 1e9)}), preds, target).results().detections()
    assert found.is_ignored[0].tolist() == [False, True, True, False]


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("with_ids", [True, False])
def test_matched_ground_truths_overlap_enough_and_are_matched_once(average, with_ids):
    preds, target = images(31, 20, with_ids=with_ids)
    results = fed(DetectionMAP(average=average), preds, target).results()
    found = results.detections()
    names = [item.get("image_id", number) for number, item in enumerate(target)]
    places = list(zip(found.image.tolist(), found.index.tolist(), strict=True))
    assert places == sorted(
        (name, row) for name, item in zip(names, preds, strict=True) for row in range(len(item["labels"]))
    )
    for column, (name, row) in enumerate(places):
        image = names.index(name)
        assert found.label[column] == preds[image]["labels"][row]
        assert found.score[column] == preds[image]["scores"][row]
        for threshold, taken in zip(found.iou_thresholds, found.ground_truth[:, column].tolist(), strict=True):
            if taken >= 0:
                boxes = [item["boxes"].clone() for item in (preds[image], target[image])]
                for corners in boxes:
                    corners[:, 2:] -= corners[:, :2]
                is_crowd = target[image].get("iscrowd", torch.zeros(len(boxes[1]))) > 0
                overlap = pairwise_iou(boxes[0], boxes[1], box_format="xywh", is_crowd=is_crowd)[row, taken]
                assert overlap >= threshold
                same = preds[image]["labels"][row] == target[image]["labels"][taken]
                assert same or average == "micro"
    assert (found.is_true_positive & found.is_ignored).sum() == 0
    assert (found.is_true_positive <= (found.ground_truth >= 0)).all()
    assert int(found.is_true_positive.sum()) > 50
    once = torch.stack([found.image.expand(10, -1), found.ground_truth])[:, found.is_true_positive]
    rows = torch.cat([found.is_true_positive.nonzero()[:, :1].T, once])
    assert rows.unique(dim=1).shape == rows.shape


def test_numbers_and_arrays_are_those_of_compute_in_float64():
    preds, target = images(32)
    metric = fed(DetectionMAP(extended_summary=True), preds, target)
    value, results = metric.compute(), metric.results()
    for name, number in results.summary().items():
        assert number.dtype == torch.float64
        assert value[name] == number.float()
    for name in ("precision", "recall", "scores"):
        assert torch.equal(getattr(results.coco, name), value[name])
    precision, has_positives = results.coco.precision[..., 0, -1], results.coco.recall[0, :, 0, -1] >= 0
    assert float(precision[:, :, has_positives].mean()) == pytest.approx(float(results.summary()["map"]), abs=1e-15)


def test_the_rule_holds_for_the_averages_and_not_for_the_grid():
    preds, target = images(32)
    metric = fed(DetectionMAP(rule="voc"), preds, target)
    results = metric.results()
    assert float(metric.compute()["map"]) == pytest.approx(float(results.summary()["map"]))
    by_coco = fed(DetectionMAP(), preds, target).results()
    assert torch.equal(results.coco.precision, by_coco.coco.precision)
    assert by_coco.summary()["map"] != results.summary()["map"]


def test_operating_points_are_read_off_the_matches():
    """Class 3 has two ground truths that count; 0.7 is right, 0.6 is wrong, 0.9 is ignored. Class 5 has none."""
    results = fed(DetectionMAP(), *two_images()).results()
    points = results.at_confidence(0.5)
    assert points.precision[0].tolist() == [0.5, 0]
    assert points.recall[0, 0] == 0.5
    assert results.at_confidence(0.65).precision[0, 0] == 1
    best = results.best_f1()
    assert best.confidence[0, 0] == pytest.approx(0.7)
    assert best.f1[0, 0] == pytest.approx(2 / 3)
    curve = results.precision_recall_curve(results.coco.classes[results.coco.classes == 3], iou_threshold=0.9)
    assert curve.precision.tolist() == [1, 0.5]
    assert curve.recall.tolist() == [0.5, 0.5]
    assert curve.scores.tolist() == pytest.approx([0.7, 0.6])
    with pytest.raises(ValueError, match=r"`iou_threshold` must be one of 0\.5, 0\.55, .*, 0\.95; got 0\.51\."):
        results.precision_recall_curve(3, iou_threshold=0.51)


def test_the_worst_images_have_the_most_errors():
    """Image 4 has a wrong label, which is a miss, too. In image 9, 0.7 is right, 0.6 is wrong and 0.9 is ignored.

    Nothing of class 5 is right at any confidence: 0.7 is the best one of all classes, and its only detection has 0.8.
    """
    results = fed(DetectionMAP(), *two_images()).results()
    assert results.num_positives.tolist() == [1, 1]
    assert results.best_confidences() == pytest.approx({3: 0.7, 5: 0.7})
    best = results.image_errors()
    assert best.image.tolist() == [4, 9]
    assert best.num_true_positives.tolist() == [0, 1]
    assert best.num_false_positives.tolist() == [1, 0]
    assert best.num_misses.tolist() == [1, 0]
    assert results.worst_images(5).image.tolist() == [4]
    worst = results.worst_images(5, confidence=0.5)
    assert worst.image.tolist() == [4, 9]
    assert worst.num_false_positives.tolist() == [1, 1]
    assert worst.num_misses.tolist() == [1, 0]
    # At an IoU of 0.85 the detection 0.6 overlaps too little as well; 0.7 is exact.
    assert results.image_errors(iou_threshold=0.85, confidence=0.65).num_false_positives.tolist() == [1, 0]


def test_the_label_does_not_decide_under_micro_what_is_an_error():
    results = fed(DetectionMAP(average="micro"), *two_images()).results()
    assert results.best_confidences() == pytest.approx({3: 0.7, 5: 0.7})
    assert results.worst_images(5).image.tolist() == []
    assert results.image_errors().num_true_positives.tolist() == [1, 1]


def test_only_ground_truths_of_the_first_area_range_are_missed():
    results = fed(DetectionMAP(area_ranges={"small": (0.0, 99.0)}), *two_images()).results()
    assert results.num_positives.tolist() == [0, 0]  # both are 10 x 10
    results = fed(DetectionMAP(area_ranges={"all": (0.0, 1e10), "small": (0.0, 99.0)}), *two_images()).results()
    assert results.num_positives.tolist() == [1, 1]


@pytest.mark.parametrize("ends", [(0.0, 100.0), (100.0, 1e9)])
def test_both_ends_of_an_area_range_belong_to_it(ends):
    results = fed(DetectionMAP(area_ranges={"own": ends}), *two_images()).results()
    assert results.num_positives.tolist() == [1, 1]  # both are 10 x 10


@pytest.mark.parametrize("average", ["macro", "micro"])
@pytest.mark.parametrize("with_ids", [True, False])
def test_errors_of_images_are_those_of_the_operating_points(average, with_ids):
    preds, target = images(33, 20, with_ids=with_ids)
    results = fed(DetectionMAP(average=average), preds, target).results()
    assert results.num_positives.sum() == results.matches.num_positives[0].sum()
    for threshold, iou_threshold in enumerate((0.5, 0.55, 0.6)):
        counted = results.image_errors(iou_threshold=iou_threshold)
        least = best_confidence(results.matches, threshold=threshold).tolist()
        points = [results.at_confidence(each) for each in least]
        right, found = (
            sum(getattr(point, name)[threshold, number] for number, point in enumerate(points))
            for name in ("num_true_positives", "num_detections")
        )
        assert torch.equal(counted.image, results.images)
        assert counted.num_true_positives.sum() == right
        assert counted.num_errors.sum() == found + results.num_positives.sum() - 2 * right


FAR = {"boxes": torch.tensor([[0.0, 0.0, 10.0, 10.0]]), "labels": torch.tensor([9]), "scores": torch.tensor([0.99])}


def test_false_positives_of_a_class_without_ground_truths_are_errors_of_their_images():
    nothing = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
    results = fed(DetectionMAP(), [FAR] * 20, [nothing] * 20).results()
    assert results.best_confidences() == {9: -torch.inf}
    assert results.image_errors().num_false_positives.tolist() == [1] * 20
    truth = {"boxes": FAR["boxes"], "labels": torch.tensor([1])}
    right = truth | {"scores": torch.tensor([0.9])}
    results = fed(DetectionMAP(), [right, right, *[FAR] * 10], [truth, truth, *[nothing] * 10]).results()
    assert results.worst_images(20).image.tolist() == [*range(2, 12)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("precision_50", 1), ("recall_50", 1 / 2), ("f1_50", 2 / 3), ("recall_50/3", 1 / 2)),
        *(("recall_50/5", -1), ("recall_75", 1 / 2), ("confidence_50", 0.65)),
    ],
)
def test_a_number_at_a_confidence_is_asked_for_by_name(name, value):
    metric = fed(DetectionMAP(metric=name, confidence=0.65), *two_images())
    assert float(metric.compute()) == pytest.approx(value)


@pytest.mark.parametrize("boxes", [True, False])
def test_results_that_are_saved_have_the_boxes_that_they_had(boxes, tmp_path):
    results = fed(DetectionMAP(), *two_images()).results(boxes=boxes)
    results.save(tmp_path / "results.npz")
    again = DetectionResults.load(tmp_path / "results.npz")
    assert again.means == results.means
    assert (again.boxes is not None) == (results.boxes is not None) == boxes
    if boxes:
        assert numbers_of(again.boxes_of([9])) == numbers_of(results.boxes_of([9]))

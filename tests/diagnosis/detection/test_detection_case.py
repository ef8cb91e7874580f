"""What the diagnosis is given at every entry point of detection: the first images, as users passed them."""

import pytest
import torch

from reid_torchmetrics import AdviceWarning, DetectionMAP, DetectionMetrics, VocMAP, diagnosis
from reid_torchmetrics.coco import COCO, COCOeval
from reid_torchmetrics.diagnosis.detection import DETECTION_CAUSES, DetectionCase, MatchedImages
from reid_torchmetrics.diagnosis.detection.points import MOST_PAIRS
from tests.diagnosis.at_doors.image_doors import OF_IMAGES
from tests.functional.detection.detection_samples import fed


@pytest.fixture
def cases(monkeypatch):
    """The cases that the diagnosis looks at."""
    cases = []

    def made(*given):
        cases.append(DetectionCase(*given))
        return cases[-1]

    monkeypatch.setitem(diagnosis.module_for(MatchedImages).REGISTRIES, MatchedImages, (made, DETECTION_CAUSES))
    return cases


def images_of(num=3, **columns):
    """Images with two detections and one ground truth, which is found."""
    box = torch.tensor([[10.0, 20.0, 30.0, 50.0]])
    preds, target = [], []
    for image in range(num):
        moved = box + image
        preds.append({"boxes": torch.cat([moved, moved + 40]), "scores": torch.tensor([0.9, 0.2])})
        preds[-1]["labels"] = torch.tensor([1, 1])
        target.append({"boxes": moved, "labels": torch.tensor([1]), "area": torch.tensor([600.0])})
        target[-1] |= {"image_id": image + 5, "orig_size": [480, 640], **columns}
    return preds, target


def computed(preds, target, **options):
    fed(DetectionMAP(**options), preds, target).compute()


def corners(boxes, box_format):
    return boxes if box_format == "xyxy" else torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)


@pytest.mark.parametrize("door", OF_IMAGES)
def test_every_entry_point_shows_the_first_images_as_they_were_given(door, cases):
    preds, target = images_of()
    OF_IMAGES[door]({"preds": preds, "target": target})
    case = cases[0]
    assert len(case.image_sizes) == 3
    found, true = case.objects.values()
    assert torch.equal(corners(found.xywh, "xywh"), torch.cat([item["boxes"] for item in preds]).double())
    assert torch.allclose(found.column("scores").float(), torch.cat([item["scores"] for item in preds]))
    assert torch.equal(corners(true.xywh, "xywh"), torch.cat([item["boxes"] for item in target]).double())
    assert true.column("area").tolist() == [600] * 3
    assert (found.images.tolist(), true.images.tolist()) == ([0, 0, 1, 1, 2, 2], [0, 1, 2])
    assert case.recall == (3, 3)
    assert [numbers.tolist() for numbers in case.recall_of_classes] == [[3], [3]]
    assert case.iou_type == "bbox"
    assert [len(objects.images) for objects in case.objects.values()] == [6, 3]
    if not door.startswith("evaluate_boxes"):
        assert case.image_sizes.tolist() == [[640, 480]] * 3


@pytest.mark.parametrize(
    ("iou_type", "key", "value"),
    [("keypoints", "keypoints", torch.rand(2, 17, 3)), ("rotated", "rotated_boxes", torch.rand(2, 5) + 1)],
)
def test_other_shapes_are_shown_as_they_were_given(iou_type, key, value, cases):
    preds = [{key: value, "labels": torch.ones(2).long(), "scores": torch.ones(2)}]
    computed(preds, preds, iou_type=iou_type)
    found, true = cases[0].objects.values()
    assert torch.equal(found.values[key], value.double())
    assert torch.equal(true.values[key], value.double())


def test_of_masks_pixels_and_values_are_shown(cases):
    masks = torch.tensor([[[7, 200], [30, 40]], [[9, 9], [9, 9]]], dtype=torch.uint8)
    item = {"masks": masks, "labels": torch.ones(2).long(), "scores": torch.ones(2)}
    computed([item] * 2, [item] * 2, iou_type="segm")
    images = cases[0].shown
    assert [extremes.tolist() for extremes in images.extremes] == [[7, 200]] * 4
    for objects in cases[0].objects.values():
        assert objects.values["masks"].tolist() == [4] * 4


def test_at_most_256_images_are_shown_and_none_after_a_reset(cases):
    metric = DetectionMAP()
    for _ in range(2):
        for _ in range(3):
            metric.update(*images_of(200))
        metric.compute()
        assert len(cases[-1].image_sizes) == 256
        assert cases[-1].objects["preds"].images.bincount().tolist() == [2] * 256
        metric.reset()
    metric.update(*images_of(2))
    metric.compute()
    assert len(cases[-1].image_sizes) == 2


def test_images_with_very_many_boxes_are_left_out(cases):
    many = {"boxes": torch.rand(40_000, 4).sort().values, "scores": torch.rand(40_000)}
    many["labels"] = torch.ones(40_000).long()
    preds, target = images_of(4)
    metric = DetectionMAP()
    metric.warn_on_many_detections = False
    metric.update([preds[0], preds[1], many, preds[3]], target)
    metric.compute()
    assert len(cases[-1].image_sizes) == 2
    assert len(cases[-1].objects["preds"].images) == 4


@pytest.mark.filterwarnings("ignore:Dropped 1")
def test_dropped_boxes_are_not_shown(cases):
    preds, target = images_of(2)
    preds[0]["boxes"][1] = torch.nan
    computed(preds, target, invalid="drop")
    assert cases[0].objects["preds"].images.tolist() == [0, 1, 1]


@pytest.mark.parametrize("kind", [DetectionMAP, DetectionMetrics, VocMAP])
def test_forward_shows_nothing_and_keeps_what_is_shown_later(kind, cases):
    preds, target = images_of(4)
    metric = kind()
    for start in (0, 2):
        metric(preds[start : start + 2], target[start : start + 2])
    assert cases == []
    metric.compute()
    assert cases[0].objects["target"].xywh[:, 0].tolist() == [10, 11, 12, 13]
    assert cases[0].images.num_forgotten == 0
    assert "iscrowd" not in cases[0].objects["target"].values


def test_coco_eval_shows_keypoints_and_tells_that_they_are_shares(cases):
    images = [{"id": image, "height": 480, "width": 640} for image in range(12)]
    points = [0.25, 0.5, 2] * 17
    shared = {"category_id": 1, "keypoints": points, "num_keypoints": 17, "bbox": [90, 80, 60, 70], "area": 4200}
    rows = [shared | {"id": image + 1, "image_id": image, "iscrowd": 0} for image in range(12)]
    truth = COCO({"images": images, "annotations": rows, "categories": [{"id": 1, "name": "person"}]})
    results = [{"image_id": image, "category_id": 1, "keypoints": points, "score": 0.5} for image in range(12)]
    evaluation = COCOeval(truth, truth.loadRes(results), "keypoints")
    evaluation.evaluate()
    with pytest.warns(AdviceWarning, match="Most labeled keypoints of ground truths, 204 of 204") as told:
        evaluation.accumulate()
    assert len(told) == 1
    evaluation.accumulate()
    for objects in cases[0].objects.values():
        assert objects.values["keypoints"].tolist() == [[[0.25, 0.5, 2]] * 17] * 12


def test_of_a_crowded_image_as_many_pairs_are_compared_as_of_others(cases):
    corner = 600 * torch.rand(500, 2)
    boxes = torch.cat([corner, corner + 5 + 60 * torch.rand(500, 2)], 1)
    labels = torch.zeros(500, dtype=torch.int64)
    metric = DetectionMAP(max_detection_thresholds=[1, 10, 500])
    metric.update(
        [{"boxes": boxes[:, [1, 0, 3, 2]], "scores": torch.rand(500), "labels": labels}],
        [{"boxes": boxes, "labels": labels}],
    )
    with pytest.warns(AdviceWarning, match="With `preds` read as y before x"):
        metric.compute()
    points = cases[-1].points
    assert len(points.true.images) * len(points.found.images) <= MOST_PAIRS

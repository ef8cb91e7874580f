"""Detection on a device: the values of the CPU, by the functions, by the metric, and of its results."""

from typing import get_args

import pytest
import torch

from reid_torchmetrics import DetectionMAP, tasks
from reid_torchmetrics._names import YoloMatching
from reid_torchmetrics.functional import detection
from reid_torchmetrics.functional.detection import (
    Detections,
    GroundTruths,
    RunLengths,
    mask_iou,
    object_keypoint_similarity,
)
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, evaluate_matches
from reid_torchmetrics.functional.detection.inputs import CocoGrid, box_areas, to_xywh
from reid_torchmetrics.functional.detection.matching import find_pairs, merge_matches
from reid_torchmetrics.tasks.evaluators import VOC_RULES, YOLO_RULES, match_greedily
from reid_torchmetrics.tasks.operating_points import image_errors
from reid_torchmetrics.tasks.rotated_boxes import rotated_iou
from tests.device.problems import assert_as_on_the_cpu, moved
from tests.found_classes import match_images, true_positives
from tests.functional.detection.detection_samples import fed, images, with_lists
from tests.functional.detection.mask_samples import mask_images
from tests.profiles import of_each

PREDICTED, TRUE = images(51, 12, with_ids=True)
GRID = CocoGrid()


def packed(where: str) -> tuple[Detections, GroundTruths]:
    """The images as the functions take them, on a device."""
    sides = []
    for side in (PREDICTED, TRUE):
        numbers = torch.arange(len(side)).repeat_interleave(torch.tensor([len(each["labels"]) for each in side]))
        boxes = to_xywh(torch.cat([each["boxes"] for each in side]), "xyxy")
        sides.append(moved([boxes, torch.cat([each["labels"] for each in side]), numbers], where))
    scores = torch.cat([each["scores"] for each in PREDICTED]).to(where)
    found, true = sides
    crowd = torch.arange(len(true[0]), device=where) % 5 == 0
    areas = box_areas(true[0].cpu()).float().to(where)
    return Detections(found[0], scores, *found[1:]), GroundTruths(*true, crowd, areas)


def test_overlaps_of_masks_are_those_of_the_cpu(device):
    masks = torch.rand(3, 20, 30, generator=torch.Generator().manual_seed(4)) < 0.4
    lengths = RunLengths.from_polygons([[[2, 3, 25, 4, 9, 18]]], (20, 30))

    def overlaps(where):
        moved_masks, crowd = moved(masks, where), torch.tensor([True, False, False], device=where)
        plain = mask_iou(moved_masks, moved_masks, is_crowd=crowd)
        return [plain, mask_iou(moved_masks, lengths), mask_iou(lengths, moved_masks, is_crowd=crowd)]

    assert_as_on_the_cpu(device, overlaps)


def test_overlaps_of_keypoints_and_rotated_boxes_are_those_of_the_cpu(device):
    generator = torch.Generator().manual_seed(4)
    points = torch.rand(4, 17, 3, generator=generator) * 30
    points[0, :, 2] = 0
    boxes = torch.rand(6, 5, generator=generator, dtype=torch.float64) * 5

    def overlaps(where):
        given_points, given_boxes = moved(points, where), moved(boxes, where)
        areas, crowd = torch.full((4,), 200.0, device=where), torch.arange(6, device=where) % 2 == 0
        return [
            object_keypoint_similarity(given_points, given_points, areas=areas),
            rotated_iou(given_boxes, given_boxes, is_crowd=crowd),
        ]

    assert_as_on_the_cpu(device, overlaps)


@pytest.mark.parametrize("iou_type", ["segm", ("bbox", "segm")])
def test_masks_give_the_values_of_the_cpu(device, deterministic, iou_type):
    samples = mask_images(5, 6, with_boxes=True)

    def values(where):
        given = [[dict(zip(item, moved([*item.values()], where), strict=True)) for item in side] for side in samples]
        metric = fed(DetectionMAP(iou_type=iou_type, extended_summary=True).to(where), *given)
        return [metric.compute(), metric.results(iou_type="segm").summary()]

    assert_as_on_the_cpu(device, values)


@pytest.mark.filterwarnings("ignore:.* are not finite or have")
def test_masks_that_are_left_out_are_those_of_the_cpu(device, deterministic):
    samples = mask_images(5, 6)
    samples[0][0]["scores"] = samples[0][0]["scores"] / 0

    def values(where):
        given = [[dict(zip(item, moved([*item.values()], where), strict=True)) for item in side] for side in samples]
        metric = fed(DetectionMAP(iou_type="segm", invalid="drop").to(where), *given)
        assert metric.num_dropped == len(samples[0][0]["scores"]) > 0
        return metric.compute()

    assert_as_on_the_cpu(device, values)


@pytest.mark.filterwarnings("ignore:.* are not finite or have")
@pytest.mark.parametrize("key", ["boxes", "keypoints", "rotated_boxes"])
def test_shapes_that_are_invalid_count_as_on_the_cpu(device, deterministic, key):
    samples = mask_images(5, 6, with_boxes=True)
    for side in samples:
        for item in side:
            boxes = item["boxes"].double()
            item["keypoints"] = boxes[:, None, :3] + torch.arange(17.0)[:, None]
            item["rotated_boxes"] = torch.cat([boxes[:, :2], boxes[:, 2:] + 1, boxes[:, :1] / 100], 1)
    for item in samples[0]:
        item[key][::2] = -item[key][::2]
        item[key][1::3] /= 0
    iou_type = {"boxes": "bbox", "rotated_boxes": "rotated"}.get(key, key)

    def values(where):
        given = [[dict(zip(item, moved([*item.values()], where), strict=True)) for item in side] for side in samples]
        metric = fed(DetectionMAP(iou_type=iou_type).to(where), *given)
        assert metric.num_invalid > 0
        return [metric.compute(), metric.results(across_classes=True).summary(), metric.num_invalid]

    assert_as_on_the_cpu(device, values)


def test_boxes_that_are_kept_are_those_of_the_cpu(device):
    def kept(where):
        found, _ = packed(where)
        options = {"iou_threshold": 0.3, "images": found.images, "box_format": "xywh"}
        return [
            tasks.non_maximum_suppression(found.boxes, found.scores, found.labels, **options),
            tasks.non_maximum_suppression(found.boxes, found.scores, iou_threshold=0.1, box_format="xywh"),
        ]

    assert_as_on_the_cpu(device, kept)


@pytest.mark.parametrize("max_bytes", [10**8, 2000])
def test_matches_are_those_of_the_cpu(device, max_bytes):
    def matches(where):
        found = match_images(
            *packed(where), keep_ground_truths=True, classes=torch.tensor([0, 2, 3], device=where), max_bytes=max_bytes
        )
        boxes, others = packed(where)
        return [found, merge_matches([found]), find_pairs(boxes, others, at_least=0.5)]

    assert_as_on_the_cpu(device, matches)


def test_coco_is_that_of_the_cpu(device, deterministic):
    def results(where):
        matches = match_images(*packed(where))
        num_positives = torch.ones(12, dtype=torch.int64, device=matches.classes.device)
        confidence = torch.zeros(len(matches.classes), dtype=torch.float64, device=matches.classes.device)
        of_images = image_errors(matches, num_positives, confidence)
        return [detection.evaluate_boxes(*packed(where)), evaluate_matches(matches, GRID), of_images]

    assert_as_on_the_cpu(device, results)


@pytest.mark.parametrize("rule", of_each(VOC_RULES))
def test_pascal_voc_is_that_of_the_cpu(device, deterministic, rule):
    assert_as_on_the_cpu(device, lambda where: detection.evaluate_boxes(*packed(where), evaluator="voc", rule=rule))


@pytest.mark.parametrize("rule", of_each(YOLO_RULES))
def test_the_yolo_family_is_that_of_the_cpu(device, deterministic, rule):
    def results(where):
        found, true = packed(where)
        is_right = true_positives(match_greedily(found, true, CocoGrid((0.5, 0.75))))
        return [
            is_right,
            tasks.yolo_average_precision(is_right, found.scores, found.labels, true.labels, rule=rule),
        ]

    assert_as_on_the_cpu(device, results)


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_every_evaluator_gives_the_results_of_the_cpu(device, deterministic, evaluator):
    def results(where):
        held = {"across_classes": True, "boxes": True}
        found = detection.evaluate_images(*moved((PREDICTED, with_lists(TRUE)), where), evaluator=evaluator, **held)
        worst = found.worst_images(2)
        return [found.summary(), found.to_dict(), found.confusion_matrix(), worst, found.boxes_of(worst.image)]

    assert_as_on_the_cpu(device, results)


@pytest.mark.parametrize("matching", get_args(YoloMatching))
@pytest.mark.parametrize("confidence", [None, 0.4])
def test_the_evaluations_of_the_yolo_family_are_those_of_the_cpu(device, deterministic, matching, confidence):
    def results(where):
        found = detection.evaluate_boxes(*packed(where), evaluator=matching, confidence=confidence)
        return [found.averages.at_confidence, found.average_precision, found.averages.confidence]

    assert_as_on_the_cpu(device, results)

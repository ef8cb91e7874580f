"""Evaluate detections in one call: as tensors of all images, or image by image as the dicts of the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional.detection.batches import INVALID, Images, empty_states, pack_images
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator
from reid_torchmetrics.functional.detection.inputs import (
    BOX_FORMATS,
    COCO_AREA_RANGES,
    COCO_IOU_THRESHOLDS,
    COCO_MAX_DETECTIONS,
    COCO_RECALL_THRESHOLDS,
    THRESHOLDS,
    AreaRange,
    CocoGrid,
    Detections,
    GroundTruths,
    checked_iou_type,
    defaults_of,
    shape_types,
)
from reid_torchmetrics.functional.detection.matching import DEFAULT_MAX_BYTES
from reid_torchmetrics.functional.world import ALONE, Settings, World, concluding

from .image_matches import ImageMatches, MatchRequest, bits_of_areas, list_positives
from .result_text import named_classes
from .results import DetectionResults
from .sharded_images import ShardedImages
from .units import Units, look_at_objects

YOLO_MATCHINGS = tuple(name for name, evaluator in EVALUATORS.items() if evaluator.reports_confidence)


@torch.no_grad()
def coco_evaluate(
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    iou_thresholds: Sequence[float] = COCO_IOU_THRESHOLDS,
    recall_thresholds: Sequence[float] = COCO_RECALL_THRESHOLDS,
    max_detections: Sequence[int] = COCO_MAX_DETECTIONS,
    area_ranges: Mapping[str, AreaRange] = COCO_AREA_RANGES,
    classes: Int[Tensor, " classes"] | _checks.Integers | None = None,
    rule: str = "coco",
    across_classes: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> DetectionResults:
    """Evaluate boxes as COCO does: the numbers of pycocotools, on any device.

    Source: `COCOeval` of pycocotools.

    Args:
        detections: of all images.
        ground_truths: of all images.
        iou_thresholds: least overlaps of a match.
        recall_thresholds: recalls at which precision is read off.
        max_detections: limits of the detections of an image and class that count, ascending.
        area_ranges: least and largest area, both inside, by name; the first is the range of `map`.
        classes: labels to evaluate, without boxes of other labels; None for all that occur.
        rule: of average precision, one of `AP_RULES`.
        across_classes: whether the results hold overlaps of all classes, for confusion matrices and error breakdowns.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an option without values, or with values that are not allowed.
    """
    grid = CocoGrid(iou_thresholds, recall_thresholds, max_detections, area_ranges)
    request = MatchRequest(grid, (False,), max_bytes, "xywh", across_classes=across_classes)
    return _evaluate(detections, ground_truths, request, rule, classes=classes)


@torch.no_grad()
def voc_evaluate(
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    iou_thresholds: Sequence[float] = (0.5,),
    rule: str = "voc",
    whole_pixels: bool = True,
    is_difficult: Bool[Tensor, " ground_truths"] | _checks.Integers | None = None,
    across_classes: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> DetectionResults:
    """Evaluate boxes as Pascal VOC does.

    A detection belongs to the ground truth of its image and class that it overlaps most, the first of equal ones. It is
    a true positive if the overlap reaches the threshold and no such detection with a higher score belongs to the same
    ground truth, else a false positive: unlike COCO, VOC never falls back on the next best ground truth. Equal scores
    are ranked by image, then by row, so the order of images changes nothing.

    A detection whose overlap with a difficult ground truth reaches the threshold is ignored, and a difficult ground
    truth need not be found. VOC has no crowds: they are left out, and detections in them are false positives.

    Rafael Padilla's tools and the development kit of VOC differ only for a class without ground truths: the tools give
    0 by eleven points, NaN otherwise; here it is NaN.

    Source: Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010, and `VOCevaldet` of its
    development kit; rafaelpadilla/review_object_detection_metrics, `pascal_voc_evaluator.py`.

    Args:
        detections: boxes with scores.
        ground_truths: boxes.
        iou_thresholds: least overlaps of a match.
        rule: "voc" or "voc07", see `average_precision`.
        whole_pixels: a box has (width + 1) x (height + 1) pixels, both edges inside, as in VOC's annotations; False
            for boxes that end between pixels.
        is_difficult: ground truths that need not be found; None for none.
        across_classes: see `coco_evaluate`.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown `rule`, no or bad thresholds, an `is_difficult` of another shape.
    """
    # VOC counts pixels, so a box of one pixel has an area of 1.
    _checks.boolean("whole_pixels", whole_pixels)
    options = (("whole_pixels", whole_pixels),)
    request = _request("voc", iou_thresholds, max_bytes, across_classes=across_classes, options=options)
    return _evaluate(detections, ground_truths, request, rule, is_difficult=is_difficult)


@torch.no_grad()
def yolo_evaluate(
    detections: Detections,
    ground_truths: GroundTruths,
    *,
    matching: str = "ultralytics",
    iou_thresholds: Sequence[float] = COCO_IOU_THRESHOLDS,
    rule: str | None = None,
    confidence: float | None = None,
    across_classes: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> DetectionResults:
    """Evaluate boxes as the YOLO family does; see `yolo_average_precision` for the numbers.

    Args:
        detections: of all images.
        ground_truths: of all images; crowds are left out.
        matching: "ultralytics", "scaled_yolov4" or "yolov4", see `YoloMAP`.
        iou_thresholds: least overlaps of a match.
        rule: one of `YOLO_RULES`; None for the rule of the code base.
        confidence: where precision, recall and F1 are taken; None for the confidence of the code base.
        across_classes: see `coco_evaluate`.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown `matching` or `rule`, or no or bad thresholds.
    """
    _checks.one_of("matching", matching, YOLO_MATCHINGS)
    request = _request(matching, iou_thresholds, max_bytes, across_classes=across_classes)
    return _evaluate(detections, ground_truths, request, rule, confidence)


def _request(evaluator: str, iou_thresholds: Sequence[float], max_bytes: int, **options: Any) -> MatchRequest:
    row = EVALUATORS[evaluator]
    return MatchRequest(row.grid(iou_thresholds), (False,), max_bytes, "xywh", row, **options)


def _evaluate(
    detections: Detections,
    ground_truths: GroundTruths,
    request: MatchRequest,
    rule: str | None,
    confidence: float | None = None,
    *,
    is_difficult: Tensor | _checks.Integers | None = None,
    **options: Any,
) -> DetectionResults:
    """Match all objects, and number images and places in images as metrics do."""
    evaluator, grid = request.evaluator, request.grid
    (is_difficult,) = _arrays.as_tensors(is_difficult, device=ground_truths.labels.device)
    # Defaults of the evaluator, and what it refuses.
    rule, confidence = evaluator.checked(rule, confidence)
    if evaluator.knows_difficult:
        options["is_difficult"] = is_difficult
    # The waist: from here on all evaluators are alike.
    options |= {"keep_ground_truths": True, "max_bytes": request.max_bytes, **dict(request.options)}
    matches = evaluator.match(detections, ground_truths, grid, **options)
    look_at_objects(detections, ground_truths, matches, has_sizes=len(grid.area_ranges) > 1)
    # Images by ascending number, and objects by their place in the image.
    sides = detections.images.long(), ground_truths.images.long()
    images, number = torch.cat(sides).unique(return_inverse=True)
    numbers = number.split([*map(len, sides)])
    # Ground truths that count, by image.
    areas = ground_truths.shapes.areas() if ground_truths.areas is None else ground_truths.areas
    is_other = ~torch.isin(ground_truths.labels.long(), matches.classes)
    bits = bits_of_areas(areas.double(), grid, ground_truths.is_crowd, is_difficult, is_other)
    objects = request.pair(detections, ground_truths, matches, is_difficult) if request.across_classes else None
    return DetectionResults(
        averages=evaluator.average(matches, grid, rule=rule, confidence=confidence),
        matches=replace(matches, images=numbers[0][matches.rows]).with_rows(*map(_places_in_images, numbers)),
        images=images,
        labels=detections.labels[matches.rows].long(),
        positives=list_positives(numbers[1], ground_truths.labels, bits),
        objects=objects,
        evaluator=replace(evaluator, confidence=confidence, **dict(request.options)),
    )


def _places_in_images(numbers: Int[Tensor, " objects"]) -> Int[Tensor, " objects"]:
    """The place of each object in its image, in the order of arrival."""
    by_image, order = numbers.sort(stable=True)  # objects keep their order in an image
    # The place in the sorted list, less the place where the image begins.
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=order.device) - torch.searchsorted(by_image, by_image)
    return places


@torch.no_grad()
def evaluate_images(
    preds: Sequence[Mapping[str, Any]],
    target: Sequence[Mapping[str, Any]],
    *,
    evaluator: str = "coco",
    box_format: str = "xyxy",
    iou_type: str = "bbox",
    iou_thresholds: Sequence[float] | None = None,
    recall_thresholds: Sequence[float] | None = None,
    max_detections: Sequence[int] | None = None,
    area_ranges: Mapping[str, AreaRange] | None = None,
    class_groups: Mapping[str, Sequence[int]] | None = None,
    rule: str | None = None,
    thresholds: str | None = None,
    confidence: float | None = None,
    whole_pixels: bool | None = None,
    class_names: Mapping[int, str] | Sequence[str] | None = None,
    sigmas: Sequence[float] | None = None,
    invalid: str = "count",
    across_classes: bool = False,
    boxes: bool = False,
    localization: bool = False,
    world: World = ALONE,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> DetectionResults:
    """Evaluate dicts of images as the metrics do, without a metric.

    Each process passes its own images and gets the results of all images; all must call it with the same options.

    Args:
        preds: for each image a dict of `boxes`, `scores` and `labels`, see `DetectionMAP.update`.
        target: for each image a dict of `boxes` and `labels`, and maybe `iscrowd`, `area` and `image_id`, for LVIS also
            `neg_category_ids` and `not_exhaustive_category_ids`, see `LvisMAP`.
        evaluator: "coco", "lvis", "lvis_fixed", "voc", "ultralytics", "scaled_yolov4" or "yolov4".
        box_format: "xyxy", "xywh" or "cxcywh".
        iou_type: "bbox", "segm", "keypoints" or "rotated".
        iou_thresholds: least overlaps of a match; None for the default of the evaluator.
        recall_thresholds: recalls at which COCO reads precision; None for 0, 0.01, ..., 1.
        max_detections: COCO's limits of detections per image and class, ascending; None for the default of `iou_type`.
            One limit of LVIS, of an image or, with "lvis_fixed", a class; None for 300 and 10,000.
        area_ranges: COCO's least and largest area by name; None for the default of `iou_type`.
        class_groups: labels by the name of a group of classes, such as LVIS' rare ones: `map_{name}` is its mean.
        rule: of average precision; None for the default of the evaluator.
        thresholds: COCO's default thresholds, one of `THRESHOLDS`; None for "coco".
        confidence: where the YOLO family takes precision, recall and F1; None for the default of the code base.
        whole_pixels: of VOC's boxes, see `VocMAP`; None for True.
        class_names: names of the classes by label.
        sigmas: of keypoints.
        invalid: how invalid boxes are treated, see `DetectionMAP`.
        across_classes: whether the results hold overlaps of all classes, for confusion matrices and error breakdowns.
        boxes: whether the results hold all boxes.
        localization: whether the results hold the overlap of each match, for errors of localization.
        world: the processes that share the images.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough.

    Raises:
        DistributedMetricError: on all processes, if one of them failed.
        TypeError: an argument of the wrong type or dtype.
        ValueError: values that do not fit, or an option that the evaluator does not know.
    """
    units = Units()

    def prepare() -> tuple[MatchRequest, str, float | None, dict[int, str], dict[str, list[Tensor]]]:
        _checks.one_of("evaluator", evaluator, EVALUATORS)
        _checks.one_of("box_format", box_format, BOX_FORMATS)
        _checks.one_of("invalid", invalid, INVALID)
        _checks.boolean("across_classes", across_classes)
        _checks.boolean("boxes", boxes)
        _checks.boolean("localization", localization)
        row = EVALUATORS[evaluator]
        of_coco: dict[str, Any] = {
            "recall_thresholds": recall_thresholds,
            "max_detections": max_detections,
            "area_ranges": area_ranges,
            "class_groups": class_groups,
        }
        # An option that the evaluator does not know must be left out.
        others = {"iou_type": None if iou_type == "bbox" else iou_type, "thresholds": thresholds}
        unknown = {} if row.has_limits else of_coco | others
        unknown |= {} if row.knows_difficult else {"whole_pixels": whole_pixels}
        for name, value in unknown.items():
            if value is not None:
                raise ValueError(f"`{name}` must be left out with evaluator {evaluator!r}; got {value!r}.")
        # COCO's grid has defaults by type of shape; others have thresholds only.
        named = "coco" if thresholds is None else thresholds
        _checks.one_of("thresholds", named, THRESHOLDS)
        usual = THRESHOLDS[named].iou if row.has_limits else row.iou_thresholds
        least = usual if iou_thresholds is None else iou_thresholds
        grid = _coco_grid(row, iou_type, least, of_coco, named) if row.has_limits else row.grid(least)
        options = (("whole_pixels", whole_pixels is not False),) if row.knows_difficult else ()
        wanted: dict[str, Any] = {"with_origins": True, "across_classes": across_classes, "localization": localization}
        request = MatchRequest(grid, (False,), max_bytes, box_format, row, options, iou_type, **wanted)
        states = _states(preds, target, request, sigmas, invalid, units)
        return request, *row.checked(rule, confidence), named_classes(class_names), states

    def work() -> DetectionResults:
        # What one process refuses is an error on all.
        request, rule, confidence, names, states = world.guarded(prepare)
        options = {"evaluator": evaluator, "rule": rule, "confidence": repr(confidence), "grid": repr(request.grid)}
        device = _arrays.place_of_work(states["detection_counts"][0].device)
        images = ShardedImages(world, states, device, partial(_settings, options))
        matches = images.match(request)
        results = make_results(images, matches, rule, names, confidence=confidence, boxes=boxes)
        if world.process == 0:
            units.look(matches, states, lambda: Images.joined(states, box_format, device), world.said, reported=None)
        return results

    with concluding(world):
        return work()


def _settings(options: Mapping[str, str], method: str, asked: Mapping[str, str]) -> Settings:
    return Settings("evaluate_images", method, options, asked)


def _coco_grid(
    row: Evaluator, iou_type: str, iou_thresholds: Sequence[float], given: Mapping[str, Any], named: str
) -> CocoGrid:
    # Keypoints have other limits and area ranges than boxes.
    limits, ranges = defaults_of(iou_type)
    defaults: dict[str, Any] = {
        "recall_thresholds": THRESHOLDS[named].recall,
        "max_detections": row.max_detections or limits,
        "area_ranges": ranges,
        "class_groups": {},
    }
    chosen: dict[str, Any] = {name: defaults[name] if value is None else value for name, value in given.items()}
    return CocoGrid(iou_thresholds, limited=row.limited, **chosen)


def _states(
    preds: Sequence[Mapping[str, Any]],
    target: Sequence[Mapping[str, Any]],
    request: MatchRequest,
    sigmas: Sequence[float] | None,
    invalid: str,
    units: Units,
) -> dict[str, list[Tensor]]:
    """The images as the states of a metric."""
    # Shapes become overlaps at once, as in `update`; boxes are kept.
    shapes = shape_types(checked_iou_type(request.iou_type), sigmas)
    extras = request.evaluator.extras
    options: dict[str, Any] = {"has_boxes": not shapes, "invalid": invalid, "extras": extras, "note": units.note}
    batch = pack_images(preds, target, shapes, request.box_format, torch.device("cpu"), **options)
    return {name: [batch.states.get(name, empty)] for name, empty in empty_states([*shapes], extras).items()}


def make_results(
    sharded: ShardedImages,
    images: ImageMatches,
    rule: str,
    class_names: Mapping[int, str],
    *,
    confidence: float | None = None,
    boxes: bool = False,
) -> DetectionResults:
    """The results of the images of all processes, and with `boxes` also all boxes."""
    numbering = images.numbering
    assert numbering is not None  # noqa: S101 - origins were requested
    assert images.labels_of_rows is not None  # noqa: S101
    assert images.positives is not None  # noqa: S101
    options: dict[str, Any] = dict(images.request.options)
    options |= {"confidence": confidence} if images.request.evaluator.reports_confidence else {}
    # Numbers of images become ids on the device of the matches.
    ids = numbering.ids_by_number.to(images.labels_of_rows.device)
    return DetectionResults(
        averages=images.averages(rule, confidence=confidence),
        matches=images.matches[0],
        images=ids,
        labels=images.labels_of_rows,
        positives=images.positives,
        class_names=class_names,
        objects=images.objects,
        boxes=sharded.boxes_of()[0] if boxes else None,
        image_names=numbering.names,
        evaluator=replace(images.request.evaluator, **options),
    )

"""Evaluate detections in one call: as tensors of all images, or image by image as the dicts of the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional.detection import inputs
from reid_torchmetrics.functional.detection.advice import BatchNotes, advise_on_detections
from reid_torchmetrics.functional.detection.batches import empty_states, pack_images
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator, VocEvaluator
from reid_torchmetrics.functional.world import ALONE, WarningLog, World, concluding

from .evidence import advise_on_images, evidence_of_objects
from .image_matches import ImageMatches, MatchRequest
from .result_text import named_classes
from .results import DetectionResults
from .sharded_images import ShardedImages


@torch.no_grad()
def evaluate_boxes(
    detections: inputs.Detections,
    ground_truths: inputs.GroundTruths,
    *,
    evaluator: _names.EvaluatorName = "coco",
    iou_thresholds: Sequence[float] | None = None,
    rec_thresholds: Sequence[float] | None = None,
    max_detection_thresholds: Sequence[int] | None = None,
    area_ranges: Mapping[str, inputs.AreaRange] | None = None,
    classes: Int[Tensor, " classes"] | _checks.Integers | None = None,
    rule: _names.DetectionRule | None = None,
    confidence: float | None = None,
    whole_pixels: bool | None = None,
    is_difficult: Bool[Tensor, " ground_truths"] | _checks.Integers | None = None,
    across_classes: bool = False,
    max_bytes: int | None = None,
) -> DetectionResults:
    """Evaluate boxes or other shapes of all images, on any device.

    "coco" gives the numbers of pycocotools. "ultralytics", "scaled_yolov4" and "yolov4" evaluate as the YOLO family
    does, see `YoloMAP` for their matchings and `yolo_average_precision` for the numbers.

    By "voc" a detection belongs to the ground truth of its image and class that it overlaps most, the first of equal
    ones. It is a true positive if the overlap reaches the threshold and no such detection with a higher score belongs
    to the same ground truth, else a false positive: unlike COCO, VOC never falls back on the next best ground truth.
    Equal scores are ranked by image, then by row, so the order of images changes nothing. A detection whose overlap
    with a difficult ground truth reaches the threshold is ignored, and a difficult ground truth need not be found.
    Rafael Padilla's tools and the development kit of VOC differ only for a class without ground truths: the tools give
    0 by eleven points, NaN otherwise; here it is NaN.

    Only COCO has crowds: others leave them out, and detections in them are false positives.

    Source: `COCOeval` of pycocotools; Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010,
    and `VOCevaldet` of its development kit; rafaelpadilla/review_object_detection_metrics, `pascal_voc_evaluator.py`.

    Args:
        detections: of all images.
        ground_truths: of all images.
        evaluator: "coco", "voc", "ultralytics", "scaled_yolov4" or "yolov4". LVIS needs lists of classes of each image,
            which `evaluate_images` takes.
        iou_thresholds: least overlaps of a match; None for the default of the evaluator: of VOC 0.5, of others 0.5,
            0.55, ..., 0.95.
        rec_thresholds: recalls at which COCO reads precision; None for 0, 0.01, ..., 1.
        max_detection_thresholds: COCO's limits of the detections of an image and class that count, ascending; None for
            1, 10, 100.
        area_ranges: COCO's least and largest area, both inside, by name; the first is the range of `map`. None for all,
            small, medium, large.
        classes: labels that COCO evaluates, without boxes of other labels; None for all that occur.
        rule: of average precision; None for the default of the evaluator.
        confidence: where the YOLO family takes precision, recall and F1; None for the default of the code base.
        whole_pixels: of VOC: a box has (width + 1) x (height + 1) pixels, both edges inside, as in VOC's annotations;
            False for boxes that end between pixels; None for True.
        is_difficult: of VOC: ground truths that need not be found; None for none.
        across_classes: whether the results hold overlaps of all classes, for confusion matrices and error breakdowns.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough; None for 256 MiB.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an option without values, with values that are not allowed, or that the evaluator does not know.
    """
    _checks.one_of("evaluator", evaluator, [name for name, row in EVALUATORS.items() if not row.is_federated])
    of_grid: dict[str, Any] = {"rec_thresholds": rec_thresholds, "area_ranges": area_ranges}
    of_grid["max_detection_thresholds"] = max_detection_thresholds
    chosen = _chosen(evaluator, whole_pixels, is_difficult, of_grid | {"classes": classes})
    rule, confidence = chosen.checked(rule, confidence)
    request = MatchRequest(chosen.grid(iou_thresholds, **of_grid), chosen, max_bytes)
    request = request.of_results(across_classes=across_classes)
    _checks.same_device("detections", detections.labels, "ground_truths", ground_truths.labels)
    # Images by ascending number.
    sides = detections.images.long(), ground_truths.images.long()
    ids, numbers = torch.cat(sides).unique(return_inverse=True)
    images, true_images = numbers.split([*map(len, sides)])
    numbered = detections.with_columns(images=images), ground_truths.with_columns(images=true_images)
    (is_difficult,) = _arrays.as_tensors(is_difficult, device=ground_truths.labels.device)
    matches = request.run(*numbered, is_difficult=is_difficult, classes=classes)
    results = make_results(replace(matches, ids=ids), rule, confidence)
    advise_on_detections(evidence_of_objects(*numbered, matches.matches, request.grid), WarningLog())
    return results


def _chosen(
    evaluator: str, whole_pixels: bool | None, is_difficult: Any, of_limits: Mapping[str, Any], iou_type: str = "bbox"
) -> Evaluator:
    """The evaluator with its option; raise if it does not know an option that is given."""
    row = EVALUATORS[evaluator]
    is_voc = isinstance(row, VocEvaluator)
    unknown: dict[str, Any] = {}
    if not row.has_limits:
        known_types = ("bbox", "rotated") if is_voc else ("bbox",)
        unknown |= {**of_limits, "iou_type": None if iou_type in known_types else iou_type}
    if not is_voc:
        unknown["whole_pixels"] = whole_pixels
    if not row.knows_difficult:
        unknown["is_difficult"] = is_difficult
    for name, value in unknown.items():
        if value is not None:
            raise ValueError(f"`{name}` must be left out with evaluator {evaluator!r}; got {value!r}.")
    return row.with_options(iou_type, whole_pixels) if isinstance(row, VocEvaluator) else row


@torch.no_grad()
def evaluate_images(
    preds: Sequence[Mapping[str, Any]],
    target: Sequence[Mapping[str, Any]],
    *,
    evaluator: _names.EvaluatorName = "coco",
    box_format: _names.BoxFormat = "xyxy",
    iou_type: _names.IouType = "bbox",
    iou_thresholds: Sequence[float] | None = None,
    rec_thresholds: Sequence[float] | None = None,
    max_detection_thresholds: Sequence[int] | None = None,
    area_ranges: Mapping[str, inputs.AreaRange] | None = None,
    class_groups: Mapping[str, Sequence[int]] | None = None,
    rule: _names.DetectionRule | None = None,
    thresholds: _names.ThresholdsName | None = None,
    confidence: float | None = None,
    whole_pixels: bool | None = None,
    class_names: Mapping[int, str] | Sequence[str] | None = None,
    sigmas: Sequence[float] | None = None,
    invalid: _names.InvalidAction = "count",
    across_classes: bool = False,
    boxes: bool = False,
    localization: bool = False,
    world: World = ALONE,
    max_bytes: int | None = None,
) -> DetectionResults:
    """Evaluate dicts of images as the metrics do, without a metric.

    Each process passes its own images and gets the results of all images; all must call it with the same options.

    Args:
        preds: for each image a dict of `boxes`, `scores` and `labels`, see `DetectionMAP.update`.
        target: for each image a dict of `boxes` and `labels`, and maybe `iscrowd`, `area` and `image_id`, for LVIS also
            `neg_category_ids` and `not_exhaustive_category_ids`, see `LvisMAP`.
        evaluator: "coco", "lvis", "lvis_fixed", "voc", "ultralytics", "scaled_yolov4" or "yolov4".
        box_format: "xyxy", "xywh" or "cxcywh".
        iou_type: "bbox", "segm", "keypoints" or "rotated"; of VOC, as DOTA has it, "bbox" or "rotated".
        iou_thresholds: least overlaps of a match; None for the default of the evaluator.
        rec_thresholds: recalls at which COCO reads precision; None for 0, 0.01, ..., 1.
        max_detection_thresholds: COCO's limits of detections per image and class, ascending; None for the default of
            `iou_type`. One limit of LVIS, of an image or, with "lvis_fixed", a class; None for 300 and 10,000.
        area_ranges: COCO's least and largest area by name; None for the default of `iou_type`.
        class_groups: labels by the name of a group of classes, such as LVIS' rare ones: `map_{name}` is its mean.
        rule: of average precision; None for the default of the evaluator.
        thresholds: COCO's default thresholds: "coco", in float64, or "torchmetrics", rounded to float32; None for
            "coco".
        confidence: where the YOLO family takes precision, recall and F1; None for the default of the code base.
        whole_pixels: of VOC's boxes, see `VocMAP`; None for True.
        class_names: names of the classes by label.
        sigmas: of keypoints.
        invalid: how invalid boxes are treated, see `DetectionMAP`.
        across_classes: whether the results hold overlaps of all classes, for confusion matrices and error breakdowns.
        boxes: whether the results hold all boxes.
        localization: whether the results hold the overlap of each match, for errors of localization.
        world: the processes that share the images.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough; None for 256 MiB.

    Raises:
        DistributedMetricError: on all processes, if one of them failed.
        TypeError: an argument of the wrong type or dtype.
        ValueError: values that do not fit, or an option that the evaluator does not know.
    """
    notes = BatchNotes()

    def prepare() -> tuple[ShardedImages, MatchRequest, dict[str, Any]]:
        """Check the options, and pack the images."""
        _checks.one_of("evaluator", evaluator, EVALUATORS)
        _checks.one_of("box_format", box_format, inputs.BOX_FORMATS)
        _checks.one_of("invalid", invalid, _names.InvalidAction)
        _checks.boolean("boxes", boxes)
        of_grid: dict[str, Any] = {"rec_thresholds": rec_thresholds, "area_ranges": area_ranges}
        of_grid |= {"max_detection_thresholds": max_detection_thresholds, "class_groups": class_groups}
        chosen = _chosen(evaluator, whole_pixels, None, of_grid | {"thresholds": thresholds}, iou_type)
        grid = chosen.grid(iou_thresholds, iou_type=iou_type, thresholds=thresholds, **of_grid)
        request = MatchRequest(grid, chosen, max_bytes, iou_type)
        request = request.of_results(across_classes=across_classes, localization=localization)
        # Shapes become overlaps at once, as in `update`; boxes are kept.
        shapes, extras = inputs.shape_types(inputs.checked_iou_type(iou_type), sigmas), chosen.extras
        options: dict[str, Any] = {"has_boxes": not shapes, "invalid": invalid, "extras": extras, "note": notes.note}
        batch = pack_images(preds, target, shapes, box_format, torch.device("cpu"), **options)
        states = {name: [batch.states.get(name, empty)] for name, empty in empty_states([*shapes], extras).items()}
        of_rule = dict(zip(("rule", "confidence"), chosen.checked(rule, confidence), strict=True))
        settings = {"evaluator": evaluator, "grid": repr(grid), **{name: str(each) for name, each in of_rule.items()}}
        settings["boxes"] = repr(boxes)
        device = _arrays.compute_device(states["detection_counts"][0].device)
        images = ShardedImages(world, states, device, box_format, "evaluate_images", lambda: settings)
        return images, request, of_rule | {"class_names": named_classes(class_names)}

    with concluding(world):
        # What one process refuses is an error on all.
        images, request, options = world.guarded(prepare)
        matches = images.match(request)
        results = make_results(matches, boxes=images.boxes_of()[0] if boxes else None, **options)
        advise_on_images(matches, images, notes)
        return results


def make_results(images: ImageMatches, rule: str, confidence: float | None, **others: Any) -> DetectionResults:
    """The results of the images of all processes; `others` are `class_names`, and `boxes` if they are asked for."""
    origins, ids, evaluator = images.origins, images.ids, images.request.evaluator
    assert origins is not None and ids is not None  # noqa: S101, PT018 - they were requested
    if evaluator.reports_confidence:
        evaluator = replace(evaluator, confidence=confidence)
    return DetectionResults(
        averages=images.averages(rule, confidence),
        matches=images.matches,
        images=ids.to(origins.labels.device),
        labels=origins.labels,
        positives=origins.positives,
        objects=images.objects,
        image_names=images.names,
        evaluator=evaluator,
        **others,
    )

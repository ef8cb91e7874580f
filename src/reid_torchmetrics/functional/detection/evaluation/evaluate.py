"""Evaluation of detections in one call, from tensors for all images or from one dict per image as in the metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional.detection import inputs
from reid_torchmetrics.functional.detection.batches import empty_states, pack_images, text_of_many, text_of_warning
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator
from reid_torchmetrics.functional.world import ALONE, World, concluding, images_given, results_made

from .image_matches import ImageMatches, MatchRequest
from .result_text import named_classes
from .results import RESULT_METHODS, DetectionResults, ImageBoxes
from .sharded_images import EvaluatedImages, EvaluatedObjects, ShardedImages


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
    """Evaluate boxes or other shapes in all images, on any device.

    "coco" computes the numbers of pycocotools. "ultralytics", "scaled_yolov4" and "yolov4" evaluate as the YOLO family
    does: see `YoloMAP` for the matching and `yolo_average_precision` for the numbers.

    With "voc" a detection belongs to the ground truth of its image and class that it overlaps most (the first one if
    several overlap equally). It is a true positive if the overlap reaches the threshold and no such detection with a
    higher score belongs to the same ground truth, else a false positive. Unlike COCO, VOC never falls back on the next
    best ground truth. Equal scores are ranked by image, then by row, so the order of images changes nothing. A
    detection whose overlap with a difficult ground truth reaches the threshold is ignored, and a difficult ground truth
    need not be found. Rafael Padilla's tools and the development kit of VOC differ only for a class without ground
    truths: the tools return 0 with eleven points, and NaN otherwise; here it is NaN.

    Only COCO has crowds. Other evaluators leave them out, and detections in them are false positives.

    Source: `COCOeval` of pycocotools; Everingham et al., "The PASCAL Visual Object Classes (VOC) Challenge", IJCV 2010,
    and `VOCevaldet` of its development kit; rafaelpadilla/review_object_detection_metrics, `pascal_voc_evaluator.py`.

    Args:
        detections: detections in all images.
        ground_truths: ground truths in all images.
        evaluator: "coco", "voc", "ultralytics", "scaled_yolov4" or "yolov4". LVIS needs lists of classes for each
            image; use `evaluate_images`.
        iou_thresholds: least overlaps of a match; None for the default of the evaluator, which is 0.5 for VOC and 0.5,
            0.55, ..., 0.95 for the others.
        rec_thresholds: recalls at which COCO reads precision; None for 0, 0.01, ..., 1.
        max_detection_thresholds: COCO's limits on the number of detections per image and class, ascending; None for 1,
            10, 100.
        area_ranges: COCO's smallest and largest area (both included) by name; `map` uses the first range. None for all,
            small, medium, large.
        classes: labels that COCO evaluates; boxes with other labels are left out. None for all labels that occur.
        rule: rule for average precision; None for the default of the evaluator.
        confidence: confidence at which the YOLO family reports precision, recall and F1; None for the default of the
            code base.
        whole_pixels: for VOC only: whether a box has (width + 1) x (height + 1) pixels, with both edges inside, as in
            VOC's annotations; False for boxes that end between pixels; None for True.
        is_difficult: for VOC only: ground truths that need not be found; None for none.
        across_classes: whether the results hold overlaps across classes, for confusion matrices and error breakdowns.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough; None for 256 MiB.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an option without values, with values that are not allowed, or that the evaluator does not have.
    """
    _checks.one_of("evaluator", evaluator, EVALUATORS)
    if EVALUATORS[evaluator].is_federated:
        raise ValueError(f"`evaluator` must be one without lists of classes for each image; got {evaluator!r}.")
    grid_options: dict[str, Any] = {
        "rec_thresholds": rec_thresholds,
        "area_ranges": area_ranges,
        "max_detection_thresholds": max_detection_thresholds,
    }
    coco_options = grid_options | {"classes": classes}
    row = _evaluator_with_options(evaluator, whole_pixels, is_difficult, coco_options)
    rule, confidence = row.checked(rule, confidence)
    grid = row.grid(iou_thresholds, **grid_options)
    if not isinstance(detections.shapes, inputs.BoxShapes):
        grid = replace(grid, iou_type=None)
    request = MatchRequest(grid, row, max_bytes).of_results(across_classes=across_classes)
    _checks.same_device("detections", detections.labels, "ground_truths", ground_truths.labels)

    # Number the images in ascending order of their ids.
    image_ids = torch.cat([detections.images.long(), ground_truths.images.long()])
    ids, numbers = image_ids.unique(return_inverse=True)
    images, true_images = numbers.split([len(detections.images), len(ground_truths.images)])
    detections = detections.with_columns(images=images)
    ground_truths = ground_truths.with_columns(images=true_images)

    (is_difficult,) = _arrays.as_tensors(is_difficult, device=ground_truths.labels.device)
    options = {"is_difficult": is_difficult} if row.has_difficult else {}
    matches = request.run(detections, ground_truths, classes=classes, **options)
    results = make_results(replace(matches, ids=ids), rule, confidence)
    results_made(matches, EvaluatedObjects(detections, ground_truths, grid))
    return results


def _evaluator_with_options(
    name: str,
    whole_pixels: bool | None,
    is_difficult: Any,
    coco_options: Mapping[str, Any],
    iou_type: str = "bbox",
) -> Evaluator:
    """Return the evaluator with this name and its options.

    Raises:
        ValueError: an option that the evaluator does not have.
    """
    evaluator = EVALUATORS[name]

    # None stands for an option that the user left out.
    unknown_options: dict[str, Any] = {}
    if not evaluator.has_limits:
        unknown_options.update(coco_options)
    if evaluator.iou_types is not None and iou_type not in evaluator.iou_types:
        unknown_options["iou_type"] = iou_type
    if evaluator.with_options is None:
        unknown_options["whole_pixels"] = whole_pixels
    if not evaluator.has_difficult:
        unknown_options["is_difficult"] = is_difficult
    for option, value in unknown_options.items():
        if value is not None:
            raise ValueError(f"`{option}` must be left out with evaluator {name!r}; got {value!r}.")

    if evaluator.with_options is None:
        return evaluator
    configured: Evaluator = evaluator.with_options(evaluator, iou_type, whole_pixels=whole_pixels)
    return configured


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
    """Evaluate dicts for images as the metrics do, without a metric.

    Each process passes its own images and gets the results for all images. All processes must call this function with
    the same options.

    Args:
        preds: a dict for each image, with `boxes`, `scores` and `labels`, see `DetectionMAP.update`.
        target: a dict for each image, with `boxes` and `labels`, optionally `iscrowd`, `area` and `image_id`, and for
            LVIS also `neg_category_ids` and `not_exhaustive_category_ids`, see `LvisMAP`.
        evaluator: "coco", "lvis", "lvis_fixed", "voc", "ultralytics", "scaled_yolov4" or "yolov4".
        box_format: "xyxy", "xywh" or "cxcywh".
        iou_type: "bbox", "segm", "keypoints" or "rotated"; for VOC "bbox" or, as in DOTA, "rotated".
        iou_thresholds: least overlaps of a match; None for the default of the evaluator.
        rec_thresholds: recalls at which COCO reads precision; None for 0, 0.01, ..., 1.
        max_detection_thresholds: COCO's limits on the number of detections per image and class, ascending; None for
            the default of `iou_type`. LVIS has one limit, per image or, with "lvis_fixed", per class; None for 300 and
            10,000.
        area_ranges: COCO's smallest and largest area by name; None for the default of `iou_type`.
        class_groups: labels by the name of a group of classes, such as LVIS' rare ones: `map_{name}` is its mean.
        rule: rule for average precision; None for the default of the evaluator.
        thresholds: COCO's default thresholds: "coco", in float64, or "torchmetrics", rounded to float32; None for
            "coco".
        confidence: confidence at which the YOLO family reports precision, recall and F1; None for the default of the
            code base.
        whole_pixels: for VOC only: how edges of boxes count, see `VocMAP`; None for True.
        class_names: names of the classes by label.
        sigmas: one for each keypoint; None for COCO's.
        invalid: how invalid boxes are treated, see `DetectionMAP`.
        across_classes: whether the results hold overlaps across classes, for confusion matrices and error breakdowns.
        boxes: whether the results hold all boxes.
        localization: whether the results hold the overlap of each match, for localization errors.
        world: the processes that share the images.
        max_bytes: bound on the memory for pairs of boxes, except for pairs that overlap enough; None for 256 MiB.

    Raises:
        DistributedMetricError: on all processes, if one of them failed.
        TypeError: an argument of the wrong type or dtype.
        ValueError: values that do not fit, or an option that the evaluator does not have.
    """

    def prepare() -> Callable[[], list[DetectionResults]]:
        """Check the options and pack the images; return the function that matches them."""
        _checks.one_of("evaluator", evaluator, EVALUATORS)
        _checks.one_of("box_format", box_format, inputs.BOX_FORMATS)
        _checks.one_of("invalid", invalid, _names.InvalidAction)
        _checks.boolean("boxes", boxes)
        grid_options = {
            "rec_thresholds": rec_thresholds,
            "area_ranges": area_ranges,
            "max_detection_thresholds": max_detection_thresholds,
            "class_groups": class_groups,
        }
        coco_options = grid_options | {"thresholds": thresholds}
        row = _evaluator_with_options(evaluator, whole_pixels, None, coco_options, iou_type)
        grid = row.grid(
            iou_thresholds,
            iou_type=iou_type,
            thresholds=thresholds,
            sigmas=sigmas,
            drops_invalid=invalid == "drop",
            **grid_options,
        )
        request = MatchRequest(grid, row, max_bytes)
        request = request.of_results(across_classes=across_classes, localization=localization)
        checked_rule, checked_confidence = row.checked(rule, confidence)
        settings = {
            "evaluator": evaluator,
            "grid": repr(grid),
            "rule": str(checked_rule),
            "confidence": str(checked_confidence),
        }
        types = inputs.checked_iou_type(iou_type)
        images, _ = shard_images(
            preds, target, types, row.extras, box_format, sigmas=sigmas, invalid=invalid, world=world, settings=settings
        )
        return partial(
            match_shards,
            images,
            [request],
            rule=checked_rule,
            confidence=checked_confidence,
            class_names=named_classes(class_names),
            boxes=boxes,
        )

    with concluding(world):
        # An error on one process is an error on all processes.
        match = world.guarded(prepare)
        (results,) = match()
        return results


def shard_images(
    preds: Sequence[Mapping[str, Any]],
    target: Sequence[Mapping[str, Any]],
    iou_types: Sequence[str],
    extras: Sequence[str],
    box_format: _names.BoxFormat,
    *,
    sigmas: Sequence[float] | None,
    invalid: _names.InvalidAction,
    world: World,
    settings: Mapping[str, str],
    limit: int | None = None,
    title: str = "evaluate_images",
) -> tuple[EvaluatedImages, list[str]]:
    """Return the images of all processes, of which this one has those with dicts in `preds` and `target`.

    Shapes become overlaps at once, as in `update`; boxes are kept.

    Args:
        preds: a dict for each image.
        target: a dict for each image.
        iou_types: all shapes that are matched.
        extras: further columns of the evaluator, keys of `EXTRAS`.
        box_format: the format of the boxes.
        sigmas: one for each keypoint; None for COCO's.
        invalid: how invalid boxes are treated.
        world: the processes that share the images.
        settings: options that all processes must have alike.
        limit: the largest number of detections of a class in an image that count; None for all.
        title: the caller, for messages.

    Returns:
        The images, and a warning for each thing that the user may not expect.
    """
    shapes = inputs.shape_types(iou_types, sigmas)
    batch = pack_images(
        preds,
        target,
        shapes,
        box_format,
        torch.device("cpu"),
        has_boxes="bbox" in iou_types,
        invalid=invalid,
        extras=extras,
    )
    given: dict[str, Any] = {}
    if batch.given is not None:
        images_given(given, batch.given)
    states = {name: [batch.states.get(name, empty)] for name, empty in empty_states(shapes, extras).items()}
    device = _arrays.compute_device(states["detection_counts"][0].device)
    sharded = ShardedImages(world, states, device, box_format, title, lambda: settings, extras)
    warnings = []
    if limit is not None and batch.most_detections > limit:
        warnings.append(text_of_many(limit))
    if batch.num_dropped or batch.num_invalid:
        warnings.append(text_of_warning(batch.num_dropped, batch.num_invalid, shapes))
    return EvaluatedImages(sharded, given), warnings


def match_shards(
    images: EvaluatedImages,
    requests: Sequence[MatchRequest],
    *,
    rule: str,
    confidence: float | None,
    class_names: Mapping[int, str],
    boxes: bool,
) -> list[DetectionResults]:
    """Return the results for each request, the same on all processes, of which each matches some of the images."""
    all_results = []
    for request in requests:
        matches = images.sharded.match(request, {"boxes": repr(boxes)})
        all_boxes = RESULT_METHODS["all_boxes"](images.sharded) if boxes else None
        results = make_results(matches, rule, confidence, class_names=class_names, boxes=all_boxes)
        results_made(matches, images, images.sharded.world)
        all_results.append(results)
    return all_results


def make_results(
    images: ImageMatches,
    rule: str,
    confidence: float | None,
    *,
    class_names: Mapping[int, str] | None = None,
    boxes: Mapping[int, ImageBoxes] | None = None,
) -> DetectionResults:
    """Return the results for the images of all processes; `boxes` are by image, if the results shall hold them."""
    origins = images.origins
    assert origins is not None and images.ids is not None  # noqa: S101, PT018 - they were requested
    evaluator = images.request.evaluator
    if evaluator.reports_confidence:
        evaluator = replace(evaluator, confidence=confidence)
    return DetectionResults(
        averages=images.averages(rule, confidence),
        matches=images.matches,
        images=images.ids.to(origins.labels.device),
        labels=origins.labels,
        positives=origins.positives,
        class_names=class_names or {},
        objects=images.objects,
        boxes=boxes,
        image_names=images.names,
        evaluator=evaluator,
    )

"""Suspicions, which rows of the registry share, and trials: each returns the values of a message, or None."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES

from .case import DetectionCase
from .sampled_objects import FOUND

LEAST_IMAGES = 10  # without lists of classes: the lists of a few images may be empty
FEW = 0.5  # fraction of all ground truths that are found
STRICT = 0.75  # overlap for rotated boxes: many are found at 0.5 if only the angle differs
_MAX_LABELS = 3  # in a text


def has_many_objects(case: DetectionCase) -> bool:
    """Return whether there are enough objects to infer their units."""
    return len(case.matches.scores) >= LEAST_BOXES <= case.recall.num_ground_truths


def few_are_found(case: DetectionCase) -> bool:
    """Return whether few of many ground truths are found."""
    return overlap_of_few(case) is not None


def overlap_of_few(case: DetectionCase) -> float | None:
    """Return the overlap at which few of many ground truths are found; None if there is none."""
    num_found, num_ground_truths = case.recall
    if num_ground_truths < LEAST_BOXES:
        return None
    if num_found < FEW * num_ground_truths:
        return FOUND
    if case.iou_type == "rotated" and STRICT in case.grid.iou_thresholds:
        is_found = case.matches.true_positive[0, case.grid.iou_thresholds.index(STRICT)]
        return STRICT if int(is_found.sum()) < FEW * num_ground_truths else None
    return None


def lacks_lists(case: DetectionCase) -> bool:
    """Return whether many images lack the lists of classes that LVIS needs."""
    return case.images.num_without_lists >= LEAST_IMAGES


def without_lists(case: DetectionCase) -> Values | None:
    """Return the number of images, if they lack lists."""
    return {"num": case.images.num_without_lists} if lacks_lists(case) else None


def has_groups(case: DetectionCase) -> bool:
    """Return whether classes are grouped, and there are many ground truths."""
    return bool(case.grid.class_groups) and case.recall.num_ground_truths >= LEAST_BOXES


def groups_without_ground_truths(case: DetectionCase) -> Values | None:
    """Return the groups of classes if there are many ground truths and none of them is in a group."""
    groups = case.grid.class_groups
    num_positives = case.matches.num_positives[0]
    labels = sorted(chain(*groups.values()))
    if not labels or not has_groups(case):
        return None
    true_labels = case.matches.classes[num_positives > 0].tolist()
    if not set(labels).isdisjoint(true_labels):
        return None
    names = ", ".join(f"`map_{name}`" for name, group in groups.items() if group)
    return {"names": names, "labels": _first_labels(labels), "true_labels": _first_labels(true_labels)}


def _first_labels(labels: Sequence[int]) -> str:
    return ", ".join(str(label) for label in labels[:_MAX_LABELS])


def mixed_units(case: DetectionCase) -> Values | None:
    """Return values if one of `preds` and `target` has fractions of the image size, and the other pixels."""
    units = case.units
    if set(units) != {"shares", "pixels"} or case.sample is None:
        return None
    if units[0] == "shares":
        return {"num": len(case.sample.detections), "shares": "preds", "pixels": "target"}
    return {"num": len(case.sample.ground_truths), "shares": "target", "pixels": "preds"}


def sizes_of_shares(case: DetectionCase) -> Values | None:
    """Return values if area ranges are requested for boxes that are fractions of the image size."""
    sample = case.many_boxes
    if sample is None or not case.has_sizes or sample.largest_area > 1:
        return None
    if case.units != ("shares", "shares"):
        return None
    return {"num": len(sample.detections) + len(sample.ground_truths)}


def has_unused_difficult(case: DetectionCase) -> bool:
    """Return whether difficult ground truths were given to an evaluator that ignores the flag."""
    return case.images.num_difficult > 0


def unused_difficult(case: DetectionCase) -> Values | None:
    """Return the number of difficult ground truths, if there are any."""
    return {"num": case.images.num_difficult} if has_unused_difficult(case) else None


def has_unused_list(case: DetectionCase) -> bool:
    """Return whether lists of classes were given to an evaluator that ignores them."""
    return case.images.unused_list is not None


def unused_list(case: DetectionCase) -> Values | None:
    """Return the key of the lists, if there are any."""
    return {"key": case.images.unused_list} if has_unused_list(case) else None


def repeats_labels(case: DetectionCase) -> bool:
    """Return whether the images since the last evaluation repeat those before."""
    return case.images.num_forgotten > 0


def forgotten_reset(case: DetectionCase) -> Values | None:
    """Return the number of images since the last evaluation, if they repeat those before."""
    return {"num": case.images.num_forgotten} if repeats_labels(case) else None


def are_gathered(case: DetectionCase) -> bool:
    """Return whether two processes have the same images."""
    return case.images.are_gathered


def are_padded(case: DetectionCase) -> bool:
    """Return whether the last images of a process repeat the first ones of the first process."""
    return case.images.are_padded


def gathered_images(case: DetectionCase) -> Values | None:
    """Return values if two processes have the same images."""
    return {} if are_gathered(case) else None


def padded_images(case: DetectionCase) -> Values | None:
    """Return values if the last images of a process repeat the first ones of the first process."""
    return {} if are_padded(case) else None


def has_other_detections(case: DetectionCase) -> bool:
    """Return whether most repeated images have other detections than the first time."""
    return 2 * case.images.num_other_detections > case.images.num_repeated


def other_detections(case: DetectionCase) -> Values | None:
    """Return the numbers of repeated images with other detections, and of all, if these are most."""
    if not has_other_detections(case):
        return None
    return {"num": case.images.num_other_detections, "num_repeated": case.images.num_repeated}

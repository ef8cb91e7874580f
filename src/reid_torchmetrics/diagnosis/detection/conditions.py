"""Suspicions, which rows of the registry share, and trials: each returns the values of a message, or None."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES

from . import objects, readings
from .case import LEAST_SHARE, DetectionCase

LEAST_IMAGES = 10  # without lists of classes: the lists of a few images may be empty
FEW_SMALL = 0.01  # fraction of boxes with a size below the position, if sizes are corners: boxes of negative size
LEAST_CORNERS = 20  # different boxes
CLOSE = 0.8  # ratio of the first corner to the second one, if they are close to each other
FEW = 0.3  # fraction of all ground truths that are found
FEW_OF_CLASSES = 0.1  # the same fraction, as a mean over classes
_MAX_LABELS = 3  # in a text


def has_many_objects(case: DetectionCase) -> bool:
    """Return whether there are enough objects to infer their units."""
    return len(case.matches.scores) >= LEAST_BOXES <= case.recall.num_ground_truths


def few_are_found(case: DetectionCase) -> bool:
    """Return whether few of many ground truths are found."""
    recall = case.recall
    return recall.num_ground_truths >= LEAST_BOXES and recall.num_found < FEW * recall.num_ground_truths


def may_be_corners(case: DetectionCase) -> bool:
    """Return whether boxes have sizes, and not most ground truths are found."""
    recall = case.recall
    if case.iou_type != "bbox" or case.box_format == "xyxy":
        return False
    return recall.num_found <= readings.MOST_FOUND * recall.num_ground_truths


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


def shifted_labels(case: DetectionCase) -> Values | None:
    """Return values if most ground truths are found, but with other labels."""
    if case.images.is_one_class or case.mean_recall_of_classes >= FEW_OF_CLASSES:
        return None
    shifted = objects.find_shifted_labels(*case.objects)
    if shifted is None:
        return None
    names = case.images.label_names
    texts = []
    for label, true_label in shifted.pairs:
        if names is None:
            texts.append(f"{label} for {true_label}")
        else:
            texts.append(f"{names[label]} for {names[true_label]}")
    return {"num_right": shifted.num_right, "num": shifted.num_found, "pairs": ", ".join(texts)}


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


def areas_in_shares(case: DetectionCase) -> Values | None:
    """Return values if areas are fractions of the image, while boxes are in pixels."""
    sample = case.many_boxes
    if sample is None or not LEAST_SHARE < sample.largest_area < 1 or case.units[1] != "pixels":
        return None
    return {"num": len(sample.ground_truths)}


def corners_as_sizes(case: DetectionCase) -> Values | None:
    """Return values if boxes seem to be two corners, by the distribution of their numbers."""
    sample = case.many_boxes
    if sample is None or case.iou_type != "bbox" or case.box_format == "xyxy":
        return None
    names = []
    if _are_corners(sample.detections):
        names.append("`preds`")
    if _are_corners(sample.ground_truths):
        names.append("`target`")
    if not names:
        return None
    return {"num": min(len(sample.detections), len(sample.ground_truths)), "names": " and ".join(names)}


def _are_corners(boxes: Tensor) -> bool:
    """Return whether sizes of boxes are almost never below their positions, often close to them, and grow with them."""
    is_small = (boxes[:, 2:] < boxes[:, :2]).any(1)
    if float(is_small.double().mean()) > FEW_SMALL:  # as for most boxes
        return False
    boxes = boxes.double().unique(dim=0)
    if len(boxes) < LEAST_CORNERS:
        return False
    starts, ends = boxes[:, :2], boxes[:, 2:]
    fraction_close = (starts > CLOSE * ends).double().mean(0)
    if not bool((fraction_close >= 1 - CLOSE).all()):
        return False
    # Objects of about one size may pass the check above as well, but their sizes do not grow with their positions:
    # the correlation of sizes and positions must be above 0.5.
    corners = torch.stack([starts, ends])
    spread = corners - corners.mean(1, keepdim=True)
    covariance = spread.prod(0).sum(0)
    return bool((covariance > 0.5 * spread.square().sum(1).prod(0).sqrt()).all())


def corners_beyond_images(case: DetectionCase) -> Values | None:
    """Return values if boxes seem to be two corners, by the edges of their images."""
    if not may_be_corners(case) or case.image_sizes is None:
        return None
    arguments = readings.find_corners(*case.objects, case.box_format, case.image_sizes)
    if not arguments:
        return None
    return {
        "num_outside": sum(boxes.num_outside for boxes in arguments),
        "num": sum(boxes.num_boxes for boxes in arguments),
        "names": " and ".join(f"`{boxes.argument}`" for boxes in arguments),
    }


def other_reading(case: DetectionCase, row: str) -> Values | None:
    """Return values if the reading of this row finds most ground truths."""
    if case.iou_type != "bbox" or case.reading is None or case.reading.row != row:
        return None
    return case.reading._asdict()


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

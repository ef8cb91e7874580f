"""Conditions of the rows of the registry: each returns the values of a message, or None if there is no advice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from reid_torchmetrics.functional.advice import Values
from reid_torchmetrics.functional.box_units import LEAST_BOXES

from . import objects, readings
from .evidence import LEAST_SHARE, DetectionEvidence
from .notes import WHOLE_PIXELS, is_rounded

LEAST_IMAGES = 10  # without lists of classes: the lists of a few images may be empty
FEW_SMALL = 0.01  # fraction of boxes with a size below the position, if sizes are corners: boxes of negative size
LEAST_CORNERS = 20  # different boxes
CLOSE = 0.8  # ratio of the first corner to the second one, if they are close to each other
FEW = 0.3  # fraction of all ground truths that are found
FEW_OF_CLASSES = 0.1  # the same fraction, as a mean over classes
_MAX_LABELS = 3  # in a text
LEAST_ROUNDED = 0.1  # fraction of coordinates that are too large for a dtype to represent each pixel


def without_lists(evidence: DetectionEvidence) -> Values | None:
    """Return values if many images lack the lists of classes that LVIS needs."""
    num = evidence.num_without_lists
    return {"num": num} if num >= LEAST_IMAGES else None


def groups_without_ground_truths(evidence: DetectionEvidence) -> Values | None:
    """Return the groups of classes if there are many ground truths and none of them is in a group."""
    groups = evidence.grid.class_groups
    num_positives = evidence.matches.num_positives[0]
    labels = sorted(chain(*groups.values()))
    if not labels or int(num_positives.sum()) < LEAST_BOXES:
        return None
    true_labels = evidence.matches.classes[num_positives > 0].tolist()
    if not set(labels).isdisjoint(true_labels):
        return None
    names = ", ".join(f"`map_{name}`" for name, group in groups.items() if group)
    return {"names": names, "labels": _first_labels(labels), "true_labels": _first_labels(true_labels)}


def _first_labels(labels: Sequence[int]) -> str:
    return ", ".join(str(label) for label in labels[:_MAX_LABELS])


def _few_are_found(evidence: DetectionEvidence) -> bool:
    recall = evidence.recall
    return recall.num_ground_truths >= LEAST_BOXES and recall.num_found < FEW * recall.num_ground_truths


def shifted_labels(evidence: DetectionEvidence) -> Values | None:
    """Return values if most ground truths are found, but with other labels."""
    if evidence.is_one_class or not _few_are_found(evidence) or evidence.recall.mean_of_classes >= FEW_OF_CLASSES:
        return None
    shifted = evidence.remember("labels", lambda: objects.find_shifted_labels(*evidence.objects()))
    if shifted is None:
        return None
    names = evidence.label_names
    texts = []
    for label, true_label in shifted.pairs:
        if names is None:
            texts.append(f"{label} for {true_label}")
        else:
            texts.append(f"{names[label]} for {names[true_label]}")
    return {"num_right": shifted.num_right, "num": shifted.num_found, "pairs": ", ".join(texts)}


def odd_shapes(evidence: DetectionEvidence, name: str) -> Values | None:
    """Return values if most masks, keypoints or angles are odd, see `BatchNotes.num_odd_shapes`."""
    if evidence.notes is None or evidence.many_boxes is None:
        return None
    for num_odd, num in evidence.notes.num_odd_shapes(name):
        if num >= LEAST_BOXES and 2 * num_odd > num:
            return {"num_odd": num_odd, "num": num}
    return None


def mixed_units(evidence: DetectionEvidence) -> Values | None:
    """Return values if one of `preds` and `target` has fractions of the image size, and the other pixels."""
    units = evidence.units
    if set(units) != {"shares", "pixels"} or evidence.sample is None:
        return None
    if units[0] == "shares":
        return {"num": len(evidence.sample.detections), "shares": "preds", "pixels": "target"}
    return {"num": len(evidence.sample.ground_truths), "shares": "target", "pixels": "preds"}


def sizes_of_shares(evidence: DetectionEvidence) -> Values | None:
    """Return values if area ranges are requested for boxes that are fractions of the image size."""
    sample = evidence.many_boxes
    if sample is None or not evidence.has_sizes or sample.largest_area > 1:
        return None
    if evidence.units != ("shares", "shares"):
        return None
    return {"num": len(sample.detections) + len(sample.ground_truths)}


def areas_in_shares(evidence: DetectionEvidence) -> Values | None:
    """Return values if areas are fractions of the image, while boxes are in pixels."""
    sample = evidence.many_boxes
    if sample is None or not LEAST_SHARE < sample.largest_area < 1 or evidence.units[1] != "pixels":
        return None
    return {"num": len(sample.ground_truths)}


def corners_as_sizes(evidence: DetectionEvidence) -> Values | None:
    """Return values if boxes seem to be two corners, by the distribution of their numbers."""
    sample = evidence.many_boxes
    if sample is None or evidence.iou_type != "bbox" or evidence.box_format == "xyxy":
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


def corners_beyond_images(evidence: DetectionEvidence) -> Values | None:
    """Return values if boxes seem to be two corners, by the edges of their images."""
    if evidence.iou_type != "bbox" or evidence.box_format == "xyxy":
        return None
    recall = evidence.recall
    if recall.num_found > readings.MOST_FOUND * recall.num_ground_truths:
        return None

    def find() -> list[readings.BoxesBeyondImages]:
        image_sizes = evidence.read_image_sizes()
        if image_sizes is None:
            return []
        return readings.find_corners(*evidence.objects(), evidence.box_format, image_sizes)

    arguments = evidence.remember(f"corners {_hash_of_sizes(evidence)}", find)
    if not arguments:
        return None
    return {
        "num_outside": sum(boxes.num_outside for boxes in arguments),
        "num": sum(boxes.num_boxes for boxes in arguments),
        "names": " and ".join(f"`{boxes.argument}`" for boxes in arguments),
    }


def _hash_of_sizes(evidence: DetectionEvidence) -> int:
    """Return a hash of the image sizes, for keys of remembered values, because matches do not depend on the sizes."""
    return 0 if evidence.notes is None else hash(frozenset(evidence.notes.image_sizes.items()))


def rounded_coordinates(evidence: DetectionEvidence) -> Values | None:
    """Return detected boxes or other shapes in a dtype that cannot represent each pixel of their coordinates."""
    rounded = [] if evidence.notes is None else evidence.notes.rounded_shapes()
    sample = evidence.sample
    if sample is not None and evidence.iou_type == "bbox" and sample.detections.dtype in WHOLE_PIXELS:
        dtype = sample.detections.dtype
        true_dtype = sample.ground_truths.dtype
        if is_rounded(dtype, true_dtype):
            fraction = float((sample.detections.abs() > WHOLE_PIXELS[dtype]).double().mean())
            rounded.append(("boxes", dtype, true_dtype, fraction))
    for key, dtype, true_dtype, fraction in rounded:
        if fraction > LEAST_ROUNDED:
            return {
                "key": key,
                "share": f"{fraction:.0%}",
                "limit": f"{WHOLE_PIXELS[dtype]:,}",
                "dtype": _name_of(dtype),
                "true_dtype": _name_of(true_dtype),
            }
    return None


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def unused_difficult(evidence: DetectionEvidence) -> Values | None:
    """Return values if difficult ground truths were passed to an evaluator that ignores the flag."""
    if evidence.notes is None or not evidence.notes.num_difficult:
        return None
    return {"num": evidence.notes.num_difficult}


def unused_lists(evidence: DetectionEvidence) -> Values | None:
    """Return values if lists of classes were passed to an evaluator that ignores them."""
    if evidence.notes is None or evidence.notes.unused_list is None:
        return None
    return {"key": evidence.notes.unused_list}


def forgotten_reset(evidence: DetectionEvidence) -> Values | None:
    """Return values if the images since the last evaluation repeat those before."""
    num = evidence.count_repeated_labels()
    return {"num": num} if num else None


def gathered_images(evidence: DetectionEvidence) -> Values | None:
    """Return values if two processes have the same images."""
    return {} if evidence.repetitions.are_gathered else None


def padded_images(evidence: DetectionEvidence) -> Values | None:
    """Return values if the last images of a process repeat the first ones of the first process."""
    return {} if evidence.repetitions.are_padded else None


def other_detections(evidence: DetectionEvidence) -> Values | None:
    """Return values if most repeated images have other detections than the first time."""
    num_other, num_repeated = evidence.count_other_detections()
    return {"num": num_other, "num_repeated": num_repeated} if 2 * num_other > num_repeated else None


def other_reading(evidence: DetectionEvidence, row: str) -> Values | None:
    """Return values if few ground truths are found, and the reading of this row finds most of them."""
    if evidence.iou_type != "bbox" or not _few_are_found(evidence):
        return None

    def find() -> readings.BoxReading | None:
        return readings.find_reading(*evidence.objects(), evidence.box_format, evidence.read_image_sizes())

    reading = evidence.remember(f"reading {_hash_of_sizes(evidence)}", find)
    if reading is None or reading.row != row:
        return None
    return reading._asdict()

"""The input of finished matches, for a look at the results: facts, and the objects of this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.signs import LEAST_GATHERED, count_forgotten
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.batches import SMALLEST_AREA, ImageNumbering, Images, number_ids
from reid_torchmetrics.functional.detection.evaluation import (
    EvaluatedImages,
    EvaluatedObjects,
    ImageMatches,
    ShardedImages,
    ShownColumns,
    ShownImages,
)
from reid_torchmetrics.functional.detection.inputs import COCO_SIGMAS, BoxShapes, CocoGrid, to_xywh

from .given_images import IMAGES, MOST_IMAGES, GivenImages

CLOSE_SUMS = 0.1
"""relative difference of sums of scores or boxes; rounding may add or remove a weak detection"""
_LABEL_STATES = [f"ground_truth_{name}" for name in ("counts", "labels", "areas", "boxes")]


@dataclass(frozen=True)
class MatchedImages:
    """Facts about the images of all processes, and functions that return what this process holds.

    Facts are plain values; what costs time is computed by the functions, when it is asked for.
    """

    grid: CocoGrid
    shown: Callable[[], ShownImages]
    """returns the first images that this process was given, at most 256, see `GivenImages.shown`"""
    iou_type: str = "bbox"
    box_format: str = "xywh"
    """format of the users' boxes"""
    value_names: Collection[str] | None = None
    """names of the requested numbers; None for all numbers"""
    label_names: Sequence[object] | None = None
    """the users' label for each label number; None if both are equal"""
    sigmas: Sequence[float] = COCO_SIGMAS
    """sigmas of keypoints"""
    is_one_class: bool = False
    """whether labels do not matter"""
    num_without_lists: int = 0
    """number of images, if none has the lists of classes that some detections of this process need"""
    num_difficult: int = 0
    """number of difficult ground truths in a batch of this process, if the evaluation ignores them"""
    num_ignored: int = 0
    """number of ground truths in a batch of this process that count although `ignore` marks them"""
    unused_list: str | None = None
    """key of a list of classes that this process was given and the evaluation ignores"""
    num_forgotten: int = 0
    """number of images of this process since the last evaluation, if they have the labels of all images before"""
    num_repeated: int = 0
    """number of images of this process that do not count, because an image with their `image_id` came before"""
    num_other_detections: int = 0
    """number of these that have other detections than the first time"""
    are_gathered: bool = False
    """whether two processes hold the same images"""
    are_padded: bool = False
    """whether the last images of a process are the first of the first process"""

    @classmethod
    def of(cls, results: Any, samples: Any) -> Any:
        """Return what is known of images or of packed objects, and other samples as they are."""
        if isinstance(samples, EvaluatedObjects):
            return cls.of_objects(samples)
        return cls.of_images(results, samples) if isinstance(samples, EvaluatedImages) else samples

    @classmethod
    def of_images(cls, matches: ImageMatches, samples: EvaluatedImages) -> MatchedImages:
        """Return what is known of the images of metrics, and of functions that take dicts."""
        request, sharded, states = matches.request, samples.sharded, samples.sharded.states
        given = samples.given.get(IMAGES) or GivenImages()
        has_ids = bool(states["image_ids"] or states["image_name_lengths"])
        return cls(
            grid=request.grid,
            shown=given.shown,
            iou_type=request.iou_type,
            box_format=sharded.box_format,
            value_names=samples.value_names,
            sigmas=given.sigmas,
            is_one_class=request.micro,
            num_without_lists=_num_without_lists(states, matches.num_extra_rows),
            num_difficult=given.num_difficult,
            num_ignored=given.num_ignored,
            unused_list=given.unused_list,
            num_forgotten=0 if has_ids else count_forgotten(*(states[name] for name in _LABEL_STATES)),
            num_repeated=matches.num_repeated,
            num_other_detections=_num_other_detections(matches, sharded) if matches.num_repeated else 0,
            are_gathered=_are_gathered(matches.fingerprints),
            are_padded=_are_padded(matches.fingerprints),
        )

    @classmethod
    def of_objects(cls, samples: EvaluatedObjects) -> MatchedImages:
        """Return what is known of packed objects; boxes are x, y, width and height."""
        shapes = (samples.detections.shapes, samples.ground_truths.shapes)
        are_boxes = all(isinstance(shape, BoxShapes) for shape in shapes)
        return cls(
            grid=samples.grid,
            shown=partial(_show_objects, samples) if samples.shown is None else samples.shown,
            iou_type=samples.iou_type or ("bbox" if are_boxes else ""),
            label_names=samples.label_names,
            sigmas=samples.sigmas,
            num_ignored=samples.num_ignored,
        )


def _num_without_lists(states: Mapping[str, Sequence[Tensor]], num_rows: Sequence[int]) -> int:
    """Return the number of images if none has lists and some detections need them, in the first images; else 0.

    `num_rows` are the numbers of entries of lists and of images.
    """
    if "listed_labels" not in states or num_rows[0] or not states["detection_counts"]:
        return 0
    # A column is the place of the image and the label of an object.
    columns = []
    for side in ("detection", "ground_truth"):
        image_numbers = segments.numbers(torch.cat(list(states[f"{side}_counts"]))[:MOST_IMAGES])
        labels = torch.cat([labels.long() for labels in states[f"{side}_labels"]])
        columns.append(torch.stack([image_numbers, labels[: len(image_numbers)]]))
    _, groups = torch.cat(columns, 1).unique(dim=1, return_inverse=True)
    detection_groups, ground_truth_groups = groups.split([part.shape[1] for part in columns])
    if bool(torch.isin(detection_groups, ground_truth_groups).all()):
        return 0
    return num_rows[1]


def _num_other_detections(matches: ImageMatches, sharded: ShardedImages) -> int:
    """Count the repeated images of this process with other detections than the first time, once for the same images."""

    def count() -> int:
        images = sharded.images()
        ids = ImageNumbering.alone(images).ids
        return 0 if ids is None else count_other_detections(images, ids)

    return matches.remember("other detections", count)


def _show_objects(samples: EvaluatedObjects) -> ShownImages:
    """Return the boxes in the first images with any objects."""
    detections, ground_truths = samples.detections, samples.ground_truths
    images = torch.cat([detections.images, ground_truths.images]).unique()[:MOST_IMAGES]
    columns = {"boxes": detections.shapes, "scores": detections.scores, "labels": detections.labels}
    true_columns = {"boxes": ground_truths.shapes, "labels": ground_truths.labels}
    true_columns |= {"iscrowd": ground_truths.is_crowd}
    if ground_truths.areas is not None:
        true_columns["area"] = ground_truths.areas.clamp(min=SMALLEST_AREA)  # 0 stands for none
    preds = _show_columns(columns, detections.images, images)
    target = _show_columns(true_columns, ground_truths.images, images)
    return ShownImages(preds, target, sizes=[None] * len(images))


def _show_columns(columns: Mapping[str, Any], image_of_row: Tensor, images: Tensor) -> ShownColumns:
    """Return the objects in some images, without columns that are None or no boxes."""
    rows = torch.isin(image_of_row, images).nonzero()[:, 0]
    rows = rows[image_of_row[rows].argsort(stable=True)]
    counts = torch.searchsorted(images, image_of_row[rows]).bincount(minlength=len(images))
    values = {key: column.boxes if isinstance(column, BoxShapes) else column for key, column in columns.items()}
    return ShownColumns(counts, {key: column[rows] for key, column in values.items() if isinstance(column, Tensor)})


def _are_gathered(fingerprints: Sequence[Tensor]) -> bool:
    """Return whether two processes hold the same images without ids, by fingerprints of their ground truths."""
    sums = [int(prints.sum()) for prints in fingerprints if _are_distinct(prints)]
    return len(set(sums)) < len(sums)


def _are_distinct(prints: Tensor) -> bool:
    """Return whether enough images are different ones for a comparison of sums."""
    return len(prints.unique()) >= max(LEAST_GATHERED, (len(prints) + 1) // 2)


def _are_padded(fingerprints: Sequence[Tensor]) -> bool:
    """Return whether equally many images are on all processes, and the last ones of one are those that begin."""
    if len({len(prints) for prints in fingerprints}) != 1:
        return False
    first = fingerprints[0]
    if not len(first) or not int(first[0]):
        return False
    for process, prints in enumerate(fingerprints):
        places = (prints == first[0]).nonzero()[:, 0].tolist()
        if process == 0:
            places = places[1:]  # without the first image itself
        if len(places) == 1 and torch.equal(prints[places[0] :], first[: len(prints) - places[0]]):
            return True
    return False


def count_other_detections(images: Images, ids: Tensor) -> int:
    """Return the number of repeated images with other detections.

    Detections differ if the sum of their scores or boxes differs, because rounding may lose a single detection.

    Args:
        images: images of this process.
        ids: ids of the images, or numbers of their names.
    """
    boxes = to_xywh(images.detection_boxes, images.detection_format)
    columns = torch.stack([images.detection_scores.double(), boxes.double().abs().sum(1)], dim=1)
    sums = segments.reduce(columns, "sum", lengths=images.detection_counts)
    # Compare each repeated image with the first image that has its id.
    first = number_ids(ids.to(images.device))[1]
    is_repeated = first != torch.arange(len(first), device=first.device)
    first_sums = sums[first[is_repeated]]
    is_different = ((sums[is_repeated] - first_sums).abs() > CLOSE_SUMS * first_sums).any(1)
    return int(is_different.sum())
